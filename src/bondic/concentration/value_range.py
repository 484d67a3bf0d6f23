"""Value range (6): where q* and J* must lie, from the stated reward range alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.rounding import Enclosure, power_enclosure

FloatArray = npt.NDArray[np.float64]


def discounted_steps(gamma: float, steps: int | None) -> Enclosure:
    """s_k = 1 + gamma + ... + gamma^(k-1); 1 / (1 - gamma) for an infinite horizon."""
    if steps is None:
        return Enclosure(1.0) / (1.0 - Enclosure(gamma))
    if gamma == 1.0:
        return Enclosure(float(steps))
    return (1.0 - power_enclosure(gamma, steps)) / (1.0 - Enclosure(gamma))


@dataclass(frozen=True, slots=True)
class ValueRange:
    """[low, high] contains every value; both ends are rounded outward."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """B = v_hi - v_lo, rounded up."""
        return (Enclosure(self.high) - Enclosure(self.low)).upper if self.high > self.low else 0.0


def value_range(
    gamma: float, reward_range: tuple[float, float], *, may_terminate: bool, horizon: int | None = None, time: int = 0
) -> ValueRange:
    """Values of q* at time `time`: [r_lo, r_hi] s_{H - t}, hull with one reward when the process may terminate."""
    steps = None if horizon is None else max(horizon - time, 0)
    if steps == 0:
        return ValueRange(0.0, 0.0)
    weight = discounted_steps(gamma, steps)
    low, high = reward_range
    low_end, high_end = (low * weight).lower if low else 0.0, (high * weight).upper if high else 0.0
    if may_terminate:
        low_end, high_end = min(low, low_end), max(high, high_end)
    return ValueRange(low_end, high_end)


def row_widths(
    gamma: float,
    reward_range: tuple[float, float],
    *,
    may_terminate: bool,
    horizon: int | None,
    times: npt.NDArray[np.int64] | None,
    count: int,
) -> FloatArray:
    """B_i: a bound of |R^q*_i| and of its conditional range, per row (per time when the horizon is finite).

    B_t grows with the number of steps left, so the earliest of several times bounds them all: times so far before the
    horizon that gamma^(H - t) no longer shows share the width of the earliest of them.
    """
    if horizon is None or times is None:
        width = value_range(gamma, reward_range, may_terminate=may_terminate).width
        return np.full(count, width)
    distinct, position = np.unique(times, return_inverse=True)
    far = int(np.searchsorted(distinct, horizon - _steps_that_show(gamma, horizon), side="right"))
    asked = distinct if far < 2 else distinct[[0, *range(far, distinct.size)]]
    table = [
        value_range(gamma, reward_range, may_terminate=may_terminate, horizon=horizon, time=int(time)).width
        for time in asked
    ]
    return np.asarray(np.array([*[table[0]] * max(far - 1, 0), *table])[position])


def _steps_that_show(gamma: float, horizon: int) -> int:
    """From this many steps left on, one step more changes s_k by less than 2^-60 of it; whatever it is, bounds hold."""
    if gamma >= 1.0:
        return horizon + 1
    return 1 if gamma <= 2.0**-60 else math.ceil(60 * math.log(2.0) / -math.log(gamma))
