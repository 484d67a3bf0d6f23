"""The price of noise in betting form: g(y) = y - log(1 + y) at the deviation that was observed (section 9).

For predictable v_i, centers Ŷ_i inside the range of Y_i and Δ_i = Y_i - Ŷ_i, with v_i Δ_i < 1 for every outcome,

    prod_i exp( v_i Z_i - g(-v_i Δ_i) )   is a supermartingale:  the mean of a factor is e^u (1 - u) <= 1,

u = v_i (q*(x_i) - Ŷ_i), however bad the center is;

so with probability at least 1 - delta, at all n at once,

    sum_i v_i Z_i  <=  log(1/delta) + sum_i g(-v_i Δ_i)                                                       (15)
    | sum_i λ_i φ_i Z_i |  <=  log(2/delta) + sum_i g(-λ_i |φ_i| |Δ_i|)                                        (16)

The center is Ŷ = clip_[A, C](ŷ). Known are enclosures ŷ in [y_lo, y_hi], Y in [Y_lo, Y_hi], Y - ŷ in [d_lo, d_hi]. Then (14)

    Δ = Y - Ŷ <= d_hi                                                      if y_hi <= C,
            Δ <= max( d_hi, min(Y_hi - C, d_hi + y_hi - C) )               else,
    always  Δ <= Y_hi - clip(y_lo),

and the same mirrored below. "Y_hi <= C" is not enough for the first line: C = 0.5, ŷ = 0.9, Y = 0.4 has Y - ŷ = -0.5
and Δ = -0.1.
"""

from __future__ import annotations

import numpy as np

from bondic.core.bounded import TINY, Between, Enclosure, FloatArray, U, log_enclosure
from bondic.core.errors import NumericalError

MAX_BET = 0.995
"""Largest |v_i| times the range that Δ_i may have on the losing side; caps are set a little below."""
_SERIES = 1e-3


def bet_cost(y: FloatArray) -> FloatArray:
    """g(y) = y - log(1 + y) for y > -1, rounded up. Convex, 0 at 0."""
    if not np.all((y > -1.0) & (y < np.inf)):  # written so that what is not a number is refused as well
        raise NumericalError("A bet can lose all wealth: weight times deviation is 1 or more, or not a number.")
    # log1p is good to a few ulp of itself; the difference is rounded once. y^2 / (2 (1 - |y|)) is a bound where they cancel
    logarithm = np.log1p(y)
    value = (y - logarithm) + 8 * U * (np.abs(y) + np.abs(logarithm)) + TINY
    with np.errstate(divide="ignore", invalid="ignore"):
        series = 0.5 * y * y / np.maximum(1.0 - np.abs(y), 0.0) * (1 + 8 * U) + TINY
    return np.asarray(np.where(np.abs(y) < _SERIES, np.minimum(value, series), value))


def curvature(y: FloatArray) -> FloatArray:
    """g(y) / y^2 for -1 < y <= 0, rounded up; 1/2 at 0, and larger the farther y is from it.

    Near 0 the series 1/2 + u/3 + u^2/4 + ... in u = -y, its tail bounded by a geometric one.
    """
    u = np.maximum(-y, 0.0)
    if not np.all(u < 1.0):
        raise NumericalError("A bet can lose all wealth: weight times deviation is 1 or more, or not a number.")
    series = (0.5 + u / 3 + 0.25 * u * u / np.maximum(1.0 - u, TINY)) * (1 + 8 * U)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        direct = bet_cost(-u) / (u * u) * (1 + 8 * U)
    return np.asarray(np.where(u < _SERIES, series, np.minimum(direct, series)))


def tail_term(probability: float) -> Enclosure:
    """log(1/delta): what one scalar tail costs."""
    return log_enclosure(Enclosure(1.0) / probability)


def vector_term(probability: float) -> Enclosure:
    """log(2/delta): what the vector event costs."""
    return log_enclosure(Enclosure(2.0) / probability)


def clipped_deviation(predicted: Between, outcome: Between, deviation: Between, clip: Between) -> Between:
    """Bounds of Y - clip(ŷ), rounded outward."""
    with np.errstate(invalid="ignore"):
        over = np.minimum(outcome.high - clip.high, deviation.high + (predicted.high - clip.high))
        high = np.where(predicted.high <= clip.high, deviation.high, np.maximum(deviation.high, over))
        high = np.minimum(high, outcome.high - np.clip(predicted.low, clip.low, clip.high))
        under = np.maximum(outcome.low - clip.low, deviation.low + (predicted.low - clip.low))
        low = np.where(predicted.low >= clip.low, deviation.low, np.minimum(deviation.low, under))
        low = np.maximum(low, outcome.low - np.clip(predicted.high, clip.low, clip.high))
    # every branch is made of at most three numbers: two roundings
    size = deviation.magnitude() + predicted.magnitude() + outcome.magnitude() + clip.magnitude()
    return Between(low - 8 * U * size, high + 8 * U * size)
