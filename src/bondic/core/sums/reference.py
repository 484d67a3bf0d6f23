"""The reference sums: every pair, any kernel, plain formulas in NumPy blocks. All engines are compared with it."""

from __future__ import annotations

import numpy as np

from bondic.core.bounded import Enclosure, FloatArray, U
from bondic.core.kernels.base import check_elementary_functions
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import Charges, Crossed, Progress, Share, Sums, embedded
from bondic.core.sums.measure import Measure, Source

ROWS, COLUMNS = 256, 2048


class Reference(Sums):
    """From the definition alone: all points are held, all pairs are visited."""

    def squares(self, terms: tuple[Term, ...], source: Source, progress: Progress | None = None) -> list[Enclosure]:
        check_elementary_functions()
        charges, points, weights = Charges.of(terms, Measure.joined(source.batches()))
        if not points.shape[0]:  # points without weight add exactly nothing
            return [Enclosure(0.0)] * source.groups
        return charges.total(terms, [all_pairs(term, points, embedded(term, weights), progress) for term in terms])

    def cross(self, term: Term, x: FloatArray, y: FloatArray, columns: FloatArray) -> Crossed:
        return crossed(term, x, y, columns)


REFERENCE = Reference()


def all_pairs(term: Term, points: FloatArray, columns: FloatArray, progress: Progress | None = None) -> Share:
    """u^T K u; a block's double sum is off by its roundings, in any order of summation, block totals are summed exactly."""
    size, error = term.bounds(points, points)
    return Share(block_sums(term, points, columns, progress), error + size * sum_error(points.shape[0]))


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


def crossed(term: Term, x: FloatArray, y: FloatArray, columns: FloatArray) -> Crossed:
    """K(x, y) C in blocks; blocks of y are added in sequence."""
    out = np.zeros((x.shape[0], columns.shape[1]))
    for top in range(0, x.shape[0], ROWS):
        for left in range(0, y.shape[0], COLUMNS):
            values = term.block(x[top : top + ROWS], y[left : left + COLUMNS])
            out[top : top + ROWS] += values @ columns[left : left + COLUMNS]
    return Crossed(out, 0.0, min(COLUMNS, y.shape[0]) + y.shape[0] // COLUMNS)
