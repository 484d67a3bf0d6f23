"""Q as a box: every function with values in a range. With the value range (6) it holds q* and nothing is assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from bondic.classes.provenance import Provenance
from bondic.classes.value_class import Origin, ValueClass, check_origin
from bondic.errors import InvalidInput
from bondic.functions.functions import FeatureFunction, Function
from bondic.kernels.constant import Constant
from bondic.kernels.normal_form import Layout
from bondic.registry import register
from bondic.rounding import Enclosure


def constant_function(value: float, layout: Layout) -> Function | None:
    """The function that is `value` everywhere; None for 0."""
    return None if value == 0 else FeatureFunction(Constant(1.0), layout, np.array([value]))


def constant_value(function: Function | None) -> float | None:
    """The value of a function that is constant by construction; None for any other."""
    if function is None or function.is_zero:
        return 0.0
    if isinstance(function, FeatureFunction) and isinstance(function.kernel, Constant) and function.kernel.value == 1.0:
        return float(function.coordinates[0])
    return None


@register("class", "box")
@dataclass(frozen=True, eq=False)
class Box(ValueClass):
    """Q = { q : |q(x) - center(x)| <= radius at every point }: the ball of the largest deviation.

    Its dual norm is the total variation sum_x |mu_omega(x)| over distinct points, so the bias is small only where the
    log repeats its points: tables. There is no misspecification to allow for.
    """

    radius: float
    center: Function | None = None
    provenance: Provenance = field(default_factory=Provenance)
    origin: Origin = "stated"

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", float(self.radius))
        check_origin(self.origin)
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

    def holds(self, low: float, high: float) -> bool:
        """Whether every function with values in [low, high] is certainly in it; only constant centers are judged."""
        middle = constant_value(self.center)
        if middle is None:
            return False
        return (Enclosure(high) - middle).upper <= self.radius and (Enclosure(middle) - low).upper <= self.radius

    def with_radius(self, radius: float) -> Box:
        return replace(self, radius=radius)
