"""Fixed-lambda bound: valid at every stopping time and with a width per row (section 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from bondic.core.bounded import Enclosure
from bondic.core.claims import Guarantee
from bondic.core.dual.noise import NoiseBound, NoiseFacts, log_over, tail
from bondic.core.errors import InvalidInput
from bondic.core.registry import register
from bondic_lab.noise.charges import charge


@register("noise", "fixed-lambda")
@dataclass(frozen=True)
class FixedLambda(NoiseBound):
    """n eps = ( log(2/delta) + lambda^2 sum_i B_i^2 k(x_i, x_i) / 8 ) / lambda, lambda fixed beforehand.

    It holds at every stopping time n and with the actual widths and diagonal, because exp(-lambda^2 B_i^2 k_ii / 8)
    is charged row by row. `planned` makes the lambda that is best for a planned number of rows.
    """

    rate: float  # lambda
    any_time: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", float(self.rate))
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise InvalidInput(f"lambda must be positive and finite, not {self.rate}.")

    @staticmethod
    def planned(rows: int, *, probability: float, sup_diag: float, mean_square_width: float) -> FixedLambda:
        """lambda = sqrt( 8 log(2/delta) / (n K_max mean B^2) ) for a planned n; any number is valid."""
        if rows < 1:
            raise InvalidInput(f"The planned number of rows is at least 1, not {rows}.")
        size = rows * sup_diag * mean_square_width
        rate = math.sqrt(8.0 * math.log(2.0 / probability) / size) if size > 0 else 1.0
        return FixedLambda(min(max(rate, 1e-300), 1e300))

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    def _charge(self, facts: NoiseFacts) -> Enclosure:
        return Enclosure(self.rate) * self.rate * charge(facts) * 0.125

    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        total = log_over(2.0, probability) + self._charge(facts)
        return total / self.rate / float(facts.count)

    def p_value(self, facts: NoiseFacts, epsilon: float) -> float:
        """log(2/p) = lambda n eps - lambda^2 sum B_i^2 k_ii / 8."""
        product = Enclosure(self.rate) * float(facts.count) * epsilon
        return tail((product - self._charge(facts)).lower)

    def describe(self) -> str:
        return (
            f"Hilbert-space Hoeffding bound with lambda = {self.rate:.6g}; n was fixed beforehand, or is a "
            "stopping time that lambda and the first certified row do not depend on"
        )
