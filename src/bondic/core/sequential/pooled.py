"""What landmarks leave over of many rows together: one e has to serve them all (Lemma 36).

Row i leaves over R_i = f_i - sum_j c_ij b_j, and | <e, R_i> | <= |e| |R_i| whatever e is. But no e is as bad as that for many
rows at once. With the Gram matrix G_ij = <R_i, R_j>, for all e at the same time,

    | sum_i φ_i <e, R_i> |     <=  |e| sqrt( λ_max( Φ^T G Φ ) ),          Φ (n, p) has rows φ_i,
    sum_i w_i <e, R_i>^2       <=  |e|^2 λ_max( W^1/2 G W^1/2 ),          W = diag(w).

G is computed from kernel values, F - V a^T - a (V - K a)^T with a = M^T c up to rounding. An entry is off by at most
t_i t_j ε, t_i the absolute weights of row i on its points and on landmarks.

In the first R_i is the remainder of T_i, and φ_i stands for λ_i φ_i; in the second of gamma x'_i, and w_i = |λ_i φ_i|^2, or v_i^2
of an end. Both are added over stretches of rows: the norm of a sum is at most the sum of the norms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bondic.core.bounded import (
    SMALL,
    TINY,
    FloatArray,
    U,
    gamma,
    inflate,
    largest_eigenvalue,
    norm,
    product_error,
    row_norms,
    upper_sum,
)
from bondic.core.claims import End
from bondic.core.sequential.basis import one_hot
from bondic.core.sequential.embedded import Embedded
from bondic.core.sequential.landmarks import Coordinates, absolute_weights
from bondic.core.sequential.plan import Predictable
from bondic.core.sums.measure import RowMeasures

_AT_A_TIME = 500
"""Rows whose squares are bounded together: the largest eigenvalue of more of them takes too long."""
MAX_ROWS, MAX_PAIRS = 2000, 100_000_000
"""Next points of a stretch, and stretch times rows of the log: remainders of long logs are pooled in shorter stretches."""


@dataclass(frozen=True, eq=False)
class PooledRemainder:
    """The Gram matrix of the remainders of n rows, and its error."""

    gram: FloatArray  # (n, n)
    total: FloatArray  # (n,) t_i, rounded up
    error: float  # ε
    offset_error: FloatArray  # (n,) how far a row is from the one whose products these are, in norm

    def operator(self, columns: FloatArray) -> float:
        """A bound of | sum_i φ_i <e, R_i> | / |e|; columns (n, p) are the φ_i."""
        size, whole, n = norm(columns), norm(self.gram), len(self.total)
        image = columns.T @ self.gram
        found = image @ columns
        weights = np.abs(columns).T @ self.total
        off = product_error(n, size, whole) * size + product_error(n, norm(image), size)
        off += self.error * norm(weights) ** 2 * (1 + gamma(2 * n))
        lengths = np.sqrt(np.einsum("ij,ij->i", columns, columns)) * (1 + gamma(columns.shape[1]))
        return inflate(_root(found, off) + upper_sum(lengths * self.offset_error) * (1 + 8 * U))

    def squares(self, weights: FloatArray) -> float:
        """A bound of sum_i w_i <e, R_i>^2 / |e|^2, for weights >= 0: the sum of those of some rows at a time."""
        return inflate(
            sum(self._some(slice(top, top + _AT_A_TIME), weights) for top in range(0, len(weights), _AT_A_TIME))
        )

    def _some(self, rows: slice, weights: FloatArray) -> float:
        roots, total = np.sqrt(weights[rows]), self.total[rows]
        scaled = roots[:, None] * self.gram[rows, rows] * roots
        off = 8 * U * norm(scaled) + self.error * upper_sum(weights[rows] * total**2) * (1 + 16 * U)
        more = norm(roots * self.offset_error[rows]) * (1 + 8 * U)
        return inflate((_root(scaled, off) + more) ** 2 * (1 + 8 * U))


def _root(matrix: FloatArray, error: float) -> float:
    """sqrt(λ_max) of a symmetric matrix of which floats are known that are off by `error` in norm, rounded up."""
    top = largest_eigenvalue(0.5 * (matrix + matrix.T))[0] + error * (1 + 4 * U) + 4 * U * norm(matrix)
    return inflate(float(np.sqrt(top)))


def pooled_remainders(
    coordinates: Coordinates,
    logged: RowMeasures,
    following: RowMeasures,
    discount: float,
    step: FloatArray,
    after: FloatArray,
) -> tuple[PooledRemainder, PooledRemainder]:
    """<R_i, R_j> of T_i = x_i - gamma x'_i and of x'_i, whose coordinates are `step` and `after`."""
    m, here, there = len(coordinates.basis), coordinates.values_at(logged), coordinates.values_at(following)
    crossed, own = _products(coordinates, logged, following), _products(coordinates, following, following)
    both = _products(coordinates, logged, logged) - discount * (crossed + crossed.T) + discount**2 * own
    size, off = _product_accuracy(coordinates, [logged, following])
    error, mass = inflate(off + (2 * gamma(2 * m + 8) + 16 * U) * size), absolute_weights(following)

    def less_landmarks(c: FloatArray, values: FloatArray, inner: FloatArray, own: FloatArray) -> PooledRemainder:
        """F - V a^T - a (V - K a)^T; the roundings of these products are part of the error."""
        a = c @ coordinates.basis.matrix
        gram = inner - values @ a.T - a @ (values - a @ coordinates.gram).T
        total = (own + np.abs(a).sum(axis=1) * (1 + gamma(m)) + TINY) * (1 + 8 * U)
        return PooledRemainder(
            gram, total, error, gamma(m) * (np.abs(c) @ coordinates.row_sums) * coordinates.landmark_size
        )

    both_mass = (absolute_weights(logged) + discount * mass) * (1 + 8 * U)
    return less_landmarks(step, here - discount * there, both, both_mass), less_landmarks(after, there, own, mass)


def _products(coordinates: Coordinates, left: RowMeasures, right: RowMeasures) -> FloatArray:
    """<f_i, g_j> for all rows of two lists of measures, (count, count); rows ascend."""
    out = np.zeros((left.count, right.count))
    if not len(left.rows) or not len(right.rows):
        return out
    values = np.zeros((len(left.rows), len(right.rows)))
    for term in coordinates.terms:
        values += term.block(left.points, right.points) * (term.columns(left.weights) @ term.columns(right.weights).T)
    first, second = (np.flatnonzero(np.diff(side.rows, prepend=-1)) for side in (left, right))
    added = np.add.reduceat(np.add.reduceat(values, first, axis=0), second, axis=1)
    out[np.ix_(left.rows[first], right.rows[second])] = added
    return out


def _product_accuracy(coordinates: Coordinates, measures: list[RowMeasures]) -> tuple[float, float]:
    """Largest product of points or landmarks, and what a computed one is off by, per unit of absolute weight on both sides."""
    given, terms = [part for part in measures if len(part.rows)], coordinates.terms
    points = np.concatenate([*(part.points for part in given), coordinates.basis.points])
    longest = max((part.longest() for part in given), default=1)
    relative = max((part.error for part in given), default=0.0) + (2 * longest + 8) * U
    largest = off = 0.0
    for term in terms:
        size, error = term.bounds(points, points)
        weight = term.embedding_norm * float(np.abs(term.embedding).max())
        roundings = (term.embedding.shape[1] + 2 * coordinates.layout.slots + len(terms) + 8) * U
        off += weight * (error + (size + error) * (roundings + 2 * relative + relative**2))
        largest += weight * (size + error)
    return inflate(largest * (1 + (len(terms) + 8) * U)), inflate(off * (1 + (len(terms) + 8) * U))


@dataclass(frozen=True, eq=False)
class Pooled:
    """Bounds over some rows, per unit of |e|; infinite where nothing was pooled."""

    operator: float = math.inf
    squares: float = math.inf
    tails: Mapping[End, float] = field(default_factory=dict)

    def of_end(self, end: End) -> float:
        return self.tails.get(end, math.inf)


NOT_POOLED = Pooled()
"""Rows pay one by one."""


def pool(coordinates: Coordinates, block: Embedded, columns: Predictable, rows: int) -> Pooled:
    """The rows of a block of a log with so many rows, stretch by stretch."""
    size = max(1, min(MAX_ROWS, MAX_PAIRS // max(rows, 1)) // max(1, block.after.longest()))
    stretches = (slice(top, min(top + size, len(block))) for top in range(0, len(block), size))
    return total([_stretch(coordinates, block, columns, part) for part in stretches], tuple(columns.weights))


def total(parts: Sequence[Pooled], ends: tuple[End, ...]) -> Pooled:
    """All rows of all parts."""

    def added(values: Iterable[float]) -> float:
        return inflate(upper_sum(np.array(list(values))))

    tails = {end: added(part.of_end(end) for part in parts) for end in ends}
    return Pooled(added(part.operator for part in parts), added(part.squares for part in parts), tails)


def _stretch(space: Coordinates, block: Embedded, columns: Predictable, part: slice) -> Pooled:
    count = part.stop - part.start
    logged = RowMeasures(block.points[part], one_hot(block.slots[part], space.layout), np.arange(count), count)
    coordinates = block.step.coordinates[part], block.next.coordinates[part]
    following = block.after.stretch(part.start, part.stop)
    step, after = pooled_remainders(space, logged, following, block.gamma, *coordinates)

    def squares(weights: FloatArray) -> float:
        return after.squares(weights**2 * (1 + 4 * U)) * (block.gamma**2 * (1 + 4 * U))

    instruments = columns.instruments[part]
    tails = {end: squares(weights[part]) for end, weights in columns.weights.items()}
    return Pooled(step.operator(instruments), squares(row_norms(instruments)), tails)


def pooled_squares(weights: FloatArray, single: FloatArray, bare: FloatArray, pooled_remainder: float) -> float:
    """A bound of sum_i g_i, where g_i <= single_i, and g_i <= w_i (along_i + y_i)^2 with sum_i w_i y_i^2 <= together.

    Rows are divided in two by what the second costs them without y; any division is valid.
    """
    if not math.isfinite(pooled_remainder):
        return upper_sum(single)
    own = weights * bare**2 * (1 + 8 * U)
    order = np.argsort(own - single, kind="stable")
    predicted_error = (np.sqrt(np.cumsum(own[order])) + math.sqrt(pooled_remainder)) ** 2 - np.cumsum(single[order])
    count = int(np.argmin(predicted_error)) + 1 if len(order) else 0
    near, rest = order[:count], order[count:]
    joint = (math.sqrt(upper_sum(own[near])) + math.sqrt(pooled_remainder)) ** 2 * (1 + 16 * U)
    return min(upper_sum(single), inflate(joint + upper_sum(single[rest])))


def share_of(weights: FloatArray, base: FloatArray, pooled_remainder: float) -> float:
    """The bound for other weights: at most so many times those of `base`, row by row."""
    largest = float(np.max(weights / np.maximum(base, 1e-300), initial=0.0))
    return inflate(pooled_remainder * largest * (1 + 8 * U) + SMALL) if math.isfinite(pooled_remainder) else math.inf
