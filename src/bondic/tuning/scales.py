"""Input scales and bandwidths from pilot rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.problem import Problem

FloatArray = npt.NDArray[np.float64]

_MOST = 1000


def input_scales(pilot: Problem | None, dimension: int) -> tuple[FloatArray, FloatArray]:
    """(center, standard deviation) per point dimension on pilot rows; 0 and 1 when there is no pilot."""
    if pilot is None:
        return np.zeros(dimension), np.ones(dimension)
    points = np.concatenate([pilot.logged, pilot.next.points]) if len(pilot.next.points) else pilot.logged
    center = points.mean(axis=0)
    spread = points.std(axis=0)
    floor = 1e-9 * np.maximum(np.abs(center), 1e-300)
    return center, np.where(spread > floor, spread, np.maximum(np.abs(center), 1.0) * 1e-3 + (spread <= floor))


def median_distance(pilot: Problem | None, scales: FloatArray) -> float:
    """Median Euclidean distance of pilot points after scaling: the usual bandwidth; sqrt(d) without a pilot."""
    default = float(np.sqrt(scales.size))
    if pilot is None:
        return default
    points = pilot.logged[:: max(1, len(pilot) // _MOST)][:_MOST] / scales
    squares = ((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2) if points.shape[0] > 1 else np.zeros((1, 1))
    distances = np.sqrt(squares[np.triu_indices(points.shape[0], 1)])
    positive = distances[distances > 0]
    return float(np.median(positive)) if positive.size else default
