"""Weights for the cells of a table, block after block, each from the rows before it: proposes, and is never trusted.

Weight W_c on cell c balances what arrives there and sends γ P(. | c) of it on. So W is what arrives, cut to what the cell can
carry, and what is cut stays as imbalance, at a price per unit of weight: what is not known of the cell's value,

    W = clip( Λ ψ_0 - (balanced so far) + γ A^T P^T W,  -cap, cap ),      length = ( log(1/δ) + noise + sum_c u_c |μ_c| ) / Λ.

A cell has a weight per row and a *quota* of rows that get it: then the sum of its weights is what it was meant to be, however
often the cell comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from bondic.core.betting import curvature
from bondic.core.cells.forecasts import EarlierRows
from bondic.core.cells.localize import Located
from bondic.core.cells.tally import Entries
from bondic.plan.cells import FULL_BET

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_CAUTION = (0.1, 1.0)
"""A cell carries no weight whose noise would cost more than this share of what leaving it unbalanced costs: both are compared."""
_SURE, _SPREAD = 0.5, 2.0
"""Of the rows of a cell that are expected, so many are counted on: all but two standard deviations, at least half."""
_STEPS, _CLOSE = 400, 1e-6
_MAX_BET = 0.99
_FIRST = np.geomspace(0.3, 30_000.0, 32)
"""Λ times the value range, for the first block."""
_NEAR = np.geomspace(0.75, 1.4, 10)
_LATER = (np.array([1.0, 1.06, 1.13, 1.2, 1.35, 1.5]), np.array([0.94, 0.88, 0.8, 0.7, 0.5]))
"""Later blocks may change Λ, in units of the one before: upwards, and downwards."""
_FILLED = 8
"""A matrix with an entry at one of so many places is multiplied as a whole."""
_RISING = 2
"""Λ is not changed further where so many steps have made the interval longer."""
_SETTLED = 0.2
"""With so few of the rows left Λ stays as it is."""
_TAKING_BACK = 1.1
"""Taking weight back costs more than predicted: it is done where the predicted gain exceeds this."""
_MAX_TOGETHER = 500
"""Cells whose values are bounded together, in predictions."""


@dataclass(frozen=True, eq=False)
class Prices:
    """What the rows and the imbalance of a cell cost."""

    noise: FloatArray  # (p,) mean square of deviations
    worst: FloatArray  # (p,) the largest of them
    unknown: FloatArray  # (p,) u: half of the interval of the cell's value

    @staticmethod
    def of(located: Located, seen: FloatArray, prior_weight: float) -> Prices:
        """Predicted by a set of values, as if `prior_weight` further rows of every cell were not predicted."""
        system, limits = located.system, located.limits
        rows, intervals, size = system.rows, located.intervals, system.counts.size
        count, square = system.over_labels(rows.count.sum(axis=0)), system.over_labels(rows.square.sum(axis=0))
        each = system.over_labels(intervals.deviations(located.single, located.widths).sum(axis=0))
        noise, mean = each / np.maximum(count, 1.0), square / np.maximum(count, 1.0)
        scale = located.ground.events.vector.shape**2
        more = max(located.energy_bound - float(scale @ square), 0.0) / max(float(count.sum()), 1.0) / scale
        known, half = count > 0, 0.5 * limits.width
        noise = (seen * noise + prior_weight * half**2) / np.maximum(seen + prior_weight, 1e-300)
        if located.sets:
            usual = np.repeat(_means(square, count, system.tally.shape.layers), size // system.tally.shape.layers)
            noise = np.minimum(noise, np.where(known, mean, usual) + more)
        worst = np.zeros(size)
        np.maximum.at(worst, system.labels.cell, located.farthest)
        spread = np.zeros(size)
        np.maximum.at(spread, system.labels.cell, np.maximum(-rows.low, rows.high).max(axis=0))
        worst = np.where(known, np.minimum(worst + spread, limits.width), half)
        unknown = 0.5 * (intervals.values.high - intervals.values.low)
        if located.sets and size <= _MAX_TOGETHER:
            unknown = np.minimum(unknown, located.supports(np.eye(size)))
        return Prices(noise, worst, np.minimum(unknown, half))

    def at(self, cells: IntArray) -> Prices:
        """Those of some cells, which may come more than once."""
        return Prices(self.noise[cells], self.worst[cells], self.unknown[cells])


def _means(square: FloatArray, count: FloatArray, layers: int) -> FloatArray:
    """Mean squares of the rows of every layer."""
    own, rows = (one.reshape(layers, -1).sum(axis=1) for one in (square, count))
    return np.asarray(own / np.maximum(rows, 1.0))


@dataclass(frozen=True, eq=False)
class WeightPlan:
    """Weights for the rows that are left, and what they would lead to."""

    total: float  # Λ of all rows
    weights: FloatArray  # (p,) W
    sizes: FloatArray  # (p,) per row
    demand: FloatArray  # (p,) what arrives: as much as a cell may carry if it comes more often than expected
    price: float  # noise and bias together, times Λ

    def half(self, log_term: float) -> float:
        """Half the length of the interval."""
        return (log_term + self.price) / self.total


@dataclass(frozen=True, eq=False)
class CellCapacity:
    """What the cells can carry in so many rows to come."""

    past: EarlierRows
    atoms: Entries  # (J, p) A
    gamma: float
    prices: Prices
    rows: float
    width: FloatArray | float
    fewest: int = 1  # rows of a cell, below which it carries no weight
    layers: int = 1

    @cached_property
    def after(self) -> Entries:
        """(p, J) P, as seen."""
        past = self.past
        return Entries.added(
            past.cell, past.atom, past.mass / np.maximum(past.count, 1.0)[past.cell], self.atoms.shape[::-1]
        )

    @cached_property
    def sure(self) -> FloatArray:
        """Rows that are counted on."""
        coming = self.past.count * (self.rows / max(float(self.past.count.sum()), 1.0))
        return np.asarray(np.maximum(coming - _SPREAD * np.sqrt(coming), _SURE * coming))

    def largest(self, caution: float) -> FloatArray:
        """Weight of one row."""
        allowed = caution * self.prices.unknown
        quiet = allowed / np.maximum(self.prices.noise + allowed * self.prices.worst, 1e-300)
        return np.where(self.past.count >= self.fewest, np.minimum(FULL_BET / self.width, quiet), 0.0)

    def sent_on(self, weights: FloatArray) -> FloatArray:
        """γ A^T P^T W: what arrives at cells."""
        after = self.after
        if _FILLED * after.value.size > weights.size * self.atoms.shape[0]:
            following = np.einsum("c,cj->j", weights, after.dense)  # in the same order whatever the machine
        else:
            following = after.onto(weights)
        return np.asarray(self.gamma * self.atoms.onto(following))

    def _cut(self, weights: FloatArray, caps: FloatArray) -> FloatArray:
        """What cells can carry; bets of all layers on a row are one bet."""
        cut = np.clip(weights, -caps, caps)
        if self.layers == 1:
            return cut
        bets = np.abs(cut) * self.width / np.maximum(self.sure, 1e-300)
        together = bets.reshape(self.layers, -1).sum(axis=0) / FULL_BET
        return np.asarray(cut / np.tile(np.maximum(together, 1.0), self.layers))

    def aim(
        self, total: float, start: FloatArray, balanced: FloatArray, largest: FloatArray, guess: FloatArray | None
    ) -> WeightPlan:
        """Weights for a Λ in all, at most `largest` for a row, when so much was balanced before."""
        caps, demand = largest * self.sure, total * start - balanced
        found = np.zeros(start.size) if guess is None else guess
        for _ in range(_STEPS):
            new = self._cut(demand + self.sent_on(found), caps)
            done = np.abs(new - found).sum() <= _CLOSE * np.abs(new).sum()
            found = new
            if done:
                break
        arriving = demand + self.sent_on(found)
        sizes = np.minimum(np.abs(found) / np.maximum(self.sure, 1e-300), largest)
        bets = np.minimum(sizes * self.prices.worst, _MAX_BET)
        with np.errstate(over="ignore"):  # infinite where nothing arrives from a start
            noise = float(np.sum(np.abs(found) * sizes * self.prices.noise * curvature(-bets)))
        bias = float(self.prices.unknown @ np.abs(arriving - found))
        return WeightPlan(total, found, sizes, np.abs(arriving), noise + bias)


@dataclass(eq=False)
class TableWeights:
    """Makes block after block, and keeps what their weights have balanced."""

    atoms: Entries
    gamma: float
    width: FloatArray | float
    log_term: float  # log(1/δ) of an end
    total: float | None = None  # Λ
    balanced: FloatArray = field(default_factory=lambda: np.zeros(0))  # (p,) sum v_i T_i
    rows: float = 0.0  # that were to come at first
    squares: FloatArray = field(default_factory=lambda: np.zeros(0))  # (p,) sum v_i^2
    fewest: int = 1
    layers: int = 1

    def _paid(self, prices: Prices) -> float:
        """For noise so far."""
        return float(self.squares @ prices.noise) / 2 if self.squares.size else 0.0

    def propose(
        self, past: EarlierRows, prices: Prices, start: FloatArray, rows: float
    ) -> tuple[FloatArray, FloatArray]:
        """Weights and quotas (p,) for the next of the `rows` rows to come."""
        self.rows = max(self.rows, rows)
        own = {"fewest": self.fewest, "layers": self.layers}
        capacity = CellCapacity(past, self.atoms, self.gamma, prices, rows, self.width, **own)
        found = self.best(capacity, start, rows > _SETTLED * self.rows)
        self.total = found.total
        rows_needed = found.demand / np.maximum(found.sizes, 1e-300)
        # a cell that comes less often than it should has no rows to spare for small parts
        whole = np.where(rows_needed > capacity.sure, np.floor(rows_needed), np.ceil(rows_needed * (1 - 1e-9)))
        quotas = np.where(found.sizes > 0, whole.clip(1, 2**53), 0.0)
        sizes = np.minimum(found.sizes, found.demand / np.maximum(quotas, 1.0))
        return np.sign(found.weights) * sizes, quotas

    def best(self, capacity: CellCapacity, start: FloatArray, free: bool = True) -> WeightPlan:
        """The aim of least length; `free`: Λ may change."""
        before = self.balanced if self.balanced.size else np.zeros(start.size)
        cost, plans = self.log_term + self._paid(capacity.prices), []
        for caution in _CAUTION:
            aim = partial(capacity.aim, start=start, balanced=before, largest=capacity.largest(caution))
            if self.total is None:
                first = _shortest(aim, (_FIRST / float(np.max(self.width)),), cost)
                plans.append(_shortest(aim, (first.total * _NEAR,), cost))
            else:
                runs = tuple(self.total * run for run in (_LATER if free else (np.ones(1),)))
                plans.append(_shortest(aim, runs, cost, self.total))
        return min(plans, key=lambda plan: plan.half(cost))

    def weigh(self, weights: FloatArray, used: EarlierRows) -> None:
        """Add the rows of a block that were within their quotas."""
        ahead = np.bincount(used.atom, weights[used.cell] * used.mass, minlength=self.atoms.shape[0]).astype(np.float64)
        found: FloatArray = weights * used.count - self.gamma * self.atoms.onto(ahead)
        self.balanced = found + (self.balanced if self.balanced.size else 0.0)
        self.squares = used.count * weights**2 + (self.squares if self.squares.size else 0.0)


def _shortest(
    aim: Callable[..., WeightPlan], runs: tuple[FloatArray, ...], cost: float, current: float = 0.0
) -> WeightPlan:
    """The shortest of some totals; a run of them ends where lengths have grown twice."""
    best, shortest, begun = None, math.inf, None
    for totals in runs:
        last, rising, found = math.inf, 0, begun
        for total in totals.tolist():
            found = aim(total, guess=None if found is None else found.weights * (total / found.total))
            begun = begun or found
            length = found.half(cost) * (_TAKING_BACK if total < current else 1.0)
            if best is None or length < shortest:
                best, shortest = found, length
            rising, last = (rising + 1 if length > last else 0), length
            if rising == _RISING:
                break
    assert best is not None
    return best


def successor_diversity(past: EarlierRows, shape: tuple[int, int], joint: bool) -> float:
    """d, the share of pairs of rows of the same cell with different successors; d / (1 - d) where cells are alone.

    Without sets of all cells together a row that was not predicted costs what the range allows.
    """
    found = Entries.added(past.cell, past.atom, past.mass, shape)
    ends = np.maximum(past.count - found.over_rows(found.value), 0.0)
    pairs = float((past.count * (past.count - 1)).clip(0).sum())
    alike = float((found.value * (found.value - 1)).clip(0).sum()) + float((ends * (ends - 1)).clip(0).sum())
    share = 1.0 - alike / pairs if pairs > 0 else 0.5
    return share if joint else min(share / max(1 - share, 1e-3), 10.0)


def with_prior_rows(past: EarlierRows, prior_weight: float, middle: FloatArray | float) -> EarlierRows:
    """With `prior_weight` further rows at every cell, whose outcome is the middle of the range, and which nothing follows."""
    return replace(past, count=past.count + prior_weight, outcome=past.outcome + prior_weight * middle)
