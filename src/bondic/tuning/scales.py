"""Input scales and bandwidths from pilot rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist

from bondic.data.spread import spread_rows
from bondic.problem import Problem

FloatArray = npt.NDArray[np.float64]

_MOST = 1000


@dataclass(frozen=True, eq=False)
class Scales:
    """How large and how far apart points are."""

    center: FloatArray  # (D,)
    spread: FloatArray  # (D,) standard deviation per dimension
    median: float  # median distance after division by the spread

    def bandwidth(self, factor: float) -> FloatArray:
        """`factor` times the median distance, per dimension."""
        return np.asarray(self.spread * self.median * factor)


def measure_scales(pilot: Problem | None, dimension: int) -> Scales:
    """Center, spread and median distance of pilot points; 0, 1 and sqrt(d) when there is no pilot."""
    default = float(np.sqrt(dimension))
    if pilot is None:
        return Scales(np.zeros(dimension), np.ones(dimension), default)
    points = np.concatenate([pilot.logged, pilot.next.points]) if len(pilot.next.points) else pilot.logged
    center, deviation = points.mean(axis=0), points.std(axis=0)
    # a constant column gets a scale of its own size, so that it neither matters nor divides by zero
    spread = np.where(deviation > 1e-9 * np.abs(center), deviation, np.maximum(np.abs(center), 1.0))
    some = pilot.logged[spread_rows(len(pilot), _MOST)] / spread
    distances = pdist(some) if some.shape[0] > 1 else np.zeros(0)
    positive = distances[distances > 0]
    return Scales(center, spread, float(np.median(positive)) if positive.size else default)
