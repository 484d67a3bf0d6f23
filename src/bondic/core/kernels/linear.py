"""Linear kernels and kernels of explicit feature functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bondic.core.bounded import U
from bondic.core.codec import Extended, Numbers, supplied
from bondic.core.errors import InvalidInput, one_line
from bondic.core.kernels.base import (
    FeatureLeaf,
    FloatArray,
    PointPart,
    center_vector,
    centered,
    check_part,
    check_supremum,
    listed,
    per_dimension,
    scale_vector,
)
from bondic.core.registry import register


def _check_bound(bound: float, largest: float, terms: int, what: str) -> None:
    """Refuse a stated supremum that is broken by more than the rounding of a sum of `terms` squares."""
    if largest > bound * (1 + 4 * (terms + 4) * U):
        raise InvalidInput(
            f"{what} reaches squared norm {largest:.6g} on the points, above the stated supremum {bound:.6g}. "
            "The supremum enters the noise bound: state one that holds for every possible point."
        )


@register("kernel", "linear")
@dataclass(frozen=True, eq=False)
class Linear(FeatureLeaf):
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
        check_part(self.on)
        check_supremum(self.supremum, "a linear kernel")
        object.__setattr__(self, "bandwidth", scale_vector(self.bandwidth, "bandwidth"))
        object.__setattr__(self, "center", center_vector(self.center, "a linear kernel"))

    @property
    def sup_diag(self) -> float:
        return float(self.supremum)

    def features(self, x: FloatArray) -> FloatArray:
        per_dimension(self.center, x.shape[1], "The center of the linear kernel")
        return np.asarray((x - self.center) / per_dimension(self.bandwidth, x.shape[1], "The linear kernel"))

    def feature_error(self, x: FloatArray) -> float:
        return float(3 * U * np.abs(self.features(x)).max(initial=0.0))

    def max_abs(self, x: FloatArray, y: FloatArray) -> float:
        largest = max(float(self.diag(x).max(initial=0.0)), float(self.diag(y).max(initial=0.0)))
        _check_bound(self.supremum, largest, x.shape[1], "A linear kernel")
        return largest * 1.000001

    def __repr__(self) -> str:
        scales = "" if np.all(self.bandwidth == 1.0) else f", bandwidth={listed(self.bandwidth)}"
        return f"Linear(supremum={self.supremum:g}{scales}{centered(self.center)}, on={self.on!r})"


@register("kernel", "explicit-features")
@dataclass(frozen=True, eq=False)
class ExplicitFeatures(FeatureLeaf):
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
        The name under which a certificate asks for the function.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
    """

    function: Callable[[FloatArray], FloatArray] = field(metadata=supplied("functions", "label"))
    supremum: Extended
    label: str
    on: PointPart = "observation"

    def __post_init__(self) -> None:
        check_part(self.on)
        check_supremum(self.supremum, "|features|^2")
        if not isinstance(self.label, str) or self.label != one_line(self.label):
            raise InvalidInput(
                f"The label of a feature function is one short line of printable text, not {one_line(repr(self.label))}."
            )

    @property
    def sup_diag(self) -> float:
        return float(self.supremum)

    def features(self, x: FloatArray) -> FloatArray:
        values = np.asarray(self.function(x), dtype=np.float64)
        if values.ndim != 2 or values.shape[0] != x.shape[0] or not np.all(np.isfinite(values)):
            raise InvalidInput(f"Feature function {self.label!r} must return a finite array with one row per point.")
        largest = float(np.einsum("ij,ij->i", values, values).max(initial=0.0))
        _check_bound(self.supremum, largest, values.shape[1], f"Feature function {self.label!r}")
        return values

    def feature_error(self, x: FloatArray) -> float:
        del x
        return 0.0

    def max_abs(self, x: FloatArray, y: FloatArray) -> float:
        return max(float(self.diag(x).max(initial=0.0)), float(self.diag(y).max(initial=0.0))) * 1.000001

    def __repr__(self) -> str:
        return f"ExplicitFeatures({self.label!r}, supremum={self.supremum:g}, on={self.on!r})"
