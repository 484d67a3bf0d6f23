"""Q as a ball in the span of finitely many functions: what a rough value function is compared with, around a fitted center."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from bondic.classes.basis import LandmarkBasis, kernel_sizes, landmark_values
from bondic.classes.provenance import Provenance
from bondic.classes.value_class import Origin, Progress, ValueClass, check_origin
from bondic.codec import check_outside
from bondic.errors import InvalidInput
from bondic.functions.functions import Function
from bondic.kernels.base import Kernel
from bondic.kernels.normal_form import Layout, normal_form
from bondic.kernels.outside import check_kernel
from bondic.matrices import gamma, norm
from bondic.registry import register
from bondic.rounding import Enclosure, U, inflate
from bondic.sums.forms import Sums
from bondic.sums.measure import Measure, Source

FloatArray = npt.NDArray[np.float64]


@register("class", "span")
@dataclass(frozen=True, eq=False)
class Span(ValueClass):
    """Q = { center + sum_j theta_j b_j : |theta| <= radius },  b_j = sum_l M_jl k̃(z_l, .): a ball in a space of m dimensions.

    It assumes more than a ball of the whole kernel space: besides the size of q* - center also that m functions suffice.

    Parameters
    ----------
    kernel : Kernel
        k̃, whose bumps at the landmarks the functions are made of.
    basis : LandmarkBasis
        Landmarks and M.
    radius : float
        Largest |theta|, in units of value.
    center : Function, default None
        The function in the middle; None is the function 0.
    provenance : Provenance
        Where all of it comes from; shown with the result.
    origin : {"stated", "chosen"}, default "stated"
        Who named the class, you or the library.
    """

    kernel: Kernel
    basis: LandmarkBasis
    radius: float
    center: Function | None = None
    provenance: Provenance = field(default_factory=Provenance)
    origin: Origin = "stated"

    def __post_init__(self) -> None:
        check_origin(self.origin)
        check_kernel(self.kernel)
        if self.center is not None:
            check_outside(self.center, "center")
        object.__setattr__(self, "radius", float(self.radius))
        if not (math.isfinite(self.radius) and self.radius >= 0):
            raise InvalidInput(f"The radius of Q must be finite and >= 0, not {self.radius}.")

    @property
    def misspecification(self) -> float:  # type: ignore[override]
        return 0.0

    def sizes(self, source: Source, layout: Layout, sums: Sums, progress: Progress | None = None) -> list[Enclosure]:
        """|M k̃(z, μ)|: the largest sum_j theta_j <b_j, μ> with |theta| = 1."""
        del sums, progress
        found = self.moments(source, layout)
        return [
            Enclosure(float(np.linalg.norm(row)), inflate(error + gamma(row.size) * norm(row))) for row, error in found
        ]

    def moments(self, source: Source, layout: Layout) -> list[tuple[FloatArray, float]]:
        """<b_j, μ> for every measure of the source, (m,), and a bound of the length of the error."""
        totals, errors = np.zeros((source.groups, len(self.basis))), np.zeros(source.groups)
        for batch in source.batches():
            values, error = self._moments(batch, layout)
            totals += values
            errors += error + 2 * U * np.array([norm(row) for row in totals])
        scale, m = norm(np.abs(self.basis.matrix).sum(axis=1)), len(self.basis)
        return [
            (self.basis.matrix @ total, inflate((1 + 1e-9) * scale * (error + gamma(m) * float(np.abs(total).max()))))
            for total, error in zip(totals, errors, strict=True)
        ]

    def _moments(self, batch: Measure, layout: Layout) -> tuple[FloatArray, FloatArray]:
        """k̃(z_l, μ) for every weighting of a batch, (groups, m), and a bound of the error of each."""
        terms = normal_form(self.kernel, layout)
        out, errors = np.zeros((batch.groups, len(self.basis))), np.zeros(batch.groups)
        if not batch.count:
            return out, errors
        size, error = kernel_sizes(terms, batch.points, self.basis, layout)
        for g, weights in enumerate(batch.weights):
            for part in _parts(batch.count):
                out[g] += landmark_values(terms, batch.points[part], weights[part], self.basis).sum(axis=0)
            mass = float(np.abs(weights).sum()) * (1 + gamma(weights.size))
            errors[g] = inflate(mass * (error + (size + error) * (batch.error + gamma(batch.count))))
        return out, errors

    def describe(self) -> str:
        return (
            f"within distance {self.radius:.6g} of {self.center_text()} in the span of {len(self.basis)} functions of "
            f"{self.kernel!r}. Data can reject this, not prove it."
        )

    def name(self) -> str:
        return f"span of {len(self.basis)} functions of {self.kernel!r}, radius {self.radius:g}"

    def with_misspecification(self, beta: float) -> Span:
        raise InvalidInput(f"A span has no allowance for misspecification ({beta:g}): use a Ball.")

    def work(self, points: float, layout: Layout) -> float:
        del layout
        return points * len(self.basis)

    def with_radius(self, radius: float) -> Span:
        return replace(self, radius=radius)


def _parts(count: int, size: int = 4096) -> Iterator[slice]:
    return (slice(top, top + size) for top in range(0, count, size))
