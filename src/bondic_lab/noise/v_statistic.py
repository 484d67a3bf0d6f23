"""The O(n^-1/4) threshold for independent rows: Hoeffding's bound for the V-statistic L_W(q*)^2 (Feng et al. 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from bondic.core.bounded import Enclosure, U
from bondic.core.claims import Guarantee
from bondic.core.dual.noise import NoiseBound, NoiseFacts, log_over
from bondic.core.errors import InvalidInput
from bondic.core.registry import register


@register("noise", "v-statistic")
@dataclass(frozen=True)
class VStatistic(NoiseBound):
    """eps^2 = l ( 2 (n-1)/n sqrt( log(c/delta) / n ) + 1/n ), rows independent and identically distributed.

    L_W(q*)^2 = (1/n^2) sum_ij k(x_i, x_j) R_i R_j is (n-1)/n times a U-statistic of mean 0 plus a diagonal of at most
    l / n, where |k R_i R_j| <= l. Hoeffding's bound for U-statistics of order 2 averages floor(n/2) independent terms
    of range 2 l, so n under the root is really 2 floor(n/2). The upper side alone is needed: c = 1. Dropped rows count
    as rows of residual 0, as in the other bounds.

    constant="range": l = K_max B^2, c = 1;  constant="paper": l = 4 K_max r_max^2 / (1 - gamma)^2, c = 2 (with
    max |v| of a stated value range in place of r_max / (1 - gamma) where that is smaller).

    Parameters
    ----------
    constant : {"range", "paper"}, default "paper"
        One of those above; "range" is the smaller.
    """

    constant: Literal["range", "paper"] = "paper"

    def __post_init__(self) -> None:
        if self.constant not in ("range", "paper"):
            raise InvalidInput(f"constant={self.constant!r}; choose 'range' or 'paper'.")

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    @property
    def _sides(self) -> float:
        return 2.0 if self.constant == "paper" else 1.0

    def largest(self, facts: NoiseFacts) -> Enclosure:
        """The constant l, a bound of |k(x, y) R R'|."""
        sup = Enclosure(facts.sup_diag, 64 * U * facts.sup_diag)
        if self.constant == "paper":
            size = facts.largest_value
            return 4.0 * sup * size * size
        return sup * facts.largest_width * facts.largest_width

    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        n = facts.fixed_count
        square = Enclosure(1.0) / float(n)
        if n > 1:
            root = (log_over(self._sides, probability) / float(2 * (n // 2))).sqrt()
            square = square + Enclosure(2.0) * root * float(n - 1) / float(n)
        return (self.largest(facts) * square).sqrt() * float(n) / float(facts.count)

    def p_value(self, facts: NoiseFacts, epsilon: float) -> float:
        """The probability whose eps this is: c exp( -2 floor(n/2) u^2 ), u = (eps^2 / l - 1/n) n / (2 (n-1))."""
        n, size = facts.fixed_count, self.largest(facts).upper
        if epsilon <= 0 or size <= 0 or n < 2:
            return 1.0
        shrunk = epsilon * facts.count / n * (1 - 1e-12)
        u = (shrunk * shrunk / size - (1 + 1e-12) / n) * n / (2.0 * (n - 1))
        if u <= 0:
            return 1.0
        return min(1.0, self._sides * math.exp(-2.0 * (n // 2) * u * u * (1 - 1e-12)) * (1 + 1e-9) + math.ulp(0.0))

    def describe(self) -> str:
        return (
            f"Hoeffding bound for the V-statistic of the kernel Bellman loss, constant '{self.constant}', "
            "for independent, identically distributed rows whose number was fixed beforehand"
        )
