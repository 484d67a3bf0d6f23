"""The Gaussian kernel's series, cut: features of low degree, as a kernel of its own (theory, sums page).

In coordinates z = (x - c) / h, with lambda = |z|^2 and multi-indices I = (i_1, ..., i_d),

    exp(-|z - y|^2 / 2) = sum_I phi_I(z) phi_I(y),     phi_I(z) = exp(-lambda / 2) prod_l z_l^{i_l} / sqrt(i_l!).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from bondic.core.bounded import TINY, FloatArray, IntArray, U
from bondic.core.codec import Numbers
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import (
    NUMPY_ULP,
    FeatureLeaf,
    PointPart,
    center_vector,
    check_part,
    listed,
    per_dimension,
    scale_vector,
)
from bondic.core.registry import register

MAX_FEATURES = 200_000
"""One row of features is held in memory for every point of a block."""


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
    exponent = degree * np.log(safe) - safe - math.lgamma(degree + 1.0)
    ratio = safe / (degree + 1.0)
    bound = np.exp(np.minimum(exponent, 0.0)) * (1 + 1e-9) / np.maximum(1.0 - ratio, 1e-3)
    return np.asarray(np.where(ratio < 0.99, np.minimum(bound, 1.0), 1.0))


@dataclass(frozen=True, eq=False)
class FeatureOrder:
    """How features are made: phi_I = phi_parent * z_axis * factor, in order of degree; the first is the exponential."""

    parents: IntArray
    axes: IntArray
    factors: FloatArray
    below: IntArray  # below[k]: how many features have degree below k


@cache
def feature_order(degree: int, dimension: int) -> FeatureOrder:
    parents, axes, factors, below = [0], [0], [1.0], [0, 1]
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
        below.append(len(parents))
    return FeatureOrder(np.array(parents), np.array(axes), np.array(factors), np.array(below))


@register("kernel", "gaussian-series")
@dataclass(frozen=True, eq=False)
class GaussianSeries(FeatureLeaf):
    """k_m(x, y) = sum_{|I| < m} phi_I(x) phi_I(y): explicit features, K_max = 1.

    A kernel in its own right: its functions are functions of the Gaussian's space, with no smaller a norm there. On given
    points it differs from the Gaussian by at most `distance`, since |k - k_m|(x, y) <= sqrt( T_m(lambda_x) T_m(lambda_y) ).

    Parameters
    ----------
    bandwidth : float or array of float
        The length h over which values stay similar, in the units of the columns: one number, or one per column.
    degree : int
        m, from 1 to 400: terms of degree below it are kept. The number of features grows like m^d / d!.
    center : float or array of float, default 0
        c, where the series is exact; it is good near it. `fit` takes the mean of the points.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
    """

    bandwidth: Numbers
    degree: int
    center: Numbers = 0.0
    on: PointPart = "observation"
    sup_diag = 1.0

    def __post_init__(self) -> None:
        check_part(self.on)
        object.__setattr__(self, "bandwidth", scale_vector(self.bandwidth, "bandwidth"))
        object.__setattr__(self, "center", center_vector(self.center, "a series"))
        whole = isinstance(self.degree, int | np.integer) and not isinstance(self.degree, bool)
        if not (whole and 1 <= self.degree <= 400):
            raise InvalidInput(f"The degree of a series is a whole number from 1 to 400, not {self.degree!r}.")
        object.__setattr__(self, "degree", int(self.degree))

    @staticmethod
    def fit(points: FloatArray, bandwidth: Any, *, tolerance: float, on: PointPart = "observation") -> GaussianSeries:
        """The smallest degree whose kernel is within `tolerance` of the Gaussian at all pairs of these points."""
        center = points.mean(axis=0)
        scales = per_dimension(scale_vector(bandwidth, "bandwidth"), points.shape[1], "The series")
        largest = squared_norms((points - center) / scales).max(initial=0.0, keepdims=True)
        for degree in range(1, 401):
            if poisson_tail(largest, degree)[0] <= tolerance:
                return GaussianSeries(bandwidth, degree, center, on)
        raise InvalidInput(
            f"No series of degree up to 400 comes within {tolerance:g} of the Gaussian here: the farthest point is "
            f"{math.sqrt(float(largest[0])):.3g} bandwidths from the mean. Use Gaussian itself."
        )

    def _scaled(self, x: FloatArray) -> FloatArray:
        per_dimension(self.center, x.shape[1], "The center of the series")
        return np.asarray((x - self.center) / per_dimension(self.bandwidth, x.shape[1], "The series"))

    def features(self, x: FloatArray) -> FloatArray:
        scaled = self._scaled(x)
        if (count := feature_count(self.degree, x.shape[1])) > MAX_FEATURES:
            raise InvalidInput(
                f"A series of degree {self.degree} in {x.shape[1]} dimensions has {count} features; at most {MAX_FEATURES} "
                "can be evaluated. Use a smaller degree, or Gaussian itself."
            )
        order = feature_order(self.degree, x.shape[1])
        out = np.empty((order.parents.size, x.shape[0]))
        np.exp(-0.5 * np.einsum("ij,ij->i", scaled, scaled), out=out[0])
        for k in range(1, order.parents.size):
            np.multiply(out[order.parents[k]], scaled[:, order.axes[k]] * order.factors[k], out=out[k])
        return np.ascontiguousarray(out.T)

    def feature_error(self, x: FloatArray) -> float:
        """Relative errors: exponent (d + 4) lambda / 2, exponential, 4 per degree; coordinates (3 U each) 3 (m + lambda).

        lambda phi_I <= min(lambda, 4 m + 20): beyond 4 m the square of phi_I is below exp(-0.4 lambda).
        """
        largest = float(squared_norms(self._scaled(x)).max(initial=0.0))
        bound = min(largest, 4.0 * self.degree + 20.0)
        roundings = 0.5 * (x.shape[1] + 4) * bound + 4 * self.degree + NUMPY_ULP + 4 + 3 * (self.degree + bound)
        return float(1.01 * roundings * U + TINY)

    def distance(self, x: FloatArray, y: FloatArray | None = None) -> float:
        """An upper bound of |k - k_m| over pairs of these points, k the Gaussian kernel."""
        tails = [
            float(poisson_tail(squared_norms(self._scaled(part)), self.degree).max(initial=0.0))
            for part in (x, x if y is None else y)
        ]
        return math.sqrt(tails[0] * tails[1]) * (1 + 8 * U)

    def __repr__(self) -> str:
        return f"GaussianSeries({listed(self.bandwidth)}, degree={self.degree}, center={listed(self.center)}, on={self.on!r})"
