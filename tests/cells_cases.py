"""Small worlds whose values are known exactly, logs from them, and the truth about every term of the bound on cells.

A world has states, actions and ends. Groups merge states; a model q̂ is any function; e is a mean of q* - q̂ over each group with
weights that are drawn before the log. So Z_i, Δ_i, ζ(x_i) and ζ'_i of every row are known, and with them the events (15),
(16) and the least allowance for which (23) holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bondic.core.betting import bet_cost
from bondic.core.bounded import Enclosure
from bondic.core.cells.allowance import CellAllowance
from bondic.core.cells.ends import EndWeights, StartMean
from bondic.core.cells.forecasts import Forecasts, LabelTally, tally_by_label
from bondic.core.cells.localize import CellTails, Events, Ground, ValueLimits, VectorEvent
from bondic.core.cells.system import System
from bondic.core.cells.tally import CellRows, CellShape, Tally, tally
from bondic.plan.cells import CellModel, reference_of

KINDS = ("true", "seen", "noisy", "random", "none", "far")


@dataclass(frozen=True)
class World:
    """q* of a finite world with rewards 0 or 1, and what is fixed before the rows."""

    gamma: float
    moves: np.ndarray  # (S, A, S + 1) the last column is the end
    reward: np.ndarray  # (S, A) probability of reward 1
    policy: np.ndarray  # (S, A)
    behavior: np.ndarray  # (S, A) joint probability of a row
    groups: np.ndarray  # (S,)
    model: np.ndarray  # (S, A) q̂
    shares: np.ndarray  # (S, A) ν: weights inside groups
    starts: np.ndarray  # (S,)

    @property
    def size(self):
        return self.reward.shape

    @property
    def high(self):
        return 1 / (1 - self.gamma)

    @property
    def truth(self):
        """(S, A) q*."""
        states, actions = self.size
        ahead = np.einsum("sat,tb->satb", self.moves[..., :states], self.policy).reshape(states * actions, -1)
        unit = np.eye(states * actions)
        return np.linalg.solve(unit - self.gamma * ahead, self.reward.ravel()).reshape(self.size)

    @property
    def cells(self):
        """(S, A) the cell of every pair."""
        return self.groups[:, None] * self.size[1] + np.arange(self.size[1])

    @property
    def count(self):
        return int(self.groups.max() + 1) * self.size[1]

    @property
    def errors(self):
        """(p,) e, and (S, A) ζ."""
        gap, cells = self.truth - self.model, self.cells
        weight = np.bincount(cells.ravel(), self.shares.ravel(), minlength=self.count)
        mean = np.bincount(cells.ravel(), (self.shares * gap).ravel(), minlength=self.count) / weight
        return mean, gap - mean[cells]

    @property
    def value(self):
        return float(self.starts @ (self.policy * self.truth).sum(axis=1))


def random_world(rng, gamma, groups=None, states=None, rough=None):
    """Of 2 to 6 states and 1 to 3 actions; `groups` None: every state its own, and no model (a table)."""
    states, actions = states or int(rng.integers(2, 7)), int(rng.integers(1, 4))
    moves = rng.dirichlet(np.full(states + 1, 0.3), size=(states, actions))
    if rng.random() < 0.5:  # nothing ends
        moves[..., :-1] += moves[..., -1:] / states
        moves[..., -1] = 0.0
    reward = (
        rng.choice([0.0, 1.0, 0.02, 0.97, 0.5], size=(states, actions))
        if rng.random() < 0.5
        else rng.random((states, actions))
    )
    policy = rng.dirichlet(np.full(actions, 0.4), size=states)
    behavior = rng.dirichlet(np.full(states * actions, 0.6)).reshape(states, actions)
    labels, model = np.arange(states), np.zeros((states, actions))
    if groups is not None:
        _, labels = np.unique(rng.integers(groups, size=states), return_inverse=True)
        model = rng.random((states, actions)) / (1 - gamma) * (rng.random() if rough is None else rough)
    shares = rng.dirichlet(np.full(states * actions, 0.7)).reshape(states, actions) + 1e-6
    return World(gamma, moves, reward, policy, behavior, labels, model, shares, rng.dirichlet(np.full(states, 0.5)))


@dataclass(frozen=True)
class TrueRows:
    """A log with what nobody knows of it."""

    world: World
    block: np.ndarray
    state: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    ahead: np.ndarray  # (n, S, A) masses of the next pairs, 0 after an end
    labels: np.ndarray | None = None  # (n,) with `forecasts`: what is expected to follow
    forecasts: Forecasts | None = None
    by_states: bool = False  # whether atoms are states with the policy's actions there, or cells
    numbers: np.ndarray | float = 0.0  # (n,) m

    @property
    def atoms(self):
        return shape_of(self.world, 1, self.by_states).atoms

    @property
    def cell(self):
        return self.world.cells[self.state, self.action]

    def mean_ahead(self, values):
        """(n,) the mean of a function of pairs at the next points."""
        return np.einsum("nsa,sa->n", self.ahead, values)

    @property
    def noise(self):
        """Z_i = q*(x_i) - r_i - γ q*(x'_i)."""
        truth = self.world.truth
        return truth[self.state, self.action] - self.reward - self.world.gamma * self.mean_ahead(truth)

    @property
    def deviations(self):
        """Δ_i = Y_i - clip( q̂(x_i) + m_i + o_ℓ + γ <e, κ_ℓ> )."""
        world, given = self.world, self.forecasts
        outcome = self.reward + world.gamma * self.mean_ahead(world.truth)
        center = given.offset + world.gamma * (given.following @ (self.atoms @ world.errors[0]))
        expected = world.model[self.state, self.action] + self.numbers + center[self.labels]
        return outcome - np.clip(expected, 0.0, world.high)

    @property
    def outcome(self):
        """o_i = r_i + γ V̂(s'_i) - q̂(x_i)."""
        model = self.world.model
        return self.reward + self.world.gamma * self.mean_ahead(model) - model[self.state, self.action]

    def as_rows(self):
        """Rows of a tally."""
        world = self.world
        if self.by_states:
            mass = self.ahead.sum(axis=2)
            owner, atom = np.nonzero(mass)
            found = mass[owner, atom]
        else:
            owner, state, action = np.nonzero(self.ahead)
            atom, found = world.cells[state, action], self.ahead[owner, state, action]
        return CellRows(self.block, self.cell, self.outcome, owner, atom, found, 3 * world.high)

    def tally(self, blocks, reference) -> Tally:
        return tally([self.as_rows()], shape_of(self.world, blocks, self.by_states), self.world.gamma, reference)

    def by_label(self, blocks, reference) -> LabelTally:
        shape, numbers = shape_of(self.world, blocks, self.by_states), np.broadcast_to(self.numbers, self.labels.shape)
        rows = [self.as_rows()]
        return tally_by_label(rows, self.labels, numbers, self.forecasts, shape, self.world.gamma, reference)

    def solved(self, blocks):
        """The reference that solves the equations of the rows."""
        first, limits = self.tally(blocks, np.zeros(self.world.count)), limits_of(self.world)
        return reference_of(first, first.count.sum(axis=0) > 0, limits.middle)

    def ground(self, blocks, reference, events, limits=None) -> Ground:
        found, labels = self.tally(blocks, reference), self.by_label(blocks, reference)
        return Ground.of(found, labels, events, limits or limits_of(self.world))

    def terms(self, reference):
        """D_i, x_i(f) and ζ'_i of every row, from the definitions: no sum over labels, and values at pairs, not at atoms."""
        world, given, gamma = self.world, self.forecasts, self.world.gamma
        own, error = world.cells, world.errors[0] - reference
        predicted = given.offset + gamma * (given.following @ (self.atoms @ reference))
        came = self.outcome + gamma * self.mean_ahead(reference[own])
        moved = gamma * ((given.following @ (self.atoms @ error))[self.labels] - self.mean_ahead(error[own]))
        return self.numbers + predicted[self.labels] - came, moved, self.mean_ahead(world.errors[1])


def random_log(rng, world, rows, blocks, draws=0):
    """Rows of a world; `draws` > 0: the policy's mean at a next state is that of as many drawn actions."""
    states, actions = world.size
    pair = rng.choice(states * actions, size=rows, p=world.behavior.ravel() / world.behavior.sum())
    state, action = np.divmod(pair, actions)
    reward = (rng.random(rows) < world.reward[state, action]).astype(float)
    cumulative = world.moves[state, action].cumsum(axis=1)
    following = np.minimum((cumulative < rng.random(rows)[:, None]).sum(axis=1), states)
    ahead = np.zeros((rows, states + 1, actions))
    chances = np.vstack([world.policy, np.zeros((1, actions))])[following]
    if draws:
        drawn = (chances.cumsum(axis=1)[:, None, :] < rng.random((rows, draws, 1))).sum(axis=2)
        picked = np.minimum(drawn, actions - 1)
        chances = np.stack([(picked == one).sum(axis=1) for one in range(actions)], axis=1) / draws
    ahead[np.arange(rows), following] = chances
    return TrueRows(world, np.sort(rng.integers(blocks, size=rows)), state, action, reward, ahead[:, :states])


def shape_of(world, blocks, by_states=False):
    if not by_states:
        return CellShape(blocks, np.eye(world.count))
    atoms = np.zeros((world.size[0], world.count))
    np.add.at(atoms, (np.arange(world.size[0])[:, None], world.cells), world.policy)
    return CellShape(blocks, atoms)


def limits_of(world):
    """The width of Y; e on every cell lies between the ends of the range less those of q̂."""
    return ValueLimits(world.high, 0.0 - float(world.model.max()), world.high - float(world.model.min()))


def starts_of(world):
    weights = world.starts[:, None] * world.policy
    cells = np.bincount(world.cells.ravel(), weights.ravel(), minlength=world.count)
    return StartMean(Enclosure(float((weights * world.model).sum()), 1e-13), cells, 1e-14)


def true_allowance(log, constant=True):
    """The least β̄ (one for all cells, or one for each) and β_∞ for which (23) holds on this log."""
    world, rest = log.world, log.world.errors[1]
    own, ahead = rest[log.state, log.action], log.mean_ahead(rest)
    place = log.block * world.count + log.cell
    cells, first = np.unique(place, return_index=True)

    def means(values):
        return np.array([values[place == one].mean(axis=0) for one in cells]).reshape(cells.size, *values.shape[1:])

    onto = np.zeros((log.state.size, world.count))
    np.add.at(onto, (slice(None), world.cells.ravel()), log.ahead.reshape(log.state.size, -1))
    psi = starts_of(world).cells
    base = np.zeros(world.count)
    if not constant:
        np.maximum.at(base, log.cell[first], np.abs(means(own)))
    needs = [(np.abs(means(own)) - base[log.cell[first]], np.ones(cells.size))]
    needs.append((np.abs(means(ahead)) - means(onto) @ base, means(onto).sum(axis=1)))
    start = float((world.starts[:, None] * world.policy * rest).sum())
    needs.append((np.array([abs(start)]) - psi @ base, np.ones(1)))
    more = max(
        float(np.max(np.where(mass > 0, gap / np.where(mass > 0, mass, 1), 0), initial=0)) for gap, mass in needs
    )
    mass = onto.sum(axis=1)
    single = np.full(
        world.count, float(np.max(np.where(mass > 0, np.abs(ahead) / np.where(mass > 0, mass, 1), 0), initial=0))
    )
    if not constant:
        single = np.zeros(world.count)
        np.maximum.at(single, world.cells.ravel(), np.abs(rest).ravel())
    return CellAllowance((base + more) * (1 + 1e-12), single * (1 + 1e-12))


def vector_surplus(log, event):
    """For every rate, |(r s_c sum Z)_c| - sum g(-r s_c |Δ|): what log(2K/δ) has to exceed."""
    found = []
    for rate in event.rates:
        sums = np.bincount(log.cell, log.noise, minlength=log.world.count)
        cost = bet_cost(-rate * event.shape[log.cell] * np.abs(log.deviations)).sum()
        found.append(float(np.linalg.norm(rate * event.shape * sums) - cost))
    return found


def cell_surplus(log, tails):
    """The largest r |sum Z| - sum g(-r |Δ|) of single cells: what log(2m/δ) has to exceed."""
    found, sums = 0.0, np.bincount(log.cell, log.noise, minlength=log.world.count)
    for rates in tails.rates:
        cost = np.bincount(log.cell, bet_cost(-rates[log.cell] * np.abs(log.deviations)), minlength=log.world.count)
        found = max(found, float(np.where(rates > 0, rates * np.abs(sums) - cost, 0.0).max()))
    return found


def tail_surplus(log, tail):
    """sum v Z - sum g(-v Δ): what log(1/δ) has to exceed."""
    weights = tail.weights[log.block, log.cell]
    return float(weights @ log.noise - bet_cost(-weights * log.deviations).sum())


def foresee(rng, log: TrueRows, by_states, kind) -> TrueRows:
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
    numbers = rng.normal(size=label.size) * world.high * rng.choice([0.0, 0.05, 1.0])  # a row's own: any number will do
    return replace(log, labels=label, forecasts=given, by_states=by_states, numbers=numbers)


def foresee_cells(log: TrueRows, by_states=False) -> TrueRows:
    """A label for every cell, and means over its rows."""
    count, atoms = log.world.count, shape_of(log.world, 1, by_states).atoms.shape[0]
    given = _seen(log, log.cell, np.arange(count), by_states, atoms)
    return replace(log, labels=log.cell, forecasts=given, by_states=by_states)


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
    rows, count = replace(log, by_states=by_states).as_rows(), np.maximum(np.bincount(label, minlength=cell.size), 1)
    following = np.zeros((cell.size, atoms))
    np.add.at(following, (label[rows.owner], rows.atom), rows.mass)
    offset = np.bincount(label, rows.outcome, minlength=cell.size) / count
    return Forecasts(cell, offset, following / count[:, None])


def random_tail(rng, log, found: Tally, sign):
    """Weights that balance this very log; or bet on its very noise; or have one sign; or are arbitrary, many at the cap."""
    world, blocks = log.world, found.shape.blocks
    cap, kind = 0.995 / world.high * (1 - 1e-12), rng.integers(4)
    rate = float(log.state.size ** rng.uniform(0.5, 1.0) * cap)
    if kind == 0:
        zero = replace(found, total=found.total * 0.0)
        visits = CellModel.of(zero).visits(starts_of(world).cells[None])[0]
        balanced = np.clip(sign * rate * visits / np.maximum(found.count.sum(axis=0), 1.0), -cap, cap)
        return EndWeights(np.tile(balanced, (blocks, 1)), rate)
    if kind == 1:
        place = log.block * world.count + log.cell
        sums, squares = (np.bincount(place, log.noise**power, minlength=blocks * world.count) for power in (1, 2))
        return EndWeights(np.clip(sums / np.maximum(squares, 1e-9), -cap, cap).reshape(blocks, -1), rate)
    if kind == 2:
        return EndWeights(sign * rng.random((blocks, world.count)) * cap, rate)
    return EndWeights(np.clip(rng.normal(size=(blocks, world.count)) * 2, -1, 1) * cap, rate)


def random_event(rng, world):
    shape = np.exp(rng.uniform(-1.5, 1.5, size=world.count)) if rng.random() < 0.5 else np.ones(world.count)
    cap = 0.995 * (1 - 1e-12) / world.high / shape.max()
    rates = [cap * float(x) for x in rng.choice([1.0, 0.5, 0.2, 0.05], size=int(rng.integers(1, 4)), replace=False)]
    return VectorEvent(shape, tuple(rates))


def random_cell_tails(rng, log):
    """Rates at the cap; arbitrary ones; those that bet on this very log's noise; many cells without any."""
    world, cap = log.world, 0.995 * (1 - 1e-12) / log.world.high
    squares = np.bincount(log.cell, log.noise**2, minlength=world.count)
    sums = np.abs(np.bincount(log.cell, log.noise, minlength=world.count))
    rates = [np.full(world.count, cap), cap * np.exp(rng.uniform(-6, 0, size=world.count))]
    rates.append(np.minimum(sums / np.maximum(squares, 1e-9), cap))
    chosen = rng.choice(3, size=int(rng.integers(1, 4)), replace=False)
    return CellTails(np.stack([rates[k] for k in chosen]) * (rng.random(world.count) < rng.choice([0.3, 1.0])))


def just_so(log, vector, tails, least):
    """Events with the largest probabilities at which they hold on this log."""
    of_vector, of_cells = max(*vector_surplus(log, vector), least), max(cell_surplus(log, tails), least)
    count = max(int((tails.rates > 0).sum()), 1)
    return Events(
        vector,
        2 * len(vector.rates) * float(np.exp(-of_vector)) * (1 - 1e-12),
        tails,
        2 * count * float(np.exp(-of_cells)) * (1 - 1e-12),
    )


def only_together(vector, probability):
    """A vector event, and no event of a single cell."""
    return Events(vector, probability, CellTails(np.zeros((1, vector.shape.size))), 0.5)


def true_coordinates(log, system: System):
    """(p,) f and t of the truth."""
    error = log.world.errors[0] - system.tally.reference
    atoms, following = system.tally.shape.atoms, system.after.dense
    return error, error - system.tally.gamma * following @ (atoms @ error)
