"""Where q* can still be: the fixed point over blocks of the vector event (14), (16), (17), (18).

On one event of probability 1 - delta, at every block end t at once,

    | sum_{i<t} λ_i φ_i Z_i | <= log(2/delta) + sum_{i<t} g( -λ_i |φ_i| |Δ_i| ),                          (16)

and the left side is | h + G e | for e = q* - q̂. Bounds of |Δ_i| over what is left of Q give a cylinder (17),
cylinder and ball give ellipsoids (18), ellipsoids give smaller bounds of |Δ_i|, and so on. Every round is a consequence of
the same event: none costs any probability. No row is ever dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from bondic.core.betting import MAX_BET, bet_cost, curvature, vector_term
from bondic.core.bounded import Between, FloatArray, U, inflate, norm, row_norms, upper_sum
from bondic.core.bounded import gamma as rounding
from bondic.core.errors import NumericalError
from bondic.core.sequential.ellipsoids import Cylinder, Ellipsoid, Quadratic, enclose, supremum, whole_ball
from bondic.core.sequential.embedded import Embedded, Start
from bondic.core.sequential.landmarks import Embedding
from bondic.core.sequential.plan import MAX_ROUNDS, Plan, Predictable
from bondic.core.sequential.pooled import NOT_POOLED, Pooled, pooled_squares, share_of

_WORTH = 0.995
"""A round that leaves more than this share of the cylinder's size is the last one, when rounds are not prescribed."""


class FixedPoint(Protocol):
    """What the fixed point is run on: all rows of an evaluation, or, for a planner, rows that stand for others like them."""

    best: Ellipsoid
    cylinder: Cylinder | None
    empty: bool

    def vector_bound(self, candidates: list[Ellipsoid]) -> tuple[float, int]:
        """The right side of (16), and which of the sets gave it."""

    def narrow(self, bound: float, before: Cylinder | None) -> list[Ellipsoid]:
        """The sets that this right side of (16) leaves; `before` is the cylinder of the block before."""


def find_fixed_point(state: FixedPoint, rounds: int | None = None) -> int:
    """Rounds of (14), (16), (17), (18), as prescribed or until they no longer help; the last look only picks the best set."""
    before, total, done = state.cylinder, math.inf, 0
    candidates, last = [state.best], MAX_ROUNDS if rounds is None else rounds
    for k in range(last + 1):
        bound, pick = state.vector_bound(candidates)
        if k:
            state.best = candidates[pick]
        if k == last or (rounds is None and not bound < total * _WORTH):
            break
        total, done = min(total, bound), k + 1
        candidates = state.narrow(total, before)
        if state.empty:
            break
    return done


def sets_of(
    radius: float, newest: Cylinder, before: Cylinder | None, shares: Sequence[float], both: Sequence[float]
) -> list[Ellipsoid]:
    """Ellipsoids with these shares of weight on the newest cylinder, and one that also knows the cylinder before it."""
    made = [enclose(radius, [newest], [share]) for share in shares]
    if before is not None:
        made.append(enclose(radius, [newest, before], both))
    return [ellipsoid for ellipsoid in made if ellipsoid is not None]


def _no_rows() -> Between:
    return Between(np.zeros(0), np.zeros(0))


@dataclass(eq=False)
class Localizer:
    """The state of the fixed point after some blocks."""

    plan: Plan  # shares of weight that sets are made with
    start: Start  # of the evaluation, for the interval that is fed back
    radius: float  # of the ball in coordinates
    probability: float  # of the vector event
    deviations: Embedding  # gamma D_i
    best: Ellipsoid
    limits: Between = field(default_factory=_no_rows)  # ranges of Y_i
    offsets: FloatArray = field(default_factory=lambda: np.zeros(0))  # a_i = r_i + gamma q̂(x'_i) - y0_i
    errors: Between = field(default_factory=_no_rows)  # bounds of Y_i - ŷ_i
    bare_size: FloatArray = field(default_factory=lambda: np.zeros(0))  # of |Y_i - ŷ_i| without the remainder of x'_i
    sizes: FloatArray = field(default_factory=lambda: np.zeros(0))  # |λ_i φ_i|
    pooled_remainder: float = 0.0  # sum_i |λ_i φ_i|^2 (remainder)^2, for all rows so far at once
    cylinder: Cylinder | None = None
    empty: bool = False  # no e is left: rejects
    spent: list[int] = field(default_factory=list)  # rounds at every block end
    _sums: tuple[FloatArray, FloatArray, float] | None = None  # G, h, and what remainders and roundings add to the size

    @staticmethod
    def begin(plan: Plan, start: Start, radius: float, probability: float) -> Localizer:
        """Before the first block: all of the ball is left."""
        m = start.coordinates.shape[0]
        nothing = Embedding(np.zeros((0, m)), np.zeros(0), np.zeros(0))
        return Localizer(plan, start, radius, probability, nothing, whole_ball(radius, m))

    def add(
        self, block: Embedded, columns: Predictable, rounds: int | None = None, pooled: Pooled = NOT_POOLED
    ) -> None:
        """One more block, and the rounds of the fixed point that it allows."""
        deviations, offsets = deviations_of(block, columns, self.radius)
        sizes = row_norms(columns.instruments)
        if not np.all(sizes * (block.limits.high - block.limits.low) <= MAX_BET):
            raise NumericalError("A bet of the vector event is too large for the value range.")
        self._accumulate(block, columns, sizes, pooled.operator)
        self.pooled_remainder = inflate(self.pooled_remainder + pooled.squares * self.radius**2 * (1 + 8 * U))
        self.deviations = Embedding.joined([self.deviations, deviations])
        self.offsets, self.sizes = np.concatenate([self.offsets, offsets]), np.concatenate([self.sizes, sizes])
        whole = shifted(whole_ball(self.radius, deviations.coordinates.shape[1]).products(deviations), offsets)
        known, bare = (shifted(bounds, offsets) for bounds in self.best.both_products(deviations))
        self.errors, self.limits = (
            self.errors.then(whole.within(known)),
            self.limits.then(block.limits),
        )
        self.bare_size = np.concatenate([self.bare_size, bare.magnitude()])
        self._check_rows()
        if not self.empty:
            self.spent.append(find_fixed_point(self, rounds))

    def _accumulate(self, block: Embedded, columns: Predictable, sizes: FloatArray, pooled: float) -> None:
        """G = sum λ_i φ_i T_i^T and h = sum λ_i φ_i R̂q̂_i, unscaled; their errors and remainders go into the size."""
        instruments, step, n = columns.instruments, block.step, len(block)
        matrix, offset = instruments.T @ step.coordinates, instruments.T @ block.residual
        lengths, residual = row_norms(step.coordinates), np.abs(block.residual)
        share = rounding(n + 8)
        left = upper_sum(sizes * (step.perp * self.radius + step.extra)) * (1 + 8 * U)
        left = min(left, inflate(pooled * self.radius))
        left += share * upper_sum(sizes * (lengths * self.radius + residual)) * (1 + 8 * U)
        left += upper_sum(sizes) * block.value_error * (1 + 8 * U)
        if self._sums is None:
            self._sums = matrix, offset, left
            return
        old_matrix, old_offset, old_left = self._sums
        width = max(matrix.shape[0], old_matrix.shape[0])
        matrix, offset = (
            _padded(old_matrix, width) + _padded(matrix, width),
            _padded(old_offset, width) + _padded(offset, width),
        )
        left += old_left + 2 * U * (norm(matrix) * self.radius + norm(offset))
        self._sums = matrix, offset, inflate(left)

    def narrow(self, bound: float, before: Cylinder | None) -> list[Ellipsoid]:
        """The cylinder (17) for this right side of (16), the ellipsoids (18) that it gives, and row bounds (14) from them."""
        assert self._sums is not None
        matrix, offset, left = self._sums
        self.cylinder = Cylinder(matrix, offset, inflate(bound + left))
        found = sets_of(self.radius, self.cylinder, before, self.plan.shares, self.plan.with_earlier) or [self.best]
        self._sharpen(found)
        return found

    def _sharpen(self, candidates: list[Ellipsoid]) -> None:
        """Row by row the smallest bounds so far."""
        for ellipsoid in candidates:
            if ellipsoid.empty:
                self.empty = True
                return
            found, bare = (shifted(bounds, self.offsets) for bounds in ellipsoid.both_products(self.deviations))
            self.errors = self.errors.within(found)
            self.bare_size = np.minimum(self.bare_size, bare.magnitude())
        self._check_rows()

    def _check_rows(self) -> None:
        self.empty = self.empty or bool(np.any(self.errors.low > self.errors.high))

    def deviation_bound(self) -> FloatArray:
        """U_i: bounds of |Δ_i| for a center that is clipped to the whole range (14)."""
        width = (self.limits.high - self.limits.low) * (1 + 4 * U)
        return np.asarray(np.minimum(width, self.errors.magnitude()))

    def vector_bound(self, candidates: list[Ellipsoid]) -> tuple[float, int]:
        """The right side of (16): a worst e for every row, or one worst e for all rows whose deviations fit the range.

        Any division of the rows is valid. Returns the bound, and which ellipsoid gave it (the first, if none did).
        """
        weights, single, fitting = self._bets()
        remainder = share_of(weights, self.sizes**2, self.pooled_remainder)
        best, pick = pooled_squares(weights, single, self.bare_size, remainder), 0
        everyone = np.ones(len(single), dtype=bool)
        for joint in [everyone] if fitting.all() else [everyone, fitting]:
            others = upper_sum(single[~joint])
            rows = self.deviations.some(joint)
            form = Quadratic.of(weights[joint], self.offsets[joint], rows, self.radius, remainder)
            for k, ellipsoid in enumerate(candidates):
                value, _ = supremum(ellipsoid, np.zeros(form.linear.shape[0]), others, form)
                if value < best:
                    best, pick = value, k
        return inflate(vector_term(self.probability).upper + max(best, 0.0)), pick

    def _bets(self) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """c_i of the joint form, g at the worst e of every row, and which rows have deviations that fit their range."""
        width = (self.limits.high - self.limits.low) * (1 + 4 * U)
        bets = self.sizes * self.deviation_bound() * (1 + 4 * U)
        return (
            self.sizes**2 * curvature(-bets) * (1 + 8 * U),
            bet_cost(-bets),
            self.errors.magnitude() <= width,
        )

    def slab(self, low: float, high: float) -> Cylinder:
        """J* in [low, high] as a constraint on e: | q̂(start) + ψ_0 . ẽ - middle | <= half, what ψ_0 leaves over included."""
        middle, value = 0.5 * (low + high), self.start.value
        half = max(high - middle, middle - low) + self.start.left + value.rad
        size = half * (1 + 8 * U) + 8 * U * (abs(value.mid) + abs(middle))
        return Cylinder(self.start.coordinates[None], np.array([value.mid - middle]), inflate(size))

    def feed_back(self, low: float, high: float) -> list[Ellipsoid]:
        """Ellipsoids that also know J* in [low, high]; no cost in probability. None of them if there is no cylinder yet."""
        if self.cylinder is None or self._sums is None:
            return []
        slab = self.slab(low, high)

        def made(cylinder: Cylinder) -> list[Ellipsoid]:
            shares = [(tau * (1 - share), share) for tau in self.plan.shares for share in self.plan.slab_shares]
            all_of = [enclose(self.radius, [cylinder, slab], pair) for pair in shares]
            return [ellipsoid for ellipsoid in all_of if ellipsoid is not None]

        candidates = made(self.cylinder)
        self._sharpen(candidates)
        if self.empty or not candidates:
            return []
        size = inflate(self.vector_bound(candidates)[0] + self._sums[2])
        if size < self.cylinder.size:
            self.cylinder = self.cylinder.with_size(size)
            candidates = made(self.cylinder)
            self.empty = any(ellipsoid.empty for ellipsoid in candidates)
        return [] if self.empty else candidates


def deviations_of(block: Embedded, columns: Predictable, radius: float) -> tuple[Embedding, FloatArray]:
    """gamma D_i as embeddings, and a_i; rounding is part of the remainder."""
    visible, discount = columns.embedding.shape[1], block.gamma
    rows = block.next.coordinates.copy()
    rows[:, :visible] -= columns.embedding
    rows *= discount
    offsets = block.outcome - columns.predicted
    lost = 4 * U * radius * (row_norms(block.next.coordinates) + row_norms(columns.embedding))
    lost += 4 * U * (np.abs(offsets) + np.abs(columns.predicted) + np.abs(block.outcome)) + block.value_error
    perp, extra = block.next.perp * discount * (1 + 4 * U), block.next.extra * discount * (1 + 4 * U)
    return Embedding(rows, perp, extra + lost), offsets


def shifted(bounds: Between, offsets: FloatArray, error: float = 0.0) -> Between:
    """a_i + [low, high] for a_i that are off by at most `error`, rounded outward."""
    low, high = bounds.low + offsets - error, bounds.high + offsets + error
    return Between(low - 4 * U * (np.abs(low) + error), high + 4 * U * (np.abs(high) + error))


def _padded(array: FloatArray, rows: int) -> FloatArray:
    """Instruments of several blocks live in one space: fewer of them are more of them with zeros."""
    if array.shape[0] == rows:
        return array
    return np.concatenate([array, np.zeros((rows - array.shape[0], *array.shape[1:]))])
