"""Coordinates of embeddings in an exact kernel space, through landmarks; what they leave over is bounded (section 9).

Basis b_j = sum_l M_jl k̃(z_l, .), landmarks z_l = (point, slot). Any M will do: its Gram matrix is checked, not
believed (Lemma 31).
An embedding f (a point, or a next state with the policy's weights) gets floats c_j, which are exact by definition, and

    f = sum_j c_j b_j + R,        e in Q - center is seen as  ẽ_j = <e, b_j>  and  e_perp (orthogonal to all b_j):

    |ẽ|^2 + |e_perp|^2 <= radius^2,      | <e, f> - ẽ . c |  <=  |e_perp| perp + extra.

perp bounds |R|, extra the little that R is not orthogonal to the basis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.core.balls import Ball
from bondic.core.bounded import LEAST, SMALL, TINY, FloatArray, IntArray, U, gamma, inflate, norm
from bondic.core.errors import InvalidInput, NumericalError
from bondic.core.kernels.normal_form import Layout, Term, normal_form
from bondic.core.sequential.basis import GROUP, LandmarkBasis, kernel_sizes, landmark_values, one_hot
from bondic.core.sums.forms import Sums
from bondic.core.sums.measure import Measure, RowMeasures, Source
from bondic.core.sums.reference import REFERENCE

_PART = 4096
_FINE_SKEW, _MAX_SKEW = 1e-3, 0.1
"""How far the Gram matrix of the basis may be from 1; further off, the landmarks are too close to each other."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """Embeddings of n measures: coordinates, and what the rest of them can weigh."""

    coordinates: FloatArray  # (n, m), exact by definition
    perp: FloatArray  # (n,) a bound of |R| orthogonal to the basis
    extra: FloatArray  # (n,) a bound of what else is left, in units of value

    def some(self, rows: slice | npt.NDArray[np.bool_]) -> Embedding:
        """Some of the rows, in order."""
        if isinstance(rows, np.ndarray) and rows.all():
            return self
        return Embedding(self.coordinates[rows], self.perp[rows], self.extra[rows])

    @staticmethod
    def joined(parts: Sequence[Embedding]) -> Embedding:
        """The rows of all parts, one after the other."""
        names = ("coordinates", "perp", "extra")
        return Embedding(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True, eq=False)
class _Raw:
    """Before remainders are squared: kernel values k at the landmarks, weights a on them, K a, and what these are off by."""

    values: FloatArray  # (n, m) k
    weights: FloatArray  # (n, m) a
    image: FloatArray  # (n, m) K a
    norms: FloatArray  # (n,) bounds of |f|
    error: FloatArray  # (n,) of every entry of k, and of K a, besides the roundings of products
    total: FloatArray  # (n,) absolute weights behind them
    basis_error: FloatArray  # (n,) how far sum_l a_l k̃(z_l) is from sum_j c_j b_j, in norm

    def minus(self, other: _Raw, discount: float, norms: FloatArray, rounding: FloatArray) -> _Raw:
        """The same for f - gamma f'; `rounding` is what the difference of the coordinates is off by, in norm."""
        return _Raw(
            self.values - discount * other.values,
            self.weights - discount * other.weights,
            self.image - discount * other.image,
            norms,
            (self.error + discount * other.error) * (1 + 8 * U),
            (self.total + discount * other.total) * (1 + 8 * U),
            (self.basis_error + discount * other.basis_error + rounding) * (1 + 8 * U),
        )


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A ball seen through a basis of its kernel's space."""

    ball: Ball
    basis: LandmarkBasis
    layout: Layout
    sums: Sums = REFERENCE

    def __post_init__(self) -> None:
        basis, layout = self.basis, self.layout
        if basis.points.shape[1] != layout.dimension or np.any(basis.slots < 0) or np.any(basis.slots >= layout.slots):
            raise InvalidInput("The landmarks do not have the columns and actions of this log.")

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        return normal_form(self.ball.kernel, self.layout)

    @cached_property
    def gram(self) -> FloatArray:
        m = len(self.basis)
        return self.values_at(RowMeasures(self.basis.points, one_hot(self.basis.slots, self.layout), np.arange(m), m))

    @cached_property
    def row_sums(self) -> FloatArray:
        """sum_l |M_jl|, rounded up."""
        return np.asarray(np.abs(self.basis.matrix).sum(axis=1) * (1 + gamma(len(self.basis))))

    @cached_property
    def _skew(self) -> float:
        """A bound of |M K M^T - 1|_F, so of how far norms of coordinates are from norms of functions.

        Entry (j, k) is off by (kernel error + roundings of two products) times the absolute sums of rows j and k of M.
        Landmarks that are close to each other make these large: then the products are made with more digits, if there are any.
        """
        m, (size, error), rows = len(self.basis), self._sizes(self.basis.points), norm(self.row_sums)
        bound = math.inf
        for digits in (np.float64, np.longdouble):
            matrix, unit = self.basis.matrix.astype(digits), float(np.finfo(digits).eps)
            skew = np.abs(matrix @ self.gram.astype(digits) @ matrix.T - np.eye(m))
            roundings = error + 1.1 * (m + 8) * unit * (size + error)
            bound = min(bound, norm(skew.astype(np.float64)) * (1 + 4 * U) + roundings * rows * rows + 4 * U * m)
            if bound <= _FINE_SKEW:
                break
        if not bound <= _MAX_SKEW:
            raise NumericalError(
                f"The landmarks are too close to each other for float64 (their basis is off by {bound:.3g}): fewer are needed."
            )
        return inflate(bound)

    @property
    def radius(self) -> float:
        """Of |ẽ|^2 + |e_perp|^2 <= radius^2, rounded up; never 0, so that it can be divided by."""
        return max(inflate(self.ball.radius * (1 + self._skew)), LEAST)

    def single(self, measures: RowMeasures) -> Embedding:
        """Embeddings of any measures."""
        return self._finish(*self._raw(measures))

    def leading(self, points: FloatArray, slots: IntArray, count: int) -> FloatArray:
        """Coordinates of pairs in the first `count` functions of the basis, (n, count): what is fixed beforehand sees these.

        The same bits whatever landmarks come after those, and however many rows there are: groups of one size, the last of
        which is filled up with its first row.
        """
        basis, n = self.basis, points.shape[0]
        first = LandmarkBasis(basis.points[:count], basis.slots[:count], basis.matrix[:count, :count])
        out = np.empty((n, count))
        for top in range(0, n, GROUP):
            group = np.arange(top, top + GROUP)
            group[group >= n] = top
            values = landmark_values(self.terms, points[group], one_hot(slots[group], self.layout), first)
            out[top : top + GROUP] = (values @ first.matrix.T)[: n - top]
        return out

    def approximate(self, points: FloatArray, weights: FloatArray) -> FloatArray:
        """Good coordinates of one measure, (m,): any floats will do, since `remainder_bounds` says what they miss."""
        total = np.zeros(len(self.basis))
        for top in range(0, points.shape[0], _PART):
            part = slice(top, top + _PART)
            zeros = np.zeros(points[part].shape[0], dtype=np.int64)
            total = total + self.values_at(RowMeasures(points[part], weights[part], zeros, 1))[0]
        return np.asarray(self.basis.matrix @ total)

    def remainder_bounds(self, source: Source, weights: Sequence[FloatArray], sums: Sums) -> list[float]:
        """Bounds of | <e, f> - ẽ . c | over the ball, for every measure f of the source and its coordinates c.

        r | f - sum_l a_l k̃(z_l) | by one kernel sum with the landmarks among its points, a = M^T c up to rounding.
        """
        rest = [coordinates @ self.basis.matrix for coordinates in weights]
        squares = sums.squares(self.terms, _less(source, self.basis, rest, self.layout))
        errors = [gamma(len(self.basis)) * float(np.abs(c) @ self.row_sums) * self.landmark_size for c in weights]
        radius = inflate(self.ball.radius)
        return [inflate(radius * (square.sqrt().upper + more)) for square, more in zip(squares, errors, strict=True)]

    def pairs(
        self, logged: RowMeasures, following: RowMeasures, discount: float
    ) -> tuple[Embedding, Embedding, Embedding]:
        """Embeddings of x_i, of x'_i and of T_i = x_i - gamma x'_i (coordinates of T: the float difference)."""
        here, there = self._raw(logged), self._raw(following)
        both = RowMeasures(
            np.concatenate([logged.points, following.points]),
            np.concatenate([logged.weights, -discount * following.weights]),
            np.concatenate([logged.rows, following.rows]),
            logged.count,
            max(logged.error, following.error) + 2 * U,
        )
        difference = here[0] - discount * there[0]
        norms = self.sums.row_norms(self.terms, both)
        # coordinates and weights of T are float differences: what they round is a multiple of b_j, and of k̃(z_l)
        lost = (
            (np.abs(here[0]) + discount * np.abs(there[0])) @ self.row_sums + here[1].total + discount * there[1].total
        )
        raw = here[1].minus(there[1], discount, norms, 4 * U * lost * self.landmark_size)
        return self._finish(*here), self._finish(*there), self._finish(difference, raw)

    @cached_property
    def landmark_size(self) -> float:
        """sup |k̃(z_l, .)| over the landmarks."""
        return inflate(math.sqrt(sum(self._sizes(self.basis.points))))

    def _sizes(self, points: FloatArray) -> tuple[float, float]:
        return kernel_sizes(self.terms, points, self.basis, self.layout)

    def values_at(self, measures: RowMeasures) -> FloatArray:
        """k̃(z_l, f_i) for all landmarks, (n, m)."""
        return _per_row(landmark_values(self.terms, measures.points, measures.weights, self.basis), measures)

    def _raw(self, measures: RowMeasures) -> tuple[FloatArray, _Raw]:
        """Coordinates c = M k, and a = M^T c, the weights on the landmarks that they stand for."""
        m, matrix, mass = len(self.basis), self.basis.matrix, absolute_weights(measures)
        values = self.values_at(measures)
        found = values @ matrix.T
        weights = found @ matrix
        total = np.abs(weights).sum(axis=1) * (1 + gamma(m)) + TINY
        size, error = self._sizes(measures.points) if len(measures.rows) else (0.0, 0.0)
        own, landmark = (size + error) * ((measures.longest() + 4) * U + measures.error), self._sizes(self.basis.points)
        errors = mass * (error + own) + total * (landmark[1] + 2 * gamma(m) * sum(landmark))
        basis_error = gamma(m) * (np.abs(found) @ self.row_sums) * self.landmark_size
        norms = self.sums.row_norms(self.terms, measures)
        return found, _Raw(values, weights, weights @ self.gram, norms, errors * (1 + 32 * U), total, basis_error)

    def _finish(self, found: FloatArray, raw: _Raw) -> Embedding:
        """|R|^2 = |f|^2 - 2 a.k + a.K a, every product with its error, and a itself is M^T c up to rounding only."""
        weighed = np.abs(raw.weights)
        square = raw.norms**2 - np.einsum("ij,ij->i", raw.weights, 2 * raw.values - raw.image)
        sizes = np.einsum("ij,ij->i", weighed, 2 * np.abs(raw.values) + np.abs(raw.image))
        slack = 4 * raw.error * weighed.sum(axis=1) + 2 * gamma(found.shape[1]) * sizes + 8 * U * raw.norms**2
        perp = np.sqrt(np.maximum(square + slack * (1 + 1e-9), 0.0)) * (1 + 8 * U) + raw.basis_error + SMALL
        # <R, b_j> = sum_l M_jl R(z_l), where R(z_l) is the difference of values and image
        residual = (
            np.abs(raw.values - raw.image).max(axis=1) * (1 + 4 * U)
            + 2 * raw.error
            + raw.basis_error * self.landmark_size
        )
        inside = residual * norm(self.row_sums) / math.sqrt(1 - self._skew) * (1 + 1e-9)
        return Embedding(found, perp, np.asarray(np.minimum(inside, perp) * inflate(self.ball.radius)))


def _less(source: Source, basis: LandmarkBasis, weights: Sequence[FloatArray], layout: Layout) -> Source:
    """The measures, each without its weights on the landmarks."""
    given = np.stack([-one_hot(basis.slots, layout) * own[:, None] for own in weights])
    return source.plus(Measure(basis.points, given))


def absolute_weights(measures: RowMeasures) -> FloatArray:
    """sum of the absolute weights of every row, rounded up."""
    if not len(measures.rows):
        return np.zeros(measures.count)
    terms = measures.longest() * measures.weights.shape[1]
    return np.asarray(measures.per_row(np.abs(measures.weights).sum(axis=1)) * (1 + gamma(terms)))


def _per_row(values: FloatArray, measures: RowMeasures) -> FloatArray:
    """Sums over the points of every row; values (N, m) -> (count, m); rows ascend."""
    rows = measures.rows
    if values.shape[0] == measures.count and np.array_equal(rows, np.arange(measures.count)):
        return values
    out = np.zeros((measures.count, values.shape[1]))
    if len(rows):
        first = np.flatnonzero(np.diff(rows, prepend=-1))
        out[rows[first]] = np.add.reduceat(values, first, axis=0)
    return out
