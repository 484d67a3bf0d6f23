"""log det(I + V / tau) from above, V = sum_i B_i^2 phi_i phi_i^T: what the self-normalized bound (12) adds for all ω at once.

In a table V is diagonal and its entries are counts. The other terms of W's kernel make one matrix, in explicit features or,
for kernels without them, in landmarks; what landmarks miss is paid by its trace. By Fischer's inequality the log determinant
of the whole is at most the sum over tables and matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cholesky

from bondic.core.bounded import TINY, Enclosure, U, certified_sum, inflate, upper_sum
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.leaves import Dirac
from bondic.core.kernels.normal_form import Layout, Term, normal_form
from bondic.search.model import embedded
from bondic_lab.noise.coordinates import POOL, TermCoordinates, coordinates_of, has_features

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Weighted = tuple[FloatArray, IntArray, FloatArray]  # points, slots and widths B_i of some rows

MAX_JOINT = 2000
"""Coordinates whose products are all summed: n D^2 operations and D^2 numbers. Of more than these only the squares are."""
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Information:
    """The parts of V: a matrix within `error` of the exact one (in Frobenius norm), and upper bounds of the others."""

    matrix: FloatArray  # (D, D)
    error: float
    diagonal: FloatArray  # V_jj of coordinates that are taken one by one
    remainder: Enclosure  # trace of what no coordinate sees
    _known: dict[float, Enclosure] = field(default_factory=dict, repr=False)

    def log_det(self, ridge: float) -> Enclosure:
        """An upper bound of log det(I + V / ridge), and of nothing less: of the formula that is evaluated.

        What is left out is a matrix E >= 0 beside the others, and log det(A + E) <= log det A + tr E for A >= I.
        """
        if ridge not in self._known:
            joint = self._by_factor(ridge)
            if joint is None:
                joint = _one_by_one(np.diagonal(self.matrix), self.error, ridge)
            self._known[ridge] = joint + _one_by_one(self.diagonal, 0.0, ridge) + self.remainder / ridge
        return self._known[ridge]

    def _by_factor(self, ridge: float) -> Enclosure | None:
        """2 sum_j log L_jj -+ sqrt(D) F / (1 - F) for a lower triangular L with |A - L L^T| <= F < 1, A = I + V / ridge.

        For M = L L^T, log det A <= log det M + tr(M^-1 (A - M)); as A >= I, M >= 1 - F and |M^-1| <= sqrt(D) / (1 - F)
        in Frobenius norms. The other way round |A^-1| <= sqrt(D). L may come from anywhere; None where none is found.
        """
        size = self.matrix.shape[0]
        if size == 0:
            return Enclosure(0.0)
        a = self.matrix / ridge
        a[np.diag_indices(size)] += 1.0
        try:
            factor = cholesky(a, lower=True)
        except (LinAlgError, ValueError):  # not positive definite in floating point, or not finite
            return None
        pivots = np.diagonal(factor)
        far = _length(a - factor @ factor.T) + (size + 4) * U * _length(factor) ** 2 + 4 * U * _length(a)
        far = inflate((far + self.error / ridge + size * size * TINY) * (1 + 1e-9))
        if not (far < 0.5 and np.all(pivots > 0)):
            return None
        off = math.sqrt(size) * far / (1.0 - far) * (1 + 1e-9)
        return _sum_of_logs(np.log(pivots) * 2.0) + Enclosure(0.0, inflate(off))


def _length(matrix: FloatArray) -> float:
    """The Frobenius norm, rounded up."""
    return math.sqrt(upper_sum(matrix * matrix) + matrix.size * TINY) * (1 + 4 * U)


def _one_by_one(diagonal: FloatArray, error: float, ridge: float) -> Enclosure:
    """sum_j log(1 + V_jj / ridge), Hadamard's bound of the log determinant, for V_jj good to `error`."""
    logs = _sum_of_logs(np.log1p(np.maximum(diagonal, 0.0) / ridge))
    return logs + Enclosure(0.0, inflate(diagonal.size * error / ridge))


def _sum_of_logs(logs: FloatArray) -> Enclosure:
    """Their sum; each is good to 16 U of its size (its argument is a quotient or a square root's, and log to 4 ulp)."""
    total = certified_sum(logs)
    return Enclosure(total.mid, inflate(total.rad + 16 * U * upper_sum(np.abs(logs))))


def _is_table(term: Term) -> bool:
    return bool(term.factors) and all(isinstance(leaf, Dirac) for leaf, _ in term.factors)


def read_information(
    kernel: Kernel, layout: Layout, rows: Callable[[], Iterable[Weighted]], count: int, charge: Callable[[], Enclosure]
) -> Information:
    """V from one pass over the rows, two where landmarks are picked; `charge` is the trace of V."""
    terms = normal_form(kernel, layout)
    tables = [_Table(term) for term in terms if _is_table(term)]
    rest = [term for term in terms if not _is_table(term)]
    pool = np.zeros((0, layout.dimension)) if all(map(has_features, rest)) else _spread(rows(), count)
    matrix = _Matrix([coordinates_of(term, pool) for term in rest], layout)
    for points, slots, widths in rows():
        for top in range(0, points.shape[0], _BLOCK):
            here = points[top : top + _BLOCK], slots[top : top + _BLOCK], widths[top : top + _BLOCK]
            matrix.add(*here)
            for table in tables:
                table.add(*here)
    diagonal = np.concatenate([matrix.diagonal(), *(table.diagonal() for table in tables)])
    remainder = Enclosure(0.0)
    if not matrix.exact:
        seen = sum((table.trace() for table in tables), matrix.trace())
        remainder = charge() - seen
    return Information(matrix.matrix(), matrix.error(), diagonal, remainder)


def _spread(rows: Iterable[Weighted], count: int) -> FloatArray:
    """Distinct points of up to POOL rows, evenly spread."""
    step = max(count // POOL, 1)
    picked, seen = [], 0
    for points, _, _ in rows:
        picked.append(points[(-seen) % step :: step] + 0.0)
        seen += points.shape[0]
    return np.asarray(np.unique(np.concatenate(picked), axis=0))


class _Matrix:
    """V in coordinates, divided by 1 + stretch; rows of one action at a time, as its embedding may leave most of them 0."""

    def __init__(self, parts: list[TermCoordinates], layout: Layout) -> None:
        probe = np.zeros((1, layout.dimension))
        sizes = [part.values(probe).shape[1] * part.term.embedding.shape[1] for part in parts]
        self._parts, self._size = parts, sum(sizes)
        self._joint = self._size <= MAX_JOINT
        self._sum = np.zeros((self._size, self._size) if self._joint else self._size)
        self._squares, self._inexact, self._steps = 0.0, 0.0, 0
        self.exact = all(part.exact for part in parts)
        self._shrink = 1.0 if self.exact else (1 - 4 * U) / (1.0 + max(part.stretch for part in parts))

    def add(self, points: FloatArray, slots: IntArray, widths: FloatArray) -> None:
        if not self._parts:
            return
        blocks = [part.values(points) for part in self._parts]
        errors = [part.error(points) for part in self._parts]
        for slot in np.unique(slots):
            mine = np.flatnonzero(slots == slot)
            parts = [(part.term, psi[mine]) for part, psi in zip(self._parts, blocks, strict=True)]
            sizes = [float(np.abs(term.embedding[slot]).max()) for term, _ in parts]
            off = max(error * size for error, size in zip(errors, sizes, strict=True))
            places, values = embedded(parts, int(slot))
            self._add(places, values * widths[mine, None], off * float(widths[mine].max()))

    def _add(self, places: IntArray, x: FloatArray, off: float) -> None:
        """x is good to `off` + 4 U |x| entry by entry; the sum of its products to (rows + steps) U of the squares."""
        if self._joint:
            self._sum[np.ix_(places, places)] += x.T @ x
        else:
            self._sum[places] += np.einsum("ij,ij->j", x, x)
        length = _length(x)
        apart = off * math.sqrt(x.size) * (1 + 1e-9) + 4 * U * length
        self._squares += length**2
        self._inexact += apart * (2 * length + apart) + (x.shape[0] + 4) * U * length**2 + x.size * TINY
        self._steps += 1

    def error(self) -> float:
        """Of the sums, and of one more product with each; a contraction by `shrink` lets them only fall."""
        total = self._inexact + (self._steps + 8) * U * self._squares
        return inflate(total * (1 + 2 * (self._steps + 8) * U))

    def matrix(self) -> FloatArray:
        return self._sum * self._shrink if self._joint else np.zeros((0, 0))

    def diagonal(self) -> FloatArray:
        return np.zeros(0) if self._joint else (self._sum * self._shrink + self.error()) * (1 + 4 * U)

    def trace(self) -> Enclosure:
        """Of the exact matrix; each entry is off by at most `error` of the whole."""
        entries = (np.diagonal(self._sum) if self._joint else self._sum) * self._shrink
        return certified_sum(entries) + Enclosure(0.0, math.sqrt(max(self._size, 1)) * self.error() * (1 + 1e-9))


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

    def trace(self) -> Enclosure:
        """Rounded like `diagonal`, either way."""
        total = certified_sum(self._sums)
        return Enclosure(total.mid, inflate(total.rad + (4 * self._rows + 16) * U * total.mid + self._sums.size * TINY))
