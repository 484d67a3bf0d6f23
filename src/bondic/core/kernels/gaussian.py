"""Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic.core.bounded import U
from bondic.core.codec import Numbers
from bondic.core.kernels.base import (
    NUMPY_ULP,
    FloatArray,
    Leaf,
    PointPart,
    check_part,
    listed,
    scale_vector,
    scaled_squares,
)
from bondic.core.registry import register


@register("kernel", "gaussian")
@dataclass(frozen=True, eq=False)
class Gaussian(Leaf):
    """k(x, y) = exp( -1/2 sum_l ((x_l - y_l) / h_l)^2 ),  K_max = 1.

    Parameters
    ----------
    bandwidth : float or array of float
        The length h over which values stay similar, in the units of the columns: one number, or one per column.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
    """

    bandwidth: Numbers
    on: PointPart = "observation"

    def __post_init__(self) -> None:
        check_part(self.on)
        object.__setattr__(self, "bandwidth", scale_vector(self.bandwidth, "bandwidth"))

    @property
    def sup_diag(self) -> float:
        return 1.0

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        squares = scaled_squares(x, y, self.bandwidth)
        squares *= -0.5
        return np.asarray(np.exp(squares, out=squares))

    def diag(self, x: FloatArray) -> FloatArray:
        return np.ones(x.shape[0])

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        """t e^-t <= 0.368 times the relative error (d + 6) U of the exponent, plus the exponential's own."""
        del y
        return float((0.37 * (x.shape[1] + 8) + NUMPY_ULP) * U)

    def __repr__(self) -> str:
        return f"Gaussian({listed(self.bandwidth)}, on={self.on!r})"
