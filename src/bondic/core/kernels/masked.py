"""Time mask: functions that vanish from the horizon on (section 12)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import FloatArray, Leaf, PointPart
from bondic.core.registry import register


@register("kernel", "time-mask")
@dataclass(frozen=True, eq=False)
class TimeMask(Leaf):
    """k(t, u) = 1[t < H] 1[u < H]: multiplied to a kernel it makes q(., t >= H) = 0.  K_max = 1.

    Parameters
    ----------
    horizon : int
        H: the number of steps; nothing is earned at time H or later.
    on : {"time"}
        It acts on time only.
    """

    horizon: int
    on: PointPart = "time"

    def __post_init__(self) -> None:
        if self.on != "time":
            raise InvalidInput(f"A time mask acts on time, not on {self.on!r}.")
        whole = isinstance(self.horizon, Real) and not isinstance(self.horizon, bool) and math.isfinite(self.horizon)
        if not (whole and self.horizon >= 1 and self.horizon == int(self.horizon)):
            raise InvalidInput(f"The horizon is a whole number of steps >= 1, not {self.horizon!r}.")
        object.__setattr__(self, "horizon", int(self.horizon))

    @property
    def sup_diag(self) -> float:
        return 1.0

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.outer(x[:, 0] < self.horizon, y[:, 0] < self.horizon).astype(np.float64)

    def diag(self, x: FloatArray) -> FloatArray:
        return np.asarray(x[:, 0] < self.horizon, dtype=np.float64)

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        del x, y
        return 0.0

    def __repr__(self) -> str:
        return f"TimeMask({self.horizon})"
