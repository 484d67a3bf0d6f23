"""Two policies on the same units: values whose mean is at most J(π_1) - J(π_2) (sections 13 and 15).

*Any units.* A lower value of J(π_1) plus a lower value of -J(π_2), both from the same unit. Against the behavior itself ρ² = 1:
for single decisions (ρ - 1) (r - r_lo), which varies little where the policy does what the behavior did.

*Single decisions of two policies that answer for all actions.* With δ = ρ¹ - ρ², B = r_hi - r_lo and
TV_i = 1/2 sum_a |π_1 - π_2|(a|s_i),

    X_i = δ⁺ (r_i - r_lo) + δ⁻ (r_hi - r_i) - TV_i B  >=  -TV_i B,     E[X_i | s_i] <= m¹(s_i) - m²(s_i)                  (25)

whatever the ratios are, as sum_a (π_1 - π_2)⁺ (q - r_lo) + sum_a (π_1 - π_2)⁻ (r_hi - q) = m¹ - m² + TV_i B; an action that
the behavior never takes leaves out a term that is not negative. Rows where the policies agree give exactly 0. With b° <= Γ b the
first two terms are divided by Γ, the last one is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bondic.core.bounded import Enclosure, FloatArray, IntArray, U, filled, next_down, portions
from bondic.core.claims import End
from bondic.core.errors import InvalidInput
from bondic.core.propensities.betting import running_means
from bondic.core.propensities.control import Control
from bondic.core.propensities.decisions import MAX_WEIGHT, Decisions, Estimator, above
from bondic.core.propensities.ratios import Stated
from bondic.core.terms import ValueRange

_OTHER: dict[End, End] = {"lower": "upper", "upper": "lower"}


@dataclass(frozen=True, eq=False)
class Contrast:
    """The units of a log for J(π_1) - J(π_2), as seen from one end of it."""

    first: Decisions  # of π_1, as seen from this end
    second: Decisions  # of π_2, as seen from the other one: for lower ends of -J(π_2)
    distances: FloatArray | None  # (n,) TV_i from above, of single decisions where both answer for all actions

    def __post_init__(self) -> None:
        if self.distances is not None and not self.distances.size == self.first.rows.size == self.second.rows.size:
            raise InvalidInput("The two policies are weighed on other rows.")

    @staticmethod
    def of(first: Decisions, second: Decisions) -> Contrast:
        """From columns that are both seen from the lower end."""
        if first.unit != second.unit or not np.array_equal(first.rows, second.rows):
            raise InvalidInput("The two policies are weighed on other rows.")
        known = first.unit == "decision" and first.probs is not None and second.probs is not None
        return Contrast(first, second.from_end("upper"), _total_variation(first, second) if known else None)

    # -- what a bound needs of its units

    @property
    def end(self) -> End:
        return self.first.end

    @property
    def sign(self) -> float:
        return self.first.sign

    @property
    def unit(self) -> str:
        return self.first.unit

    @property
    def units(self) -> int:
        return self.first.units

    @property
    def policies(self) -> tuple[Decisions, ...]:
        return self.first, self.second

    @property
    def rows(self) -> IntArray:
        return self.first.rows

    def before(self, row: int) -> int:
        return self.first.before(row)

    @property
    def limits(self) -> ValueRange:
        """Of the difference, as seen from this end."""
        one, other = self.first.limits, self.second.limits
        return ValueRange((Enclosure(one.low) + other.low).lower, (Enclosure(one.high) + other.high).upper)

    def from_end(self, end: End) -> Contrast:
        return replace(self, first=self.first.from_end(end), second=self.second.from_end(_OTHER[end]))

    def part(self, rows: slice | IntArray) -> Contrast:
        """Some of the rows, whole units."""
        distances = None if self.distances is None else self.distances[rows]
        return Contrast(self.first.part(rows), self.second.part(rows), distances)

    def since(self, row: int) -> Contrast:
        """The units that begin at a row of the log or after it."""
        first = self.before(row)
        if not self.consecutive:
            return self.pick(np.arange(int(np.searchsorted(self.first.start_rows, row)), self.units))
        return self.part(slice(first, None))

    def pick(self, units: IntArray) -> Contrast:
        """Some of the units, by their numbers."""
        return self.part(np.flatnonzero(np.isin(self.first.episodes, units)))

    def bounds_weights(self, cap: float) -> bool:
        return self.first.bounds_weights(cap)

    @property
    def consecutive(self) -> bool:
        return self.first.consecutive

    # -- estimators

    def estimators(self, control: Control | None, stated: Stated) -> tuple[Estimator, ...]:
        """Free ones first; doubly robust where q̂ and a bound of the weights are there."""
        self.first.check(stated)
        if not self.second.of_behavior:
            self.second.check(stated)
        robust = self.robust_estimator(control, stated)
        return self.free_estimators(stated.gamma_sensitivity) + (() if robust is None else (robust,))

    def free_estimators(self, factor: float) -> tuple[Estimator, ...]:
        """Those that need no bound of the ratios; `factor` is Γ, and nothing is divided for the behavior itself."""
        if self.distances is not None:
            return (self._paired(self.distances, factor),)
        own, other = (
            self.first.free_estimators(factor),
            self.second.free_estimators(1.0 if self.second.of_behavior else factor),
        )
        return tuple(_sum(one, two) for one, two in zip(own, other, strict=True))

    def robust_estimator(self, control: Control | None, stated: Stated) -> Estimator | None:
        """Both with the same q̂; the return itself where π_2 is the behavior."""
        own = self.first.robust_estimator(control, stated, alone=False)
        if own is None or control is None:
            return None
        if self.second.of_behavior:
            free = self.second.free_estimators(1.0)[0]
            means = filled(free.values.size, running_means(free.values, free.prior[0]))[own.first :]
            losses = np.maximum(means - free.floor, 0.0) * (1 + 8 * U)
            other = replace(free, values=free.values[own.first :], first=own.first, predicted=(means, losses))
        else:
            found = self.second.robust_estimator(control, stated, alone=False)
            if found is None:
                raise InvalidInput("The two policies are weighed on other rows.")
            other = found
        total, cap = _sum(own, other), stated.robust_cap()
        expected = (self.sign * control.expected[0], control.expected[1])
        floor = total.floor if cap is None else max(total.floor, self.least_robust(control, cap))
        return replace(total, name="doubly robust", floor=floor, prior=expected)

    def least_robust(self, control: Control, cap: float) -> float:
        """No doubly robust value is below it.

        Of single decisions of two policies sum_a (π_1 - π_2) q̂ + (ρ¹ - ρ²) (r - q̂), with q̂ in [lo, hi] and ratios in [0, ρ̄].
        """
        own = self.first.least_robust(control, cap)
        if self.second.of_behavior:
            return next_down(own + self.second.free_estimators(1.0)[0].floor)
        total = next_down(own + self.second.least_robust(control, cap))
        if self.unit != "decision":
            return total
        limits = self.first.limits
        low, high = sorted(float(x) for x in np.clip(self.sign * np.array(control.clip), limits.low, limits.high))
        lost = (high - low) + cap * max(high - limits.low, limits.high - low)
        return max(total, next_down(-lost * (1 + 16 * U)) - 16 * U * limits.largest)

    def _paired(self, distances: FloatArray, factor: float) -> Estimator:
        """(25), rounded down."""
        one, other, limits = self.first, self.second, self.first.limits
        rewards, slack = one.rewards, 8 * U * limits.largest
        gain = np.maximum(rewards - limits.low - slack, 0.0)
        loss = np.maximum(limits.high - rewards - slack, 0.0)
        difference = one.ratios.values - other.ratios.values
        error = 2 * (one.ratios.values * one.ratios.errors + other.ratios.values * other.ratios.errors)
        more, less = (np.clip(side - error, 0.0, MAX_WEIGHT) / factor for side in (difference, -difference))
        width = (Enclosure(limits.high) - limits.low).upper
        floors = -np.asarray(distances * width) * (1 + 4 * U)
        values = above(floors, more * gain + less * loss)
        floor = next_down(-width * (1 + 4 * U))
        return Estimator("differences", values, floor, (0.0, max(0.25 * width**2, 1e-300)), floors=floors)


def _total_variation(one: Decisions, other: Decisions) -> FloatArray:
    """TV_i, rounded up; exactly 0 where both policies answer alike. A row of answers stands for itself over its sum."""
    assert one.probs is not None
    assert other.probs is not None
    distance = np.abs(one.probs - other.probs).sum(axis=1)
    slack = 8 * (one.probs.shape[1] + 8) * U
    return np.where(distance == 0.0, 0.0, np.minimum(0.5 * distance * (1 + slack) + slack, 1.0))


def _sum(one: Estimator, other: Estimator) -> Estimator:
    """Values of two ends added, rounded down."""
    floor = next_down(one.floor + other.floor)
    values = np.asarray(one.values)
    for some in portions(values.size):  # in the place of the first ones: nobody else has them
        values[some] += other.values[some]
        values[some] = np.maximum(values[some] - 2 * U * np.abs(values[some]), floor)
    prior = (one.prior[0] + other.prior[0], one.prior[1] + other.prior[1])
    if one.predicted is None or other.predicted is None:
        return Estimator(one.name, values, floor, prior, one.first)
    centers, losses = (a + b for a, b in zip(one.predicted, other.predicted, strict=True))
    losses = losses * (1 + 8 * U) + 4 * U * np.abs(centers)
    return Estimator(one.name, values, floor, prior, one.first, (centers, losses))
