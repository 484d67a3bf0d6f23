"""Functions on points, represented so that values and norms can be certified: by centers, by features, or term by term.

Feature coordinates of a term: sqrt(c) times the tensor product of its leaves' features (row-major), times embedding columns.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bondic.core.bounded import TINY, Enclosure, FloatArray, IntArray, U, certified_dot, inflate
from bondic.core.codec import same, supplied
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import FeatureLeaf, Kernel, fingerprint
from bondic.core.kernels.leaves import Constant
from bondic.core.kernels.normal_form import Layout, Term, normal_form
from bondic.core.registry import kind, register
from bondic.core.sums.forms import Sums
from bondic.core.sums.measure import Measure
from bondic.core.sums.reference import REFERENCE

_BLOCK = 1024
"""Points whose features are made at a time: few enough for the cache."""

MAX_FEATURES = 200_000
"""Coordinates of a function; the features of a block of points are held in memory."""


def widen(target: object, *names: str) -> None:
    """Arrays as float64: sums of single-precision numbers would not be worth their error bounds."""
    for name in names:
        array = np.ascontiguousarray(getattr(target, name), dtype=np.float64)
        if not np.all(np.isfinite(array)):
            raise InvalidInput(f"The {name} of a function must be finite numbers.")
        object.__setattr__(target, name, array)


@kind("function")
class Function(ABC):
    """A function f(z, a) on points z and action slots a, in the space of `kernel`."""

    kernel: Kernel
    layout: Layout

    @abstractmethod
    def values(self, points: FloatArray, sums: Sums = REFERENCE) -> tuple[FloatArray, float]:
        """(N, D) -> values for every slot (N, slots) and a bound of their error."""

    def at(self, points: FloatArray, slots: IntArray, sums: Sums = REFERENCE) -> tuple[FloatArray, float]:
        """Values at one slot of each point (N,), and a bound of their error."""
        values, error = self.values(points, sums)
        return np.take_along_axis(values, slots[:, None], axis=1)[:, 0], error

    @abstractmethod
    def norm(self, sums: Sums = REFERENCE) -> Enclosure:
        """An enclosure of a number that is at least the norm of f in the space of its kernel."""

    @property
    @abstractmethod
    def is_zero(self) -> bool: ...

    @property
    def constant(self) -> float | None:
        """The value of a function that is constant by construction; None for any other."""
        return None

    def landmarks(self) -> tuple[FloatArray, ...]:
        """The points that it is written with."""
        return ()

    @property
    def feature_map(self) -> tuple[int, int] | None:
        """What functions of the same features have in common; None: it is not written with features."""
        return None


@register("function", "centers")
@dataclass(frozen=True, eq=False)
class KernelFunction(Function):
    """f(z, a) = sum_j sum_b w_jb k((z, a), (c_j, b)),  |f|^2 = w^T K w.

    Parameters
    ----------
    kernel : Kernel
        The kernel of the space.
    layout : Layout
        How the columns of a point are arranged, as in the problem (`Rows.layout`).
    centers : array of float, (M, D)
        c_j, one point per row, without discrete actions.
    weights : array of float, (M, slots)
        w_jb: one column per discrete action, a single one for continuous actions.
    """

    kernel: Kernel
    layout: Layout = field(metadata=supplied("layout"))
    centers: FloatArray  # (M, D)
    weights: FloatArray  # (M, slots)

    def __post_init__(self) -> None:
        widen(self, "centers", "weights")
        shape = (self.centers.shape[0], self.layout.slots)
        if self.centers.ndim != 2 or self.centers.shape[1] != self.layout.dimension or self.weights.shape != shape:
            raise InvalidInput(f"A kernel function needs centers (M, {self.layout.dimension}) and weights {shape}.")

    @property
    def is_zero(self) -> bool:
        return not np.any(self.weights)

    def values(self, points: FloatArray, sums: Sums = REFERENCE) -> tuple[FloatArray, float]:
        return sums.values(normal_form(self.kernel, self.layout), points, self.centers, self.weights)

    def norm(self, sums: Sums = REFERENCE) -> Enclosure:
        measure = Measure(self.centers, self.weights[None])
        return sums.squares(normal_form(self.kernel, self.layout), measure)[0].sqrt()

    def landmarks(self) -> tuple[FloatArray, ...]:
        return (self.centers,)

    def __repr__(self) -> str:
        return _in_words(self.kernel, f"{self.centers.shape[0]} points", self.centers, self.weights)


@register("function", "features")
@dataclass(frozen=True, eq=False)
class FeatureFunction(Function):
    """f(z, a) = phi(z, a) . w for a kernel with explicit features;  |f| <= |w|.

    Parameters
    ----------
    kernel : Kernel
        A kernel all of whose terms have explicit features.
    layout : Layout
        How the columns of a point are arranged, as in the problem (`Rows.layout`).
    coordinates : array of float, (D,)
        w, one number per feature.
    """

    kernel: Kernel
    layout: Layout = field(metadata=supplied("layout"))
    coordinates: FloatArray  # (D,)

    def __post_init__(self) -> None:
        widen(self, "coordinates")
        needed = FeatureMap(self.kernel, self.layout).dimension
        if self.coordinates.shape != (needed,):
            raise InvalidInput(f"The kernel has {needed} features; {self.coordinates.shape} coordinates were given.")

    @property
    def is_zero(self) -> bool:
        return not np.any(self.coordinates)

    @property
    def constant(self) -> float | None:
        return float(self.coordinates[0]) if same(self.kernel, Constant(1.0)) else None

    def norm(self, sums: Sums = REFERENCE) -> Enclosure:
        del sums
        return certified_dot(self.coordinates, self.coordinates).sqrt()

    @property
    def feature_map(self) -> tuple[int, int]:
        return id(self.kernel), id(self.layout)

    def __repr__(self) -> str:
        return _in_words(self.kernel, f"{self.coordinates.size} features", self.coordinates)

    def values(self, points: FloatArray, sums: Sums = REFERENCE) -> tuple[FloatArray, float]:
        del sums
        return _feature_values([self], points)[0]


def _feature_values(functions: list[FeatureFunction], points: FloatArray) -> list[tuple[FloatArray, float]]:
    """Values of functions of one kernel: features, which cost most, are made once for all of them."""
    features = FeatureMap(functions[0].kernel, functions[0].layout)
    outs = [np.zeros((points.shape[0], function.layout.slots)) for function in functions]
    errors = [0.0] * len(functions)
    parts = [features.split(function.coordinates) for function in functions]
    for index, term in enumerate(features.terms):
        weights = [part[index][1].reshape(-1, term.embedding.shape[1]) for part in parts]  # (m, p) each
        for top in range(0, points.shape[0], _BLOCK):
            phi = term_features(term, points[top : top + _BLOCK])
            for out, matrix in zip(outs, weights, strict=True):
                out[top : top + _BLOCK] += (phi @ matrix) @ term.embedding.T
        for k, matrix in enumerate(weights):
            errors[k] += _value_error(term, points, matrix, len(features.terms))
    return [
        (out, inflate(error * (1 + 4 * (len(features.terms) + 2) * U))) for out, error in zip(outs, errors, strict=True)
    ]


def values_together(
    functions: list[Function], points: FloatArray, sums: Sums = REFERENCE
) -> list[tuple[FloatArray, float]]:
    """`values` of every function, the same numbers; functions that share one kernel object share its features."""
    alike: dict[tuple[int, int], list[Any]] = {}
    for function in functions:
        if (shared := function.feature_map) is not None:
            alike.setdefault(shared, []).append(function)
    known = {
        id(function): found
        for members in alike.values()
        for function, found in zip(members, _feature_values(members, points), strict=True)
    }
    return [known[id(f)] if id(f) in known else f.values(points, sums) for f in functions]


def _value_error(term: Term, points: FloatArray, weights: FloatArray, terms: int) -> float:
    """|phi~ W E^T - phi W E^T|: error of the features, and roundings bounded by Cauchy-Schwarz.

    Each term is then added to at most `terms` others.
    """
    feature_error, size = term_feature_bounds(term, points)
    largest = float(np.abs(term.embedding).max())
    ones, squares = np.abs(weights).sum(), np.sqrt((weights**2).sum(axis=0)).sum()
    roundings = (weights.shape[0] + weights.shape[1] + terms + 8) * U
    spread = feature_error * ones + roundings * size * squares + feature_error * roundings * ones
    return float(1.01 * largest * spread + weights.size * max(1.0, largest) * TINY)


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """phi with k(x, y) = phi(x) . phi(y), for kernels whose leaves all have explicit features."""

    kernel: Kernel
    layout: Layout

    @property
    def terms(self) -> tuple[Term, ...]:
        return normal_form(self.kernel, self.layout)

    @staticmethod
    def exists(kernel: Kernel, layout: Layout) -> bool:
        return all(isinstance(leaf, FeatureLeaf) for term in normal_form(kernel, layout) for leaf, _ in term.factors)

    @property
    def sizes(self) -> tuple[int, ...]:
        probe = np.zeros((1, self.layout.dimension))
        if not self.exists(self.kernel, self.layout):
            raise InvalidInput(f"{self.kernel!r} has no finite list of features; use centers instead.")
        factors = [
            [leaf.features(probe[:, columns]).shape[1] for leaf, columns in _leaves(term)] for term in self.terms
        ]  # counted without their products
        sizes = tuple(
            math.prod(counts) * term.embedding.shape[1] for counts, term in zip(factors, self.terms, strict=True)
        )
        if sum(sizes) > MAX_FEATURES:
            raise InvalidInput(
                f"The kernel has {sum(sizes)} features, and at most {MAX_FEATURES} are evaluated: products multiply their "
                "number. Use fewer pairs or a lower degree."
            )
        return sizes

    @property
    def dimension(self) -> int:
        return sum(self.sizes)

    def split(self, coordinates: FloatArray) -> list[tuple[Term, FloatArray]]:
        ends = np.cumsum(self.sizes)[:-1]
        return list(zip(self.terms, np.split(coordinates, ends), strict=True))


def _leaves(term: Term) -> Iterator[tuple[FeatureLeaf, tuple[int, ...]]]:
    for leaf, columns in term.factors:
        assert isinstance(leaf, FeatureLeaf)
        yield leaf, columns


def term_features(term: Term, points: FloatArray) -> FloatArray:
    """sqrt(c) times the row-wise tensor product of the leaves' features; (N, D) -> (N, m)."""
    total = np.full((points.shape[0], 1), math.sqrt(term.coefficient))
    for leaf, columns in _leaves(term):
        phi = leaf.features(points[:, columns])
        total = phi * total if total.shape[1] == 1 else (total[:, :, None] * phi[:, None, :]).reshape(len(points), -1)
    return total


def term_feature_bounds(term: Term, points: FloatArray) -> tuple[float, float]:
    """(error of an entry of `term_features`, largest Euclidean norm of a row)."""
    scale = math.sqrt(term.coefficient)
    size, error = scale, 2 * U * scale
    for leaf, columns in _leaves(term):
        part = points[:, columns]
        largest, own = math.sqrt(leaf.max_abs(part, part)), leaf.feature_error(part)
        # (size + error)(largest + own) - size largest, written without a difference of near-equal numbers
        error = error * (largest + own) + size * own
        size *= largest
        error += 2 * U * (size + error)
    return error * (1 + 1e-6) + 4 * U * size, size * (1 + 1e-12)


@dataclass(frozen=True, eq=False)
class TermExpansion:
    """One term's share of an expansion: centers and weights in the term's embedded columns."""

    centers: FloatArray  # (M, D)
    weights: FloatArray  # (M, p)

    def __post_init__(self) -> None:
        widen(self, "centers", "weights")


@register("function", "expansion")
@dataclass(frozen=True, eq=False)
class ExpansionFunction(Function):
    """f = sum_t f_t, f_t(z, a) = sum_j k_t(z, c_j) (w_j . E_a), one part per term of the kernel's normal form.

    |f|^2 <= sum_t |f_t|^2: the norm in the space of a sum of kernels is the least over all such splittings.
    """

    kernel: Kernel
    layout: Layout = field(metadata=supplied("layout"))
    parts: tuple[TermExpansion, ...]

    def __post_init__(self) -> None:
        for term, part in self._pairs():
            if part.weights.shape != (part.centers.shape[0], term.embedding.shape[1]):
                raise InvalidInput("The weights of an expansion do not fit its centers and action embedding.")

    def _pairs(self) -> list[tuple[Term, TermExpansion]]:
        terms = normal_form(self.kernel, self.layout)
        if len(terms) != len(self.parts):
            raise InvalidInput(f"The kernel has {len(terms)} terms; {len(self.parts)} expansions were given.")
        return list(zip(terms, self.parts, strict=True))

    @property
    def is_zero(self) -> bool:
        return not any(np.any(part.weights) for part in self.parts)

    def values(self, points: FloatArray, sums: Sums = REFERENCE) -> tuple[FloatArray, float]:
        out, error = np.zeros((points.shape[0], self.layout.slots)), 0.0
        for term, part in self._pairs():
            columns, extra = sums.values((_bare(term),), points, part.centers, part.weights)
            out += columns @ term.embedding.T
            largest = term.embedding_norm
            size = float(np.abs(columns).max(initial=0.0)) + extra
            error += largest * (extra + (term.embedding.shape[1] + len(self.parts) + 4) * U * size)
        return out, inflate(1.01 * error)

    def norm(self, sums: Sums = REFERENCE) -> Enclosure:
        total = Enclosure(0.0)
        for term, part in self._pairs():
            total = total + sums.squares((_bare(term),), Measure(part.centers, part.weights[None]))[0]
        return total.sqrt()

    def landmarks(self) -> tuple[FloatArray, ...]:
        return tuple(part.centers for part in self.parts)

    def __repr__(self) -> str:
        arrays = [array for part in self.parts for array in (part.centers, part.weights)]
        return _in_words(self.kernel, f"{sum(map(len, self.landmarks()))} points", *arrays)


def _in_words(kernel: Kernel, size: str, *arrays: FloatArray) -> str:
    """A function named by its kernel and a fingerprint of its numbers."""
    return f"Function({size} of {kernel!r}, sha256 {fingerprint(*arrays)})"


def _bare(term: Term) -> Term:
    """The same term with embedded columns as slots."""
    return Term(term.coefficient, term.factors, np.eye(term.embedding.shape[1]))
