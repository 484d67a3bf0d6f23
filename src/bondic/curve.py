"""What an assumption would buy: the interval as a function of the allowance, on one event.

Allowances (23) are in units of value. One event serves them all, so reading the whole curve costs no part of alpha: if groups
are as alike as an allowance says, the value lies in its interval, with probability at least 1 - alpha for all allowances at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from bondic.core.cells.allowance import Allowance
from bondic.core.cells.ends import CellBound
from bondic.core.cells.proof import CellsProof
from bondic.core.claims import Claim, Conclusion, Status, conclude
from bondic.core.errors import InvalidInput
from bondic.core.sequential.proof import claims_of
from bondic.core.terms import ValueRange, range_of
from bondic.rendering import three
from bondic.rows import Rows

_SHARES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Averages of the printed table, as shares of the width of the value range, rounded to one digit."""
_SINGLE_SHARES = (0.02, 0.1, 0.3)
"""Single values of its columns, likewise; the first column has both numbers alike."""
_HALVINGS = 30
METHOD = "groups"
"""The name of the method behind a curve."""


@dataclass(frozen=True)
class Mark:
    """A number on the axis of allowances: information, never a choice."""

    name: str
    value: float
    text: str  # what it is, in a sentence
    certified: bool = False


@dataclass(frozen=True)
class CurvePoint:
    """The interval at one allowance."""

    averages: float
    single: float
    low: float
    high: float
    status: Status

    @property
    def length(self) -> float:
        return self.high - self.low

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    def within(self, pair: tuple[float, float]) -> bool:
        """Whether its allowance is no larger, in both numbers: where it gives the value range, `pair` gives no more."""
        return self.averages <= pair[0] and self.single <= pair[1]


@dataclass(frozen=True, eq=False)
class AllowanceCurve:
    """Allowance -> interval; see the head of this file. `at` any allowance, without a rerun."""

    proof: CellsProof  # without an allowance
    rows: Rows  # the certified ones
    groups: tuple[str, ...]  # every group in words
    marks: tuple[Mark, ...]  # without the certified one
    model: str  # what the center is, in words
    fitted: Any = field(repr=False, default=None)  # model and groups, which can be asked anywhere

    @cached_property
    def bound(self) -> CellBound:
        return self.proof.bound(self.rows)

    @property
    def alpha(self) -> float:
        return self.proof.budget.alpha

    @cached_property
    def value_range(self) -> ValueRange:
        return range_of(self.rows.terms)

    def at(self, allowance: Allowance | float | tuple[float, float]) -> CurvePoint:
        """The interval if groups are as alike as the allowance says: one number, or (averages, single values)."""
        return self._at(Allowance.of(allowance).pair)

    def _at(self, pair: tuple[float, float]) -> CurvePoint:
        if pair not in self._found:
            if any(point.status is Status.TRIVIAL and point.within(pair) for point in self._found.values()):
                found = Conclusion(self.value_range.low, self.value_range.high, Status.TRIVIAL)
            else:
                found, _ = self._conclude(pair)
            self._found[pair] = CurvePoint(*pair, found.low, found.high, found.status)
        return self._found[pair]

    @cached_property
    def _found(self) -> dict[tuple[float, float], CurvePoint]:
        return {}

    def _conclude(self, pair: tuple[float, float]) -> tuple[Conclusion, tuple[Claim, ...]]:
        evaluation = self.proof.evaluate(self.rows, self.bound, Allowance(*pair))
        shown = claims_of(evaluation, self.proof.budget)
        return conclude(self.value_range, shown.ends, shown.rejected, self.proof.side), shown.ends

    def terms(self, allowance: Allowance | float | tuple[float, float]) -> tuple[Claim, ...]:
        """Both ends at an allowance, split into their parts."""
        return self._conclude(Allowance.of(allowance).pair)[1]

    def stated(self, allowance: Allowance, *, first: bool) -> CellsProof:
        """The proof of the interval at an allowance that the user states, before (`first`) or after seeing the curve."""
        return replace(self.proof, allowance=allowance, stated_first=first)

    @cached_property
    def ruled_out(self) -> float:
        """β_min: with probability at least 1 - alpha, together with all intervals, halves of groups differ by at least this."""
        return self.proof.ruled_out(self.rows, self.bound)

    def all_marks(self) -> tuple[Mark, ...]:
        """The certified mark first."""
        text = f"the log shows that halves of groups differ by {three(self.ruled_out)} or more"
        text = text if self.ruled_out > 0 else "the log rules out no allowance"
        return (Mark("ruled out", self.ruled_out, text, True), *self.marks)

    @cached_property
    def averages(self) -> tuple[float, ...]:
        """Allowances of the printed table."""
        return tuple(_one_digit(share * self.value_range.width) for share in _SHARES)

    @cached_property
    def singles(self) -> tuple[float, ...]:
        return tuple(_one_digit(share * self.value_range.width) for share in _SINGLE_SHARES)

    def line(self) -> tuple[CurvePoint, ...]:
        """Both numbers alike."""
        return tuple(self.at(average) for average in self.averages)

    def table(self) -> tuple[tuple[CurvePoint, ...], ...]:
        """A row per average: both numbers alike first, then larger single values."""
        return tuple(
            (self.at(average), *(self.at((average, single)) for single in self.singles if single >= average))
            for average in self.averages
        )

    def breaks(
        self, *, above: float | None = None, below: float | None = None, single: float | None = None
    ) -> float | None:
        """β_break: the largest allowance up to which the decision holds; None where it does not even hold at 0.

        With probability at least 1 - alpha: if the decision is wrong, groups differ by more than this. `single` fixes the
        second number; without it both are alike.
        """
        if (above is None) == (below is None):
            raise InvalidInput("One decision is asked about: pass above= or below=.")

        def holds(average: float) -> bool:
            point = self.at(average if single is None else (average, max(single, average)))
            if point.status is Status.REJECTED:
                return False
            return point.low >= above if above is not None else point.high <= (below or 0.0)

        start = self.ruled_out if single is None and self.at(0.0).status is Status.REJECTED else 0.0
        if not holds(start):
            return None
        low, high = start, max(self.value_range.width, 1e-300)
        if holds(high):
            return math.inf
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low


def _one_digit(value: float) -> float:
    return float(f"{value:.0e}") if value > 0 else 0.0
