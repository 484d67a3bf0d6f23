"""Plug-in constant: what published figures seem to use. No guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bondic.core.bounded import Enclosure
from bondic.core.claims import Guarantee
from bondic.core.dual.noise import NoiseBound, NoiseFacts, root_bound, root_p_value
from bondic.core.errors import InvalidInput
from bondic.core.registry import register


@register("noise", "plug-in")
@dataclass(frozen=True)
class PlugIn(NoiseBound):
    """eps = sqrt( 2 c log(2/delta) / n ) with c estimated from residuals of a fitted q: NO finite-sample guarantee."""

    variance: float  # c

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", float(self.variance))
        if not (math.isfinite(self.variance) and self.variance >= 0):
            raise InvalidInput(f"The plugged-in constant must be finite and >= 0, not {self.variance}.")

    @property
    def guarantee(self) -> Guarantee:
        return "none"

    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        return root_bound(Enclosure(self.variance), facts, probability)

    def p_value(self, facts: NoiseFacts, epsilon: float) -> float:
        return root_p_value(Enclosure(self.variance), facts, epsilon)

    def describe(self) -> str:
        return f"plugged-in constant c = {self.variance:.6g} estimated from residuals: no finite-sample guarantee"
