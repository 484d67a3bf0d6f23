"""What a kernel is here: an expression of leaves, sums and products on the parts of a point.

A point x = (s, t, a) has parts "observation", "time" and "action"; "state" is observation and time together,
"point" everything. A leaf acts on one of these; `+`, `*` and multiplication by a positive number build new
kernels.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import FloatArray, U
from bondic.core.errors import InvalidInput, NumericalError
from bondic.core.kernels.normal_form import Layout, Term, multiply
from bondic.core.registry import kind, register

PointPart = Literal["observation", "time", "state", "action", "point"]
PARTS = ("observation", "time", "state", "action", "point")

NUMPY_ULP, TANH_ULP = 4.0, 8.0
"""NumPy's exp, cos and sin (tanh) are trusted to this many units U; checked by `check_elementary_functions`."""


@cache
def check_elementary_functions() -> None:
    """Compare NumPy's exp, cos, sin, tanh with the C library on a fixed grid; refuse to certify when they disagree.

    The C library is good to 1 U-ulp on every supported platform; NumPy may use its own vector code, whose
    documented accuracy is 4 ulp or better. The tests compare both with 50-digit arithmetic.
    """
    grid = np.concatenate([-np.geomspace(1e-12, 700.0, 300), np.linspace(-5.0, 0.0, 212)])
    angles = np.concatenate([grid, -grid * 1e3, grid * 1e7])
    checks = (
        ("exp", np.exp(grid), [math.exp(v) for v in grid], True, NUMPY_ULP),
        ("cos", np.cos(angles), [math.cos(v) for v in angles], False, NUMPY_ULP),
        ("sin", np.sin(angles), [math.sin(v) for v in angles], False, NUMPY_ULP),
        ("tanh", np.tanh(grid), [math.tanh(v) for v in grid], False, TANH_ULP),
    )
    for name, fast, slow, relative, trusted in checks:
        reference = np.array(slow)
        size = np.abs(reference) if relative else 1.0
        worst = float((np.abs(fast - reference) / (size * U)).max())
        if worst > trusted - 1:
            raise NumericalError(
                f"numpy's {name} differs from the C library by {worst:.1f} units of 2^-53 here, more than the error "
                "bounds allow. No interval is certified on this machine; use another numpy build."
            )


@kind("kernel")
class Kernel(ABC):
    """A positive-definite kernel on points."""

    term_count = 1  # terms of the normal form

    @property
    @abstractmethod
    def sup_diag(self) -> float:
        """K_max: an upper bound of k(x, x) over all points (inf when there is none)."""

    @abstractmethod
    def terms(self, layout: Layout) -> tuple[Term, ...]:
        """The normal form on this layout (`normal_form` refuses those that are too long)."""

    @abstractmethod
    def leaves(self) -> Iterator[Leaf]:
        """The leaves of the expression."""

    def __add__(self, other: Kernel) -> Kernel:
        return Sum((self, other))

    def __mul__(self, other: Kernel | float) -> Kernel:
        return Product((self, other)) if isinstance(other, Kernel) else Scaled(float(other), self)

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
        """Points at which a user's leaf is tried; override it when other columns or values are needed."""
        return np.random.default_rng(0).standard_normal((6, 2))

    def leaves(self) -> Iterator[Leaf]:
        yield self

    def terms(self, layout: Layout) -> tuple[Term, ...]:
        if layout.discrete and self.on in ("action", "point"):
            raise InvalidInput(
                f"{self!r} acts on discrete actions as if they were numbers. Use Dirac(on='action'), or "
                "ActionEmbedding.from_gram with the similarities you mean."
            )
        return (Term(1.0, ((self, layout.columns(self.on)),), np.ones((layout.slots, 1))),)


class FeatureLeaf(Leaf):
    """A leaf with an explicit finite feature map: k(x, y) = phi(x) . phi(y)."""

    @abstractmethod
    def features(self, x: FloatArray) -> FloatArray:
        """phi(x_i); (m, d) -> (m, D)."""

    @abstractmethod
    def feature_error(self, x: FloatArray) -> float:
        """A bound of |computed - exact| over the entries of `features`."""

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        first = self.features(x)
        return np.asarray(first @ (first if y is x else self.features(y)).T)

    def diag(self, x: FloatArray) -> FloatArray:
        phi = self.features(x)
        return np.asarray(np.einsum("ij,ij->i", phi, phi))

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        """Products of features that are off by at most e: D (2 M e + e^2) and the dot product's own rounding."""
        error = max(self.feature_error(x), self.feature_error(y))
        count = self.features(x[:1]).shape[1]
        size = math.sqrt(self.max_abs(x, y))
        rounding = (count + 2) * U * size**2
        return float(1.01 * (2 * error * math.sqrt(count) * size + count * error**2 + rounding))


class _Composite(Kernel):
    parts: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise InvalidInput("A sum or product of kernels has no parts.")
        for part in self.parts:
            if not isinstance(part, Kernel):
                raise InvalidInput(
                    f"{part!r} is no kernel: expressions are made of leaves (`bondic.core.kernels.base.Leaf`)."
                )

    def leaves(self) -> Iterator[Leaf]:
        return itertools.chain.from_iterable(part.leaves() for part in self.parts)


@register("kernel", "sum")
@dataclass(frozen=True, eq=False)
class Sum(_Composite):
    """(k_1 + k_2)(x, y) = k_1(x, y) + k_2(x, y)."""

    parts: tuple[Kernel, ...]

    @property
    def sup_diag(self) -> float:
        return sum(part.sup_diag for part in self.parts)

    @property
    def term_count(self) -> int:  # type: ignore[override]
        return sum(part.term_count for part in self.parts)

    def terms(self, layout: Layout) -> tuple[Term, ...]:
        return tuple(itertools.chain.from_iterable(part.terms(layout) for part in self.parts))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


@register("kernel", "product")
@dataclass(frozen=True, eq=False)
class Product(_Composite):
    """(k_1 k_2)(x, y) = k_1(x, y) k_2(x, y)."""

    parts: tuple[Kernel, ...]

    @property
    def sup_diag(self) -> float:
        return math.prod(part.sup_diag for part in self.parts)

    @property
    def term_count(self) -> int:  # type: ignore[override]
        return math.prod(part.term_count for part in self.parts)

    def terms(self, layout: Layout) -> tuple[Term, ...]:
        return tuple(map(multiply, itertools.product(*(part.terms(layout) for part in self.parts))))

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

    @property
    def term_count(self) -> int:  # type: ignore[override]
        return self.part.term_count

    def terms(self, layout: Layout) -> tuple[Term, ...]:
        found = self.part.terms(layout)
        return tuple(Term(self.factor * term.coefficient, term.factors, term.embedding) for term in found)

    def leaves(self) -> Iterator[Leaf]:
        return self.part.leaves()

    def __repr__(self) -> str:
        return f"{self.factor:g} * ({self.part!r})"


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


def per_dimension(scales: FloatArray, dimension: int, what: str) -> FloatArray:
    """Spread one bandwidth over all dimensions, or insist on one each."""
    if scales.size not in (1, dimension):
        raise InvalidInput(
            f"{what} has {scales.size} bandwidths but acts on {dimension} dimensions. Pass one number or one each."
        )
    return np.full(dimension, scales[0]) if scales.size == 1 else scales


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
