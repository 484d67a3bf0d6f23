"""log det(I + V / tau) from above, V = sum_i B_i^2 phi_i phi_i^T: what the self-normalized bound (12) pays for all ω at once.

Terms of W's kernel with explicit features make one matrix. In a table V is diagonal and its entries are counts. By Fischer's
inequality the log determinant of the whole is at most the sum over these parts. Of any other kernel the trace is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cholesky

from bondic.functions.functions import term_feature_bounds, term_features
from bondic.kernels.base import FeatureLeaf, Kernel
from bondic.kernels.dirac import Dirac
from bondic.kernels.normal_form import Layout, Term, normal_form
from bondic.rounding import TINY, U, inflate, upper_sum

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Weighted = tuple[FloatArray, IntArray, FloatArray]  # points, slots and widths B_i of some rows

MOST_JOINT = 2000
"""Features whose products are all summed: n D^2 operations and D^2 numbers. Of more than these only the squares are."""
_BLOCK = 4096
_NONE = np.zeros((0, 0))


@dataclass(frozen=True, eq=False)
class Information:
    """The parts of V: a matrix within `error` of the exact one (in Frobenius norm), and upper bounds of the others."""

    matrix: FloatArray = field(default_factory=_NONE.copy)  # (D, D)
    error: float = 0.0
    diagonal: FloatArray = field(default_factory=lambda: np.zeros(0))  # V_jj of coordinates that are taken one by one
    trace: float = 0.0  # of a part of V of which nothing else is known
    rank: int = 0  # of that part, at most
    _known: dict[float, float] = field(default_factory=dict, repr=False)

    def log_det(self, ridge: float) -> float:
        """log det(I + V / ridge), rounded up."""
        if ridge not in self._known:
            joint = min(self._by_factor(ridge), _one_by_one(np.diagonal(self.matrix) + self.error, ridge))
            # r numbers of mean t / r: the mean of log(1 + .) is at most that of the mean
            rest = self.rank * math.log1p(self.trace / self.rank / ridge) if self.rank else 0.0
            self._known[ridge] = inflate(joint + _one_by_one(self.diagonal, ridge) + rest * (1 + 16 * U))
        return self._known[ridge]

    def _by_factor(self, ridge: float) -> float:
        """2 sum_j log L_jj + sqrt(D) F / (1 - F) for a lower triangular L with |A - L L^T| <= F < 1, A = I + V / ridge.

        For M = L L^T, log det A <= log det M + tr(M^-1 (A - M)); as A >= I, M >= 1 - F and |M^-1| <= sqrt(D) / (1 - F)
        in Frobenius norms. L may come from anywhere; inf where none is found.
        """
        size = self.matrix.shape[0]
        if size == 0:
            return 0.0
        a = self.matrix / ridge
        a[np.diag_indices(size)] += 1.0
        try:
            factor = cholesky(a, lower=True)
        except (LinAlgError, ValueError):  # not positive definite in floating point, or not finite
            return math.inf
        far = _length(a - factor @ factor.T) + (size + 4) * U * _length(factor) ** 2 + 4 * U * _length(a)
        far = inflate((far + self.error / ridge + size * size * TINY) * (1 + 1e-9))
        if not far < 0.5:
            return math.inf
        logs = np.log(np.diagonal(factor))
        total = 2.0 * (math.fsum(logs.tolist()) + 16 * U * math.fsum(np.abs(logs).tolist()))
        return total + math.sqrt(size) * far / (1.0 - far) * (1 + 1e-9)


def _length(matrix: FloatArray) -> float:
    """The Frobenius norm, rounded up."""
    return math.sqrt(upper_sum(matrix * matrix) + matrix.size * TINY) * (1 + 4 * U)


def _one_by_one(diagonal: FloatArray, ridge: float) -> float:
    """sum_j log(1 + V_jj / ridge), Hadamard's bound of the log determinant, rounded up."""
    return upper_sum(np.log1p(diagonal / ridge) * (1 + 16 * U)) if diagonal.size else 0.0


def has_parts(kernel: Kernel, layout: Layout) -> bool:
    """Whether every term of the kernel has explicit features or is a table."""
    return all(_featured(term) or _is_table(term) for term in normal_form(kernel, layout))


def _featured(term: Term) -> bool:
    return all(isinstance(leaf, FeatureLeaf) for leaf, _ in term.factors)


def _is_table(term: Term) -> bool:
    return all(isinstance(leaf, Dirac) for leaf, _ in term.factors)


def read_information(kernel: Kernel, layout: Layout, rows: Iterable[Weighted]) -> Information:
    """V of a kernel that `has_parts`, from one pass over the rows."""
    terms = normal_form(kernel, layout)
    features = _Features([term for term in terms if _featured(term)], layout)
    tables = [_Table(term) for term in terms if not _featured(term)]
    for points, slots, widths in rows:
        for top in range(0, points.shape[0], _BLOCK):
            some = slice(top, top + _BLOCK)
            here = points[some], slots[some], widths[some]
            features.add(*here)
            for table in tables:
                table.add(*here)
    diagonal = np.concatenate([features.diagonal(), *(table.diagonal() for table in tables)])
    return Information(features.matrix(), features.error(), diagonal)


class _Features:
    """V of the terms with features; rows of one action at a time, as its embedding may leave most features 0."""

    def __init__(self, terms: list[Term], layout: Layout) -> None:
        probe = np.zeros((1, layout.dimension))
        sizes = [term_features(term, probe).shape[1] * term.embedding.shape[1] for term in terms]
        self._terms, self._tops, self._size = terms, np.cumsum([0, *sizes]), sum(sizes)
        self._joint = self._size <= MOST_JOINT
        self._sum = np.zeros((self._size, self._size) if self._joint else self._size)
        self._squares, self._inexact, self._steps = 0.0, 0.0, 0

    def add(self, points: FloatArray, slots: IntArray, widths: FloatArray) -> None:
        if not self._terms:
            return
        blocks = [term_features(term, points) for term in self._terms]
        bounds = [term_feature_bounds(term, points)[0] for term in self._terms]
        for slot in np.unique(slots):
            mine = np.flatnonzero(slots == slot)
            columns, values, off = [], [], 0.0
            for term, top, phi, bound in zip(self._terms, self._tops, blocks, bounds, strict=False):
                row = term.embedding[slot]
                used = np.flatnonzero(row)
                places = np.arange(phi.shape[1])[:, None] * row.size + used
                columns.append(top + places.ravel())
                values.append((phi[mine][:, :, None] * row[used]).reshape(mine.size, -1))
                off = max(off, bound * float(np.abs(row).max(initial=0.0)))
            self._add(np.concatenate(columns), np.hstack(values) * widths[mine, None], off * float(widths[mine].max()))

    def _add(self, columns: IntArray, x: FloatArray, off: float) -> None:
        """x is good to `off` + 4 U |x| entry by entry; the sum of its products to (rows + steps) U of the squares."""
        if self._joint:
            self._sum[np.ix_(columns, columns)] += x.T @ x
        else:
            self._sum[columns] += np.einsum("ij,ij->j", x, x)
        length = _length(x)
        apart = off * math.sqrt(x.size) * (1 + 1e-9) + 4 * U * length
        self._squares += length**2
        self._inexact += apart * (2 * length + apart) + (x.shape[0] + 4) * U * length**2 + x.size * TINY
        self._steps += 1

    def error(self) -> float:
        return inflate((self._inexact + (self._steps + 4) * U * self._squares) * (1 + 2 * (self._steps + 8) * U))

    def matrix(self) -> FloatArray:
        return self._sum if self._joint else _NONE

    def diagonal(self) -> FloatArray:
        return np.zeros(0) if self._joint else (self._sum + self.error()) * (1 + 4 * U)


class _Table:
    """V of a product of equalities, c 1[x = y] (E_a . E_b): for each value of x the squares of the embedding, weighted."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._columns = sorted({column for _, columns in term.factors for column in columns})
        self._keys = np.zeros((0, len(self._columns)))
        self._sums = np.zeros((0, term.embedding.shape[1]))
        self._rows = 0

    def add(self, points: FloatArray, slots: IntArray, widths: FloatArray) -> None:
        entries = (self._term.embedding[slots] * widths[:, None]) ** 2 * self._term.coefficient
        keys = np.concatenate([self._keys, points[:, self._columns] + 0.0])
        self._keys, place = np.unique(keys, axis=0, return_inverse=True)
        sums = np.zeros((self._keys.shape[0], entries.shape[1]))
        np.add.at(sums, place.reshape(-1), np.concatenate([self._sums, entries]))
        self._sums, self._rows = sums, self._rows + points.shape[0]

    def diagonal(self) -> FloatArray:
        """At most (rows + blocks) additions for each entry, and four products."""
        return (self._sums * (1 + 2 * (2 * self._rows + 8) * U)).ravel() + self._rows * TINY
