"""Hilbert-space Hoeffding gauge (9) with the constants of the paper and the smaller ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bondic.claims import Guarantee
from bondic.errors import InvalidInput
from bondic.noise.bound import Gauge, NoiseFacts, log_two_over, tail
from bondic.registry import register
from bondic.rounding import Enclosure, U

Constant = Literal["half", "range", "paper"]
_CONSTANTS = ("half", "range", "paper")


@register("noise", "pinelis")
@dataclass(frozen=True)
class Pinelis(Gauge):
    """eps_n = sqrt( 2 c log(2/delta) / n ), n fixed beforehand.

    Rows dropped beyond the horizon leave a random number n of N rows: they count as rows of weight 0, which gives
    eps = sqrt( 2 c log(2/delta) N ) / n.

    constant="half":  c = K_max B^2 / 4        (the noise is a scalar times a known vector; theory, noise page)
    constant="range": c = K_max B^2            (Pinelis' inequality for increments bounded by B)
    constant="paper": c = 4 K_max r_max^2 / (1 - gamma)^2, with max |v| of a stated value range in place of
                      r_max / (1 - gamma) where that is smaller
    """

    constant: Constant = "half"

    def __post_init__(self) -> None:
        if self.constant not in _CONSTANTS:
            raise InvalidInput(f"constant={self.constant!r}; choose one of {', '.join(_CONSTANTS)}, or use PlugIn(c).")

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    def variance(self, facts: NoiseFacts) -> Enclosure:
        """The constant c."""
        sup = Enclosure(facts.sup_diag, 64 * U * facts.sup_diag)
        if self.constant == "paper":
            size = facts.largest_value
            return 4.0 * sup * size * size
        width = Enclosure(facts.largest_width)
        factor = 0.25 if self.constant == "half" else 1.0
        return factor * sup * width * width

    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        return (2.0 * self.variance(facts) * log_two_over(probability) * float(facts.fixed_count)).sqrt() / float(
            facts.count
        )

    def level(self, facts: NoiseFacts, observed: float) -> float:
        """p = 2 exp( -n^2 eps^2 / (2 c N) ), N = n unless rows were dropped."""
        if observed <= 0:
            return 1.0
        variance = self.variance(facts).upper
        if variance == 0:
            return 0.0
        scaled = facts.count * observed
        return tail(scaled * scaled / (2.0 * facts.fixed_count * variance))

    def describe(self) -> str:
        return f"Hilbert-space Hoeffding bound, constant '{self.constant}'; n was fixed beforehand"
