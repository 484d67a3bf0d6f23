"""Leaves with an elementary formula: Gaussian, Laplace and Matérn; equality, action similarities, constants, time masks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from bondic.core.bounded import FloatArray, U
from bondic.core.codec import Numbers
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import NUMPY_ULP, Leaf, PointPart, check_part, listed, per_dimension, scale_vector
from bondic.core.kernels.normal_form import Layout, Term, identity
from bondic.core.registry import register


class _Stationary(Leaf):
    """k(x, y) depends on (x - y) / h alone, and k(x, x) = 1 = K_max."""

    bandwidth: Numbers
    sup_diag = 1.0

    def __post_init__(self) -> None:
        check_part(self.on)
        object.__setattr__(self, "bandwidth", scale_vector(self.bandwidth, "bandwidth"))

    def diag(self, x: FloatArray) -> FloatArray:
        return np.ones(x.shape[0])

    def _squares(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """sum_l ((x_l - y_l) / h_l)^2 from differences of the kernel's own inputs; relative error (d + 6) U."""
        total = np.zeros((x.shape[0], y.shape[0]))
        for axis, scale in enumerate(per_dimension(self.bandwidth, x.shape[1], "The kernel")):
            difference = (x[:, axis, None] - y[None, :, axis]) / scale
            difference *= difference
            total += difference
        return total

    def __repr__(self) -> str:
        return f"{type(self).__name__}({listed(self.bandwidth)}, on={self.on!r})"


@register("kernel", "gaussian")
@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(_Stationary):
    """k(x, y) = exp( -1/2 sum_l ((x_l - y_l) / h_l)^2 ),  K_max = 1.

    Parameters
    ----------
    bandwidth : float or array of float
        The length h over which values stay similar, in the units of the columns: one number, or one per column.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
    """

    bandwidth: Numbers
    on: PointPart = "observation"

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        squares = self._squares(x, y)
        squares *= -0.5
        return np.asarray(np.exp(squares, out=squares))

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        """t e^-t <= 0.368 times the relative error (d + 6) U of the exponent, plus the exponential's own."""
        del y
        return float((0.37 * (x.shape[1] + 8) + NUMPY_ULP) * U)


@register("kernel", "laplace")
@dataclass(frozen=True, eq=False, repr=False)
class Laplace(_Stationary):
    """k(x, y) = exp( -sum_l |x_l - y_l| / h_l ),  K_max = 1.

    Parameters
    ----------
    bandwidth : float or array of float
        The length h over which values stay similar, in the units of the columns: one number, or one per column.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
    """

    bandwidth: Numbers
    on: PointPart = "observation"

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        total = np.zeros((x.shape[0], y.shape[0]))
        for axis, scale in enumerate(per_dimension(self.bandwidth, x.shape[1], "The Laplace kernel")):
            total -= np.abs(x[:, axis, None] - y[None, :, axis]) / scale
        return np.asarray(np.exp(total, out=total))

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        """t e^-t <= 0.368 times the relative error (d + 2) U of the exponent, plus the exponential's own."""
        del y
        return float((0.37 * (x.shape[1] + 4) + NUMPY_ULP) * U)


_SENSITIVITY = {0.5: 0.37, 1.5: 0.55, 2.5: 0.61}
"""max over rho of |rho f'(rho)|, rounded up: how a relative error of rho moves the value of a Matérn kernel."""


@register("kernel", "matern")
@dataclass(frozen=True, eq=False, repr=False)
class Matern(_Stationary):
    """k(x, y) = f(rho), rho = sqrt(2 nu) |(x - y) / h|,  K_max = 1.

    f = e^-rho (nu = 1/2), (1 + rho) e^-rho (nu = 3/2), (1 + rho + rho^2 / 3) e^-rho (nu = 5/2).

    Parameters
    ----------
    bandwidth : float or array of float
        The length h over which values stay similar, in the units of the columns: one number, or one per column.
    nu : {0.5, 1.5, 2.5}, default 2.5
        Smoothness: larger is smoother. 0.5 allows kinks, 2.5 has two derivatives.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
    """

    bandwidth: Numbers
    nu: float = 2.5
    on: PointPart = "observation"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in _SENSITIVITY:
            raise InvalidInput(f"Matérn smoothness nu = {self.nu} has no elementary formula here; use 0.5, 1.5 or 2.5.")

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        rho = np.sqrt(self._squares(x, y)) * math.sqrt(2 * self.nu)
        decay = np.exp(-rho)
        if self.nu == 0.5:
            return np.asarray(decay)
        polynomial = 1.0 + rho if self.nu == 1.5 else 1.0 + rho + rho * rho / 3.0
        # where exp underflows to 0 the polynomial may have overflowed: the product is 0 either way
        return np.asarray(np.where(decay == 0.0, 0.0, polynomial * decay))

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        """rho has relative error (d/2 + 6) U; the polynomial adds 5 U and the exponential its own."""
        del y
        return float((_SENSITIVITY[self.nu] * (0.5 * x.shape[1] + 7) + NUMPY_ULP + 6) * U)

    def __repr__(self) -> str:
        return f"Matern({listed(self.bandwidth)}, nu={self.nu}, on={self.on!r})"


class _Exact(Leaf):
    """Values that no rounding touches."""

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        del x, y
        return 0.0


@register("kernel", "dirac")
@dataclass(frozen=True, eq=False)
class Dirac(_Exact):
    """k(x, y) = 1 if x = y else 0,  K_max = 1. On actions, times or tabular states.

    Parameters
    ----------
    on : {"observation", "time", "state", "action", "point"}, default "action"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
        Points are equal when all these columns are.
    """

    on: PointPart = "action"
    sup_diag = 1.0

    def __post_init__(self) -> None:
        check_part(self.on)

    def terms(self, layout: Layout) -> tuple[Term, ...]:
        if layout.discrete and self.on == "action":
            return (Term(1.0, (), identity(layout.slots)),)
        return super().terms(layout)

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(np.all(x[:, None, :] == y[None, :, :], axis=2), dtype=np.float64)

    def diag(self, x: FloatArray) -> FloatArray:
        return np.ones(x.shape[0])


@register("kernel", "time-mask")
@dataclass(frozen=True, eq=False)
class TimeMask(_Exact):
    """k(t, u) = 1[t < H] 1[u < H]: multiplied to a kernel it makes q(., t >= H) = 0 (section 12).  K_max = 1.

    Parameters
    ----------
    horizon : int
        H: the number of steps; nothing is earned at time H or later.
    on : {"time"}
        It acts on time only.
    """

    horizon: int
    on: PointPart = "time"
    sup_diag = 1.0

    def __post_init__(self) -> None:
        if self.on != "time":
            raise InvalidInput(f"A time mask acts on time, not on {self.on!r}.")
        whole = isinstance(self.horizon, Real) and not isinstance(self.horizon, bool) and math.isfinite(self.horizon)
        if not (whole and self.horizon >= 1 and self.horizon == int(self.horizon)):
            raise InvalidInput(f"The horizon is a whole number of steps >= 1, not {self.horizon!r}.")
        object.__setattr__(self, "horizon", int(self.horizon))

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.outer(x[:, 0] < self.horizon, y[:, 0] < self.horizon).astype(np.float64)

    def diag(self, x: FloatArray) -> FloatArray:
        return np.asarray(x[:, 0] < self.horizon, dtype=np.float64)

    def __repr__(self) -> str:
        return f"TimeMask({self.horizon})"


@register("kernel", "constant")
@dataclass(frozen=True, eq=False)
class Constant(_Exact):
    """k(x, y) = c,  K_max = c: lets a ball contain functions with a large mean cheaply.

    Parameters
    ----------
    value : float, default 1
        c > 0: how cheaply functions may have a level.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        A constant looks at no column.
    """

    value: float = 1.0
    on: PointPart = "observation"

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", float(self.value))
        if not (np.isfinite(self.value) and self.value > 0):
            raise InvalidInput(f"A constant kernel needs a positive value, not {self.value}.")

    @property
    def sup_diag(self) -> float:
        return self.value

    def terms(self, layout: Layout) -> tuple[Term, ...]:
        return (Term(self.value, (), np.ones((layout.slots, 1))),)

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.full((x.shape[0], y.shape[0]), self.value)

    def diag(self, x: FloatArray) -> FloatArray:
        return np.full(x.shape[0], self.value)

    def __repr__(self) -> str:
        return f"Constant({self.value:g})"


@register("kernel", "action-embedding")
@dataclass(frozen=True, eq=False)
class ActionEmbedding(Leaf):
    """k(a, b) = E_a . E_b for discrete actions with embedding rows E_a; K_max = max_a |E_a|^2.

    The embedding *is* the definition, so no factorization error enters. `from_gram` makes one from a matrix of
    similarities, for example Gaussian in the torque that an action stands for.

    Parameters
    ----------
    embedding : array of float, (number of actions, p)
        E, one row per action: actions with similar rows have similar values.
    on : {"action"}
        It acts on discrete actions only.
    """

    embedding: Numbers  # (number of actions, p)
    on: PointPart = "action"

    def __post_init__(self) -> None:
        matrix = np.array(self.embedding, dtype=np.float64, ndmin=2)
        if matrix.ndim != 2 or matrix.size == 0 or not np.all(np.isfinite(matrix)) or self.on != "action":
            raise InvalidInput("An action embedding is a finite matrix with one row per action, on='action'.")
        matrix.flags.writeable = False
        object.__setattr__(self, "embedding", matrix)

    @staticmethod
    def from_gram(gram: Any) -> ActionEmbedding:
        """Embedding whose inner products are the given similarities up to rounding."""
        matrix = np.array(gram, dtype=np.float64)
        if matrix.ndim != 2 or not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0):
            raise InvalidInput("Action similarities form a symmetric square matrix.")
        values, vectors = np.linalg.eigh(matrix)
        if values[0] < -1e-10 * max(values[-1], 1e-300):
            raise InvalidInput(
                f"Action similarities must be positive semi-definite; smallest eigenvalue {values[0]:.3g}."
            )
        return ActionEmbedding(vectors * np.sqrt(np.maximum(values, 0.0)))

    @property
    def sup_diag(self) -> float:
        squares = np.einsum("ij,ij->i", self.embedding, self.embedding)
        return float(squares.max() * (1.0 + 2 * (self.embedding.shape[1] + 2) * U))

    def terms(self, layout: Layout) -> tuple[Term, ...]:
        if not layout.discrete:
            raise InvalidInput("An action embedding is for discrete actions; these actions are continuous.")
        if self.embedding.shape[0] != layout.slots:
            raise InvalidInput(
                f"The action embedding has {self.embedding.shape[0]} rows, the policy {layout.slots} actions."
            )
        return (Term(1.0, (), self.embedding),)

    def _rows(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.embedding[x[:, 0].astype(np.int64)])

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(self._rows(x) @ self._rows(y).T)

    def diag(self, x: FloatArray) -> FloatArray:
        rows = self._rows(x)
        return np.asarray(np.einsum("ij,ij->i", rows, rows))

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        del x, y
        return float(2 * (self.embedding.shape[1] + 2) * U * self.sup_diag)

    def __repr__(self) -> str:
        return (
            f"ActionEmbedding({self.embedding.shape[0]} actions x {self.embedding.shape[1]}: {listed(self.embedding)})"
        )
