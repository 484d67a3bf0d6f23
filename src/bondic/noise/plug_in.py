"""Plug-in constant: what published figures seem to use. No guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bondic.claims import Guarantee
from bondic.errors import InvalidInput
from bondic.noise.bound import Gauge, NoiseFacts, log_two_over, tail
from bondic.registry import register
from bondic.rounding import Enclosure


@register("noise", "plug-in")
@dataclass(frozen=True)
class PlugIn(Gauge):
    """eps = sqrt( 2 c log(2/delta) / n ) with c estimated from residuals of a fitted q: NO finite-sample guarantee."""

    variance: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", float(self.variance))
        if not (math.isfinite(self.variance) and self.variance >= 0):
            raise InvalidInput(f"The plugged-in constant must be finite and >= 0, not {self.variance}.")

    @property
    def guarantee(self) -> Guarantee:
        return "none"

    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        return (2.0 * Enclosure(self.variance) * log_two_over(probability) * float(facts.fixed_count)).sqrt() / float(
            facts.count
        )

    def level(self, facts: NoiseFacts, observed: float) -> float:
        if observed <= 0:
            return 1.0
        if self.variance == 0:
            return 0.0
        scaled = facts.count * observed
        return tail(scaled * scaled / (2.0 * facts.fixed_count * self.variance))

    def describe(self) -> str:
        return f"plugged-in constant c = {self.variance:.6g} estimated from residuals: no finite-sample guarantee"
