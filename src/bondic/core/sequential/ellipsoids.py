"""What is left of Q: cylinders (17), and ellipsoids (18) that contain what ball and cylinders have in common.

In the coordinates of `landmarks`, e = (ẽ, e_perp) with |ẽ|^2 + |e_perp|^2 <= r^2 and | h_k + G_k ẽ | <= s_k. With weights
alpha r^2 + sum_k w_k s_k^2 <= 1 every such e has

    alpha ( |ẽ|^2 + |e_perp|^2 ) + sum_k w_k | h_k + G_k ẽ |^2  <=  1,

which for any float center ē and P = alpha + sum_k w_k G_k^T G_k reads

    (ẽ - ē)^T P (ẽ - ē) + alpha |e_perp|^2  <=  rho^2,     rho^2 = 1 - (left side at ē) + 2 (r + |ē|) |gradient / 2 at ē|.   (18)

Any ē is valid, the one where the gradient vanishes is best. Nothing has to be inverted exactly either: any S with
| S^T P S - 1 | <= skew gives ẽ = ē + S y, (1 - skew) |y|^2 + alpha |e_perp|^2 <= rho^2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bondic.core.bounded import (
    LEAST,
    SMALL,
    Between,
    FloatArray,
    U,
    gamma,
    inflate,
    maximum_on_ball,
    norm,
    product_error,
    row_norms,
)
from bondic.core.sequential.landmarks import Embedding

_MAX_SKEW = 0.01


@dataclass(frozen=True, eq=False)
class Cylinder:
    """| offset + matrix ẽ | <= size: exact floats, as what they miss of h and G is part of the size."""

    matrix: FloatArray  # (p, m)
    offset: FloatArray  # (p,)
    size: float

    def with_size(self, size: float) -> Cylinder:
        return Cylinder(self.matrix, self.offset, size)


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """All ẽ = ē + S y and e_perp with (1 - skew) |y|^2 + alpha |e_perp|^2 <= rho^2; `empty` where rho^2 < 0 for certain."""

    center: FloatArray  # (m,) ē
    shape: FloatArray  # (m, m) S
    skew: float
    alpha: float
    rho_square: float  # rounded up
    ball: float  # r

    @property
    def empty(self) -> bool:
        return self.rho_square < 0.0

    @property
    def rho(self) -> float:
        return inflate(math.sqrt(max(self.rho_square, 0.0)))

    @property
    def extent(self) -> float:
        """A bound of |y|."""
        return inflate(self.rho / math.sqrt(1.0 - self.skew))

    @property
    def beyond(self) -> float:
        """A bound of |e_perp|."""
        return min(self.ball, inflate(self.rho / math.sqrt(self.alpha)))

    def products(self, embedding: Embedding) -> Between:
        """<e, f_i> for all e that are left: bounds for every embedding, rounded outward."""
        return self.both_products(embedding)[0]

    def both_products(self, embedding: Embedding) -> tuple[Between, Between]:
        """Bounds of <e, f_i>, and of ẽ . c_i alone: the remainder of f_i is then bounded for many rows jointly."""
        rows, m = embedding.coordinates, self.shape.shape[0]
        lengths = row_norms(rows)
        middle = rows @ self.center
        projected = row_norms(rows @ self.shape) + gamma(m) * lengths * norm(self.shape)
        across = embedding.perp * self.beyond
        joint = self.rho * np.sqrt(projected**2 / (1.0 - self.skew) + embedding.perp**2 / self.alpha)
        whole, bare = np.minimum(joint, projected * self.extent + across), projected * self.extent
        off = gamma(m) * lengths * norm(self.center) + SMALL

        def around(half: FloatArray) -> Between:
            half = (half + embedding.extra) * (1 + 16 * U) + off
            return Between((middle - half) - 2 * U * np.abs(middle), (middle + half) + 2 * U * np.abs(middle))

        return around(whole), around(bare)


def whole_ball(radius: float, dimension: int) -> Ellipsoid:
    """E before anything was learned."""
    return Ellipsoid(
        np.zeros(dimension), radius * np.eye(dimension), 8 * U, _down(1.0 / radius**2), 1.0 + 8 * U, radius
    )


def enclose(radius: float, cylinders: Sequence[Cylinder], shares: Sequence[float]) -> Ellipsoid | None:
    """The ellipsoid (18) with these shares of its weight on the cylinders, the rest on the ball; None: not found.

    A matrix that floats cannot factor gives None, which is no loss of validity: there is an ellipsoid less to choose from.
    """
    m, alpha = cylinders[0].matrix.shape[1], _down((1.0 - math.fsum(shares)) / radius**2)
    weights = [_down(share / max(cylinder.size, LEAST) ** 2) for share, cylinder in zip(shares, cylinders, strict=True)]
    metric, target = alpha * np.eye(m), np.zeros(m)
    for weight, cylinder in zip(weights, cylinders, strict=True):
        metric += weight * (cylinder.matrix.T @ cylinder.matrix)
        target -= weight * (cylinder.matrix.T @ cylinder.offset)
    try:
        shape = np.linalg.inv(np.linalg.cholesky(metric)).T
    except np.linalg.LinAlgError:
        return None
    center = shape @ (shape.T @ target)
    if not (np.all(np.isfinite(shape)) and np.all(np.isfinite(center))):
        return None
    skew = _skew(shape, alpha, weights, cylinders)
    if not skew <= _MAX_SKEW:
        return None
    return Ellipsoid(center, shape, skew, alpha, _rho_square(center, radius, alpha, weights, cylinders), radius)


def _skew(shape: FloatArray, alpha: float, weights: Sequence[float], cylinders: Sequence[Cylinder]) -> float:
    """A bound of |S^T P S - 1|_F."""
    m, size = shape.shape[0], norm(shape)
    scaled = shape * alpha
    total, error = shape.T @ scaled, product_error(m + 1, norm(scaled), size)
    for weight, cylinder in zip(weights, cylinders, strict=True):
        image = cylinder.matrix @ shape
        own, long = product_error(m, norm(cylinder.matrix), size), norm(image)
        total += weight * (image.T @ image)
        error += weight * (product_error(image.shape[0], long, long) + 2 * long * own + own * own)
    rounding = 4 * (len(weights) + 2) * U * norm(total)
    return inflate((norm(total - np.eye(m)) + error + rounding) * (1 + 1e-9))


def _rho_square(
    center: FloatArray, radius: float, alpha: float, weights: Sequence[float], cylinders: Sequence[Cylinder]
) -> float:
    """rho^2 of (18) at this center, rounded up."""
    m, length = center.shape[0], norm(center)
    least = float(center @ (alpha * center)) * (1 - gamma(m + 1))
    gradient = alpha * center
    error = 2 * U * norm(gradient)
    for weight, cylinder in zip(weights, cylinders, strict=True):
        value = cylinder.offset + cylinder.matrix @ center
        scale = norm(cylinder.matrix)
        off = product_error(m + 1, scale, length) + 2 * U * (norm(cylinder.offset) + norm(value))
        square = float(value @ value) * (1 - gamma(value.size))
        least += weight * max(square - 2 * norm(value) * off, 0.0) * (1 - 4 * U)
        gradient = gradient + weight * (cylinder.matrix.T @ value)
        error += weight * (scale * off + product_error(value.size, scale, norm(value) + off)) + 4 * U * norm(gradient)
    slope = (norm(gradient) + error) * (1 + 1e-9)
    high = 1.0 - least + 2 * (radius + length) * slope * (1 + 8 * U)
    return high + 16 * U * (1.0 + least)


def _down(value: float) -> float:
    """A weight rounded down by more than its few roundings, so that all weights together stay within 1."""
    return value * (1 - 16 * U)


@dataclass(frozen=True, eq=False)
class Quadratic:
    """sum_i w_i (t_i + <e, f_i>)^2 as a function of ẽ: c + 2 l.ẽ + ẽ^T C ẽ + extra, with bounds of the errors of c, l, C."""

    constant: float
    linear: FloatArray  # (m,)
    square: FloatArray  # (m, m)
    errors: tuple[float, float, float]

    @staticmethod
    def of(
        weights: FloatArray,
        offsets: FloatArray,
        embedding: Embedding,
        beyond: float,
        pooled_remainder: float = math.inf,
    ) -> Quadratic:
        """Rounded up: b_i = |e_perp| perp_i + extra_i is taken out by (t + b)^2 <= (1 + eta) t^2 + (1 + 1/eta) b^2.

        `together` bounds sum_i w_i <e, R_i>^2 for all e at once, R_i what is left over of f_i: it takes the place of
        |e_perp| perp_i, with one eta for all rows, where that is less.
        """
        rows, m = embedding.coordinates, embedding.coordinates.shape[1]
        outside = (embedding.perp * beyond + embedding.extra) * (1 + 8 * U)
        eta = np.minimum(outside / (np.abs(offsets) + 1e-6), 1.0) + 1e-12
        paid = float(np.sum(weights * (1 + 1 / eta) * outside**2)) * (1 + gamma(len(offsets)))
        level = float(np.sum(weights * offsets**2))
        more = math.sqrt(pooled_remainder) + math.sqrt(float(np.sum(weights * embedding.extra**2))) * (
            1 + gamma(len(offsets))
        )
        single = min(more / math.sqrt(level + 1e-12), 1.0) + 1e-12
        pooled = (1 + 1 / single) * more * more * (1 + 16 * U)
        if (1 + single) * level + pooled < float(np.sum(weights * eta * offsets**2)) + level + paid:
            eta, paid = np.full(len(offsets), single), pooled
        grown = weights * (1 + eta) * (1 + 4 * U)
        scaled = rows * grown[:, None]
        squares = float(np.sum(grown * np.einsum("ij,ij->i", rows, rows))) * (1 + gamma(len(offsets) + m))
        level = float(np.sum(grown * offsets**2)) * (1 + gamma(len(offsets)))
        share = gamma(len(offsets) + 4)
        errors = share * level, share * math.sqrt(level * squares), share * squares
        return Quadratic(level + paid, scaled.T @ offsets, scaled.T @ rows, errors)


def supremum(
    ellipsoid: Ellipsoid, linear: FloatArray, slack: float, quadratic: Quadratic | None
) -> tuple[float, float]:
    """sup over e of  linear . ẽ + (quadratic form), plus `slack`; and the value at the center of the ellipsoid.

    `slack` bounds whatever e_perp and roundings add to the linear part. The trust-region bound of `maximum_on_ball`.
    """
    center, shape, extent, m = ellipsoid.center, ellipsoid.shape, ellipsoid.extent, linear.shape[0]
    length, size = norm(center), norm(shape)
    at_center = float(linear @ center)
    slack += product_error(m, norm(linear), length)
    if quadratic is None:
        half = norm(shape.T @ linear) + product_error(m, size, norm(linear))
        return _up(at_center + half * extent * (1 + 4 * U) + slack), at_center
    c_error, l_error, s_error = quadratic.errors
    square, weight = quadratic.square, norm(quadratic.square)
    image = square @ center
    middle = quadratic.constant + 2 * float(quadratic.linear @ center) + float(center @ image)
    slope = 0.5 * linear + quadratic.linear + image
    slack += c_error + 2 * (l_error + gamma(m) * norm(quadratic.linear)) * length
    slack += (s_error + 3 * gamma(m) * weight) * length * length
    off = l_error + (s_error + product_error(m, weight, 1.0)) * length + 8 * U * (norm(slope) + norm(linear))
    form = shape.T @ square @ shape
    form_error = size * size * (s_error + 3 * gamma(m) * weight)
    projected = shape.T @ slope
    along_error = size * off + product_error(m, size, norm(slope))
    best = maximum_on_ball(extent * extent * 0.5 * (form + form.T), extent * projected)
    slack += extent * extent * form_error * (1 + 1e-9) + 2 * extent * along_error * (1 + 1e-9)
    slack += (
        16 * U * (abs(at_center) + abs(middle) + abs(best) + extent * extent * norm(form) + extent * norm(projected))
    )
    return _up(at_center + middle + best + slack * (1 + 1e-9)), at_center + middle


def _up(value: float) -> float:
    """Above a sum of a few floats, whatever its sign."""
    return value + 16 * U * abs(value) + SMALL
