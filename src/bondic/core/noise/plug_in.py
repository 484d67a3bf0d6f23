"""Plug-in constant: what published figures seem to use. No guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bondic.core.bounded import Enclosure
from bondic.core.claims import Guarantee
from bondic.core.errors import InvalidInput
from bondic.core.noise.facts import NoiseFacts
from bondic.core.noise.pinelis import Root
from bondic.core.registry import register


@register("noise", "plug-in")
@dataclass(frozen=True)
class PlugIn(Root):
    """eps = sqrt( 2 c log(2/delta) / n ) with c estimated from residuals of a fitted q: NO finite-sample guarantee."""

    variance: float  # c

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", float(self.variance))
        if not (math.isfinite(self.variance) and self.variance >= 0):
            raise InvalidInput(f"The plugged-in constant must be finite and >= 0, not {self.variance}.")

    @property
    def guarantee(self) -> Guarantee:
        return "none"

    def proxy(self, facts: NoiseFacts) -> Enclosure:
        del facts
        return Enclosure(self.variance)

    def describe(self) -> str:
        return f"plugged-in constant c = {self.variance:.6g} estimated from residuals: no finite-sample guarantee"
