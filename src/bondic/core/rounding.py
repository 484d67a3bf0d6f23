"""Numbers that stay bounds: mid-radius enclosures with outward rounding (theory, section 11).

Every reported end point is an upper or lower bound of the real-number formula evaluated at the float64
inputs. An :class:`Enclosure` carries a computed value and a bound of its distance to the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.errors import NumericalError

FloatArray = npt.NDArray[np.float64]

U = 2.0**-53
"""Unit round-off of float64: |fl(x) - x| <= U |x| barring underflow."""

TINY = 2.0**-1022
"""Smallest normal number; absorbs every underflow of the elementary operations."""

_SLACK = 1.0 + 16 * U
"""Radii are computed with a handful of float operations, each good to U: inflate once by more than that."""


def next_up(x: float) -> float:
    return math.nextafter(x, math.inf)


def next_down(x: float) -> float:
    return math.nextafter(x, -math.inf)


def inflate(radius: float) -> float:
    """An upper bound of a non-negative expression of at most 15 operations computed in float64."""
    return next_up(radius * _SLACK)


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A real number x known through |x - mid| <= rad."""

    mid: float
    rad: float = 0.0

    def __post_init__(self) -> None:
        # a float32 in here would drag the arithmetic down to single precision, which no radius pays for
        object.__setattr__(self, "mid", float(self.mid))
        object.__setattr__(self, "rad", float(self.rad))
        if not (math.isfinite(self.mid) and math.isfinite(self.rad)) or self.rad < 0:
            raise NumericalError(
                f"A certified number is not finite (value {self.mid}, error {self.rad}). "
                "The inputs are too large for float64: rescale rewards or observations."
            )

    @property
    def upper(self) -> float:
        return next_up(self.mid + self.rad)

    @property
    def lower(self) -> float:
        return next_down(self.mid - self.rad)

    def __add__(self, other: Enclosure | float) -> Enclosure:
        other = as_enclosure(other)
        mid = self.mid + other.mid
        return Enclosure(mid, inflate(self.rad + other.rad + U * abs(mid)))

    def __neg__(self) -> Enclosure:
        return Enclosure(-self.mid, self.rad)

    def __sub__(self, other: Enclosure | float) -> Enclosure:
        return self + (-as_enclosure(other))

    def __mul__(self, other: Enclosure | float) -> Enclosure:
        other = as_enclosure(other)
        mid = self.mid * other.mid
        spread = abs(self.mid) * other.rad + self.rad * abs(other.mid) + self.rad * other.rad
        return Enclosure(mid, inflate(spread + U * abs(mid) + TINY))

    def __truediv__(self, other: Enclosure | float) -> Enclosure:
        other = as_enclosure(other)
        if abs(other.mid) <= other.rad:
            raise NumericalError("Division by a number whose enclosure contains zero.")
        denominator = next_down(abs(other.mid) - other.rad)
        if denominator <= 0.0:  # no room left between 0 and the smallest number there is
            raise NumericalError("Division by a number that cannot be told from zero.")
        mid = self.mid / other.mid
        # rad / denominator first: a product of two tiny numbers could vanish before it is divided by a third
        spread = self.rad / denominator + abs(mid) * (other.rad / denominator)
        return Enclosure(mid, inflate(spread + 2 * U * abs(mid) + TINY))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: float) -> Enclosure:
        return as_enclosure(other) - self

    def __rtruediv__(self, other: float) -> Enclosure:
        return as_enclosure(other) / self

    def __abs__(self) -> Enclosure:
        return Enclosure(abs(self.mid), self.rad)

    def sqrt(self) -> Enclosure:
        """Enclosure of the square root of a quantity that must be >= 0.

        A value that is negative beyond its own error bound is a bug or a broken assumption, never a zero.
        """
        if self.mid < -self.rad:
            raise NumericalError(
                f"A square came out as {self.mid:.3g} although its error bound is {self.rad:.3g}: "
                "the kernel is not positive semi-definite or the error analysis does not apply."
            )
        high = next_up(math.sqrt(max(self.upper, 0.0)))
        low = next_down(math.sqrt(max(self.lower, 0.0)))
        low = max(low, 0.0)
        mid = 0.5 * (low + high)
        return Enclosure(mid, inflate(max(high - mid, mid - low)))


def as_enclosure(x: Enclosure | float) -> Enclosure:
    return x if isinstance(x, Enclosure) else Enclosure(float(x))


def log_enclosure(x: Enclosure | float) -> Enclosure:
    """Enclosure of log x, x > 0; libm's log is trusted to 4 ulp."""
    x = as_enclosure(x)
    if x.lower <= 0:
        raise NumericalError("Logarithm of a number whose enclosure reaches zero.")
    mid = math.log(x.mid)
    return Enclosure(mid, inflate(x.rad / x.lower + 8 * U * abs(mid) + TINY))


def power_enclosure(base: float, exponent: int) -> Enclosure:
    """Enclosure of base ** exponent for 0 <= base <= 1 and integer exponent >= 0 (repeated squaring)."""
    result, square = Enclosure(1.0), Enclosure(base)
    while exponent:
        if exponent & 1:
            result = result * square
        square = square * square
        exponent >>= 1
    return result


def certified_sum(values: npt.NDArray[np.float64] | Iterable[float]) -> Enclosure:
    """Sum of floats, correctly rounded (Shewchuk's exact summation)."""
    items = values.ravel().tolist() if isinstance(values, np.ndarray) else list(values)
    try:
        total = math.fsum(items)
    except (OverflowError, ValueError) as problem:
        raise NumericalError(f"A certified sum overflowed or met a non-finite number ({problem}).") from problem
    return Enclosure(total, inflate(U * abs(total)))


def certified_dot(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> Enclosure:
    """Sum of a_i b_i: each product is good to U |a_i b_i|, their sum is correctly rounded."""
    products = a * b
    total = certified_sum(products)
    size = upper_sum(np.abs(products))
    return Enclosure(total.mid, inflate(total.rad + 2 * U * size + products.size * TINY))


def upper_sum(values: npt.NDArray[np.float64]) -> float:
    """An upper bound of the sum of non-negative floats (any summation order loses at most size * U)."""
    total = float(np.sum(values))
    return inflate(total * (1.0 + values.size * 2 * U))


@dataclass(frozen=True, eq=False)
class Between:
    """low_i <= something_i <= high_i."""

    low: FloatArray
    high: FloatArray

    def largest(self) -> FloatArray:
        """max |something_i|."""
        return np.asarray(np.maximum(np.abs(self.low), np.abs(self.high)))

    def then(self, other: Between) -> Between:
        """These, and the others after them."""
        return Between(np.concatenate([self.low, other.low]), np.concatenate([self.high, other.high]))

    def within(self, low: FloatArray, high: FloatArray) -> Between:
        """Cut to what else is known; ends may cross when the two exclude each other."""
        return Between(np.maximum(self.low, low), np.minimum(self.high, high))
