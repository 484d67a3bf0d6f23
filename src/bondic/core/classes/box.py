"""Q as a box: every function with values in a range. With the value range (6) it holds q* and nothing is assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

from bondic.core.bounded import Enclosure
from bondic.core.classes.provenance import Provenance
from bondic.core.classes.value_class import Progress, ValueClass, constant_function, constant_value
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function
from bondic.core.kernels.normal_form import Layout
from bondic.core.registry import register
from bondic.core.sums.forms import Sums
from bondic.core.sums.measure import Source
from bondic.core.terms import ValueRange


@register("class", "box")
@dataclass(frozen=True, eq=False)
class Box(ValueClass):
    """Q = { q : |q(x) - center(x)| <= radius at every point }: the ball of the largest deviation.

    Its dual norm is the total variation sum_x |μ_ω(x)| over distinct points, so the bias is small only where the
    log repeats its points: tables. There is no misspecification to allow for.

    Parameters
    ----------
    radius : float
        The largest |q(x) - center(x)|, in units of value: half the width of the value range where nothing is assumed.
    center : Function, default None
        The function in the middle; None is the function 0. `around` makes the middle of a range.
    provenance : Provenance
        Where the radius comes from; shown with the result.
    """

    radius: float
    center: Function | None = None
    provenance: Provenance = field(default_factory=Provenance)
    doubtful: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", float(self.radius))
        if not (math.isfinite(self.radius) and self.radius >= 0):
            raise InvalidInput(f"The half-width of a box must be finite and >= 0, not {self.radius}.")

    @property
    def misspecification(self) -> float:  # type: ignore[override]
        return 0.0

    @staticmethod
    def around(low: float, high: float, layout: Layout) -> Box:
        """The smallest box, up to rounding, that holds every function with values in [low, high]."""
        middle = 0.5 * low + 0.5 * high
        radius = max((Enclosure(high) - middle).upper, (Enclosure(middle) - low).upper, 0.0)
        return Box(radius, constant_function(middle, layout), Provenance("the value range"))

    def sizes(self, source: Source, layout: Layout, sums: Sums, progress: Progress | None = None) -> list[Enclosure]:
        """sum_x |μ(x)|."""
        del layout, progress
        return sums.total_variations(source)

    def describe(self) -> str:
        return f"within {self.radius:.6g} of {self.center_text()} at every point."

    def name(self) -> str:
        return f"box of half-width {self.radius:g}"

    def with_misspecification(self, beta: float) -> Box:
        del beta
        return self

    def assumes_nothing(self, limits: ValueRange) -> bool:
        """Whether every function with values in `limits` is certainly in it; only constant centers are judged."""
        middle = constant_value(self.center)
        if middle is None:
            return False
        return max((Enclosure(limits.high) - middle).upper, (Enclosure(middle) - limits.low).upper) <= self.radius

    def work(self, points: float, layout: Layout) -> float:
        """Points are sorted."""
        del layout
        return 64.0 * points

    def with_radius(self, radius: float) -> Box:
        return replace(self, radius=radius)
