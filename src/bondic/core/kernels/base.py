"""What a kernel is here: an expression of leaves, sums and products on the parts of a point.

A point x = (s, t, a) has parts "observation", "time" and "action"; "state" is observation and time together,
"point" everything. A leaf acts on one of these; `+`, `*` and multiplication by a positive number build new
kernels. Only `normal_form` looks inside an expression.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.core.registry import kind, register

FloatArray = npt.NDArray[np.float64]
PointPart = Literal["observation", "time", "state", "action", "point"]
PARTS = ("observation", "time", "state", "action", "point")

NUMPY_ULP = 4.0
"""numpy's exp, cos and sin are trusted to this many units U (checked by `kernels.accuracy` before use)."""
TANH_ULP = 8.0
"""The same for numpy's tanh, in units U of 1."""


@kind("kernel")
class Kernel(ABC):
    """A positive-definite kernel on points."""

    @property
    @abstractmethod
    def sup_diag(self) -> float:
        """K_max: an upper bound of k(x, x) over all points (inf when there is none)."""

    def __add__(self, other: Kernel) -> Kernel:
        return Sum((self, other))

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Product((self, other))
        return Scaled(float(other), self)

    def __rmul__(self, other: float) -> Kernel:
        return self * other


class Leaf(Kernel):
    """A kernel on one part of the point, given by an elementary formula.

    A leaf of your own is a frozen dataclass with @register("kernel", "its-name"); its fields are what a certificate holds.
    """

    on: PointPart

    @abstractmethod
    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """The matrix k(x_i, y_j); x (m, d), y (n, d) -> (m, n)."""

    @abstractmethod
    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        """A bound of |computed - exact| over the entries of `block` and `diag`, barring overflow."""

    @abstractmethod
    def diag(self, x: FloatArray) -> FloatArray:
        """k(x_i, x_i)."""

    def max_abs(self, x: FloatArray, y: FloatArray) -> float:
        """An upper bound of |k(x_i, y_j)|."""
        del x, y
        return self.sup_diag

    def probe(self) -> FloatArray:
        """Points at which a leaf from outside is tried; override it when other columns or values are needed."""
        return np.random.default_rng(0).standard_normal((6, 2))


class FeatureLeaf(Leaf):
    """A leaf with an explicit finite feature map: k(x, y) = phi(x) . phi(y)."""

    @abstractmethod
    def features(self, x: FloatArray) -> FloatArray:
        """phi(x_i); (m, d) -> (m, D)."""

    @abstractmethod
    def feature_error(self, x: FloatArray) -> float:
        """A bound of |computed - exact| over the entries of `features`."""

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(self.features(x) @ self.features(y).T)

    def diag(self, x: FloatArray) -> FloatArray:
        phi = self.features(x)
        return np.asarray(np.einsum("ij,ij->i", phi, phi))

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        """Products of features that are off by at most e: D (2 M e + e^2) and the dot product's own rounding."""
        error = max(self.feature_error(x), self.feature_error(y))
        count = self.features(x[:1]).shape[1]
        size = math.sqrt(self.max_abs(x, y))
        rounding = (count + 2) * 2.0**-53 * size**2
        return float(1.01 * (2 * error * math.sqrt(count) * size + count * error**2 + rounding))


@register("kernel", "sum")
@dataclass(frozen=True, eq=False)
class Sum(Kernel):
    """(k_1 + k_2)(x, y) = k_1(x, y) + k_2(x, y)."""

    parts: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        _check_parts(self.parts)

    @property
    def sup_diag(self) -> float:
        return sum(part.sup_diag for part in self.parts)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


@register("kernel", "product")
@dataclass(frozen=True, eq=False)
class Product(Kernel):
    """(k_1 k_2)(x, y) = k_1(x, y) k_2(x, y)."""

    parts: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        _check_parts(self.parts)

    @property
    def sup_diag(self) -> float:
        return math.prod(part.sup_diag for part in self.parts)

    def __repr__(self) -> str:
        return " * ".join(f"({part!r})" if isinstance(part, Sum) else repr(part) for part in self.parts)


@register("kernel", "scaled")
@dataclass(frozen=True, eq=False)
class Scaled(Kernel):
    """(c k)(x, y) = c k(x, y), c > 0."""

    factor: float
    part: Kernel

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", float(self.factor))
        if not (math.isfinite(self.factor) and self.factor > 0):
            raise InvalidInput(f"A kernel can only be multiplied by a positive number, not {self.factor}.")

    @property
    def sup_diag(self) -> float:
        return self.factor * self.part.sup_diag

    def __repr__(self) -> str:
        return f"{self.factor:g} * ({self.part!r})"


def leaves(kernel: Kernel) -> Iterator[Leaf]:
    """The leaves of an expression; anything else that stands in it is refused."""
    if isinstance(kernel, Sum | Product):
        for part in kernel.parts:
            yield from leaves(part)
    elif isinstance(kernel, Scaled):
        yield from leaves(kernel.part)
    elif isinstance(kernel, Leaf):
        yield kernel
    else:
        raise InvalidInput(f"{kernel!r} is no kernel: expressions are made of leaves (bondic.core.kernels.base.Leaf).")


def _check_parts(parts: tuple[Kernel, ...]) -> None:
    if not parts:
        raise InvalidInput("A sum or product of kernels has no parts.")


def check_part(on: str) -> None:
    if on not in PARTS:
        raise InvalidInput(f"A kernel acts on one of {', '.join(PARTS)}, not on {on!r}.")


_SCALES = (1e-150, 1e150)
"""Bandwidths outside could make 1/h or a scaled difference leave the range where a float is good to U."""


def scale_vector(values: Any, what: str) -> FloatArray:
    """Positive finite bandwidths: one number for all dimensions, or one per dimension."""
    array = np.atleast_1d(np.array(values, dtype=np.float64))
    if array.ndim != 1 or not np.all((array >= _SCALES[0]) & (array <= _SCALES[1])):
        raise InvalidInput(
            f"The {what} must be positive, between 1e-150 and 1e150 (one number, or one per dimension); got {values}."
        )
    array.flags.writeable = False
    return array


def center_vector(values: Any, what: str) -> FloatArray:
    """A finite center: one number for all dimensions, or one per dimension."""
    array = np.atleast_1d(np.array(values, dtype=np.float64))
    if array.ndim != 1 or not np.all(np.isfinite(array)):
        raise InvalidInput(f"The center of {what} is finite: one number, or one per dimension.")
    array.flags.writeable = False
    return array


def check_supremum(supremum: float, what: str) -> None:
    """Infinite is allowed: W is then refused by `Instruments`, and Q does not need it."""
    if isinstance(supremum, bool) or not supremum > 0:
        raise InvalidInput(f"The supremum of {what} is positive, not {supremum}.")


def fingerprint(*arrays: npt.NDArray[Any]) -> str:
    """A short sha256 of numbers and shapes: names arrays that are too long to print."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"|{array.shape}|".encode())
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()[:12]


_PRINTED = 6


def listed(values: FloatArray) -> str:
    """All numbers of a short array; the first ones and a fingerprint of all for a long one."""
    text = ", ".join(f"{value:.4g}" for value in values.ravel()[:_PRINTED])
    if values.size == 1:
        return text
    return f"[{text}]" if values.size <= _PRINTED else f"[{text}, …; sha256 {fingerprint(values)}]"


def centered(center: FloatArray) -> str:
    """The center in words for `repr`; nothing when it is 0."""
    return f", center={listed(center)}" if np.any(center) else ""


def per_dimension(scales: FloatArray, dimension: int, what: str) -> FloatArray:
    """Spread one bandwidth over all dimensions, or insist on one each."""
    if scales.size == 1:
        return np.full(dimension, scales[0])
    if scales.size != dimension:
        raise InvalidInput(
            f"{what} has {scales.size} bandwidths but acts on {dimension} dimensions. Pass one number or one each."
        )
    return scales


def scaled_squares(x: FloatArray, y: FloatArray, scales: FloatArray) -> FloatArray:
    """sum_l ((x_l - y_l) / h_l)^2 from differences of the kernel's own inputs; relative error (d + 6) U."""
    total = np.zeros((x.shape[0], y.shape[0]))
    for axis, scale in enumerate(per_dimension(scales, x.shape[1], "The kernel")):
        difference = (x[:, axis, None] - y[None, :, axis]) / scale
        difference *= difference
        total += difference
    return total
