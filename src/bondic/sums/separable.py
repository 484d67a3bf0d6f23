"""Separable engine: the Gaussian kernel as an exact series of products, cut where the rest is proved small.

In coordinates z = (x - c) / h, with lambda = |z|^2 and multi-indices I = (i_1, ..., i_d),

    exp(-|z - y|^2 / 2) = sum_I phi_I(z) phi_I(y),     phi_I(z) = exp(-lambda / 2) prod_l z_l^{i_l} / sqrt(i_l!).

All terms are products f(z) f(y), so what is cut off is itself a positive-definite kernel, with diagonal
T_m(lambda) = P( Poisson(lambda) >= m ) when all I of degree below m are kept. Hence for weights u

    0 <= u^T K u - sum_I ( sum_i u_i phi_I(z_i) )^2 <= ( sum_i |u_i| sqrt(T_m(lambda_i)) )^2 :

the right side is computed from the points at hand. Cost: points times C(m - 1 + d, d) features, linear in n.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numba
import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from bondic.rounding import TINY, Enclosure, U, certified_sum, inflate, upper_sum
from bondic.sums.pairs import threads
from bondic.sums.reference import Progress

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LANES = 16
CHUNK = 2048
MOST_FEATURES = 60_000


@dataclass(frozen=True, eq=False)
class Plan:
    """All multi-indices of degree below `degree`; `tail` bounds ( sum_i |u_ip| sqrt(T_m) )^2 for every column p."""

    degree: int
    features: int
    tail: FloatArray  # (p,)


def feature_count(degree: int, dimension: int) -> int:
    """Number of multi-indices of degree below `degree`."""
    return math.comb(degree - 1 + dimension, dimension)


def squared_norms(scaled: FloatArray) -> FloatArray:
    """lambda_i, rounded up."""
    return np.asarray(np.einsum("ij,ij->i", scaled, scaled) * (1 + (scaled.shape[1] + 4) * 2 * U))


def poisson_tail(norms: FloatArray, degree: int) -> FloatArray:
    """An upper bound of T_m(lambda) = P(Poisson(lambda) >= m).

    The probabilities beyond m fall at least like a geometric series with ratio lambda / (m + 1). lgamma and the
    exponential are good to a few ulp of arguments below a thousand; 1e-9 covers them.
    """
    safe = np.clip(norms, 1e-300, 1e300)  # beyond, the bound is 1 anyway
    exponent = degree * np.log(safe) - safe - gammaln(degree + 1.0)
    ratio = safe / (degree + 1.0)
    bound = np.exp(np.minimum(exponent, 0.0)) * (1 + 1e-9) / np.maximum(1.0 - ratio, 1e-3)
    return np.asarray(np.where(ratio < 0.99, np.minimum(bound, 1.0), 1.0))


def tail_error(norms: FloatArray, masses: FloatArray, degree: int) -> FloatArray:
    """( sum_i |u_ip| sqrt(T_m(lambda_i)) )^2 for every column p; masses |u| (N, p)."""
    roots = np.sqrt(poisson_tail(norms, degree)) * (1 + 4 * U)
    reaches = [upper_sum(masses[:, p] * roots) for p in range(masses.shape[1])]
    return np.array([inflate(reach * reach) for reach in reaches])


def make_plan(norms: FloatArray, masses: FloatArray, dimension: int, tolerances: FloatArray) -> Plan | None:
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
    return Plan(low, feature_count(low, dimension), tail_error(norms, masses, low))


@cache
def highest_degree(dimension: int) -> int:
    """The largest degree whose features are not too many."""
    degree = 1
    while feature_count(degree + 1, dimension) <= MOST_FEATURES and degree < 400:
        degree += 1
    return degree


@cache
def _recipe(degree: int, dimension: int) -> tuple[IntArray, IntArray, FloatArray]:
    """phi_I = phi_parent * z_axis * factor, in order of degree; entry 0 is the exponential itself."""
    parents, axes, factors = [0], [0], [1.0]
    level = [(0, 0, 1)]  # (position, last axis used, its power + 1)
    for _ in range(1, degree):
        following = []
        for position, last, power in level:
            for axis in range(last, dimension):
                step = power if axis == last else 1
                parents.append(position)
                axes.append(axis)
                factors.append(1.0 / math.sqrt(step))
                following.append((len(parents) - 1, axis, step + 1))
        level = following
    return np.array(parents), np.array(axes), np.array(factors)


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
def _moments(points, start, weights, parents, axes, factors, top, bottom, work, out):  # type: ignore[no-untyped-def]
    """out[I, p] += sum_i u_pi phi_I(z_i) for points top..bottom-1, LANES points at a time."""
    count, columns = parents.size, weights.shape[0]
    lanes = np.empty((columns, LANES))
    z = np.empty((points.shape[0], LANES))
    for left in range(top, bottom, LANES):
        width = min(LANES, bottom - left)
        for j in range(LANES):
            inside = j < width
            work[0, j] = start[left + j] if inside else 0.0
            for axis in range(points.shape[0]):
                z[axis, j] = points[axis, left + j] if inside else 0.0
            for p in range(columns):
                lanes[p, j] = weights[p, left + j] if inside else 0.0
        for k in range(count):
            if k > 0:
                factor, parent, axis = factors[k], work[parents[k]], z[axes[k]]
                mine = work[k]
                for j in range(LANES):
                    mine[j] = parent[j] * (axis[j] * factor)
            for p in range(columns):
                total = 0.0
                for j in range(LANES):
                    total += work[k, j] * lanes[p, j]
                out[k, p] += total


class Moments:
    """sum_i u_ip phi_I(z_i) for every kept I; points may be added in batches.

    Kept as an unevaluated sum of two arrays, so that many additions cost no accuracy.
    """

    def __init__(self, degree: int, dimension: int, columns: int) -> None:
        self._recipe = _recipe(degree, dimension)
        self._value = np.zeros((feature_count(degree, dimension), columns))
        self._correction = np.zeros_like(self._value)

    def add(self, scaled: FloatArray, columns: FloatArray, progress: Progress | None = None) -> None:
        """Points (N, d) in scaled coordinates with their weights (N, p)."""
        start = np.exp(-0.5 * np.einsum("ij,ij->i", scaled, scaled))
        by_axis, by_column = np.ascontiguousarray(scaled.T), np.ascontiguousarray(columns.T)
        tops = range(0, scaled.shape[0], CHUNK)

        def part(top: int) -> FloatArray:
            out = np.zeros_like(self._value)
            work = np.empty((self._value.shape[0], LANES))
            bottom = min(top + CHUNK, scaled.shape[0])
            _moments(by_axis, start, by_column, *self._recipe, top, bottom, work, out)
            return out

        with ThreadPoolExecutor(threads()) as pool:
            for number, piece in enumerate(pool.map(part, tops)):
                total = self._value + piece  # two-sum: the rounding error of each addition is kept
                back = total - self._value
                self._correction += (self._value - (total - back)) + (piece - back)
                self._value = total
                if progress is not None:
                    progress((number + 1) / len(tops))

    def total(self) -> FloatArray:
        return self._value + self._correction


def relative_error(largest: float, dimension: int, degree: int) -> float:
    """Relative error of a computed moment in its sum of absolute values.

    exp(-lambda/2): (d + 2) lambda / 2 + 5 units; four roundings per degree (1 / sqrt(i) has two, and two products);
    a chunk adds LANES + CHUNK / LANES terms; chunks are added exactly to first order.
    """
    return 1.01 * (0.5 * (dimension + 4) * largest + 4 * degree + LANES + CHUNK // LANES + 16) * U


def coordinate_error(largest: float) -> float:
    """Kernel values at rounded coordinates (3 U relative each): 0.61 * 2 * 3 U * largest |z|."""
    return 4.0 * U * math.sqrt(largest)


def quadratic(
    scaled: FloatArray, columns: FloatArray, norms: FloatArray, plan: Plan, progress: Progress | None = None
) -> list[Enclosure]:
    """u_p^T K u_p with its error for every column, for the floats u (their own error is the caller's)."""
    moments = Moments(plan.degree, scaled.shape[1], columns.shape[1])
    moments.add(scaled, columns, progress)
    masses = [upper_sum(np.abs(columns[:, p])) for p in range(columns.shape[1])]
    largest = float(norms.max(initial=0.0))
    return enclose(moments.total(), masses, plan, largest, scaled.shape)


def enclose(
    total: FloatArray, masses: list[float], plan: Plan, largest: float, shape: tuple[int, ...]
) -> list[Enclosure]:
    """|moments|^2 with all errors; `masses` sum_i |u_ip|, `largest` the largest lambda, `shape` (points, dimensions)."""
    eta = relative_error(largest, shape[1], plan.degree)
    relative = 2 * eta + eta * eta + coordinate_error(largest) + 4 * U
    out = []
    for p, mass in enumerate(masses):
        square = certified_sum(total[:, p] ** 2)
        spread = mass * mass * relative
        # the cut-off part is known to lie in [0, tail]: put the value in the middle
        half = 0.5 * float(plan.tail[p])
        error = square.rad + half * (1 + 4 * U) + spread + shape[0] * TINY
        out.append(Enclosure(square.mid + half, inflate(error + U * (square.mid + half))))
    return out
