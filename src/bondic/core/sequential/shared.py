"""What landmarks leave over of many rows together: one e has to serve them all (Lemma 36).

Row i leaves over R_i = f_i - sum_j c_ij b_j, and | <e, R_i> | <= |e| |R_i| whatever e is. But no e is as bad as that for many
rows at once. With the Gram matrix G_ij = <R_i, R_j>, for all e at the same time,

    | sum_i φ_i <e, R_i> |     <=  |e| sqrt( λ_max( Φ^T G Φ ) ),          Φ (n, p) has rows φ_i,
    sum_i w_i <e, R_i>^2       <=  |e|^2 λ_max( W^1/2 G W^1/2 ),          W = diag(w).

G is computed from kernel values, F - V a^T - a (V - K a)^T with a = M^T c up to rounding. An entry is off by at most
t_i t_j ε, t_i the absolute weights of row i on its points and on landmarks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import U, gamma, inflate, largest_eigenvalue, norm, product_error, upper_sum
from bondic.core.kernels.normal_form import Layout, Term
from bondic.core.sequential.basis import LandmarkBasis
from bondic.core.sums.measure import RowMeasures

FloatArray = npt.NDArray[np.float64]

_AT_A_TIME = 500
"""Rows whose squares are bounded together: the largest eigenvalue of more of them takes too long."""


@dataclass(frozen=True, eq=False)
class LeftTogether:
    """The Gram matrix of what n rows leave over, and what it is off by."""

    gram: FloatArray  # (n, n)
    total: FloatArray  # (n,) t_i, rounded up
    error: float  # ε
    apart: FloatArray  # (n,) how far a row is from the one whose products these are, in norm

    def operator(self, columns: FloatArray) -> float:
        """A bound of | sum_i φ_i <e, R_i> | / |e|; columns (n, p) are the φ_i."""
        size, whole, n = norm(columns), norm(self.gram), len(self.total)
        image = columns.T @ self.gram
        found = image @ columns
        weights = np.abs(columns).T @ self.total
        off = product_error(n, size, whole) * size + product_error(n, norm(image), size)
        off += self.error * norm(weights) ** 2 * (1 + gamma(2 * n))
        lengths = np.sqrt(np.einsum("ij,ij->i", columns, columns)) * (1 + gamma(columns.shape[1]))
        return inflate(_root(found, off) + upper_sum(lengths * self.apart) * (1 + 8 * U))

    def squares(self, weights: FloatArray) -> float:
        """A bound of sum_i w_i <e, R_i>^2 / |e|^2, for weights >= 0: the sum of those of some rows at a time."""
        return inflate(
            sum(self._some(slice(top, top + _AT_A_TIME), weights) for top in range(0, len(weights), _AT_A_TIME))
        )

    def _some(self, rows: slice, weights: FloatArray) -> float:
        roots, total = np.sqrt(weights[rows]), self.total[rows]
        scaled = roots[:, None] * self.gram[rows, rows] * roots
        off = 8 * U * norm(scaled) + self.error * upper_sum(weights[rows] * total**2) * (1 + 16 * U)
        more = norm(roots * self.apart[rows]) * (1 + 8 * U)
        return inflate((_root(scaled, off) + more) ** 2 * (1 + 8 * U))


def _root(matrix: FloatArray, error: float) -> float:
    """sqrt(λ_max) of a symmetric matrix of which floats are known that are off by `error` in norm, rounded up."""
    top = largest_eigenvalue(0.5 * (matrix + matrix.T))[0] + error * (1 + 4 * U) + 4 * U * norm(matrix)
    return inflate(float(np.sqrt(top)))


def products(terms: tuple[Term, ...], left: RowMeasures, right: RowMeasures) -> FloatArray:
    """<f_i, g_j> for all rows of two lists of measures, (count, count); rows ascend."""
    out = np.zeros((left.count, right.count))
    if not len(left.rows) or not len(right.rows):
        return out
    values = np.zeros((len(left.rows), len(right.rows)))
    for term in terms:
        values += term.block(left.points, right.points) * (term.columns(left.weights) @ term.columns(right.weights).T)
    first, second = (np.flatnonzero(np.diff(side.rows, prepend=-1)) for side in (left, right))
    added = np.add.reduceat(np.add.reduceat(values, first, axis=0), second, axis=1)
    out[np.ix_(left.rows[first], right.rows[second])] = added
    return out


def product_accuracy(
    terms: tuple[Term, ...], layout: Layout, measures: list[RowMeasures], basis: LandmarkBasis
) -> tuple[float, float]:
    """Largest product of points or landmarks, and what a computed one is off by, per unit of absolute weight on both sides."""
    given = [part for part in measures if len(part.rows)]
    points = np.concatenate([*(part.points for part in given), basis.points])
    longest = max((part.longest() for part in given), default=1)
    relative = max((part.error for part in given), default=0.0) + (2 * longest + 8) * U
    largest = off = 0.0
    for term in terms:
        size, error = term.bounds(points, points)
        weight = term.embedding_norm * float(np.abs(term.embedding).max())
        roundings = (term.embedding.shape[1] + 2 * layout.slots + len(terms) + 8) * U
        off += weight * (error + (size + error) * (roundings + 2 * relative + relative**2))
        largest += weight * (size + error)
    return inflate(largest * (1 + (len(terms) + 8) * U)), inflate(off * (1 + (len(terms) + 8) * U))
