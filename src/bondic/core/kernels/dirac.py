"""Kernels on finite sets: equality, and a free choice of action similarities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bondic.core.bounded import U
from bondic.core.codec import Numbers
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import FloatArray, Leaf, PointPart, check_part, listed
from bondic.core.registry import register


@register("kernel", "dirac")
@dataclass(frozen=True, eq=False)
class Dirac(Leaf):
    """k(x, y) = 1 if x = y else 0,  K_max = 1. On actions, times or tabular states.

    Parameters
    ----------
    on : {"observation", "time", "state", "action", "point"}, default "action"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
        Points are equal when all these columns are.
    """

    on: PointPart = "action"

    def __post_init__(self) -> None:
        check_part(self.on)

    @property
    def sup_diag(self) -> float:
        return 1.0

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(np.all(x[:, None, :] == y[None, :, :], axis=2), dtype=np.float64)

    def diag(self, x: FloatArray) -> FloatArray:
        return np.ones(x.shape[0])

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        del x, y
        return 0.0

    def __repr__(self) -> str:
        return f"Dirac(on={self.on!r})"


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
