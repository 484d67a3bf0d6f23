"""What is assumed about q*: a set of functions around a center, and how much a measure can weigh one of them (section 3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from bondic.core.bounded import Enclosure
from bondic.core.classes.provenance import Provenance
from bondic.core.functions import FeatureFunction, Function
from bondic.core.kernels.leaves import Constant
from bondic.core.kernels.normal_form import Layout
from bondic.core.registry import kind
from bondic.core.sums.forms import Sums
from bondic.core.sums.measure import Source
from bondic.core.terms import ValueRange

Progress = Callable[[float], None]


@dataclass(frozen=True)
class SupportAt:
    """How much a measure μ can weigh a function of a set E."""

    bias: Enclosure  # sup { <e, μ> : e in E }
    size: Enclosure  # the same for the set of radius 1: what a radius multiplies; the bias itself for a set without a radius


class Uncertainty(Protocol):
    """A set E that holds e = q* - center, known by its support function.

    `misspecification` = beta weakens q* in center + E to "some q in it is within beta of q* everywhere".
    """

    @property
    def center(self) -> Function | None: ...
    @property
    def misspecification(self) -> float: ...

    def support(self, source: Source, layout: Layout, sums: Sums, progress: Progress | None = None) -> list[SupportAt]:
        """The support function at every measure of the source."""


@kind("class")
class ValueClass(ABC):
    """Q = { q : |q - center| <= radius } for some norm: the bias of ω is at most radius times the dual norm of μ_ω."""

    radius: float
    center: Function | None
    misspecification: float
    provenance: Provenance
    doubtful: ClassVar[bool] = True
    """Whether the radius is a belief: it is then varied."""

    @abstractmethod
    def sizes(self, source: Source, layout: Layout, sums: Sums, progress: Progress | None = None) -> list[Enclosure]:
        """|μ| in the dual norm for every measure of the source."""

    def support(self, source: Source, layout: Layout, sums: Sums, progress: Progress | None = None) -> list[SupportAt]:
        """sup { <q - center, μ> : q in Q } = radius |μ|."""
        sizes = self.sizes(source, layout, sums, progress)
        return [SupportAt(Enclosure(self.radius) * size, size) for size in sizes]

    @abstractmethod
    def describe(self) -> str:
        """What it means that q* is in Q: "within ...", to the end of the sentence and what has to be said about it."""

    @abstractmethod
    def name(self) -> str:
        """Q in a few words."""

    @abstractmethod
    def with_misspecification(self, beta: float) -> ValueClass:
        """The same Q with this allowance, where there is anything to allow for."""

    def assumes_nothing(self, limits: ValueRange) -> bool:
        """Whether every function with values in `limits` is in Q."""
        del limits
        return False

    @abstractmethod
    def work(self, points: float, layout: Layout) -> float:
        """About how many pairs of points `sizes` runs over."""

    def center_text(self) -> str:
        value = constant_value(self.center)
        return f"the center {self.center!r}" if value is None else f"{value:.6g}"


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
