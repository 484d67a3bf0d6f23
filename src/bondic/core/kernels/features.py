"""Leaves with explicit features, k(x, y) = phi(x) . phi(y): linear, the user's own, random Fourier features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bondic.core.bounded import FloatArray, U
from bondic.core.codec import Extended, Numbers, supplied
from bondic.core.errors import InvalidInput, one_line
from bondic.core.kernels.base import (
    NUMPY_ULP,
    FeatureLeaf,
    PointPart,
    center_vector,
    check_part,
    fingerprint,
    listed,
    per_dimension,
    scale_vector,
)
from bondic.core.registry import register


class _Stated(FeatureLeaf):
    """Features whose squared norm has a stated supremum: infinite is allowed, W is then refused by `Instruments`."""

    supremum: Extended

    @property
    def sup_diag(self) -> float:
        return float(self.supremum)

    def _check_stated(self, what: str) -> None:
        check_part(self.on)
        if isinstance(self.supremum, bool) or not self.supremum > 0:
            raise InvalidInput(f"The supremum of {what} is positive, not {self.supremum}.")

    def _check_reached(self, largest: float, terms: int, what: str) -> None:
        """Refuse a stated supremum that is broken by more than the rounding of a sum of `terms` squares."""
        if largest > self.supremum * (1 + 4 * (terms + 4) * U):
            raise InvalidInput(
                f"{what} reaches squared norm {largest:.6g} on the points, above the stated supremum {self.supremum:.6g}. "
                "The supremum enters the noise bound: state one that holds for every possible point."
            )

    def _largest(self, x: FloatArray, y: FloatArray) -> float:
        return max(float(self.diag(part).max(initial=0.0)) for part in (x, y))


@register("kernel", "linear")
@dataclass(frozen=True, eq=False)
class Linear(_Stated):
    """k(x, y) = sum_l (x_l - c_l)(y_l - c_l) / h_l^2 with a stated supremum K_max of k(x, x).

    Parameters
    ----------
    supremum : float, default inf
        K_max: k(x, x) at every possible point is at most this. W needs a finite one, for its noise bound.
    bandwidth : float or array of float, default 1
        h, by which columns are divided: one number, or one per column.
    center : float or array of float, default 0
        c, where every function of the space is 0.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
    """

    supremum: Extended = math.inf
    bandwidth: Numbers = 1.0
    center: Numbers = 0.0
    on: PointPart = "observation"

    def __post_init__(self) -> None:
        self._check_stated("a linear kernel")
        object.__setattr__(self, "bandwidth", scale_vector(self.bandwidth, "bandwidth"))
        object.__setattr__(self, "center", center_vector(self.center, "a linear kernel"))

    def features(self, x: FloatArray) -> FloatArray:
        per_dimension(self.center, x.shape[1], "The center of the linear kernel")
        return np.asarray((x - self.center) / per_dimension(self.bandwidth, x.shape[1], "The linear kernel"))

    def feature_error(self, x: FloatArray) -> float:
        return float(3 * U * np.abs(self.features(x)).max(initial=0.0))

    def max_abs(self, x: FloatArray, y: FloatArray) -> float:
        largest = self._largest(x, y)
        self._check_reached(largest, x.shape[1], "A linear kernel")
        return largest * 1.000001

    def __repr__(self) -> str:
        scales = "" if np.all(self.bandwidth == 1.0) else f", bandwidth={listed(self.bandwidth)}"
        return f"Linear(supremum={self.supremum:g}{scales}{_centered(self.center)}, on={self.on!r})"


@register("kernel", "explicit-features")
@dataclass(frozen=True, eq=False)
class ExplicitFeatures(_Stated):
    """k(x, y) = f(x) . f(y) for a function f of the caller, with a stated supremum of |f(x)|^2.

    The floats that `function` returns are the features (no error is charged to them), so a certificate can be
    re-checked only with the same function: `verify(..., functions={name: function})`.

    Parameters
    ----------
    function : callable
        (n, d) array of points -> (n, D) array of their features.
    supremum : float
        A number that |f(x)|^2 exceeds at no possible point; it enters the noise bound.
    label : str
        The name by which a certificate refers to the function.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
    """

    function: Callable[[FloatArray], FloatArray] = field(metadata=supplied("functions", "label"))
    supremum: Extended
    label: str
    on: PointPart = "observation"

    def __post_init__(self) -> None:
        self._check_stated("|features|^2")
        if not isinstance(self.label, str) or self.label != one_line(self.label):
            raise InvalidInput(
                f"The label of a feature function is one short line of printable text, not {one_line(repr(self.label))}."
            )

    def features(self, x: FloatArray) -> FloatArray:
        values = np.asarray(self.function(x), dtype=np.float64)
        if values.ndim != 2 or values.shape[0] != x.shape[0] or not np.all(np.isfinite(values)):
            raise InvalidInput(f"Feature function {self.label!r} must return a finite array with one row per point.")
        largest = float(np.einsum("ij,ij->i", values, values).max(initial=0.0))
        self._check_reached(largest, values.shape[1], f"Feature function {self.label!r}")
        return values

    def feature_error(self, x: FloatArray) -> float:
        del x
        return 0.0

    def max_abs(self, x: FloatArray, y: FloatArray) -> float:
        return self._largest(x, y) * 1.000001

    def __repr__(self) -> str:
        return f"ExplicitFeatures({self.label!r}, supremum={self.supremum:g}, on={self.on!r})"


@register("kernel", "random-features")
@dataclass(frozen=True, eq=False)
class RandomFeatures(FeatureLeaf):
    """k(x, y) = (1/m) sum_j cos( f_j . (x - y) ) = phi(x) . phi(y), cos/sin pairs, so k(x, x) = 1 = K_max (section 3).

    It is a positive-definite kernel for *any* frequencies, so nothing is approximate about using it for W. The
    frequencies come from a seed, never from the rows that are certified.

    Parameters
    ----------
    frequencies : array of float, (m, d)
        f_j, one row per cos/sin pair. `gaussian` draws those of a Gaussian kernel.
    center : float or array of float, default 0
        Subtracted from points first, which keeps rounding errors small; the kernel does not depend on it.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
    """

    frequencies: Numbers  # (m, d)
    center: Numbers = 0.0  # (d,)
    on: PointPart = "observation"
    sup_diag = 1.0

    def __post_init__(self) -> None:
        check_part(self.on)
        frequencies = np.array(self.frequencies, dtype=np.float64, ndmin=2)
        if frequencies.ndim != 2 or frequencies.size == 0 or not np.all(np.isfinite(frequencies)):
            raise InvalidInput("Frequencies form a finite matrix: one row per cos/sin pair, one column per dimension.")
        center = np.broadcast_to(center_vector(self.center, "random features"), frequencies.shape[1:]).copy()
        for name, array in (("frequencies", frequencies), ("center", center)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @staticmethod
    def gaussian(
        pairs: int, dimension: int, bandwidth: Any, *, seed: int, center: Any = 0.0, on: PointPart = "observation"
    ) -> RandomFeatures:
        """Frequencies of the Gaussian kernel with these bandwidths: N(0, 1/h_l^2) per dimension."""
        if pairs < 1:
            raise InvalidInput(f"At least one cos/sin pair is needed, not {pairs}.")
        scales = np.broadcast_to(scale_vector(bandwidth, "bandwidth"), (dimension,))
        normal = np.random.default_rng(seed).standard_normal((pairs, dimension))
        return RandomFeatures(normal / scales, center, on)

    def _check(self, x: FloatArray) -> None:
        if x.shape[1] != self.frequencies.shape[1]:
            raise InvalidInput(
                f"Random features were made for {self.frequencies.shape[1]} dimensions, the points have {x.shape[1]}."
            )

    def angles(self, x: FloatArray) -> FloatArray:
        """f_j . (x - center), (N, m)."""
        self._check(x)
        return np.asarray((x - self.center) @ self.frequencies.T)

    def features(self, x: FloatArray) -> FloatArray:
        angles, pairs = self.angles(x), self.frequencies.shape[0]
        phi = np.empty((x.shape[0], 2 * pairs))
        np.cos(angles, out=phi[:, :pairs])
        np.sin(angles, out=phi[:, pairs:])
        phi *= 1.0 / np.sqrt(pairs)
        return phi

    def diag(self, x: FloatArray) -> FloatArray:
        return np.ones(x.shape[0])

    def feature_error(self, x: FloatArray) -> float:
        """Angles are off by (d + 2) U sum_l |f_l||x_l - c_l|, cos and sin by NUMPY_ULP U, the scaling by 3 U."""
        self._check(x)
        farthest = np.abs(x - self.center).max(axis=0, initial=0.0)
        largest = float((np.abs(self.frequencies) @ farthest).max())
        pairs = self.frequencies.shape[0]
        return float(1.01 * ((x.shape[1] + 3) * U * largest + (NUMPY_ULP + 4) * U) / np.sqrt(pairs))

    def __repr__(self) -> str:
        return (
            f"RandomFeatures({self.frequencies.shape[0]} pairs, frequencies sha256 {fingerprint(self.frequencies)}"
            f"{_centered(self.center)}, on={self.on!r})"
        )


def _centered(center: FloatArray) -> str:
    """The center in words for `repr`; nothing when it is 0."""
    return f", center={listed(center)}" if np.any(center) else ""
