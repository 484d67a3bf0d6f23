"""Points that occur several times are summed once: in a trajectory s'_i is s_{i+1}."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_ODD = np.uint64(0x9E3779B97F4A7C15)


def merge_points(points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Add up the weights of equal points: (distinct points, their weights, relative error of the additions).

    The error is relative to the sum of absolute weights of a point. Sums run in extended precision where the
    platform has it; the error is charged either way. Bitwise equality decides, so 0.0 and -0.0 stay apart. Points come in the
    order of their first appearance.
    """
    if points.shape[0] < 2 or points.shape[1] == 0:
        return points, weights, 0.0
    rows = np.ascontiguousarray(points)
    order, starts = equal_rows(rows.view(np.uint64))
    if starts.size == rows.shape[0]:
        return points, weights, 0.0
    lengths = np.diff(np.append(starts, rows.shape[0]))
    longest, appearing = int(lengths.max()), np.argsort(order[starts])
    first = order[starts[appearing]]
    if longest == 2:  # one rounding each
        twice = np.flatnonzero(lengths[appearing] == 2)
        merged = weights.take(first, axis=0)
        merged[twice] += weights.take(order[starts[appearing[twice]] + 1], axis=0)
    else:
        merged = np.empty((starts.size, weights.shape[1]))
        for column, out in zip(weights.T, merged.T, strict=True):  # one at a time: extended precision takes more room
            out[:] = np.add.reduceat(column[order].astype(np.longdouble), starts)[appearing]
    error = 2.0 * (longest * float(np.finfo(np.longdouble).eps) + float(np.finfo(np.float64).eps))
    return rows.take(first, axis=0), merged, error


def equal_rows(bits: npt.NDArray[np.uint64]) -> tuple[IntArray, IntArray]:
    """An order that puts equal rows together, earlier ones first, and where in it each group begins.

    Rows are sorted by a hash; where two different rows have the same one, by their content.
    """
    keys = np.zeros(bits.shape[0], dtype=np.uint64)
    for column in bits.T:
        keys ^= column
        keys *= _ODD
        keys ^= keys >> np.uint64(32)
    order = np.argsort(keys, kind="stable")
    changes = _changes(bits, order)
    if np.any(changes & (keys[order[1:]] == keys[order[:-1]])):
        order = np.lexsort(bits.T)
        changes = _changes(bits, order)
    return order, np.flatnonzero(np.concatenate([[True], changes]))


def _changes(bits: npt.NDArray[np.uint64], order: IntArray) -> npt.NDArray[np.bool_]:
    """Whether a row differs from the one before it in this order."""
    found = np.zeros(order.size - 1, dtype=bool)
    for column in bits.T:
        sorted_column = column[order]
        found |= sorted_column[1:] != sorted_column[:-1]
    return found
