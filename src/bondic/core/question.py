"""A question is linear: sum_k c_k J(pi_k; d_k) on the rows of one log.

One policy is the case of one part, c = 1. A difference J(pi_1) - J(pi_2) has two parts. Policies share rows, rewards and
statements; what differs is what they do at next states and starts, and where they start. By (13), for predictable v^k_i,

    Λ sum_k c_k J_k  =  sum_k c_k { Λ E_{d_k pi_k}[q̂_k] - sum_i v^k_i R̂_k q̂_k + <e_k, μ_k> } + sum_i sum_k c_k v^k_i Z^k_i,

and the last sum is a martingale: one betting process bounds it, however many parts there are (section 15).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from bondic.core.columns import Batch, Columns, RowRange
from bondic.core.errors import InvalidInput
from bondic.core.terms import ValueRange, range_of


@dataclass(frozen=True, eq=False)
class PolicyValue:
    """c J(pi; d)."""

    coefficient: float
    columns: Columns  # the rows of the log with the answers of pi, and the starts of d


@dataclass(frozen=True, eq=False)
class Question:
    """sum_k c_k J(pi_k; d_k)."""

    parts: tuple[PolicyValue, ...]

    def __post_init__(self) -> None:
        if not self.parts or not all(math.isfinite(part.coefficient) for part in self.parts):
            raise InvalidInput("A question has at least one part, and finite coefficients.")
        first = self.parts[0].columns
        answered = [part.columns for part in self.parts if not part.columns.policy_in_log]
        for other in (part.columns for part in self.parts[1:]):
            same = (other.log_hash, other.rows, other.terms) == (first.log_hash, first.rows, first.terms)
            if not same or any(one.layout != answered[0].layout for one in answered):
                raise InvalidInput("The parts of a question are about the same rows, with the same statements.")

    @staticmethod
    def value(columns: Columns) -> Question:
        """J(pi; d)."""
        return Question((PolicyValue(1.0, columns),))

    @staticmethod
    def difference(first: Columns, second: Columns) -> Question:
        """J(pi_1; d_1) - J(pi_2; d_2)."""
        return Question((PolicyValue(1.0, first), PolicyValue(-1.0, second)))

    @property
    def words(self) -> tuple[str, ...]:
        """What is bounded, where it is not the value of one policy."""
        coefficients = tuple(part.coefficient for part in self.parts)
        if coefficients == (1.0, -1.0):
            return ("bounded is the value of the policy minus that of the other policy",)
        return () if coefficients == (1.0,) else (f"bounded is the sum of values with coefficients {coefficients}",)

    @property
    def rows(self) -> RowRange:
        """The stretch of the log, the same for all parts."""
        return self.parts[0].columns.rows

    @property
    def first(self) -> Columns:
        """Of the first policy; rows, rewards and statements are the same for all."""
        return self.parts[0].columns

    @property
    def columns(self) -> Columns:
        """Of the one policy; a proof for one policy cannot bound more."""
        if len(self.parts) != 1 or self.parts[0].coefficient != 1.0:
            raise InvalidInput("This proof answers about the value of one policy.")
        return self.parts[0].columns

    @property
    def limits(self) -> ValueRange:
        """sum_k c_k [v_lo, v_hi], rounded outward."""
        low, high = Fraction(0), Fraction(0)
        for part in self.parts:
            values = range_of(part.columns.terms)
            ends = sorted(Fraction(part.coefficient) * Fraction(end) for end in (values.low, values.high))
            low, high = low + ends[0], high + ends[1]
        below, above = float(low), float(high)
        return ValueRange(
            below if Fraction(below) <= low else math.nextafter(below, -math.inf),
            above if Fraction(above) >= high else math.nextafter(above, math.inf),
        )

    def batches(self) -> Iterator[tuple[Batch, ...]]:
        """The same rows of every part, in order."""
        yield from zip(*(part.columns.batches() for part in self.parts), strict=True)
