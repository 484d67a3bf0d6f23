"""The true numbers of (23) for a log of a world with known q*: the least that hold, cell by cell.

e is one number per cell, fixed before the certified rows: it comes from another, larger log of the same world. Which e? (23) asks
that averages of q* - q̂ over logged rows, over what follows them and over the starts lie within β̄ of e. The pilot's mean would put
rows at 0 and starts at β̄, twice as far as needed. A linear program finds the pair (e, β̄) with the least

    sum_c d_c β̄_c,      d = (I - γ Pᵀ)⁻¹ ψ_0: the cells that the policy visits,

which is, twice, what (24) adds to an end. Where starts lie beyond a cliff that their group hides, rows end at -β̄ and starts at
+β̄: all of β̄ is needed. Then, for the log in question, e is kept and β̄ is the least with (23) for its own rows, block by block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from experiments.defaults_cells import FloatArray
from experiments.number_worlds_base import NumberWorld
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, hstack, vstack

from bondic.core.cells.allowance import CellAllowance

OTHER_SEED = 10**6
SLIGHT = 1e-3
"""Weight of cells that the policy never visits, relative to all others together."""


@dataclass(frozen=True, eq=False)
class Values:
    """q* at every row, and the policy's mean of it at what follows and at the starts."""

    own: FloatArray  # (n,)
    ahead: FloatArray  # (n,) 0 after an end
    start: FloatArray  # (n_0,)


def policy_means(world: NumberWorld, problem: Any, cloud: Any, count: int) -> FloatArray:
    """E_π q* at the states of a cloud, by its rows."""
    points, total = cloud.points, np.zeros(len(cloud.points))
    k = 0 if problem.layout.discrete else problem.layout.action_dim
    for slot in range(cloud.weights.shape[1]):
        here = np.flatnonzero(cloud.weights[:, slot])
        states = points[here, :-k] if k else points[here]
        actions = points[here, -k:] if k else np.full(here.size, slot)
        if here.size:
            total[here] += cloud.weights[here, slot] * world.q_star(states, actions)
    return np.bincount(cloud.rows, total, minlength=count)


def values_of(world: NumberWorld, problem: Any, rows: Any) -> Values:
    batch, k = rows.whole(), 0 if problem.layout.discrete else problem.layout.action_dim
    own = world.q_star(batch.logged[:, :-k], batch.logged[:, -k:]) if k else world.q_star(batch.logged, batch.slots)
    ahead = policy_means(world, problem, batch.next, len(batch))
    return Values(own, ahead, policy_means(world, problem, problem.initial, len(problem.initial_states)))


@dataclass(frozen=True, eq=False)
class Means:
    """Averages of q* - q̂ by key (a cell, a block of a cell, a half of a cell), and the cells that follow."""

    cell: Any  # (m,) of every key that has rows
    own: FloatArray  # (m,)
    ahead: FloatArray  # (m,)
    following: Any  # (m, p) sparse
    start: float
    start_cells: FloatArray  # (p,)


@dataclass(frozen=True, eq=False)
class Errors:
    """q* - q̂ at every row, after it, and at the starts."""

    cell: Any
    own: FloatArray
    ahead: FloatArray
    following: Any  # (n, p) sparse masses
    start: float
    start_cells: FloatArray

    @staticmethod
    def of(cells: Any, rows: Any, values: Values) -> Errors:
        batch, slots, weights = rows.whole(), rows.layout.slots, rows.initial_states.weights
        point, slot = np.nonzero(batch.next.weights)
        following = csr_matrix(
            (
                batch.next.weights[point, slot],
                (batch.next.rows[point], cells.next_group[point] * slots + slot),
            ),
            shape=(len(batch), cells.size(slots)),
        )
        ahead = np.where(batch.continues, values.ahead - cells.next_value, 0.0)
        start = float(weights @ (values.start - cells.start_value))
        own = values.own - cells.value
        cell = cells.group * slots + batch.slots
        return Errors(cell, own, ahead, following, start, cells.start_mean(rows.initial, weights))

    def means(self, key: Any, per_cell: int = 1) -> Means:
        """Over all rows with the same key; key // per_cell is the cell, or keys count blocks before cells."""
        keys, place, counts = np.unique(key, return_inverse=True, return_counts=True)
        average = csr_matrix((1.0 / counts[place], (place, np.arange(place.size))), shape=(keys.size, place.size))
        cell = (keys // per_cell) % self.following.shape[1]
        return Means(
            cell, average @ self.own, average @ self.ahead, average @ self.following, self.start, self.start_cells
        )


def visited(means: Means, gamma: float) -> FloatArray:
    """d, and a little for all other cells. `means` are those of cells."""
    chain = np.zeros((means.start_cells.size, means.start_cells.size))
    chain[means.cell] = means.following.toarray()
    found = np.linalg.solve(np.eye(len(chain)) - gamma * chain.T, means.start_cells)
    return found + SLIGHT * found.sum() / found.size


def fixed_numbers(means: Means, gamma: float, limits: tuple[float, float], visits: FloatArray) -> FloatArray:
    """e: the linear program of the head of this file, on the averages of another log, block by block."""
    count = means.start_cells.size
    pick = csr_matrix((np.ones(means.cell.size), (np.arange(means.cell.size), means.cell)), (means.cell.size, count))
    parts = [(pick, means.own), (csr_matrix(means.start_cells[None]), np.array([means.start]))]
    if gamma:
        parts.append((means.following, means.ahead))
    matrix, target = vstack([part for part, _ in parts]), np.concatenate([part for _, part in parts])
    upper = vstack([hstack([-matrix, -matrix]), hstack([matrix, -matrix])])  # |target - matrix e| <= matrix β̄
    costs = np.concatenate([np.zeros(count), visits])
    bounds = [limits] * count + [(0, None)] * count
    found = linprog(costs, upper, np.concatenate([-target, target]), bounds=bounds, method="highs")
    if found.status:
        raise RuntimeError(found.message)
    return np.asarray(found.x[:count])


def even_numbers(means: Means, gamma: float) -> FloatArray:
    """e with the least β that bounds every average over halves alike."""
    count = means.start_cells.size
    rows = np.arange(means.cell.size)
    pick = csr_matrix((np.ones(rows.size), (rows, means.cell)), (rows.size, count))
    parts = [(pick, means.own, np.ones(rows.size))]
    if gamma:
        parts.append((means.following, means.ahead, np.asarray(means.following.sum(axis=1)).ravel()))
    matrix = vstack([part for part, _, _ in parts])
    target, mass = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    sides = csr_matrix(np.concatenate([-mass, -mass])[:, None])
    upper = hstack([vstack([-matrix, matrix]), sides])
    costs = np.concatenate([np.zeros(count), [1.0]])
    bounds = [(None, None)] * count + [(0, None)]
    found = linprog(costs, upper, np.concatenate([-target, target]), bounds=bounds, method="highs")
    if found.status:
        raise RuntimeError(found.message)
    return np.asarray(found.x[:count])


def least_averages(means: Means, e: FloatArray, gamma: float, costs: FloatArray) -> FloatArray:
    """β̄ of (23) for the log's own rows, given e: `means` are those of blocks of cells."""
    count = e.size
    least = np.zeros(count)
    np.maximum.at(least, means.cell, np.abs(means.own - e[means.cell]))
    matrix, target = csr_matrix(means.start_cells[None]), np.array([abs(means.start - means.start_cells @ e)])
    if gamma:
        matrix = vstack([matrix, means.following])
        target = np.concatenate([target, np.abs(means.ahead - means.following @ e)])
    found = linprog(costs, -matrix, -target, bounds=np.column_stack([least, np.full(count, np.inf)]), method="highs")
    if found.status:
        raise RuntimeError(found.message)
    averages = np.maximum(found.x, least)
    gap, mass = target - matrix @ averages, np.asarray(matrix.sum(axis=1)).ravel()
    more = float(np.max(gap / np.where(mass > 0, mass, np.inf), initial=0.0))  # tolerances of the solver
    return (averages + max(more, 0.0)) * (1 + 1e-9)


def least_singles(errors: Errors, rest: FloatArray, slots: int) -> FloatArray:
    """β_∞: the largest |ζ'| of a row, for the groups that follow it; alike for the actions of a group."""
    groups = errors.following.shape[1] // slots
    entries = errors.following.tocoo()
    mass = np.asarray(errors.following.sum(axis=1)).ravel()
    size = np.abs(rest) / np.where(mass > 0, mass, np.inf)
    found = np.zeros(groups)
    np.maximum.at(found, entries.col // slots, size[entries.row])
    return np.repeat(found, slots) * (1 + 1e-9)


@lru_cache(maxsize=2)
def other_log(world: NumberWorld, rows: int) -> tuple[Any, Values]:
    """A longer log of the same world, without the stretch that would be its pilot, and q* on it."""
    problem = world.problem(rows, OTHER_SEED)
    later = problem.select(problem.rows.start + rows // 5)
    return later, values_of(world, problem, later)


@dataclass(frozen=True, eq=False)
class Truth:
    """The least allowance for which (23) holds on the log, and the least number for halves of groups."""

    allowance: CellAllowance
    mean: float  # of β̄ over the cells that the policy visits
    half: float  # averages over halves, one number for all
    half_single: float  # and single values at the same e

    @property
    def largest_single(self) -> float:
        return float(self.allowance.single.max(initial=0.0))


def true_numbers(world: NumberWorld, problem: Any, result: Any, other_rows: int) -> Truth:
    proof, fitted, gamma = result.proof, result.curve.fitted, problem.gamma
    certified, slots = problem.select(proof.estimand.rows[0]), problem.layout.slots
    errors = Errors.of(proof.cells, certified, values_of(world, problem, certified))
    later, values = other_log(world, other_rows)
    cells = fitted.cells(later)
    other = Errors.of(cells, later, values)
    costs, limits = visited(other.means(other.cell), gamma), proof.cells.limits(problem)
    stops = np.array(proof.events.stops)
    early = np.searchsorted(stops * (other_rows / stops[-1]), later.whole().log_rows, side="right")
    of_blocks = other.means(np.minimum(early, stops.size - 1) * costs.size + other.cell)
    e = fixed_numbers(of_blocks, gamma, (limits.low, limits.high), costs)
    block = np.searchsorted(stops, certified.whole().log_rows, side="right")
    averages = least_averages(errors.means(block * e.size + errors.cell), e, gamma, costs)
    single = least_singles(errors, errors.ahead - errors.following @ e, slots)
    single = single if gamma else np.zeros(e.size)
    even = even_numbers(other.means(2 * other.cell + cells.half, 2), gamma)
    halves = errors.means(2 * errors.cell + proof.cells.half, 2)
    apart = [float(np.abs(halves.own - even[halves.cell]).max(initial=0.0))]
    alone = 0.0
    if gamma:
        mass = np.asarray(halves.following.sum(axis=1)).ravel()
        gaps = np.abs(halves.ahead - halves.following @ even)
        apart.append(float(np.max(gaps / np.where(mass > 0, mass, np.inf), initial=0.0)))
        alone = float(least_singles(errors, errors.ahead - errors.following @ even, slots).max(initial=0.0))
    return Truth(CellAllowance(averages, single), float(costs @ averages / costs.sum()), max(apart), alone)
