"""Blocked NumPy engine: any kernel, plain formulas. The slow twin of the faster engines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bondic.kernels.normal_form import Term
from bondic.rounding import U

FloatArray = npt.NDArray[np.float64]
Progress = Callable[[float], None]

ROWS, COLUMNS = 256, 2048


def sum_error(count: int) -> float:
    """Relative error of one block's double sum, in any order of summation; block totals are summed exactly."""
    return (min(ROWS, count) + min(COLUMNS, count) + 8) * U


def block_sums(term: Term, points: FloatArray, columns: FloatArray, progress: Progress | None = None) -> FloatArray:
    """Totals of u_ip k(z_i, z_j) u_jp over blocks of (i, j), off-diagonal ones twice: (blocks, columns)."""
    count = points.shape[0]
    totals: list[FloatArray] = []
    for top in range(0, count, ROWS):
        rows = slice(top, min(top + ROWS, count))
        if progress is not None:
            progress(1.0 - (1.0 - top / count) ** 2)
        totals.append(_block(term, points, columns, rows, rows))
        others = [slice(left, min(left + COLUMNS, count)) for left in range(rows.stop, count, COLUMNS)]
        totals.extend(2.0 * _block(term, points, columns, rows, other) for other in others)
    return np.array(totals)


def _block(term: Term, points: FloatArray, columns: FloatArray, rows: slice, others: slice) -> FloatArray:
    values = term.block(points[rows], points[others])
    return np.asarray(np.sum(columns[rows] * (values @ columns[others]), axis=0))


def cross_sums(term: Term, x: FloatArray, y: FloatArray, columns: FloatArray) -> FloatArray:
    """K(x, y) C in blocks; every entry has relative error `sum_error` in its sum of absolute values, per block of y.

    Blocks of y are added in sequence; their number is charged by the caller.
    """
    out = np.zeros((x.shape[0], columns.shape[1]))
    for top in range(0, x.shape[0], ROWS):
        for left in range(0, y.shape[0], COLUMNS):
            values = term.block(x[top : top + ROWS], y[left : left + COLUMNS])
            out[top : top + ROWS] += values @ columns[left : left + COLUMNS]
    return out
