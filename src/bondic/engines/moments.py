"""The Gaussian kernel as an exact series of products, cut where the rest is proved small.

In coordinates z = (x - c) / h, with lambda = |z|^2 and multi-indices I = (i_1, ..., i_d),

    exp(-|z - y|^2 / 2) = sum_I phi_I(z) phi_I(y),     phi_I(z) = exp(-lambda / 2) prod_l z_l^{i_l} / sqrt(i_l!).

All terms are products f(z) f(y), so what is cut off is itself a positive-definite kernel, with diagonal
T_m(lambda) = P( Poisson(lambda) >= m ) when all I of degree below m are kept. Hence for weights u

    0 <= u^T K u - sum_I ( sum_i u_i phi_I(z_i) )^2 <= ( sum_i |u_i| sqrt(T_m(lambda_i)) )^2 :

the right side is computed from the points at hand. Cost: points times C(m - 1 + d, d) features, linear in n.

Degrees by distance: a near point needs fewer terms of the series than a far one (theory, sums page).

A band b serves points up to a certain lambda with the set S_b of multi-indices, which holds all of degree below m_b. With a
the exact embedding of all points and ã the one that is made of these terms, a - ã = sum_b rest_b, where rest_b has its
coordinates outside S_b and |rest_b| <= tau_b = sum_{i in b} |u_i| sqrt(T_{m_b}(lambda_i)). Hence

    - sum_b 2 A_b tau_b <= |a|^2 - |ã|^2 <= sum_b 2 A_b tau_b + ( sum_b tau_b )^2,    A_b = | ã outside S_b |.

A_b is computed. The last band has the highest degree: its A_b is 0 (Lemma 20a; with one band it is Lemma 20).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import TINY, FloatArray, U, certified_dot, certified_sum, inflate, upper_sum
from bondic.core.kernels.series import FeatureOrder, feature_count, feature_order, poisson_tail
from bondic.core.sums.forms import Progress, Share
from bondic.engines import pairs
from bondic.engines.compiled import compiled
from bondic.engines.recipes import value_error
from bondic.engines.threads import Threads

IntArray = npt.NDArray[np.int64]

_MIXED = 1e3
"""A_b is far below the mass: high degrees belong to few points, whose weights cancel. Measured; a poor guess costs a pass."""
_STEP = 2
_LOWEST = 3
_HALVINGS = 50


@dataclass(frozen=True, eq=False)
class Bands:
    """Points with lambda <= cuts[b] that no lower band serves go to degrees[b], all others to the last."""

    cuts: FloatArray  # (bands - 1,), ascending
    degrees: IntArray  # (bands,), ascending

    @staticmethod
    def of(degree: int, root: float) -> Bands:
        """Every other degree up to the highest; a lower one serves points whose tail has at most this root."""
        degrees = np.arange(degree, min(_LOWEST, degree) - 1, -_STEP)[::-1]
        return Bands(np.array([_reach(int(lower), float(root)) for lower in degrees[:-1]]), degrees)

    def places(self, norms: FloatArray) -> IntArray:
        """The band of every point."""
        return np.searchsorted(self.cuts, norms, side="left")


def band_root(aims: FloatArray) -> float:
    """The root that goes with aims relative to (sum |u|)^2."""
    return float(_MIXED * np.min(aims))


@cache
def _reach(degree: int, root: float) -> float:
    """About the largest lambda with sqrt(T_m(lambda)) <= root."""
    low, high = 0.0, float(degree)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if np.sqrt(poisson_tail(np.array([middle]), degree)[0]) <= root:
            low = middle
        else:
            high = middle
    return low


CHUNK = 512
MAX_FEATURES = 60_000
_BLOCK_ROWS = 24


def tail_error(norms: FloatArray, masses: FloatArray, degree: int) -> FloatArray:
    """( sum_i |u_ip| sqrt(T_m(lambda_i)) )^2 for every column p; masses |u| (N, p)."""
    return np.array([inflate(root * root) for root in tail_roots(norms, masses, degree)])


def tail_roots(norms: FloatArray, masses: FloatArray, degree: int) -> FloatArray:
    """sum_i |u_ip| sqrt(T_m(lambda_i)) for every column p, rounded up."""
    roots = np.sqrt(poisson_tail(norms, degree)) * (1 + 4 * U)
    return np.array([upper_sum(masses[:, p] * roots) for p in range(masses.shape[1])])


def column_masses(columns: FloatArray) -> FloatArray:
    """sum_i |u_ip| for every column p, rounded up."""
    return np.array([upper_sum(np.abs(columns[:, p])) for p in range(columns.shape[1])])


def fitting_degree(norms: FloatArray, masses: FloatArray, dimension: int, tolerances: FloatArray) -> int | None:
    """The smallest degree whose tail meets the tolerance of every column, or None: too many features."""
    low, high = 1, highest_degree(dimension)
    if np.any(tail_error(norms, masses, high) > tolerances):
        return None
    while low < high:
        middle = (low + high) // 2
        if np.any(tail_error(norms, masses, middle) > tolerances):
            low = middle + 1
        else:
            high = middle
    return low


@cache
def highest_degree(dimension: int) -> int:
    """The largest degree whose features are not too many."""
    degree = 1
    while feature_count(degree + 1, dimension) <= MAX_FEATURES and degree < 400:
        degree += 1
    return degree


@dataclass(frozen=True, eq=False)
class Halves:
    """phi_I(z) = a_J(first coordinates) b_L(others): moments are products of two matrices, sum_i u_i a_J(i) b_L(i).

    Rows J are taken in blocks; a block whose lowest degree is l needs the L of degree below m - l. Products of a higher
    total degree that come along are terms of the series, too: keeping more than needed only shrinks the rest.
    """

    first: FeatureOrder
    second: FeatureOrder
    cut: int  # number of coordinates of the first half
    blocks: tuple[tuple[int, int, int], ...]  # rows from, to; number of columns
    lowest: tuple[int, ...]  # degree of the first row of every block

    def widths(self, degree: int) -> tuple[int, ...]:
        """Columns of every block that hold all products of degree below `degree`, which may be lower than that of the blocks."""
        last = self.second.below.size - 1
        return tuple(int(self.second.below[min(max(degree - lowest, 0), last)]) for lowest in self.lowest)

    def products(self, degree: int) -> int:
        """Multiplications per point and weight column."""
        return sum(
            (stop - start) * width for (start, stop, _), width in zip(self.blocks, self.widths(degree), strict=True)
        )


@cache
def make_halves(degree: int, dimension: int) -> Halves:
    cut = (dimension + 1) // 2
    first, second = feature_order(degree, cut), feature_order(degree if dimension > cut else 1, dimension - cut)
    blocks, lows, lowest = [], [], 0
    while lowest < degree:
        highest = lowest + 1
        # a few wide blocks: matrix products are fast from a few dozen rows on
        while highest < degree and first.below[highest] - first.below[lowest] < _BLOCK_ROWS:
            highest += 1
        width = int(second.below[min(degree - lowest, second.below.size - 1)])
        blocks.append((int(first.below[lowest]), int(first.below[highest]), width))
        lows.append(lowest)
        lowest = highest
    return Halves(first, second, cut, tuple(blocks), tuple(lows))


@compiled(fastmath={"contract"}, error_model="numpy")
def _fill(points, parents, axes, factors, out):  # type: ignore[no-untyped-def]
    """Rows 1, 2, ... of out from row 0, the exponential; points (d, n) -> out (features, n)."""
    count = out.shape[1]
    for k in range(1, parents.size):
        factor, parent, axis, mine = factors[k], out[parents[k]], points[axes[k]], out[k]
        for j in range(count):
            mine[j] = parent[j] * (axis[j] * factor)


@compiled
def _weigh(rows, weights, out):  # type: ignore[no-untyped-def]
    """out[p * rows + k, j] = weights[p, j] rows[k, j]."""
    for p in range(weights.shape[0]):
        for k in range(rows.shape[0]):
            mine, row, weight = out[p * rows.shape[0] + k], rows[k], weights[p]
            for j in range(row.size):
                mine[j] = weight[j] * row[j]


@compiled
def _add_exactly(value, correction, piece):  # type: ignore[no-untyped-def]
    """value += piece with the rounding error kept in correction (two-sum)."""
    for i in range(value.shape[0]):
        for j in range(value.shape[1]):
            total = value[i, j] + piece[i, j]
            back = total - value[i, j]
            correction[i, j] += (value[i, j] - (total - back)) + (piece[i, j] - back)
            value[i, j] = total


def _features(half: FeatureOrder, scaled: FloatArray, count: int) -> FloatArray:
    """(n, d) -> the first `count` features (count, n), each with its share exp(-|z|^2 / 2) of the exponential."""
    out = np.empty((count, scaled.shape[0]))
    np.exp(-0.5 * np.einsum("ij,ij->i", scaled, scaled), out=out[0])
    _fill(np.ascontiguousarray(scaled.T), half.parents[:count], half.axes, half.factors, out)
    return out


class Moments:
    """sum_i u_ip phi_I(z_i) for every kept I; points may be added in batches.

    Kept as an unevaluated sum of two arrays, so that many additions cost no accuracy.
    """

    def __init__(self, degree: int, dimension: int, columns: int) -> None:
        self._degree, self._dimension, self._columns = degree, dimension, columns
        self._blocks: list[tuple[FloatArray, FloatArray]] = []  # made when points come: what is empty travels light

    @property
    def _halves(self) -> Halves:
        return make_halves(self._degree, self._dimension)

    def _sums(self) -> list[tuple[FloatArray, FloatArray]]:
        if not self._blocks:
            shapes = [(self._columns * (stop - start), width) for start, stop, width in self._halves.blocks]
            self._blocks = [(np.zeros(shape), np.zeros(shape)) for shape in shapes]
        return self._blocks

    def add(
        self, scaled: FloatArray, columns: FloatArray, degree: int | None = None, progress: Progress | None = None
    ) -> None:
        """Points (N, d) in scaled coordinates with their weights (N, p); terms below a lower degree alone, if one is given."""
        halves, count = self._halves, scaled.shape[0]
        widths = halves.widths(self._degree if degree is None else degree)
        height = max(stop for (_, stop, _), width in zip(halves.blocks, widths, strict=True) if width)
        blocks = self._sums()
        room = np.empty((max(value.shape[0] for value, _ in blocks), CHUNK))
        for top in range(0, count, CHUNK):
            part = scaled[top : top + CHUNK]
            weights = np.ascontiguousarray(columns[top : top + CHUNK].T)
            rows = _features(halves.first, part[:, : halves.cut], height)
            others = _features(halves.second, part[:, halves.cut :], max(widths))
            for (start, stop, _), width, (value, correction) in zip(halves.blocks, widths, blocks, strict=True):
                if width:
                    weighted = room[: value.shape[0], : part.shape[0]]
                    _weigh(rows[start:stop], weights, weighted)
                    _add_exactly(value[:, :width], correction[:, :width], weighted @ others[:width].T)
            if progress is not None:
                progress(min(1.0, (top + CHUNK) / count))

    def outside(self, degree: int) -> FloatArray:
        """| moments | of every column without those that a lower degree keeps, as computed, rounded up."""
        total, count = np.zeros(self._columns), 0
        for width, (value, correction) in zip(self._halves.widths(degree), self._sums(), strict=True):
            rest = (value[:, width:] + correction[:, width:]).reshape(self._columns, -1)
            total, count = total + np.sum(rest * rest, axis=1), count + rest.shape[1]
        return np.asarray(np.sqrt(total * (1 + 2 * (count + 8) * U) + count * TINY) * (1 + 4 * U))

    def merge(self, other: Moments) -> None:
        """Add the moments of other points, of the same degree."""
        for (value, correction), (values, corrections) in zip(self._sums(), other._sums(), strict=True):
            _add_exactly(value, correction, values)
            correction += corrections

    def total(self) -> FloatArray:
        """(number of products, columns)."""
        parts = [(value + correction).reshape(self._columns, -1) for value, correction in self._sums()]
        return np.ascontiguousarray(np.hstack(parts).T)


def relative_error(largest: float, dimension: int, degree: int) -> float:
    """Relative error of a computed moment in its sum of absolute values.

    Two exponentials: (d + 4) lambda / 2 + 10 units; four roundings per degree (1 / sqrt(i) has two, and two products);
    two products with each other and the weight; a chunk adds CHUNK terms in the order of a matrix product, whatever it
    is; chunks are added exactly to first order.
    """
    return 1.01 * (0.5 * (dimension + 4) * largest + 4 * degree + CHUNK + 24) * U


def coordinate_error(largest: float) -> float:
    """Kernel values at rounded coordinates (3 U relative each): 0.61 * 2 * 3 U * largest |z|."""
    return 4.0 * U * math.sqrt(largest)


def near_share(
    sums: Moments, masses: FloatArray, roots: FloatArray, bands: Bands, largest: float, shape: tuple[int, ...]
) -> Share:
    """|moments|^2; `masses` sum_i |u_ip|, `roots` tau_b (bands, p), `largest` of all lambda, `shape` (points, dimensions)."""
    total, eta = sums.total(), relative_error(largest, shape[1], int(bands.degrees[-1]))
    tail = np.array([inflate(root * root) for root in roots.sum(axis=0) * (1 + 2 * len(roots) * U)])
    lower = [(sums.outside(int(m)) + eta * masses) * tau for m, tau in zip(bands.degrees[:-1], roots, strict=False)]
    mixed = 2.0 * np.sum(lower, axis=0) * (1 + 2 * (len(roots) + 4) * U) if lower else np.zeros(len(masses))
    relative = 2 * eta + eta * eta + coordinate_error(largest) + 4 * U
    squares = [certified_sum(total[:, p] ** 2) for p in range(total.shape[1])]
    # the cut-off part is known to lie in [0, tail]: put the value in the middle
    half = 0.5 * tail
    values = np.array([square.mid for square in squares]) + half
    absolute = np.array([square.rad for square in squares]) + half * (1 + 4 * U) + U * values + shape[0] * TINY
    absolute = (absolute + mixed) * (1 + 4 * U)
    return Share(values[None], relative, (masses, masses), absolute)


def far_share(points: FloatArray, scales: FloatArray, columns: FloatArray, executor: Threads) -> Share:
    """far^T K far of the points that the series leaves out, by pairs."""
    error, masses = value_error(scales.size) + pairs.sum_error(points.shape[0]), column_masses(columns)
    totals = pairs.block_sums(points, scales, columns, executor=executor)
    return Share(totals, error, (masses, masses), points.shape[0] * TINY)


def mixed_share(crossed: FloatArray, columns: FloatArray, near: FloatArray, count: int, tiles: int, axes: int) -> Share:
    """2 near^T K far; `crossed` is K near at the far points, `columns` their weights, `near` the masses of the others.

    A crossed entry adds TILE terms in each of the tiles of the `count` near points, one after the other.
    """
    error = value_error(axes) + (pairs.TILE + tiles + 16) * U
    dots = [certified_dot(*map(np.ascontiguousarray, pair)) for pair in zip(columns.T, crossed.T, strict=True)]
    absolute = 2 * np.array([dot.rad for dot in dots]) + count * TINY
    return Share(np.array([[2.0 * dot.mid for dot in dots]]), 2 * error, (near, column_masses(columns)), absolute)
