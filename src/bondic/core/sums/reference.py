"""The reference engine: every pair, any kernel, plain formulas in NumPy blocks. All others are compared with it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import U
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.engine import Crossed, Progress, Share, Survey
from bondic.core.sums.executor import Executor
from bondic.core.sums.spool import Direct

FloatArray = npt.NDArray[np.float64]

ROWS, COLUMNS = 256, 2048

COST = 200.0
"""A pair here, in pairs of the compiled engine (benchmarks/pairs.py)."""


class Reference(Direct):
    """u^T K u from its definition."""

    name = "reference"

    def cost(self, term: Term, survey: Survey) -> float | None:
        del term
        return COST * (1.0 + survey.count) ** 2 * (1 + survey.width)

    def own(
        self, term: Term, points: FloatArray, columns: FloatArray, executor: Executor, progress: Progress | None = None
    ) -> Share:
        del executor
        size, error = term.bounds(points, points)
        return Share(block_sums(term, points, columns, progress), error + size * sum_error(points.shape[0]))

    def cross(self, term: Term, x: FloatArray, y: FloatArray, columns: FloatArray, executor: Executor) -> Crossed:
        del executor
        return Crossed(cross_sums(term, x, y, columns), 0.0, COLUMNS + y.shape[0] // COLUMNS)


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
    """K(x, y) C in blocks; blocks of y are added in sequence."""
    out = np.zeros((x.shape[0], columns.shape[1]))
    for top in range(0, x.shape[0], ROWS):
        for left in range(0, y.shape[0], COLUMNS):
            values = term.block(x[top : top + ROWS], y[left : left + COLUMNS])
            out[top : top + ROWS] += values @ columns[left : left + COLUMNS]
    return out
