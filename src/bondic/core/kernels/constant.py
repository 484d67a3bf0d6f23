"""Constant offset: lets a ball contain functions with a large mean cheaply."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import FloatArray, Leaf, PointPart
from bondic.core.registry import register


@register("kernel", "constant")
@dataclass(frozen=True, eq=False)
class Constant(Leaf):
    """k(x, y) = c,  K_max = c.

    Parameters
    ----------
    value : float, default 1
        c > 0: how cheaply functions may have a level.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it. A constant
        looks at none of them.
    """

    value: float = 1.0
    on: PointPart = "observation"

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", float(self.value))
        if not (np.isfinite(self.value) and self.value > 0):
            raise InvalidInput(f"A constant kernel needs a positive value, not {self.value}.")

    @property
    def sup_diag(self) -> float:
        return float(self.value)

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.full((x.shape[0], y.shape[0]), self.value)

    def diag(self, x: FloatArray) -> FloatArray:
        return np.full(x.shape[0], self.value)

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        del x, y
        return 0.0

    def __repr__(self) -> str:
        return f"Constant({self.value:g})"
