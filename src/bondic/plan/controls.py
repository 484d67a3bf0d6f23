"""Control variates q̂ for doubly robust values: those of a block are fitted on the rows before it (section 13).

The linear one is a ridge regression whose actions share what they have in common; for episodes by temporal differences under the
target policy, in units of the steps that are left, so that its range is a range of rewards. Any regressor may take its place: its
predictions are stored row by row.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.core.propensities.betting import Strategy, moderate
from bondic.core.propensities.bound import Units
from bondic.core.propensities.control import Control, LinearControl, StoredControl, linear_design
from bondic.core.propensities.decisions import Decisions

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
C = TypeVar("C", bound=Control)

_SHARED, _OWN = 1.0, 20.0
"""Ridge penalties, in rows: of what all actions share, and of what one action adds to it."""
_MAX_COLUMNS = 200
"""With more observed numbers than this, q̂ looks at no state."""
_MAX_FEATURES, _PIECE = 400, 2048
"""Of temporal differences with an action: above, q̂ is the same for all actions. Rows that are added up at once."""
_TAILS = (0.01, 0.99)
"""Predictions are cut where those for the rows before the first block end, but for a hundredth on either side."""
_MAX_WEIGHT = 100.0
"""Of one step in a fit: larger ratios would leave nothing to the others."""
_EVEN = 0.1
"""Share of the wealth that is divided evenly among estimators, as a pilot may mislead."""
_IN_SAMPLE = 1.5
"""Residuals of the rows that a fit has seen are smaller than those of other rows."""


@runtime_checkable
class Regressor(Protocol):
    """What scikit-learn calls a regressor: `fit(X, y)`, then `predict(X)`. It is copied before every fit."""

    def fit(self, X: FloatArray, y: FloatArray) -> Any: ...

    def predict(self, X: FloatArray) -> FloatArray: ...


def linear_control(columns: Decisions, borders: tuple[int, ...]) -> LinearControl:
    """q̂ of every block from all rows before it; `columns` begin with the first row that may be looked at."""
    stops = np.searchsorted(columns.rows, borders)
    before, (inputs, units) = int(stops[0]), columns.control_inputs
    if inputs.shape[1] > _MAX_COLUMNS:
        inputs = inputs[:, columns.observations.shape[1] :]
    center, spread = inputs[:before].mean(axis=0), inputs[:before].std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    design = linear_design(inputs, center, scale) * units
    fits = _FITS[columns.unit](columns, design, stops)
    first = columns.part(slice(0, before))
    clip, expected = _expected(first, (design[:before] @ fits[0]) / first.control_inputs[1])
    return LinearControl(borders, clip, expected, center, scale, np.array(fits))


def _expected(first: Decisions, predictions: FloatArray) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where to cut predictions, and mean and variance of X, from the rows that were predicted: the first ones."""
    limits = first.limits
    low, high = (float(np.clip(np.quantile(predictions, tail), limits.low, limits.high)) for tail in _TAILS)
    cut = np.clip(np.clip(predictions, low, high) * first.control_inputs[1], limits.low, limits.high)
    means, taken = first.policy_means(cut)
    values = moderate(first.robust_values(taken, means))
    least = max(_one_more_reward(first) if first.unit == "decision" else 0.0, 1e-6) * max(limits.width, 1e-150) ** 2
    return (low, high), (float(values.mean()), max(_IN_SAMPLE * float(values.var()), least))


def _one_more_reward(first: Decisions) -> float:
    """mean(ρ^2) / (4 (n + 1)) of n rows: as if one more had a reward of the largest variance.

    Where nothing but zeros was observed, rare rewards are likely all the same.
    """
    return float(np.mean(moderate(first.ratios.values) ** 2)) / (4.0 * (len(first.rows) + 1))


def _ridges(columns: Decisions, design: FloatArray, stops: IntArray) -> list[FloatArray]:
    actions = 1 if columns.probs is None else columns.probs.shape[1]
    slots = np.zeros_like(columns.slots) if actions == 1 else columns.slots
    return [shared_ridge(design[:stop], slots[:stop], columns.rewards[:stop], actions) for stop in stops]


def shared_ridge(design: FloatArray, slots: IntArray, rewards: FloatArray, actions: int) -> FloatArray:
    """Ridge regression r ~ z.(w + u_a), (1 + d, actions): every action borrows from all others what they share.

    With G_a = sum z z', h_a = sum z r over the rows of action a and M_a = (G_a + κ I)^-1, u_a = M_a (h_a - G_a w) and
    (λ I + sum_a κ M_a G_a) w = sum_a κ M_a h_a.
    """
    size = design.shape[1]
    left, right = _SHARED * np.eye(size), np.zeros(size)
    parts = {}
    for action in np.unique(slots):
        mine = slots == action
        gram, moment = design[mine].T @ design[mine], design[mine].T @ rewards[mine]
        both = np.linalg.solve(gram + _OWN * np.eye(size), np.column_stack([gram, moment]))
        left, right = left + _OWN * both[:, :-1], right + _OWN * both[:, -1]
        parts[int(action)] = both
    shared = np.linalg.solve(left, right)
    found = np.repeat(shared[:, None], actions, axis=1)
    for action, both in parts.items():
        found[:, action] += both[:, -1] - both[:, :-1] @ shared
    return found


def _differences(columns: Decisions, design: FloatArray, stops: IntArray) -> list[FloatArray]:
    """By temporal differences; where π(.|s) is not known, or actions are too many, q̂ is the same for all actions.

    Of what follows a cut nothing was seen: such steps do not count.
    """
    last = np.zeros(len(columns.rows), dtype=bool)
    last[np.append(columns.starts[1:] - 1, -1)] = True
    counted = np.asarray(~(columns.continues & last))
    if columns.probs is None or (1 + columns.probs.shape[1]) * design.shape[1] > _MAX_FEATURES:
        return _state_differences(columns, design, stops, counted)
    return _action_differences(columns, columns.probs, design, stops, counted)


def _state_differences(columns: Decisions, design: FloatArray, stops: IntArray, counted: BoolArray) -> list[FloatArray]:
    """sum ρ z (z - γ z')' w + κ w = sum ρ z r over the steps that count; z' is 0 after an end. One column."""
    following = np.where(columns.continues[:, None], np.roll(design, -1, axis=0), 0.0)
    weights = np.where(counted, np.minimum(columns.ratios.values, _MAX_WEIGHT), 0.0)
    fits: list[FloatArray] = []
    for stop in stops:
        weighed = weights[:stop, None] * design[:stop]
        left = weighed.T @ (design[:stop] - columns.terms.gamma * following[:stop]) + _OWN * np.eye(design.shape[1])
        fits.append(np.asarray(np.linalg.solve(left, weighed.T @ columns.rewards[:stop])[:, None], dtype=np.float64))
    return fits


def _action_differences(
    columns: Decisions, probs: FloatArray, design: FloatArray, stops: IntArray, counted: BoolArray
) -> list[FloatArray]:
    """q̂(s, a) = z.(w + u_a): sum φ (φ - γ E_π[φ'])' θ + penalty = sum φ r over the steps that count. A column for every action.

    φ is z, and z once more in the place of the action; no ratio enters, as q̂ speaks of the action that was taken.
    """
    actions, size = probs.shape[1], design.shape[1]
    left = np.diag(np.repeat([_SHARED, *([_OWN] * actions)], size))
    right, done, fits = np.zeros((1 + actions) * size), 0, []
    for stop in stops.tolist():
        for top in range(done, stop, _PIECE):
            rows = np.arange(top, min(top + _PIECE, stop))[counted[top : min(top + _PIECE, stop)]]
            after = np.minimum(rows + 1, len(design) - 1)
            here, there = np.eye(actions)[columns.slots[rows]], probs[after] * columns.continues[rows, None]
            seen = _with_actions(design[rows], np.column_stack([np.ones(len(rows)), here]))
            next_ = _with_actions(design[after], np.column_stack([columns.continues[rows], there]))
            left = left + seen.T @ (seen - columns.terms.gamma * next_)
            right = right + seen.T @ columns.rewards[rows]
        done = stop
        shared, *own = np.linalg.solve(left, right).reshape(1 + actions, size)
        fits.append(np.column_stack([shared + one for one in own]))
    return fits


def _with_actions(design: FloatArray, weights: FloatArray) -> FloatArray:
    """z once for every column of the weights, times it."""
    return np.asarray((weights[:, :, None] * design[:, None, :]).reshape(len(design), -1))


_FITS = {"decision": _ridges, "episode": _differences}
"""Coefficients of all blocks, by what a unit is."""


def regressor_control(columns: Decisions, borders: tuple[int, ...], model: Regressor) -> StoredControl:
    """q̂ of every block from all rows before it; columns of X are the state, then one for every action."""
    stops = [*np.searchsorted(columns.rows, borders).tolist(), len(columns.rows)]
    first, found = stops[0], list[FloatArray]()
    for start, stop in pairwise(stops):
        fitted = copy.deepcopy(model)
        fitted.fit(_inputs(columns, slice(0, start), columns.slots[:start]), columns.rewards[:start])
        if not found:
            found.append(_predict(columns, slice(0, first), fitted))
        found.append(_predict(columns, slice(start, stop), fitted))
    clip, expected = _expected(columns.part(slice(0, first)), found[0])
    rows = np.zeros((int(columns.rows[-1]) + 1 - borders[0], found[0].shape[1]))
    rows[columns.rows[first:] - borders[0]] = np.concatenate(found[1:])
    return StoredControl(borders, clip, expected, rows)


def _predict(columns: Decisions, part: slice, model: Regressor) -> FloatArray:
    count = len(columns.rows[part])
    actions = 1 if columns.probs is None else columns.probs.shape[1]
    found = []
    for action in range(actions if count else 0):
        answer = np.asarray(model.predict(_inputs(columns, part, np.full(count, action))), dtype=np.float64)
        if answer.shape != (count,) or not np.all(np.isfinite(answer)):
            raise InvalidInput(
                f"The model predicts {answer.shape} numbers for {count} rows, or one that is not finite."
            )
        found.append(answer)
    return np.column_stack(found) if count else np.zeros((0, actions))


def _inputs(columns: Decisions, part: slice, slots: IntArray) -> FloatArray:
    states = columns.observations[part]
    if columns.probs is None:
        return states
    return np.column_stack([states, np.eye(columns.probs.shape[1])[slots]])


def with_expected(control: C, units: Units) -> C:
    """With the mean and variance of a difference in place of those of one policy, from the rows before the first block."""
    if len(units.policies) == 1:
        return control
    pilot = units.part(slice(0, units.before(control.borders[0])))
    values = moderate(pilot.free_estimators(1.0)[0].values)
    variance = max(float(values.var()), 1e-6 * max(pilot.limits.width, 1e-150) ** 2)
    return replace(control, expected=(float(values.mean()), variance))


def wealth_shares(
    pilot: Units, control: Control, strategy: Strategy, cap: float, planned: int, probability: float
) -> tuple[float, ...]:
    """Of the wealth at the first block, from the units before it: as 1 / length^2, the lengths that their values predict.

    With the rate v a bet of N values costs log(1/delta) / (N v) + v variance / 2.
    """
    count, price, weight = max(planned - pilot.units, 1), math.log(1.0 / probability), strategy.prior_weight
    expected = []
    for free in pilot.free_estimators(1.0):
        values, total = moderate(free.values), weight + pilot.units
        mean = float(weight * free.prior[0] + values.sum()) / total
        expected.append((mean, float(weight * free.prior[1] + np.sum((values - mean) ** 2)) / total, free.floor))
    expected.append((pilot.sign * control.expected[0], control.expected[1], pilot.least_robust(control, cap)))
    lengths = []
    for mean, variance, floor in expected:
        rate = min(math.sqrt(2.0 * price / (count * variance)), strategy.largest_risk / max(mean - floor, 1e-300))
        lengths.append(price / (count * rate) + 0.5 * rate * variance)
    weights = (min(lengths) / np.array(lengths)) ** 2
    shares = _EVEN / len(lengths) + (1.0 - _EVEN) * weights / weights.sum()
    return tuple((shares * (1 - 1e-15)).tolist())
