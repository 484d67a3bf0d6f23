"""Numbers and arrays that carry their error (theory, section 11): sums, products, norms, eigenvalues that stay bounds.

Every reported end point is an upper or lower bound of the real-number formula evaluated at the float64 inputs. An
:class:`Enclosure` is a computed value and a bound of its distance to the exact one, :class:`EnclosedArray` the same entry by
entry; the rest of the file are sums, norms and eigenvalues rounded outward.

A product of float matrices, summed in any order over k terms, is off by at most gamma_k |A| |B| entry by entry
(gamma_k = k u / (1 - k u)); by Cauchy-Schwarz a row of the error is no longer than gamma_k |a_i| |B|_F.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import NumericalError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

U = 2.0**-53
"""Unit round-off of float64: |fl(x) - x| <= U |x| barring underflow."""

TINY = 2.0**-1022
"""Smallest normal number; absorbs every underflow of the elementary operations."""

PORTION = 2**15
"""Rows that are worked on at a time where no row sees another."""
_MOST_NUMBERS = 50_000_000
"""Of a column that is held in memory."""
_FEW_FLOATS = 1000
"""Up to here `math.fsum` alone is faster."""

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
            raise NumericalError(
                "Division by a number whose error bound reaches zero: rescale rewards or observations."
            )
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


def certified_sum(values: FloatArray | Iterable[float]) -> Enclosure:
    """Sum of floats, correctly rounded (Shewchuk's exact summation)."""
    if isinstance(values, np.ndarray):
        flat = values.ravel()
        items: Iterable[float] = chain.from_iterable(same_sum(flat[some]) for some in portions(flat.size))
    else:
        items = values
    try:
        total = math.fsum(items)
    except (OverflowError, ValueError) as problem:
        raise NumericalError(f"A certified sum overflowed or met a non-finite number ({problem}).") from problem
    return Enclosure(total, inflate(U * abs(total)))


def same_sum(values: FloatArray) -> list[float]:
    """Fewer floats with exactly the same sum (the extraction of Rump, Ogita and Oishi, 2008).

    With σ a power of 2, n <= 2^M and |p_i| <= 2^-M σ, q_i = (σ + p_i) - σ is p_i rounded to multiples of σ U, and p_i - q_i is a
    float. Sums of the q_i are such multiples and at most σ: exact in every order. What is left goes on, and is U σ at most.
    """
    parts, rest, bits = [], np.asarray(values, dtype=np.float64), int(values.size).bit_length()
    while rest.size > _FEW_FLOATS:
        largest = max(float(rest.max()), -float(rest.min()))
        if not 0.0 < largest < 2.0**900:  # nothing is left; or σ could overflow, or something is not a number
            break
        unit = math.ldexp(1.0, math.frexp(largest)[1] + bits)
        rounded = (unit + rest) - unit
        parts.append(float(rounded.sum()))
        rest = rest - rounded
    return [*parts, *rest[rest != 0.0].tolist()]


def certified_dot(a: FloatArray, b: FloatArray) -> Enclosure:
    """Sum of a_i b_i: each product is good to U |a_i b_i|, their sum is correctly rounded."""
    products = a * b
    total = certified_sum(products)
    size = upper_sum(np.abs(products))
    return Enclosure(total.mid, inflate(total.rad + 2 * U * size + products.size * TINY))


def portions(count: int) -> Iterator[slice]:
    """All of so many rows, some at a time: what is made of them on the way stays in the cache of a processor."""
    return (slice(first, min(first + PORTION, count)) for first in range(0, count, PORTION))


def filled(count: int, part: Callable[[slice], FloatArray]) -> FloatArray:
    """part(some) for so many rows, in their order, some at a time."""
    found = room((count,), np.dtype(np.float64))
    for some in portions(count):
        found[some] = part(some)
    return found


def room(shape: tuple[int, ...], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """For a column; a long one lies in a temporary file: the memory that it takes is given back where it is needed.

    The file has its place on the disk beforehand: a disk that is full later would end the process. Without the place, memory.
    """
    if math.prod(shape) <= _MOST_NUMBERS:
        return np.empty(shape, kind)
    with tempfile.TemporaryFile() as file:
        try:
            os.posix_fallocate(file.fileno(), 0, math.prod(shape) * kind.itemsize)
        except (AttributeError, OSError):  # no such call on this system, or no place
            return np.empty(shape, kind)
        return np.asarray(np.memmap(file, kind, "r+", shape=shape))


def upper_sum(values: FloatArray) -> float:
    """An upper bound of the sum of non-negative floats (any summation order loses at most size * U)."""
    total = float(np.sum(values))
    return inflate(total * (1.0 + values.size * 2 * U))


@dataclass(frozen=True, eq=False)
class EnclosedArray:
    """Real numbers x known through |x - mid| <= rad, entry by entry: +, -, *, @ and sums carry their own errors.

    A sum of k terms in any order is off by gamma_k times the sum of their absolute values; what bounds it is itself computed
    in floats, and raised by as much.
    """

    mid: FloatArray
    rad: FloatArray | float = 0.0

    __array_ufunc__ = None  # array @ enclosed is ours

    def __post_init__(self) -> None:
        mid = np.asarray(self.mid, dtype=np.float64)
        rad = np.broadcast_to(np.asarray(self.rad, dtype=np.float64), mid.shape)
        if not (np.all(np.isfinite(mid)) and np.all(np.isfinite(rad)) and np.all(rad >= 0)):
            raise NumericalError("Certified numbers are not finite: rescale rewards or observations.")
        object.__setattr__(self, "mid", mid)
        object.__setattr__(self, "rad", rad)

    @property
    def upper(self) -> FloatArray:
        return np.asarray(np.nextafter(self.mid + self.rad, np.inf))

    @property
    def lower(self) -> FloatArray:
        return np.asarray(np.nextafter(self.mid - self.rad, -np.inf))

    def __add__(self, other: EnclosedArray | FloatArray | float) -> EnclosedArray:
        other = _enclosed(other)
        mid = self.mid + other.mid
        return EnclosedArray(mid, (self.rad + other.rad + U * np.abs(mid)) * _SLACK + TINY)

    def __neg__(self) -> EnclosedArray:
        return EnclosedArray(-self.mid, self.rad)

    def __sub__(self, other: EnclosedArray | FloatArray | float) -> EnclosedArray:
        return self + -_enclosed(other)

    def __mul__(self, other: EnclosedArray | FloatArray | float) -> EnclosedArray:
        other = _enclosed(other)
        mid = self.mid * other.mid
        spread = np.abs(self.mid) * other.rad + self.rad * (np.abs(other.mid) + other.rad)
        return EnclosedArray(mid, (spread + U * np.abs(mid)) * _SLACK + 4 * TINY)

    def __matmul__(self, other: EnclosedArray | FloatArray) -> EnclosedArray:
        other = _enclosed(other)
        size, terms = np.abs(other.mid), self.mid.shape[-1]
        spread = np.abs(self.mid) @ (other.rad + gamma(terms) * size) + self.rad @ (size + other.rad)
        return EnclosedArray(self.mid @ other.mid, spread * (1 + 2 * gamma(terms)) + 4 * (terms + 1) * TINY)

    def sum(self, axis: int) -> EnclosedArray:
        error = gamma(self.mid.shape[axis])
        spread = np.sum(self.rad + error * np.abs(self.mid), axis=axis)
        return EnclosedArray(np.sum(self.mid, axis=axis), spread * (1 + 2 * error) + TINY)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: FloatArray | float) -> EnclosedArray:
        return _enclosed(other) - self

    def __rmatmul__(self, other: FloatArray) -> EnclosedArray:
        return _enclosed(other) @ self


def _enclosed(x: EnclosedArray | FloatArray | float) -> EnclosedArray:
    return x if isinstance(x, EnclosedArray) else EnclosedArray(np.asarray(x, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Between:
    """low_i <= x_i <= high_i. Sums and products are those of floats: who uses them pays for their rounding, by `wider`."""

    low: FloatArray
    high: FloatArray

    def magnitude(self) -> FloatArray:
        """max |x_i|."""
        return np.asarray(np.maximum(np.abs(self.low), np.abs(self.high)))

    def then(self, other: Between) -> Between:
        """These, and the others after them."""
        return Between(np.concatenate([self.low, other.low]), np.concatenate([self.high, other.high]))

    def take(self, rows: slice | IntArray) -> Between:
        return Between(self.low[rows], self.high[rows])

    def within(self, other: Between) -> Between:
        """Cut to what else is known; ends may cross when the two exclude each other."""
        return Between(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def wider(self, by: FloatArray | float) -> Between:
        return Between(self.low - by, self.high + by)

    def __add__(self, other: Between) -> Between:
        return Between(self.low + other.low, self.high + other.high)

    def times(self, factor: FloatArray | float) -> Between:
        one, other = self.low * factor, self.high * factor
        return Between(np.minimum(one, other), np.maximum(one, other))


SMALL = 1e-140
"""Added to norms: squares of numbers below 1e-154 underflow."""
LEAST = 1e-60
"""Radii and sizes of sets are at least this: a larger set is a valid one, and its square can be divided by."""


def gamma(terms: int) -> float:
    """gamma_k for sums of `terms` products, a little too large: it also pays for what is computed with it."""
    return 1.01 * (terms + 8) * U


def norm(array: FloatArray) -> float:
    """An upper bound of the Euclidean (Frobenius) norm."""
    flat = array.ravel()
    size = float(math.sqrt(float(flat @ flat)) * (1 + gamma(flat.size)) + SMALL) if flat.size else 0.0
    if not math.isfinite(size):
        raise NumericalError(
            "A norm is not finite: the inputs are too large for float64. Rescale rewards or observations."
        )
    return size


def row_norms(array: FloatArray) -> FloatArray:
    """Upper bounds of the norms of the rows."""
    squares = np.einsum("ij,ij->i", array, array)
    return np.asarray(np.sqrt(squares) * (1 + gamma(array.shape[1])) + SMALL)


def product_error(terms: int, left: float, right: float) -> float:
    """A bound of |fl(A B) - A B|_F from bounds of |A|_F and |B|_F (or of a row of it, from the norm of a row)."""
    return inflate(gamma(terms) * left * right + SMALL)


def largest_eigenvalue(matrix: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """An upper bound of the largest eigenvalue of a symmetric float matrix; approximate eigenvalues and vectors with it.

    M = V L V^T + E gives  lambda_max(M) <= max(L, 0) |V|_2^2 + |E|_F,   |V|_2^2 <= 1 + |V^T V - I|_F.
    """
    try:
        values, vectors = np.linalg.eigh(matrix)
    except (np.linalg.LinAlgError, ValueError) as problem:
        raise NumericalError(
            f"The eigenvalues of a {matrix.shape[0]} x {matrix.shape[0]} matrix did not converge: its entries are too large or "
            "too close to singular for float64."
        ) from problem
    size, length = matrix.shape[0], norm(vectors)
    scaled = vectors * values
    # the product with the eigenvalues is rounded once more; sizes of both factors bound the error of their product
    error = norm(matrix - scaled @ vectors.T) + product_error(size + 2, norm(scaled), length) + U * norm(matrix)
    skew = norm(vectors.T @ vectors - np.eye(size)) + product_error(size, length, length) + 4 * U * size
    top = float(values.max(initial=0.0))
    return inflate(top * (1 + skew) + error), values, vectors


def maximum_on_ball(matrix: FloatArray, linear: FloatArray) -> float:
    """An upper bound of max { z^T M z + 2 b^T z : |z| <= 1 } for symmetric M: nu + b^T (nu - M)^-1 b at one nu > lambda_max.

    Every nu gives a bound; a good one is found by bisection. For any z, with r = b - (nu - M) z,

        b^T (nu - M)^-1 b  <=  z^T b + |z| |r| + |r|^2 / (nu - lambda_max).
    """
    size = matrix.shape[0]
    top, values, vectors = largest_eigenvalue(matrix)
    rotated = vectors.T @ linear
    nu = _good_nu(values, rotated**2, top)
    inverse = vectors @ (rotated / (nu - values))
    shifted = nu * inverse - matrix @ inverse
    length, scale = norm(inverse), norm(matrix)
    residual = norm(linear - shifted) + product_error(size, scale, length) + 4 * U * (nu * length + norm(linear))
    gap = (nu - top) * (1 - 4 * U)
    value = float(inverse @ linear) + product_error(size, length, norm(linear))
    return inflate(nu + value + length * residual + residual * residual / gap + 4 * U * (nu + abs(value)))


def _good_nu(values: FloatArray, squares: FloatArray, top: float) -> float:
    """Near the minimum of nu + sum_j c_j / (nu - l_j), safely above the largest eigenvalue."""
    scale = float(np.sqrt(squares.sum()))
    low = top * (1 + 1e-9) + 1e-12 * scale + SMALL
    high = low + scale
    if float(np.sum(squares / (low - values) ** 2)) <= 1.0:
        return low
    for _ in range(60):
        middle = 0.5 * (low + high)
        if float(np.sum(squares / (middle - values) ** 2)) > 1.0:
            low = middle
        else:
            high = middle
    return high
