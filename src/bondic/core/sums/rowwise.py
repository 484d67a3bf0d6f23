"""Small measures, one per row (theory, section 9): |D_i| from above and <f, D_i> with its error, for all rows i at once.

    D_i = sum over the points j of row i and the slots a of w_ja k((z_j, a), .)

Charged per row, with m_ip the absolute weights of embedded column p in row i and e the relative error of the weights:

    | |D_i|^2 computed - exact |  <=  sum_terms sum_p m_ip^2 ( value error + K_max ( roundings u + 2 e + e^2 ) ).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import TINY, U
from bondic.core.errors import NumericalError
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.executor import Executor
from bondic.core.sums.measure import check_finite

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_CHUNK = 256
"""Points whose kernel matrix is formed at once; a row with more points is a chunk of its own."""


class Valued(Protocol):
    """A function with certified values."""

    def values(self, points: FloatArray, sums: Any) -> tuple[FloatArray, float]: ...


@dataclass(frozen=True, eq=False)
class RowMeasures:
    """D_0, ..., D_{count-1}; point j belongs to row rows[j]; `error` is the relative error of each weight."""

    points: FloatArray  # (N, D)
    weights: FloatArray  # (N, slots)
    rows: IntArray  # (N,)
    count: int
    error: float = 0.0

    def stretch(self, first: int, stop: int) -> RowMeasures:
        """Rows first..stop-1; rows ascend."""
        begin, end = np.searchsorted(self.rows, [first, stop])
        part = slice(int(begin), int(end))
        return RowMeasures(
            self.points[part], self.weights[part], self.rows[part] - first, max(stop - first, 0), self.error
        )

    @staticmethod
    def joined(parts: Sequence[RowMeasures]) -> RowMeasures:
        """The rows of all parts, one after the other."""
        first = np.cumsum([0, *(part.count for part in parts)])
        rows = np.concatenate([part.rows + begin for part, begin in zip(parts, first, strict=False)])
        points = np.concatenate([part.points for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        return RowMeasures(points, weights, rows, int(first[-1]), max(part.error for part in parts))

    def longest(self) -> int:
        return int(np.bincount(self.rows, minlength=1).max())

    def per_row(self, values: FloatArray) -> FloatArray:
        """Sums over the points of every row; values (N,) -> (count,)."""
        return np.asarray(np.bincount(self.rows, weights=values, minlength=self.count))


def row_norms(terms: tuple[Term, ...], given: RowMeasures, executor: Executor) -> FloatArray:
    """Upper bounds of |D_i| in the space of the kernel, (count,)."""
    check_finite(given.points, given.weights)
    order = np.argsort(given.rows, kind="stable")
    measures = RowMeasures(given.points[order], given.weights[order], given.rows[order], given.count, given.error)
    slots, longest = measures.weights.shape[1], measures.longest()
    relative = given.error + (slots + 8) * U
    masses = np.array([measures.per_row(np.abs(measures.weights[:, a])) for a in range(slots)]).T * (
        1 + 2 * longest * U
    )
    total, spread = np.zeros(given.count), np.zeros(given.count)
    for term in terms if len(order) else ():
        total += measures.per_row(_shares(term, measures, executor))
        size, error = term.bounds(measures.points, measures.points)
        roundings = (2 * longest + term.embedding.shape[1] + len(terms) + 8) * U
        squares = np.sum((masses @ np.abs(term.embedding)) ** 2, axis=1)
        spread += squares * (error + size * (roundings + 2 * relative + relative**2)) + longest * max(1.0, size) * TINY
    spread *= 1 + 4 * (slots + len(terms) + 16) * U
    if np.any(total < -spread) or not np.all(np.isfinite(total + spread)):
        worst = int(np.argmin(total + spread))
        raise NumericalError(
            f"The square of a norm came out as {total[worst]:.3g} at row {worst}, with an error bound of {spread[worst]:.3g}: "
            "the kernel is not positive semi-definite, or its numbers are too large for float64."
        )
    squares = np.where(masses.any(axis=1), (total + spread) * (1 + 8 * U), 0.0)
    return np.asarray(np.nextafter(np.sqrt(squares) * (1 + 4 * U), np.inf) * (squares > 0))


def _shares(term: Term, measures: RowMeasures, executor: Executor) -> FloatArray:
    """sum_p u_jp sum_l k(z_j, z_l) u_lp over the points l of the same row, for every point j; points sorted by row."""
    columns, cuts = np.ascontiguousarray(term.columns(measures.weights)), _cuts(measures.rows)

    def chunk(k: int) -> FloatArray:
        part = slice(cuts[k], cuts[k + 1])
        points, rows, u = measures.points[part], measures.rows[part], columns[part]
        values = np.where(rows[:, None] == rows, term.block(points, points), 0.0)
        return np.asarray(np.sum(u * (values @ u), axis=1))

    return np.concatenate(executor.run(chunk, range(len(cuts) - 1)))


def _cuts(rows: IntArray) -> list[int]:
    """Where chunks of whole rows begin, and the end."""
    ends = np.append(np.flatnonzero(np.diff(rows)) + 1, len(rows))
    cuts = [0]
    while cuts[-1] < len(rows):
        fitting = np.searchsorted(ends, cuts[-1] + _CHUNK, side="right") - 1
        following = np.searchsorted(ends, cuts[-1], side="right")
        cuts.append(int(ends[max(fitting, following)]))
    return cuts


def row_products(function: Valued, measures: RowMeasures, sums: Any) -> tuple[FloatArray, FloatArray]:
    """<f, D_i> = sum_j sum_a w_ja f(z_j, a) and a bound of its error, (count,) each."""
    if not len(measures.rows):
        return np.zeros(measures.count), np.zeros(measures.count)
    values, error = function.values(measures.points, sums)
    weights, slots, longest = np.abs(measures.weights), measures.weights.shape[1], measures.longest()
    roundings = (slots + longest + 4) * U + measures.error
    each = weights.sum(axis=1) * error + roundings * np.sum(weights * (np.abs(values) + error), axis=1)
    spread = measures.per_row(each) * (1 + 4 * (slots + longest + 8) * U) + longest * slots * TINY
    return measures.per_row(np.einsum("ja,ja->j", measures.weights, values)), spread
