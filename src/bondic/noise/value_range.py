"""B_i: widths of the value range (6) per row, the size of the noise of a row."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bondic.terms import Terms
from bondic.value_range import ValueRange, discounted_steps, implied_range, largest_width, range_of, value_range

FloatArray = npt.NDArray[np.float64]
_MOST_WIDTHS = 65536


def row_widths(terms: Terms, times: npt.NDArray[np.int64] | None, count: int) -> FloatArray:
    """B_i: a bound of |R^q*_i| and of its conditional range, per row (per time when the horizon is finite)."""
    if terms.horizon is None or times is None:
        return np.full(count, range_of(terms).width)
    distinct, position = np.unique(times, return_inverse=True)
    table = [_width(terms, int(time)) for time in distinct]
    return np.asarray(np.array(table)[position])


@lru_cache(maxsize=_MOST_WIDTHS)
def _width(terms: Terms, time: int) -> float:
    """B_t; times so far before the horizon H that gamma^(H - t) no longer shows share one.

    Both ends of the range are monotone in t, so the hull of the first and the last of these times contains the ranges
    of all; and no range is wider than the one that the reward range implies at time 0.
    """
    assert terms.horizon is not None
    last = terms.horizon - _steps_that_show(terms.gamma, terms.horizon)
    if time > last:
        return range_of(terms, time).width
    return _far_width(terms, last)


@lru_cache(maxsize=64)
def _far_width(terms: Terms, last: int) -> float:
    return min(implied_range(terms).width, range_of(terms).hull(range_of(terms, last)).width)


def _steps_that_show(gamma: float, horizon: int) -> int:
    """From this many steps left on, one step more changes s_k by less than 2^-60 of it; whatever it is, bounds hold."""
    if gamma >= 1.0:
        return horizon + 1
    return 1 if gamma <= 2.0**-60 else math.ceil(60 * math.log(2.0) / -math.log(gamma))


__all__ = ["ValueRange", "discounted_steps", "largest_width", "range_of", "row_widths", "value_range"]
