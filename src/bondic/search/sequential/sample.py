"""Some rows of the past with what a model says about them: everything that instruments and weights are made of."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from bondic.data.spread import spread_rows
from bondic.search.sequential._types import RidgeModel
from bondic.search.sequential.models import FIRST, Fitted
from bondic.search.sequential.past import Past, Seen

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_ROWS = 4000
_LEAST_NOISE = 3e-11
"""In squares of the range: predictions are never taken to be exact."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows with T̄, the predicted target y0 and embedding kappa, and the misses a = target - y0, D = c(x') - kappa."""

    toward: FloatArray  # (k, m) T̄ = c(x) - gamma kappa
    predicted: FloatArray  # (k,) y0
    embedding: FloatArray  # (k, m) kappa
    miss: FloatArray  # (k,) a
    apart: FloatArray  # (k, m) D
    beyond: FloatArray  # (k,) what the landmarks leave of D
    low: FloatArray  # (k,)
    high: FloatArray  # (k,)

    def __len__(self) -> int:
        return int(self.miss.size)

    @property
    def width(self) -> FloatArray:
        """B_i."""
        return self.high - self.low

    def cut(self, rows: IntArray) -> Sample:
        return Sample(*(getattr(self, field.name)[rows] for field in fields(Sample)))

    @staticmethod
    def join(first: Sample, second: Sample) -> Sample:
        names = [field.name for field in fields(Sample)]
        return Sample(*(np.concatenate([getattr(first, name), getattr(second, name)]) for name in names))

    def center(self, gamma: float, guess: FloatArray) -> FloatArray:
        """y = y0 + gamma kappa . e^, kept inside of the range."""
        return np.asarray(np.clip(self.predicted + gamma * self.embedding @ guess, self.low, self.high))


def sample_of(rows: Seen, model: RidgeModel, gamma: float) -> Sample:
    """All of these rows."""
    predicted, embedding = model.predict(rows.points, rows.slots, rows.coordinates)
    return Sample(
        rows.coordinates - gamma * embedding,
        predicted,
        embedding,
        rows.targets - predicted,
        rows.following - embedding,
        rows.beyond,
        rows.low,
        rows.high,
    )


def past_sample(past: Past, model: RidgeModel) -> Sample:
    """At most 4000 rows, spread over the past."""
    return sample_of(past.rows.cut(spread_rows(len(past), MOST_ROWS)), model, past.gamma)


def prediction_noise(past: Past, first: Fitted) -> float:
    """Mean (Y - Ŷ)^2 on the last 30 % of the past, with the model and the value of the rows before them."""
    cut = int(FIRST * len(past))
    held = past.rows.cut(cut + spread_rows(len(past) - cut, MOST_ROWS))
    found = sample_of(held, first.model, past.gamma)
    miss = found.miss + past.gamma * found.apart @ first.guess
    return float(np.mean(miss**2)) + _LEAST_NOISE * past.width**2
