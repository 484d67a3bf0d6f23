"""Q: the ball of functions that must contain q* (section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from numbers import Real

from bondic.core.bounded import Enclosure
from bondic.core.classes.provenance import Provenance
from bondic.core.classes.value_class import Progress, ValueClass
from bondic.core.codec import check_outside
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.checks import check_kernel
from bondic.core.kernels.normal_form import Layout, normal_form, operations
from bondic.core.registry import register
from bondic.core.sums.forms import Sums
from bondic.core.sums.measure import Source


@register("class", "ball")
@dataclass(frozen=True, eq=False)
class Ball(ValueClass):
    """Q = { q : |q - center| <= radius } in the RKHS of `kernel`; center 0 unless given.

    q* in Q is an assumption: it can be rejected by data but not proved. `misspecification` = beta >= 0 weakens it to "some q
    in Q is within beta of q* everywhere".

    Parameters
    ----------
    kernel : Kernel
        k̃: says which functions are smooth, hence have a small norm.
    radius : float
        r_Q, the largest norm of q - center, in units of value. Twice the radius gives at most twice the bias.
    center : Function, default None
        The function in the middle; None is the function 0.
    misspecification : float, default 0
        beta, in units of value: how far q* may be from Q anywhere. It widens the interval.
    provenance : Provenance
        Where kernel and radius come from; shown with the result.
    """

    kernel: Kernel
    radius: float
    center: Function | None = None
    misspecification: float = 0.0
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        check_kernel(self.kernel)
        if self.center is not None:
            check_outside(self.center, "center")
        for name in ("radius", "misspecification"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise InvalidInput(f"`{name}` of Q is {value!r}; a number is needed.")
            object.__setattr__(self, name, float(value))
        if not (math.isfinite(self.radius) and self.radius >= 0):
            raise InvalidInput(f"The radius of Q must be finite and >= 0, not {self.radius}.")
        if not (math.isfinite(self.misspecification) and self.misspecification >= 0):
            raise InvalidInput(f"The misspecification allowance must be finite and >= 0, not {self.misspecification}.")

    def sizes(self, source: Source, layout: Layout, sums: Sums, progress: Progress | None = None) -> list[Enclosure]:
        """|μ| = sqrt( sum_ij c_i k̃(x_i, x_j) c_j ) (7)."""
        return [square.sqrt() for square in sums.squares(normal_form(self.kernel, layout), source, progress)]

    def describe(self) -> str:
        allowance = f", up to {self.misspecification:g} everywhere" if self.misspecification else ""
        return (
            f"within distance {self.radius:.6g} of {self.center_text()} in the space of {self.kernel!r}{allowance}. Data can "
            "reject this but not prove it."
        )

    def name(self) -> str:
        return f"{self.kernel!r}, radius {self.radius:g}"

    def with_misspecification(self, beta: float) -> Ball:
        return replace(self, misspecification=beta)

    def work(self, points: float, layout: Layout) -> float:
        return operations(self.kernel, layout) * points * points / 2

    def with_radius(self, radius: float) -> Ball:
        return replace(self, radius=radius)
