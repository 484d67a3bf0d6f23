"""Input scales and bandwidths from points: those of the pilot for W, those of the whole log for Q."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist

from bondic.data.spread import spread_rows
from bondic.rows import Rows
from bondic.tuning.states import ObservedStates

FloatArray = npt.NDArray[np.float64]

_MOST = 1000
_NAMES_APART = 0.05
"""Bandwidth of columns that hold names: whole numbers one apart get a Gaussian value of e^-200, that is none."""


@dataclass(frozen=True, eq=False)
class Scales:
    """The size of points, and the distances between them."""

    center: FloatArray  # (D,)
    spread: FloatArray  # (D,) standard deviation per dimension
    median: float  # median distance after division by the spread
    names: tuple[int, ...] = ()  # columns whose values are names

    def bandwidth(self, factor: float) -> FloatArray:
        """`factor` times the median distance, per dimension; next to nothing for columns of names."""
        out = np.asarray(self.spread * self.median * factor)
        out[list(self.names)] = _NAMES_APART
        return out


def pilot_points(pilot: Rows) -> FloatArray:
    """Every point of these rows; a one-step log has no next ones."""
    rows = pilot.whole()
    return np.concatenate([rows.logged, rows.next.points]) if len(rows.next.points) else rows.logged


def observed_states(rows: Rows) -> ObservedStates:
    """Their states, without times and actions."""
    batch, dimension = rows.whole(), rows.layout.observation_dim
    following, origins = batch.next.points[:: batch.next.draws], batch.next.rows[:: batch.next.draws]
    return ObservedStates(batch.logged[:, :dimension], following[:, :dimension], batch.logged[origins, :dimension])


def measure_scales(points: FloatArray | None, dimension: int, names: tuple[int, ...] = ()) -> Scales:
    """Center, spread and median distance of points; 0, 1 and sqrt(d) when there are none."""
    default = float(np.sqrt(dimension))
    if points is None or not len(points):
        return Scales(np.zeros(dimension), np.ones(dimension), default, names)
    center, deviation = points.mean(axis=0), points.std(axis=0)
    # a constant column gets a scale of its own size, so that it neither matters nor divides by zero
    varies = deviation > 1e-9 * np.abs(center)
    spread = np.where(varies, deviation, np.maximum(np.abs(center), 1.0))
    numbers = [c for c in range(dimension) if c not in names]
    some = (points[spread_rows(len(points), _MOST)] / spread)[:, numbers]
    distances = pdist(some) if some.shape[0] > 1 and numbers else np.zeros(0)
    positive = distances[distances > 0]
    median = float(np.median(positive)) if positive.size else default
    return Scales(center, spread, median, names)
