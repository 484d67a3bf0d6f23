"""Finite coordinates for kernel spaces: explicit features, or landmark points (Nyström).

For a term k_t of a kernel, landmarks l_1..l_M and K_ll = R^T R, the coordinates psi(z) = R^-T k_t(l, z) satisfy
psi(x) . psi(y) = <P k_t(x), P k_t(y)>, P the projection onto span k_t(., l). A function in that span keeps its
norm and all its values, so what is feasible for these coordinates is feasible in the whole space.
Landmarks come from pivoted Cholesky: the point that the span represents worst first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from bondic.core.functions import ExpansionFunction, FeatureFunction, Function, TermExpansion, term_features
from bondic.core.kernels.base import FeatureLeaf, Kernel
from bondic.core.kernels.normal_form import Layout, Term, normal_form
from bondic.engines.recipes import joined_gaussian
from bondic.rows import Rows
from bondic.search.actions import Cap, action_groups, shared_columns

FloatArray = npt.NDArray[np.float64]


def pivots(term: Term, pool: FloatArray, rank: int, tolerance: float) -> tuple[list[int], FloatArray]:
    """Chosen rows of the pool and an upper triangular R, K_ll = R^T R in plain floats, until all points are represented.

    A point is represented when at most `tolerance` of the largest k(x, x) is left of its own.
    """
    own = term.diag(pool)
    chosen, columns = greedy_pivots(
        own, lambda pivot: term.block(pool[pivot : pivot + 1], pool)[0], rank, tolerance * float(own.max())
    )
    return chosen, np.triu(columns[:, chosen])


def greedy_pivots(
    diagonal: FloatArray,
    column: Callable[[int], FloatArray],
    most: int,
    floor: float,
    start: FloatArray | None = None,
) -> tuple[list[int], FloatArray]:
    """Points of a kernel matrix, until no more than `floor` is left of any diagonal entry, and their coordinates.

    `column(i)` is the i-th column of the matrix whose diagonal is given (N,); `start` (s, N) holds coordinates that the
    points have already. Returns the points and their new coordinates (steps, N): the columns of the triangular factor.
    """
    given = np.zeros((0, diagonal.size)) if start is None else start
    residual = np.maximum(diagonal - np.einsum("ij,ij->j", given, given), 0.0)
    columns = np.zeros((min(most, diagonal.size), diagonal.size))
    chosen: list[int] = []
    for step in range(columns.shape[0]):
        pivot = int(np.argmax(residual))
        if residual[pivot] <= floor:
            break
        left = column(pivot) - columns[:step].T @ columns[:step, pivot] - given.T @ given[:, pivot]
        columns[step] = left / np.sqrt(residual[pivot])
        residual = np.maximum(residual - columns[step] ** 2, 0.0)
        residual[pivot] = 0.0
        chosen.append(pivot)
    return chosen, columns[: len(chosen)]


IntArray = npt.NDArray[np.int64]

_FEATURES = 2
"""Explicit features may be this many times as many as coordinates on landmarks."""
_FAR = 1e6
"""Beyond this squared distance from the landmarks the matrix product would lose digits that may matter."""


@dataclass(frozen=True, eq=False)
class TermBasis:
    """Coordinates of one term: features (no landmarks) or landmarks with their triangular factor."""

    term: Term
    landmarks: FloatArray | None  # (M, D)
    factor: FloatArray | None  # (M, M) upper triangular, K_ll = factor^T factor
    mixing: FloatArray | None = None  # (p, groups) where actions share coordinates: the term is the one of the groups

    @property
    def embedded(self) -> int:
        return int(self.term.embedding.shape[1])

    def raw(self, points: FloatArray) -> FloatArray:
        """Features, or kernel values at the landmarks: (N, m). `finish` turns sums of these into coordinates."""
        if self.landmarks is None:
            return term_features(self.term, points)
        return kernel_block(self.term, points, self.landmarks)

    def finish(self, raw: FloatArray) -> FloatArray:
        """Coordinates from raw rows; raw (N, m)."""
        if self.factor is None:
            return raw
        return np.asarray(solve_triangular(self.factor, raw.T, trans="T").T)

    @property
    def size(self) -> int:
        if self.landmarks is not None:
            return int(self.landmarks.shape[0])
        return int(term_features(self.term, np.zeros((1, _width(self.term)))).shape[1])

    def expansion(self, coordinates: FloatArray) -> TermExpansion:
        """The function with these coordinates (m, p) as an expansion on the landmarks."""
        assert self.landmarks is not None
        assert self.factor is not None
        return TermExpansion(self.landmarks, np.asarray(solve_triangular(self.factor, self.by_action(coordinates))))

    def by_action(self, coordinates: FloatArray) -> FloatArray:
        """Coordinates of groups of actions (m, groups) as those of the kernel's own embedding (m, p)."""
        return coordinates if self.mixing is None else coordinates @ self.mixing.T


def kernel_block(term: Term, x: FloatArray, y: FloatArray) -> FloatArray:
    """`term.block` for the search: a Gaussian by one matrix product, |x|^2 + |y|^2 - 2 x.y, where that loses nothing."""
    gaussian = joined_gaussian(term.factors)
    if gaussian is None:
        return term.block(x, y)
    axes, scales = gaussian
    center = y[:, axes].mean(axis=0)
    a, b = (x[:, axes] - center) / scales, (y[:, axes] - center) / scales
    squares = np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", b, b)
    if max(part.max(initial=0.0) for part in squares) > _FAR:
        return term.block(x, y)
    out = a @ b.T
    out -= 0.5 * squares[0][:, None]
    out -= 0.5 * squares[1]
    np.minimum(out, 0.0, out=out)
    np.exp(out, out=out)
    return np.asarray(out if term.coefficient == 1.0 else out * term.coefficient)


def _width(term: Term) -> int:
    return max((max(columns, default=-1) + 1 for _, columns in term.factors), default=0)


@dataclass(frozen=True, eq=False)
class Basis:
    """Coordinates of a whole kernel: the terms side by side, features times embedding columns."""

    kernel: Kernel
    layout: Layout
    parts: tuple[TermBasis, ...]

    @property
    def dimension(self) -> int:
        return sum(part.size * part.embedded for part in self.parts)

    def split(self, coordinates: FloatArray) -> list[FloatArray]:
        """Coordinates of each term as a matrix (m, p)."""
        sizes = [part.size * part.embedded for part in self.parts]
        pieces = np.split(coordinates, np.cumsum(sizes)[:-1])
        return [piece.reshape(part.size, part.embedded) for piece, part in zip(pieces, self.parts, strict=True)]

    def function(self, coordinates: FloatArray) -> Function:
        """The function phi . w, in a form that the trusted core can evaluate."""
        matrices = self.split(coordinates)
        if all(part.landmarks is None for part in self.parts):
            pieces = [part.by_action(matrix).ravel() for part, matrix in zip(self.parts, matrices, strict=True)]
            return FeatureFunction(self.kernel, self.layout, np.concatenate(pieces))
        if any(part.landmarks is None for part in self.parts):
            raise AssertionError("a basis mixes features and landmarks")
        parts = tuple(part.expansion(matrix) for part, matrix in zip(self.parts, matrices, strict=True))
        return ExpansionFunction(self.kernel, self.layout, parts)


def make_basis(
    kernel: Kernel,
    layout: Layout,
    candidates: FloatArray,
    *,
    rank: int,
    tolerance: float = 1e-13,
    seed: int = 0,
    groups: IntArray | None = None,
    most_features: float = math.inf,
) -> Basis:
    """Explicit features where every term has them, and no more than `most_features`; else at most `rank` landmarks per term.

    `groups`: the group of every action, where they share coordinates.
    """
    terms = [shared_columns(term, groups) for term in normal_form(kernel, layout)]
    if all(isinstance(leaf, FeatureLeaf) for term, _ in terms for leaf, _ in term.factors):
        found = Basis(kernel, layout, tuple(TermBasis(term, None, None, mixing) for term, mixing in terms))
        if found.dimension <= most_features:
            return found
    pool = _thin(candidates, rank, seed)
    return Basis(kernel, layout, tuple(_landmarks(term, mixing, pool, rank, tolerance) for term, mixing in terms))


def capped_basis(
    kernel: Kernel, rows: Rows, candidates: FloatArray, *, rank: int, cap: Cap, tolerance: float = 1e-13
) -> Basis:
    """The same with no more coordinates than the cap: fewer landmarks with many actions, and groups with very many."""
    return make_basis(
        kernel,
        rows.layout,
        candidates,
        rank=cap.rank(rank, rows.layout.slots),
        tolerance=tolerance,
        groups=action_groups(rows, cap.groups),
        most_features=_FEATURES * cap.coordinates,
    )


def _thin(candidates: FloatArray, rank: int, seed: int) -> FloatArray:
    """Distinct candidates, a random subset of them when there are many more than the rank."""
    distinct = np.unique(candidates, axis=0)
    limit = max(4 * rank, 2000)
    if distinct.shape[0] > limit:
        chosen = np.random.default_rng(seed).choice(distinct.shape[0], size=limit, replace=False)
        distinct = distinct[np.sort(chosen)]
    return np.asarray(distinct)


def _landmarks(term: Term, mixing: FloatArray | None, pool: FloatArray, rank: int, tolerance: float) -> TermBasis:
    """Landmarks picked one by one from the pool."""
    if not term.factors:
        point, factor = pool[:1], np.array([[np.sqrt(term.coefficient)]])
        return TermBasis(term, point, factor, mixing)
    chosen, factor = pivots(term, pool, rank, tolerance)
    return TermBasis(term, np.ascontiguousarray(pool[chosen]), factor, mixing)
