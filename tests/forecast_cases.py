"""Logs with forecasts by labels: the center of every row is what was forecast, and the truth about it is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic.core.cells.forecasts import Forecasts, ForecastTally, forecast_tally
from cells_cases import TrueRows, shape_of

KINDS = ("true", "seen", "noisy", "random", "none", "far")


@dataclass(frozen=True)
class ForeseenRows(TrueRows):
    """Rows whose center is Ŷ_i = clip( q̂(x_i) + m_i + o_ℓ + γ <e, κ_ℓ> )."""

    by_states: bool = False  # whether atoms are states with the policy's actions there
    numbers: np.ndarray | float = 0.0  # (n,) m

    @property
    def atoms(self):
        return shape_of(self.world, 1, self.by_states).atoms

    @property
    def deviations(self):
        """Δ_i = Y_i - Ŷ_i."""
        world, given = self.world, self.forecasts
        outcome = self.reward + world.gamma * self.mean_ahead(world.truth)
        at_atoms = self.atoms @ world.errors[0]
        center = given.offset + world.gamma * (given.following @ at_atoms)
        return outcome - np.clip(
            world.model[self.state, self.action] + self.numbers + center[self.label], 0.0, world.high
        )

    def tally(self, blocks, reference) -> ForecastTally:
        shape = shape_of(self.world, blocks, self.by_states)
        rows = [self.as_rows(self.by_states)]
        numbers = np.broadcast_to(self.numbers, self.label.shape)
        return forecast_tally(rows, self.label, self.forecasts, shape, self.world.gamma, reference, numbers)

    def terms(self, reference):
        """D_i, x_i(f) and ζ'_i of every row, from the definitions: no sum over labels, and values at pairs, not at atoms."""
        world, given, gamma = self.world, self.forecasts, self.world.gamma
        own, error = world.cells, world.errors[0] - reference
        foreseen = given.offset + gamma * (given.following @ (self.atoms @ reference))
        came = self.outcome + gamma * self.mean_ahead(reference[own])
        moved = gamma * ((given.following @ (self.atoms @ error))[self.label] - self.mean_ahead(error[own]))
        return self.numbers + foreseen[self.label] - came, moved, self.mean_ahead(world.errors[1])


def foresee(rng, log: TrueRows, by_states, kind) -> ForeseenRows:
    """Labels by state and action, split at random where they say little; in any order. `kind`: what is forecast for them."""
    world, (states, actions) = log.world, log.world.size
    finer = 1 if kind == "true" else int(rng.integers(1, 4))
    place = rng.permutation(states * actions * finer)
    name = (log.state * actions + log.action) * finer + rng.integers(finer, size=log.state.size)
    pair = np.empty(place.size, dtype=np.int64)
    pair[place] = np.arange(place.size) // finer
    label, cell = place[name], world.cells.ravel()[pair]
    atoms = shape_of(world, 1, by_states).atoms.shape[0]
    if kind in ("random", "none", "far"):
        size = {"random": 1.0, "none": 0.0, "far": 10.0}[kind]
        offset = rng.normal(size=cell.size) * world.high * max(size, 0.1)
        given = Forecasts(cell, offset, rng.normal(size=(cell.size, atoms)) * size)
    elif kind == "seen":
        given = _seen(log, label, cell, by_states, atoms)
    else:
        offset, following = _expected(world, by_states, atoms)
        noise = 0.1 if kind == "noisy" else 0.0
        following = following[pair] * (1 + noise * rng.normal(size=(cell.size, 1)))
        following = following + 0.3 * noise * rng.normal(size=following.shape)
        given = Forecasts(cell, offset[pair] + noise * rng.normal(size=cell.size), following)
    fields = {name: getattr(log, name) for name in ("world", "block", "state", "action", "reward", "ahead")}
    numbers = rng.normal(size=label.size) * world.high * rng.choice([0.0, 0.05, 1.0])  # a row's own: any number will do
    return ForeseenRows(**fields, labels=label, forecasts=given, by_states=by_states, numbers=numbers)


def _expected(world, by_states, atoms):
    """Means of o_i and of the next atoms for every pair."""
    states = world.size[0]
    ahead = np.einsum("sat,tb->satb", world.moves[..., :states], world.policy)
    offset = world.reward + world.gamma * np.einsum("satb,tb->sa", ahead, world.model) - world.model
    if by_states:
        return offset.ravel(), ahead.sum(axis=3).reshape(offset.size, states)
    following = np.zeros((offset.size, atoms))
    np.add.at(following, (slice(None), world.cells.ravel()), ahead.reshape(offset.size, -1))
    return offset.ravel(), following


def _seen(log, label, cell, by_states, atoms):
    """Means over the rows of every label: they would not be fixed before the rows, but no claim on an event needs that."""
    rows, count = log.as_rows(by_states), np.maximum(np.bincount(label, minlength=cell.size), 1)
    following = np.zeros((cell.size, atoms))
    np.add.at(following, (label[rows.owner], rows.atom), rows.mass)
    offset = np.bincount(label, rows.outcome, minlength=cell.size) / count
    return Forecasts(cell, offset, following / count[:, None])
