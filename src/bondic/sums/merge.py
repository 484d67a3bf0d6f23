"""Points that occur several times are summed once: in a trajectory s'_i is s_{i+1}."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def merge_points(points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Add up the weights of equal points: (distinct points, their weights, relative error of the additions).

    The error is relative to the sum of absolute weights of a point. Sums run in extended precision where the
    platform has it; the error is charged either way. Bitwise equality decides, so 0.0 and -0.0 stay apart.
    """
    if points.shape[0] < 2 or points.shape[1] == 0:
        return points, weights, 0.0
    rows = np.ascontiguousarray(points)
    packed = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
    if first.size == rows.shape[0]:
        return points, weights, 0.0
    order = np.argsort(inverse, kind="stable")
    starts = np.searchsorted(inverse[order], np.arange(first.size))
    longest = int(np.diff(np.append(starts, rows.shape[0])).max())
    merged = np.empty((first.size, weights.shape[1]))
    for column, out in zip(weights.T, merged.T, strict=True):  # one at a time: extended precision takes twice the room
        out[:] = np.add.reduceat(column[order].astype(np.longdouble), starts)
    error = 2.0 * (longest * float(np.finfo(np.longdouble).eps) + float(np.finfo(np.float64).eps))
    return rows[first], merged, error
