"""Landmarks z_l and the matrix M of the basis b_j = sum_l M_jl k̃(z_l, .): greedy pivots, and an inverse triangular factor.

With K = k̃(z, z) = L L^T and M = L^-1 the basis is orthonormal, and the first j coordinates of anything depend on the first
j landmarks alone. So landmarks of the pilot come first, and proposals see their coordinates; landmarks from the whole log
come after them, and serve the evaluation only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from bondic.core.columns import Batch, Cloud
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.normal_form import Layout, Term, identity, normal_form
from bondic.core.sequential.basis import LandmarkBasis
from bondic.data.spread import spread_rows
from bondic.search.basis import greedy_pivots, kernel_block

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

TOLERANCE = 1e-8
"""Pivots stop when every candidate has less than this share of the largest k̃(x, x) left."""
_MAX_SIMILARITIES = 2000
"""Actions whose similarities are computed for all pairs: 32 MB."""
_MAX_CANDIDATES = 12_000
_PIECE = 8192
_SIDE = 48
"""A multiple of 4, 6, 8, 12, 16 and 24, the stripes of matrix products."""
_MAX_PAIRS = 500_000
"""Pairs of one cloud among which landmarks are looked for."""


@dataclass(frozen=True, eq=False)
class PointSlots:
    """State-action pairs: points with one slot each."""

    points: FloatArray  # (N, D)
    slots: IntArray  # (N,)

    def __len__(self) -> int:
        return int(self.slots.size)

    def __getitem__(self, chosen: Sequence[int] | IntArray) -> PointSlots:
        return PointSlots(np.ascontiguousarray(self.points[chosen]), np.ascontiguousarray(self.slots[chosen]))

    @staticmethod
    def join(parts: Sequence[PointSlots]) -> PointSlots:
        return PointSlots(np.concatenate([p.points for p in parts]), np.concatenate([p.slots for p in parts]))

    def distinct(self, most: int) -> PointSlots:
        """Every pair once; no more than about `most` of them, spread over the list."""
        table = np.column_stack([self.points, self.slots])
        _, first = np.unique(table, axis=0, return_index=True)
        first = np.sort(first)
        return self[first[spread_rows(first.size, most)]]


def pairs_of(cloud: Cloud) -> PointSlots:
    """The points of a cloud with every action that has a probability; some of the pairs, spread, where they are very many."""
    at, slots = np.nonzero(cloud.weights > 0)
    some = spread_rows(at.size, _MAX_PAIRS)
    return PointSlots(cloud.points[at[some]], slots[some].astype(np.int64))


@dataclass(frozen=True, eq=False)
class Embedder:
    """Embeddings of points and of clouds in the coordinates of landmarks, in ordinary floats.

    |R|^2 = k̃(f, f) - |c|^2 is the remainder: here a guide for the planner, not a bound.
    """

    terms: tuple[Term, ...]
    basis: LandmarkBasis

    def pairs(self, pairs: PointSlots) -> FloatArray:
        """c of each pair: (N, m)."""
        values = gram(self.terms, pairs, PointSlots(self.basis.points, self.basis.slots))
        return _row_product(values, self.basis.matrix)

    def cloud(self, cloud: Cloud, count: int) -> tuple[FloatArray, FloatArray]:
        """Mean embedding of the points of each row, and the remainder |R| of its first point: (count, m), (count,)."""
        size, draws = len(self.basis), cloud.draws
        means, left = np.zeros((count, size)), np.zeros(count)
        for first in range(0, cloud.rows.size, _PIECE * draws):
            here = slice(first, first + _PIECE * draws)
            points, weights, rows = cloud.points[here], cloud.weights[here], cloud.rows[here][::draws]
            values, own = np.zeros((points.shape[0], size)), np.zeros(rows.size)
            for term in self.terms:
                columns = term.columns(weights)
                actions = _row_product(columns, term.embedding[self.basis.slots])
                values += kernel_block(term, points, self.basis.points) * actions
                own += term.diag(points[::draws]) * np.sum(columns[::draws] ** 2, axis=1)
            means[rows] = _row_product(values.reshape(-1, draws, size).sum(axis=1), self.basis.matrix)
            one = means[rows] if draws == 1 else _row_product(values[::draws], self.basis.matrix)
            left[rows] = draws * np.sqrt(np.maximum(own - np.sum(one**2, axis=1), 0.0))
        return means, left


def _row_product(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """rows @ matrix.T, a row with the same bits whatever rows come with it.

    Libraries round the rows at the edges of a product differently. Products of one shape, whose sides are multiples of the
    stripes that they work in, have no edges.
    """
    (count, inner), width = rows.shape, matrix.shape[0]
    groups, padded = -(-count // _SIDE), -(-width // _SIDE) * _SIDE
    left, right = np.zeros((groups * _SIDE, inner)), np.zeros((inner, padded))
    left[:count], right[:, :width] = rows, matrix.T
    found = np.matmul(left.reshape(groups, _SIDE, inner), right).reshape(-1, padded)
    return np.ascontiguousarray(found[:count, :width])


def gram(terms: tuple[Term, ...], x: PointSlots, y: PointSlots) -> FloatArray:
    """k̃(x_i, y_j): (N, M)."""
    out = np.zeros((len(x), len(y)))
    for term in terms:
        out += kernel_block(term, x.points, y.points) * _similarities(term, x.slots, y.slots)
    return out


def _similarities(term: Term, x: IntArray, y: IntArray) -> FloatArray:
    """E_a . E_b for slots a of x and b of y, (N, M); with very many actions equality costs far less than a product."""
    embedding = term.embedding
    if embedding is identity(len(embedding)):
        return np.asarray(x[:, None] == y, dtype=np.float64)
    if len(embedding) <= _MAX_SIMILARITIES:
        return np.asarray((embedding @ embedding.T)[x[:, None], y])
    return np.asarray(embedding[x] @ embedding[y].T)


def diagonal(terms: tuple[Term, ...], x: PointSlots) -> FloatArray:
    """k̃(x_i, x_i): (N,)."""
    out = np.zeros(len(x))
    for term in terms:
        own = np.einsum("ij,ij->i", term.embedding, term.embedding)
        out += term.diag(x.points) * own[x.slots]
    return out


def candidates(rows: Batch, starts: Cloud) -> PointSlots:
    """Logged, next and initial pairs, every one once."""
    parts = [PointSlots(rows.logged, rows.slots), pairs_of(rows.next), pairs_of(starts)]
    return PointSlots.join(parts).distinct(_MAX_CANDIDATES)


def pilot_basis(kernel: Kernel, layout: Layout, pool: PointSlots, most: int) -> LandmarkBasis:
    """At most `most` landmarks among the pool."""
    return _pivots(normal_form(kernel, layout), pool, most, None)


def extended(basis: LandmarkBasis, kernel: Kernel, layout: Layout, pool: PointSlots, most: int) -> LandmarkBasis:
    """The same basis with further landmarks after those it has, at most `most` in all."""
    return _pivots(normal_form(kernel, layout), pool, most - len(basis), basis)


def _pivots(terms: tuple[Term, ...], pool: PointSlots, most: int, basis: LandmarkBasis | None) -> LandmarkBasis:
    own = diagonal(terms, pool)
    known = None if basis is None else np.ascontiguousarray(Embedder(terms, basis).pairs(pool).T)
    chosen, columns = greedy_pivots(
        own, lambda pivot: gram(terms, pool[[pivot]], pool)[0], max(most, 0), TOLERANCE * float(own.max()), known
    )
    found, size = pool[chosen], len(chosen)
    inverse = np.asarray(solve_triangular(columns[:, chosen].T, np.eye(size), lower=True))
    if basis is None or known is None:
        return LandmarkBasis(found.points, found.slots, np.tril(inverse))
    before = len(basis)
    matrix = np.zeros((before + size, before + size))
    matrix[:before, :before] = basis.matrix
    matrix[before:, :before] = -inverse @ known[:, chosen].T @ basis.matrix
    matrix[before:, before:] = np.tril(inverse)
    joined = PointSlots.join([PointSlots(basis.points, basis.slots), found])
    return LandmarkBasis(joined.points, joined.slots, matrix)
