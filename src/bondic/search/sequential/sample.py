"""Some rows of the past with what a model says about them: everything that instruments and weights are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.claims import End
from bondic.core.sequential.landmarks import Embedding
from bondic.core.sequential.plan import NextModel
from bondic.data.spread import spread_rows
from bondic.search.sequential.models import FIRST, Fitted
from bondic.search.sequential.past import Past, Seen

FloatArray = npt.NDArray[np.float64]

MOST_ROWS = 4000
_LEAST_NOISE = 3e-11
"""In squares of the range: predictions are never taken to be exact."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Rows with T̄, the predicted target y0 and embedding kappa, and the misses a = target - y0, D = c(x') - kappa."""

    toward: FloatArray  # (k, m) T̄ = c(x) - gamma kappa
    predicted: FloatArray  # (k,) y0
    embedding: FloatArray  # (k, m) kappa
    miss: FloatArray  # (k,) a
    apart: FloatArray  # (k, m) D
    beyond: FloatArray  # (k,) what the landmarks leave of D
    low: FloatArray  # (k,)
    high: FloatArray  # (k,)

    @staticmethod
    def of(rows: Seen, predicted: FloatArray, embedding: FloatArray, gamma: float) -> Predictions:
        toward, apart = rows.coordinates - gamma * embedding, rows.following - embedding
        miss = rows.targets - predicted
        return Predictions(toward, predicted, embedding, miss, apart, rows.beyond, rows.limits.low, rows.limits.high)

    @property
    def width(self) -> FloatArray:
        """B_i."""
        return self.high - self.low

    def deviations(self, gamma: float) -> Embedding:
        """gamma D_i."""
        return Embedding(gamma * self.apart, gamma * self.beyond, np.zeros(self.miss.size))

    def at(self, guess: FloatArray, gamma: float) -> FloatArray:
        """a_i + gamma <e, D_i> for a guess of e."""
        return self.miss + gamma * self.apart @ guess

    def caps(
        self, end: End, gamma: float, guess: FloatArray, margin: float, bets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(largest v, largest -v): the largest bet on the one side of the range that can lose, for a clip of this margin."""
        middle = np.clip(self.predicted + gamma * self.embedding @ guess, self.low, self.high)
        above = bets / np.maximum(self.high - np.maximum(self.low, middle - margin), 1e-300)
        below = bets / np.maximum(np.minimum(self.high, middle + margin) - self.low, 1e-300)
        return (above, below) if end == "upper" else (below, above)


def sample_of(rows: Seen, model: NextModel, gamma: float) -> Predictions:
    """All of these rows."""
    return Predictions.of(rows, *model.predict(rows.points, rows.slots, rows.coordinates), gamma)


def sampled_rows(past: Past) -> Seen:
    """At most 4000 rows, spread over the past."""
    return past.rows.cut(spread_rows(len(past), MOST_ROWS))


def held_rows(past: Past) -> Seen:
    """At most 4000 rows of the last 30 % of the past."""
    cut = int(FIRST * len(past))
    return past.rows.cut(cut + spread_rows(len(past) - cut, MOST_ROWS))


def prediction_noise(past: Past, first: Fitted) -> float:
    """Mean (Y - Ŷ)^2 on the last 30 % of the past, with the model and the value of the rows before them."""
    found = sample_of(held_rows(past), first.model, past.gamma)
    return float(np.mean(found.at(first.guess, past.gamma) ** 2)) + _LEAST_NOISE * past.width**2
