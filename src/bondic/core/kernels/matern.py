"""Matérn kernels of smoothness 1/2, 3/2 and 5/2."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bondic.core.bounded import U
from bondic.core.codec import Numbers
from bondic.core.errors import InvalidInput
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

# max over rho of |rho f'(rho)|, rounded up: how a relative error of rho moves the kernel value.
_SENSITIVITY = {0.5: 0.37, 1.5: 0.55, 2.5: 0.61}


@register("kernel", "matern")
@dataclass(frozen=True, eq=False)
class Matern(Leaf):
    """k(x, y) = f(rho), rho = sqrt(2 nu) |(x - y) / h|,  K_max = 1.

    f = e^-rho (nu = 1/2), (1 + rho) e^-rho (nu = 3/2), (1 + rho + rho^2 / 3) e^-rho (nu = 5/2).

    Parameters
    ----------
    bandwidth : float or array of float
        The length h over which values stay similar, in the units of the columns: one number, or one per column.
    nu : {0.5, 1.5, 2.5}, default 2.5
        Smoothness: larger is smoother. 0.5 allows kinks, 2.5 has two derivatives.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
    """

    bandwidth: Numbers
    nu: float = 2.5
    on: PointPart = "observation"

    def __post_init__(self) -> None:
        check_part(self.on)
        if self.nu not in _SENSITIVITY:
            raise InvalidInput(f"Matérn smoothness nu = {self.nu} has no elementary formula here; use 0.5, 1.5 or 2.5.")
        object.__setattr__(self, "bandwidth", scale_vector(self.bandwidth, "bandwidth"))

    @property
    def sup_diag(self) -> float:
        return 1.0

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        rho = np.sqrt(scaled_squares(x, y, self.bandwidth)) * math.sqrt(2 * self.nu)
        decay = np.exp(-rho)
        if self.nu == 0.5:
            return np.asarray(decay)
        polynomial = 1.0 + rho if self.nu == 1.5 else 1.0 + rho + rho * rho / 3.0
        # where exp underflows to 0 the polynomial may have overflowed: the product is 0 either way
        return np.asarray(np.where(decay == 0.0, 0.0, polynomial * decay))

    def diag(self, x: FloatArray) -> FloatArray:
        return np.ones(x.shape[0])

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        """rho has relative error (d/2 + 6) U; the polynomial adds 5 U and the exponential its own."""
        del y
        return float((_SENSITIVITY[self.nu] * (0.5 * x.shape[1] + 7) + NUMPY_ULP + 6) * U)

    def __repr__(self) -> str:
        return f"Matern({listed(self.bandwidth)}, nu={self.nu}, on={self.on!r})"
