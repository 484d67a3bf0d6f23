"""Self-normalized bound (12): the noise of ω is paid in the root mean square of its weights, not in its norm alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from bondic.core.bounded import Enclosure
from bondic.core.claims import Guarantee
from bondic.core.dual.noise import NoiseBound, NoiseFacts, Weights, charge, log_over, tail
from bondic.core.errors import InvalidInput
from bondic.core.registry import register
from bondic_lab.noise.charges import information

SHARE = 0.05
"""rho of `planned`, as a share of what the squares of ω can add up to: measured on the theory page; any other is valid."""
_SMALLEST, _LARGEST = 1e-9, 1e15


@register("noise", "self-normalized")
@dataclass(frozen=True)
class SelfNormalized(NoiseBound):
    """n N(ω) = (1/2) sqrt( 2 log(1/delta) + log det(I + V/tau) ) sqrt( sum_i B_i^2 ω_i^2 + tau |ω|^2 ), tau = rho B^2.

    V = sum_i B_i^2 phi_i phi_i^T, B the largest width. With one width for all rows this is (12),
    (B/2) sqrt( 2 log(1/delta) + log det(I + K/rho) ) sqrt( sum_i ω_i^2 + rho |ω|^2 ), K the kernel matrix of the rows.
    It holds for all ω and at every stopping time. A small rho allows for the weights at the rows rather than for the
    norm of ω, but for more directions of it. `planned` makes a rho that is good for a planned number of rows.

    Parameters
    ----------
    ridge : float
        rho > 0, in rows: fixed before the certified rows, and not by their number where that is a stopping time.
    """

    ridge: float
    any_time: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "ridge", float(self.ridge))
        if not _SMALLEST <= self.ridge <= _LARGEST:
            raise InvalidInput(f"rho must lie in [{_SMALLEST:g}, {_LARGEST:g}], in rows, not be {self.ridge}.")

    @staticmethod
    def planned(rows: int, *, sup_diag: float, mean_square_width: float, largest_width: float) -> SelfNormalized:
        """rho = SHARE n K_max mean B^2 / B^2 for a planned n; any number is valid."""
        if rows < 1:
            raise InvalidInput(f"The planned number of rows is at least 1, not {rows}.")
        ratio = mean_square_width / largest_width**2 if largest_width > 0 else 1.0
        return SelfNormalized(min(max(SHARE * rows * sup_diag * ratio, _SMALLEST), _LARGEST))

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    def penalty(self, facts: NoiseFacts) -> tuple[float, float]:
        return self._tau(facts), charge(facts).mid

    def _tau(self, facts: NoiseFacts) -> float:
        """The same float wherever it is used."""
        return max(self.ridge * facts.largest_width * facts.largest_width, 1e-290)

    def _log_det(self, facts: NoiseFacts) -> Enclosure:
        return information(facts).log_det(self._tau(facts))

    def _times(self, square: Enclosure, facts: NoiseFacts, probability: float) -> Enclosure:
        level = 2.0 * log_over(1.0, probability) + self._log_det(facts)
        return level.sqrt() * square.sqrt() / float(2 * facts.count)

    def _square(self, weights: Weights, facts: NoiseFacts) -> Enclosure:
        """sum_i B_i^2 ω_i^2 + tau |ω|^2."""
        return Enclosure(weights.squares) + weights.norm * weights.norm * self._tau(facts)

    def bound(self, weights: Weights, facts: NoiseFacts, probability: float) -> Enclosure:
        if weights.norm.upper <= math.ulp(0.0):
            return Enclosure(0.0)
        return self._times(self._square(weights, facts), facts, probability)

    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        """The largest bound over |ω| <= 1, or a little more: ω_i^2 <= k(x_i, x_i)."""
        return self._times(charge(facts) + self._tau(facts), facts, probability)

    def level(self, weights: Weights, facts: NoiseFacts, size: float) -> float:
        if weights.norm.upper <= math.ulp(0.0):
            return 1.0
        return self._level(self._square(weights, facts), facts, size)

    def p_value(self, facts: NoiseFacts, epsilon: float) -> float:
        return self._level(charge(facts) + self._tau(facts), facts, epsilon)

    def _level(self, square: Enclosure, facts: NoiseFacts, size: float) -> float:
        """log(1/p) = ( (2 n size)^2 / square - log det ) / 2."""
        if size <= 0:
            return 1.0
        scaled = Enclosure(size) * float(2 * facts.count)
        exponent = 0.5 * (scaled * scaled / square - self._log_det(facts))
        return tail(exponent.lower, 1)

    def describe(self) -> str:
        return (
            f"self-normalized bound with rho = {self.ridge:.6g}; n was fixed beforehand, or is a stopping time that rho and "
            "the first certified row do not depend on"
        )
