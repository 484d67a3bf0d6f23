"""What the rows leave of θ: a vector event, ellipsoids, and a fixed point.

With instruments χ_i known before the row, and rates r_k |χ_i| B < 1, with probability at least 1 - δ

    | sum_i χ_i Z_i |  <=  ϱ = min_k ( log(2K/δ) + sum_i g(-r_k |χ_i| |Δ_i|) ) / r_k,                                       (16)

and sum χ_i Z_i = g + H f + sum χ_i η_i, H = sum χ_i T_i^T, g = sum χ_i R_i, |η_i| <= β h_i, h_i = s(x_i) + γ s'_i. So

    |H f| <= ρ = ϱ + |g| + β c,   c = min{ sum |χ_i| h_i, ( λ_max(sum χ_i χ_i^T) sum h_i^2 )^(1/2) }.

If |θ| <= β is stated as well (a ball), |f| <= β + |b|. Hence for every λ >= 0, λ = 0 where nothing bounds θ, an ellipsoid

    |H f|^2 + λ |f|^2  <=  ρ^2 + λ (β + |b|)^2,          f = A z, |z| <= k,   A about (H^T H + λ)^(-1/2).

No inverse is trusted: A is any matrix with |A^T (H^T H + λ) A - I| < 1. Deviations over the ellipsoids give ϱ again, and so on.
All iterates hold on the one event, which sees neither β nor λ and A.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.core.betting import curvature, vector_term
from bondic.core.bounded import U, inflate, largest_eigenvalue, maximum_on_ball, norm, product_error
from bondic.core.errors import InvalidInput
from bondic_lab.features.sums import FeatureTally, WeightedSums

FloatArray = npt.NDArray[np.float64]

_ROUNDS = 200
_CONVERGED = 3e-3
"""Relative change of ϱ at which iterating stops: any number of rounds gives a bound."""


@dataclass(frozen=True)
class FeatureEvent:
    """Rates of (16) and its probability; fixed before the rows."""

    rates: tuple[float, ...]
    probability: float

    def __post_init__(self) -> None:
        if not (self.rates and all(0 < rate < math.inf for rate in self.rates) and 0 < self.probability < 1):
            raise InvalidInput("A vector event has at least one positive rate, and a probability.")

    @property
    def log_term(self) -> float:
        """log(2K/δ)."""
        return vector_term(self.probability / len(self.rates)).upper


@dataclass(frozen=True, eq=False)
class FeatureQuadratic:
    """constant + 2 <f, linear> + f^T form f, with bounds of the errors of its parts."""

    constant: float
    linear: FloatArray
    form: FloatArray
    linear_error: float
    form_error: float

    @staticmethod
    def of(weighing: WeightedSums, prices: FloatArray, relative: float) -> FeatureQuadratic:
        """sum_i w_i (D_i + <f, U_i>)^2, w_i the price of the class times a_i^2."""
        return FeatureQuadratic(
            inflate(float(prices @ weighing.square) * (1 + relative)),
            prices @ weighing.cross,
            np.tensordot(prices, weighing.form, axes=1),
            inflate(relative * float(prices @ weighing.cross_size)),
            inflate(relative * float(prices @ weighing.form_size)),
        )

    def plus(self, factor: float, linear: FloatArray, error: float) -> FeatureQuadratic:
        """factor times this, plus 2 <f, linear>; `linear` is off by at most `error`."""
        error += factor * (self.linear_error + 4 * U * norm(self.linear)) + 4 * U * norm(linear)
        return FeatureQuadratic(
            inflate(factor * self.constant),
            factor * self.linear + linear,
            factor * self.form,
            inflate(error),
            inflate(factor * (self.form_error + 4 * U * norm(self.form))),
        )


@dataclass(frozen=True, eq=False)
class FeatureEllipsoid:
    """{ A z : |z| <= k }."""

    index: int  # among the shapes of the tally
    matrix: FloatArray  # A
    size: float  # k

    @cached_property
    def _norm(self) -> float:
        return norm(self.matrix)

    @property
    def largest(self) -> float:
        """A bound of |f|."""
        return inflate(self.size * self._norm)

    def support(self, direction: FloatArray, error: float = 0.0) -> float:
        """An upper bound of |<f, d>|, d off by at most `error`."""
        along = norm(direction @ self.matrix) + product_error(direction.size, norm(direction), self._norm)
        return inflate(self.size * along + error * self.largest)

    def supremum(self, of: FeatureQuadratic) -> float:
        """An upper bound of a quadratic function: one trust region, for the linear and the quadratic part together."""
        k, size, dimension = self.size, self._norm, self.matrix.shape[0]
        inner, linear = k * k * (self.matrix.T @ of.form @ self.matrix), k * (of.linear @ self.matrix)
        error = k * k * (product_error(3 * dimension + 16, size * size, norm(of.form)) + size * size * of.form_error)
        error += 2 * k * (product_error(dimension + 4, size, norm(of.linear)) + size * of.linear_error)
        found = maximum_on_ball(0.5 * (inner + inner.T), linear)
        return inflate(inflate(max(of.constant + found, 0.0)) + inflate(error))


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """What is left at one allowance: ellipsoids, each of which holds f; none where nothing is known."""

    tally: FeatureTally
    allowance: float  # β
    sets: tuple[FeatureEllipsoid, ...]

    def _off(self, one: FeatureEllipsoid) -> float:
        """Rounding of D_i + <f, U_i>."""
        return inflate(self.tally.error + 8 * U * one.largest * self.tally.length)

    def lost(self, one: FeatureEllipsoid, weighing: WeightedSums) -> FloatArray:
        """(C,) the largest bet that a row of a class can lose."""
        lost = weighing.lost + one.size * weighing.moved[:, one.index] + weighing.top * self._off(one)
        lost = (lost + self.tally.gamma * self.allowance * weighing.further) * (1 + 16 * U)
        return np.clip(lost, 0.0, weighing.most * (1 + 4 * U))

    def beside(self, one: FeatureEllipsoid, weighing: WeightedSums, prices: FloatArray) -> float:
        """A bound of ( sum_i w_i e_i^2 )^(1/2), e_i = γ β s'_i + rounding + how far a floor moves the center."""
        tally, off, grow = self.tally, self._off(one), 1 + self.tally.relative
        parts = tally.gamma * self.allowance * math.sqrt(float(prices @ weighing.ahead) * grow)
        beyond = max(one.size - tally.shapes[one.index].guess, 0.0) * (1 + 4 * U)
        parts += math.sqrt(float(prices @ weighing.over[:, one.index]) * grow)
        parts += beyond * math.sqrt(float(prices @ weighing.shifted[:, one.index]) * grow)
        return inflate(inflate(parts) + 2 * off * math.sqrt(float(prices @ weighing.mass) * grow))


@dataclass(frozen=True, eq=False)
class FeatureGround:
    """What no allowance changes."""

    tally: FeatureTally
    event: FeatureEvent
    bounded: bool  # whether |θ| <= β is stated, too

    def __post_init__(self) -> None:
        if max(self.event.rates) > self.tally.largest_rate:
            raise InvalidInput("The event has a rate that is larger than that of its tally.")
        if not self.bounded and any(shape.ridge > 0 for shape in self.tally.shapes):
            raise InvalidInput("A ridge needs a bound of the coefficients.")

    @cached_property
    def _factors(self) -> list[float]:
        """k over (ρ^2 + λ (β + |b|)^2)^(1/2) of every shape; inf where nothing follows."""
        tally, matrix, found = self.tally, self.tally.sums.matrix, []
        dimension, grown = tally.reference.size, tally.relative * tally.sums.matrix_size
        for one in tally.shapes:
            shape, ridge = one.matrix, one.ridge
            along, size = matrix @ shape, norm(shape)
            gram = along.T @ along + ridge * (shape.T @ shape)
            gap = norm(gram - np.eye(dimension)) + 8 * U * (dimension + norm(gram))
            gap += product_error(matrix.shape[0] + 4, norm(along), norm(along))
            gap += ridge * product_error(dimension + 4, size, size)
            off = product_error(dimension, norm(matrix), size) + grown * size
            below = math.sqrt(max(1.0 - inflate(gap), 0.0)) * (1 - 4 * U) - inflate(off)
            found.append(inflate(1.0 / below) if below > 0 else math.inf)
        return found

    @cached_property
    def _fixed(self) -> float:
        """A bound of |g|."""
        tally, sums = self.tally, self.tally.sums
        return inflate(norm(sums.offset) + tally.relative * sums.offset_size + tally.error * sums.size)

    @cached_property
    def _bias(self) -> float:
        """c."""
        tally, sums = self.tally, self.tally.sums
        top = largest_eigenvalue(0.5 * (sums.gram + sums.gram.T))[0] + tally.relative * sums.gram_size
        return inflate(min(sums.scale, math.sqrt(top * sums.scale_square)) * (1 + 4 * tally.relative))

    def locate(self, allowance: float) -> FeatureSet:
        """The fixed point at β. A round looks at the best rate so far and at the next larger one: any rates give a bound."""
        rates = sorted(self.event.rates)
        radius, best = min((self._at_the_range(rate), k) for k, rate in enumerate(rates))
        found = self._sets(allowance, radius)
        for _ in range(_ROUNDS):
            tried = [
                (self._radius(found, one, rates[k]), k)
                for one in found.sets
                for k in range(len(rates))[best : best + 2]
            ]
            last, (radius, best) = radius, min([(radius, best), *tried])
            found = self._sets(allowance, radius)
            if not radius < last * (1 - _CONVERGED):
                break
        return found

    def _sets(self, allowance: float, radius: float) -> FeatureSet:
        """`radius`: ϱ."""
        tally, sets = self.tally, []
        rho = inflate(radius + self._fixed + allowance * self._bias)
        ball = inflate(allowance + norm(tally.reference))
        for j, (factor, shape) in enumerate(zip(self._factors, tally.shapes, strict=True)):
            size = inflate(factor * math.sqrt(rho**2 + shape.ridge * ball**2))
            if math.isfinite(size * norm(shape.matrix)):
                sets.append(FeatureEllipsoid(j, shape.matrix, size))
        return FeatureSet(tally, allowance, tuple(sets))

    def _at_the_range(self, rate: float) -> float:
        """ϱ at one rate, where all that is known is |Δ_i| <= B."""
        weighing, times = self.tally.vector, rate / self.tally.largest_rate
        prices = curvature(-(times * weighing.most * (1 + 8 * U)))
        energy = (times * self.tally.limits.width) ** 2 * float(prices @ weighing.mass) * (1 + self.tally.relative)
        return inflate((self.event.log_term + energy) / rate * (1 + 8 * U))

    def _radius(self, features: FeatureSet, one: FeatureEllipsoid, rate: float) -> float:
        """ϱ at one rate, over an ellipsoid."""
        weighing, times = self.tally.vector, rate / self.tally.largest_rate
        prices = curvature(-(times * features.lost(one, weighing)))
        whole = one.supremum(FeatureQuadratic.of(weighing, prices, self.tally.relative))
        energy = (times * (math.sqrt(whole) + features.beside(one, weighing, prices))) ** 2
        return inflate((self.event.log_term + energy) / rate * (1 + 8 * U))
