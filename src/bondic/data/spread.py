"""Some rows of many, evenly spread, without a rhythm of their own.

Row k q + floor(q {k phi}) of every stretch of q rows, {k phi} the fractional parts of multiples of the golden ratio. Every
q-th row would see a log of period q (or of a divisor) at one phase only. These offsets are equidistributed jointly with k
modulo any period (Weyl), so every phase of every short period gets its share. No value of the log is looked at.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 / phi: whole numbers, so that every machine picks the same rows."""


def offsets(count: int) -> npt.NDArray[np.float64]:
    """The first `count` fractional parts, in [0, 1)."""
    return np.asarray(((np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN) >> np.uint64(11)) * 2.0**-53)


def spread_rows(rows: int, most: int) -> npt.NDArray[np.int64]:
    """At most `most` of the rows 0..rows-1, in order; all of them if they are no more."""
    stretch = max(1, -(-rows // most))
    tops = np.arange(0, rows, stretch, dtype=np.int64)
    lengths = np.minimum(stretch, rows - tops)
    return np.asarray(tops + np.floor(lengths * offsets(tops.size)).astype(np.int64))
