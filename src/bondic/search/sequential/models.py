"""A model of the next embedding: ridge regression of [r + gamma q̂(x'), c(x')] on regressors of x, and its predictions.

Only sums over rows enter: X^T X, X^T Y and the squares of Y, X = [1, c(x)], Y = [r + gamma q̂(x'), c(x')]. They are carried
from block to block, so that all refits together read every row twice. The strength of the ridge is judged on the last 30 % of
the history, separately for the target and for the embedding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.core.claims import End
from bondic.core.sequential.landmarks import Embedding
from bondic.core.sequential.plan import NextModel, RidgeModel
from bondic.data.spread import spread_rows
from bondic.search.sequential.history import EmbeddedRows, Prefix

FloatArray = npt.NDArray[np.float64]

FIRST = 0.7
"""Share of the prefix that fits, where the rest judges."""
_STRENGTHS = (1e-6, 1e-4, 1e-2, 1.0, 100.0)
_GUESS_STRENGTH, _GUESS_ROWS = 1e-3, 4000
_PIECE = 16_384


def regressors(rows: EmbeddedRows) -> FloatArray:
    """X = [1, c(x)]."""
    return RidgeModel.design(rows.coordinates)


@dataclass(frozen=True, eq=False)
class RowMoments:
    """Sums over rows of products of X (p columns), Y = [r + gamma q̂(x'), c(x')] and q̂(x)."""

    count: int
    squares: FloatArray  # (p, p) X'X
    products: FloatArray  # (p, 1 + m) X'Y
    centers: FloatArray  # (p,) X' q̂(x)
    outcomes: FloatArray  # (1 + m,) sums of Y^2

    @staticmethod
    def none(size: int) -> RowMoments:
        p = 1 + size
        return RowMoments(0, np.zeros((p, p)), np.zeros((p, p)), np.zeros(p), np.zeros(p))

    def plus(self, rows: EmbeddedRows) -> RowMoments:
        x, y = regressors(rows), np.hstack([rows.targets[:, None], rows.following])
        return RowMoments(
            self.count + len(rows),
            self.squares + x.T @ x,
            self.products + x.T @ y,
            self.centers + x.T @ rows.values,
            self.outcomes + np.einsum("ij,ij->j", y, y),
        )

    def minus(self, other: RowMoments) -> RowMoments:
        return RowMoments(
            self.count - other.count,
            self.squares - other.squares,
            self.products - other.products,
            self.centers - other.centers,
            self.outcomes - other.outcomes,
        )

    def misses(self, coefficients: FloatArray) -> FloatArray:
        """Sum over rows of (Y - X B)^2, column by column."""
        crossed = np.einsum("ij,ij->j", coefficients, self.products)
        return np.asarray(
            self.outcomes - 2 * crossed + np.einsum("ij,ij->j", coefficients, self.squares @ coefficients)
        )

    @cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues and eigenvectors of X'X."""
        values, vectors = np.linalg.eigh(self.squares)
        return np.maximum(values, 0.0), vectors


@dataclass(eq=False)
class RunningMoments:
    """Moments of the prefix, and of its first 70 %: both grow with it."""

    size: int  # coordinates that are seen
    every: RowMoments = field(init=False)
    first: RowMoments = field(init=False)

    def __post_init__(self) -> None:
        self.every = self.first = RowMoments.none(self.size)

    def advance(self, prefix: Prefix) -> None:
        self.every = self._grown(self.every, prefix, len(prefix))
        self.first = self._grown(self.first, prefix, int(FIRST * len(prefix)))

    def _grown(self, moments: RowMoments, prefix: Prefix, stop: int) -> RowMoments:
        for first in range(moments.count, stop, _PIECE):
            moments = moments.plus(prefix.rows.cut(slice(first, min(first + _PIECE, stop))))
        return moments


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model with what else the prefix says: moments of T̄ = c(x) - gamma kappa(x), and a guess of e = q* - q̂."""

    model: RidgeModel
    spread: FloatArray  # (m, m) mean of T̄ T̄'
    predicted_error: FloatArray  # (m,)


def fit(moments: RunningMoments, gamma: float) -> tuple[Fitted, Fitted]:
    """The model for the rows to come, and the same from the first 70 % of the rows: the rest shows how well it predicts."""
    strengths = _strengths(moments)
    every, first = (_fitted(part, strengths, gamma) for part in (moments.every, moments.first))
    return every, first


def _strengths(moments: RunningMoments) -> tuple[float, float]:
    """Ridge of the target and of the embedding: those that predict the last 30 % best."""
    held = moments.every.minus(moments.first)
    misses = [held.misses(_ridge(moments.first, strength, strength)) for strength in _STRENGTHS]
    target = int(np.argmin([miss[0] for miss in misses]))
    embedding = int(np.argmin([miss[1:].sum() for miss in misses]))
    return _STRENGTHS[target], _STRENGTHS[embedding]


def _ridge(moments: RowMoments, target: float, embedding: float) -> FloatArray:
    """argmin |X B - Y|^2 + strength |B|^2, with one strength for the first column of Y and one for the others."""
    scale = _scale(moments)
    values, vectors = moments.spectrum
    turned = vectors.T @ moments.products
    turned[:, 0] /= values + scale * target
    turned[:, 1:] /= (values + scale * embedding)[:, None]
    return np.asarray(vectors @ turned)


def _scale(moments: RowMoments) -> float:
    """About k̃(x, x), the unit in which a ridge is measured."""
    return 0.5 * float(np.trace(moments.squares)) / max(moments.count, 1)


def _fitted(moments: RowMoments, strengths: tuple[float, float], gamma: float) -> Fitted:
    """T̄ = X A with A = [0; I; 0] - gamma B: everything about it follows from the moments of X."""
    coefficients = _ridge(moments, *strengths)
    size = coefficients.shape[1] - 1
    combine = -gamma * coefficients[:, 1:]
    combine[1 : 1 + size] += np.eye(size)
    spread = combine.T @ moments.squares @ combine
    # T̄ e = r + gamma q̂(x') - q̂(x): the Bellman equation with the model inside
    right_side = combine.T @ (moments.products[:, 0] - moments.centers)
    ridge = _GUESS_STRENGTH * max(1.0, moments.count / _GUESS_ROWS) * _scale(moments)
    predicted_error = np.linalg.solve(spread + ridge * np.eye(size), right_side)
    return Fitted(RidgeModel(coefficients), spread / max(moments.count, 1), np.asarray(predicted_error))


MAX_ROWS = 4000
_MIN_NOISE = 3e-11
"""In squares of the range: predictions are never taken to be exact."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Rows with T̄, the predicted target y0 and embedding kappa, and the misses a = target - y0, D = c(x') - kappa."""

    toward: FloatArray  # (k, m) T̄ = c(x) - gamma kappa
    predicted: FloatArray  # (k,) y0
    embedding: FloatArray  # (k, m) kappa
    miss: FloatArray  # (k,) a
    next_residual: FloatArray  # (k, m) D
    beyond: FloatArray  # (k,) what the landmarks leave of D
    low: FloatArray  # (k,)
    high: FloatArray  # (k,)

    @staticmethod
    def of(rows: EmbeddedRows, predicted: FloatArray, embedding: FloatArray, gamma: float) -> Predictions:
        toward, next_residual = rows.coordinates - gamma * embedding, rows.following - embedding
        miss = rows.targets - predicted
        return Predictions(
            toward, predicted, embedding, miss, next_residual, rows.beyond, rows.limits.low, rows.limits.high
        )

    @property
    def width(self) -> FloatArray:
        """B_i."""
        return self.high - self.low

    def deviations(self, gamma: float) -> Embedding:
        """gamma D_i."""
        return Embedding(gamma * self.next_residual, gamma * self.beyond, np.zeros(self.miss.size))

    def at(self, predicted_error: FloatArray, gamma: float) -> FloatArray:
        """a_i + gamma <e, D_i> for a guess of e."""
        return self.miss + gamma * self.next_residual @ predicted_error

    def caps(
        self, end: End, gamma: float, predicted_error: FloatArray, margin: float, bets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(largest v, largest -v): the largest bet on the one side of the range that can lose, for a clip of this margin."""
        middle = np.clip(self.predicted + gamma * self.embedding @ predicted_error, self.low, self.high)
        above = bets / np.maximum(self.high - np.maximum(self.low, middle - margin), 1e-300)
        below = bets / np.maximum(np.minimum(self.high, middle + margin) - self.low, 1e-300)
        return (above, below) if end == "upper" else (below, above)


def sample_of(rows: EmbeddedRows, model: NextModel, gamma: float) -> Predictions:
    """All of these rows."""
    return Predictions.of(rows, *model.predict(rows.points, rows.slots, rows.coordinates), gamma)


def sampled_rows(prefix: Prefix) -> EmbeddedRows:
    """At most 4000 rows, spread over the prefix."""
    return prefix.rows.cut(spread_rows(len(prefix), MAX_ROWS))


def held_rows(prefix: Prefix) -> EmbeddedRows:
    """At most 4000 rows of the last 30 % of the prefix."""
    cut = int(FIRST * len(prefix))
    return prefix.rows.cut(cut + spread_rows(len(prefix) - cut, MAX_ROWS))


def prediction_noise(prefix: Prefix, first: Fitted) -> float:
    """Mean (Y - Ŷ)^2 on the last 30 % of the prefix, with the model and the value of the rows before them."""
    found = sample_of(held_rows(prefix), first.model, prefix.gamma)
    return float(np.mean(found.at(first.predicted_error, prefix.gamma) ** 2)) + _MIN_NOISE * prefix.width**2
