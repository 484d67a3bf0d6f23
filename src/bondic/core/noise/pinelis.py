"""Hilbert-space Hoeffding bound (9) with the constants of the paper and the smaller ones."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from bondic.core.bounded import Enclosure, U
from bondic.core.claims import Guarantee
from bondic.core.errors import InvalidInput
from bondic.core.noise.bound import Uniform, log_over, tail
from bondic.core.noise.facts import NoiseFacts
from bondic.core.registry import register

ConstantName = Literal["half", "range", "paper"]
_CONSTANTS = ("half", "range", "paper")


class Root(Uniform):
    """eps_n = sqrt( 2 c log(2/delta) / n ), n fixed beforehand.

    Rows dropped beyond the horizon leave a random number n of N rows: they count as rows of weight 0, which gives
    eps = sqrt( 2 c log(2/delta) N ) / n.
    """

    @abstractmethod
    def proxy(self, facts: NoiseFacts) -> Enclosure:
        """The constant c."""

    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        square = 2.0 * self.proxy(facts) * log_over(2.0, probability) * float(facts.fixed_count)
        return square.sqrt() / float(facts.count)

    def p_value(self, facts: NoiseFacts, epsilon: float) -> float:
        """p = 2 exp( -n^2 eps^2 / (2 c N) ), N = n unless rows were dropped."""
        if epsilon <= 0:
            return 1.0
        scaled = facts.count * epsilon
        return tail(
            scaled * scaled / (2.0 * facts.fixed_count * self.proxy(facts).upper)
        )  # a bound above 0, even for c = 0


@register("noise", "pinelis")
@dataclass(frozen=True)
class Pinelis(Root):
    """eps_n = sqrt( 2 c log(2/delta) / n ), n fixed beforehand.

    constant="half":  c = K_max B^2 / 4        (the noise is a scalar times a known vector; theory, noise page)
    constant="range": c = K_max B^2            (Pinelis' inequality for increments bounded by B)
    constant="paper": c = 4 K_max r_max^2 / (1 - gamma)^2, with max |v| of a stated value range in place of
                      r_max / (1 - gamma) where that is smaller
    """

    constant: ConstantName = "half"  # one of those above

    def __post_init__(self) -> None:
        if self.constant not in _CONSTANTS:
            raise InvalidInput(f"constant={self.constant!r}; choose one of {', '.join(_CONSTANTS)}, or use PlugIn(c).")

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    def proxy(self, facts: NoiseFacts) -> Enclosure:
        sup = Enclosure(facts.sup_diag, 64 * U * facts.sup_diag)
        if self.constant == "paper":
            size = facts.largest_value
            return 4.0 * sup * size * size
        width = Enclosure(facts.largest_width)
        factor = 0.25 if self.constant == "half" else 1.0
        return factor * sup * width * width

    def describe(self) -> str:
        return f"Hilbert-space Hoeffding bound, constant '{self.constant}'; n was fixed beforehand"
