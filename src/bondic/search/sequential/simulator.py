"""A simulator from earlier rows: polynomials for the next state, a tree for its reward and its end, and what both miss."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

from bondic.functions.lookahead import NOTHING, Polynomials, SplitTree
from bondic.rows import Rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_DEGREES, _RIDGES = (1, 2, 3), (1e-6, 1e-3, 1.0)
_GAIN = 0.8
"""What a higher degree has to make of the error, at most."""
_FIRST = 0.75
"""Share of the rows that fits, where the others judge degree and ridge."""
_NOISY = 1e-3
"""Residuals above this many standard deviations of the state are drawn again in a simulation."""
_DEPTH, _LEAVES = 8, (1, 10)
_BEYOND = 2.0
"""Simulated states stay within so many standard deviations of those that were seen."""


@dataclass(frozen=True, eq=False)
class Moves:
    """Rows as a simulator is fitted to them; `after` is the next state, terminal ones among them."""

    points: FloatArray  # (n, D)
    slots: IntArray  # (n,)
    after: FloatArray  # (n, d)
    rewards: FloatArray  # (n,)
    ended: npt.NDArray[np.bool_]  # (n,) nothing follows

    def __len__(self) -> int:
        return int(self.slots.size)

    def before(self, stop: int) -> Moves:
        """The first rows, and nothing else."""
        return Moves(self.points[:stop], self.slots[:stop], self.after[:stop], self.rewards[:stop], self.ended[:stop])


@dataclass(frozen=True, eq=False)
class Simulator:
    """What a step does, and the residuals that are drawn again where the polynomials do not tell all."""

    steps: Polynomials
    tree: SplitTree
    residuals: FloatArray  # (n, d) in scales; empty where steps are told exactly

    def step(
        self, points: FloatArray, slots: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Next states, the probability that they go on, and rewards."""
        steps, terms = self.steps, self.steps.terms(points)
        moves = np.zeros((points.shape[0], steps.state_dim))
        for slot in np.unique(slots):
            own = slots == slot
            moves[own] = terms[own] @ steps.coefficients[slot]
        if len(self.residuals):
            moves += self.residuals[rng.integers(0, len(self.residuals), len(points))]
        after = points[:, : steps.state_dim] + moves * steps.scale[: steps.state_dim]
        after = np.clip(after, steps.low, steps.high)
        alive, rewards = self.tree.values(after).T
        return after, alive, rewards


def fit_simulator(moves: Moves, slots: int) -> Simulator:
    """Degree and ridge by the median squared error on the last quarter of the rows: rare jumps do not decide.

    A higher degree has to lower it by a fifth. Where noise is most of the error, it gains nothing, and its steps lead
    astray when they are taken one after the other.
    """
    spread = moves.points.std(axis=0)
    mean, scale = moves.points.mean(axis=0), np.where(spread > 1e-9, spread, 1.0)
    inputs, states = (moves.points - mean) / scale, moves.after.shape[1]
    wanted = (moves.after - moves.points[:, :states]) / scale[:states]
    cut = int(_FIRST * len(moves))
    best, monomials, ridge = np.inf, monomials_of(inputs.shape[1], _DEGREES[0]), _RIDGES[0]
    for degree in _DEGREES:
        more = monomials_of(inputs.shape[1], degree)
        if len(more) * slots > len(moves) / 2 and degree > 1:
            break
        terms, errors = _terms(inputs, more), []
        for strength in _RIDGES:
            fitted = _per_action(terms[:cut], wanted[:cut], moves.slots[:cut], slots, strength)
            missed = wanted[cut:] - _applied(fitted, terms[cut:], moves.slots[cut:])
            errors.append(float(np.median((missed**2).sum(axis=1))))
        if min(errors) < _GAIN * best:
            best, monomials, ridge = min(errors), more, _RIDGES[int(np.argmin(errors))]
    terms = _terms(inputs, monomials)
    coefficients = _per_action(terms, wanted, moves.slots, slots, ridge)
    missed = wanted - _applied(coefficients, terms, moves.slots)
    noisy = bool(np.sqrt(np.mean(missed**2)) > _NOISY)
    margin = _BEYOND * scale[:states]
    low, high = moves.after.min(axis=0) - margin, moves.after.max(axis=0) + margin
    steps = Polynomials(mean, scale, monomials, coefficients, low, high)
    tree = grow_tree(moves.after, np.column_stack([~moves.ended, moves.rewards]).astype(float), _LEAVES[int(noisy)])
    return Simulator(steps, tree, missed if noisy else missed[:0])


def moves_of(problem: Rows) -> Moves:
    """All rows with the states they lead to, terminal ones among them."""
    rows = problem.whole()
    after = problem.log.read(problem.rows).next_observations[rows.log_rows - problem.rows.start]
    return Moves(rows.logged, rows.slots, after, rows.rewards, ~rows.continues)


def monomials_of(columns: int, degree: int) -> IntArray:
    every = [m for k in range(degree + 1) for m in combinations_with_replacement(range(columns), k)]
    out = np.full((len(every), degree), NOTHING, dtype=np.int64)
    for row, monomial in enumerate(every):
        out[row, : len(monomial)] = monomial
    return out


def _terms(inputs: FloatArray, monomials: IntArray) -> FloatArray:
    padded = np.hstack([inputs, np.ones((inputs.shape[0], 1))])  # column -1 is 1
    out = np.ones((inputs.shape[0], monomials.shape[0]))
    for columns in monomials.T:
        out *= padded[:, columns]
    return out


def _per_action(terms: FloatArray, wanted: FloatArray, slots: IntArray, count: int, ridge: float) -> FloatArray:
    """A ridge regression for every action; an action without rows does not move."""
    out = np.zeros((count, terms.shape[1], wanted.shape[1]))
    for slot in range(count):
        own = terms[slots == slot]
        square = own.T @ own + ridge * np.eye(terms.shape[1])
        out[slot] = np.linalg.solve(square, own.T @ wanted[slots == slot])
    return out


def _applied(coefficients: FloatArray, terms: FloatArray, slots: IntArray) -> FloatArray:
    out = np.zeros((terms.shape[0], coefficients.shape[2]))
    for slot in range(coefficients.shape[0]):
        out[slots == slot] = terms[slots == slot] @ coefficients[slot]
    return out


def grow_tree(states: FloatArray, wanted: FloatArray, least: int) -> SplitTree:
    """Splits of single columns that lower the squared error most, to depth 8, with at least so many rows in a leaf."""
    nodes: list[tuple[int, float, int, int, FloatArray]] = []

    def grow(rows: IntArray, depth: int) -> int:
        place, mean = len(nodes), wanted[rows].mean(axis=0)
        nodes.append((NOTHING, 0.0, 0, 0, mean))
        split = _best_split(states[rows], wanted[rows], least) if depth else None
        if split is not None:
            column, threshold = split
            goes_left = states[rows, column] <= threshold
            left = grow(rows[goes_left], depth - 1)
            nodes[place] = (column, threshold, left, grow(rows[~goes_left], depth - 1), mean)
        return place

    grow(np.arange(states.shape[0]), _DEPTH)
    columns, thresholds, left, right, leaves = zip(*nodes, strict=True)
    whole = [np.array(part, dtype=np.int64) for part in (columns, left, right)]
    return SplitTree(whole[0], np.array(thresholds), whole[1], whole[2], np.array(leaves))


def _best_split(states: FloatArray, wanted: FloatArray, least: int) -> tuple[int, float] | None:
    count = states.shape[0]
    around = float(((wanted - wanted.mean(axis=0)) ** 2).sum())
    if around < 1e-9 or count < 2 * least:
        return None
    best, found = around - 1e-9, None
    sums, squares = wanted.sum(axis=0), (wanted**2).sum(axis=0)
    first = np.arange(1, count)[:, None]
    for column in range(states.shape[1]):
        order = np.argsort(states[:, column], kind="stable")
        x, y = states[order, column], wanted[order]
        run, run_square = np.cumsum(y, axis=0)[:-1], np.cumsum(y**2, axis=0)[:-1]
        cost = (run_square - run**2 / first + squares - run_square - (sums - run) ** 2 / (count - first)).sum(axis=1)
        cost[(x[1:] <= x[:-1]) | (first[:, 0] < least) | (first[:, 0] > count - least)] = np.inf
        place = int(np.argmin(cost))
        if cost[place] < best:
            between = float(0.5 * (x[place] + x[place + 1]))
            # between neighboring floats there is nothing, and the rounded middle may be the upper one
            best, found = float(cost[place]), (column, between if between < x[place + 1] else float(x[place]))
    return found
