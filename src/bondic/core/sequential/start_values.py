"""V(x_j) - R at initial states x_j, over the feasible part of a ball: how far values at starts can be from the guess of the bets.

R is a number, or the mean value over starts that were left out; then it has an embedding, and <e, x_j - R> is bounded as one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Between, U, row_norms
from bondic.core.sequential.ellipsoids import Ellipsoid
from bondic.core.sequential.landmarks import Coordinates, Embedding
from bondic.core.starts import StartBets, StartTerms
from bondic.core.sums.measure import RowMeasures

FloatArray = npt.NDArray[np.float64]


def start_deviations(found: Coordinates, sets: Sequence[Ellipsoid], terms: StartTerms, bets: StartBets) -> Between:
    """Bounds that hold for every e in all sets at once."""
    high = np.full(len(terms), np.inf)
    low, less = -high, None
    value, error = bets.guess or 0.0, 0.0
    if bets.guess is None:
        mean = terms.reference()
        less, (values, errors) = found.single(mean), _center(found, mean)
        value, error = float(values[0]), float(errors[0])
    for part, measures in terms.parts():
        here, (center, off) = found.single(measures), _center(found, measures)
        here = here if less is None else _difference(here, less, found.radius)
        off = off + error + 2 * U * (np.abs(center) + abs(value))
        center = center - value
        for one in sets:
            bounds = one.products(here)
            size = np.abs(bounds.low) + np.abs(bounds.high) + np.abs(center) + off
            low[part] = np.maximum(low[part], bounds.low + center - off - 4 * U * size)
            high[part] = np.minimum(high[part], bounds.high + center + off + 4 * U * size)
    return Between(low, high)


def _difference(here: Embedding, less: Embedding, radius: float) -> Embedding:
    lost = 4 * U * radius * (row_norms(here.coordinates) + row_norms(less.coordinates))
    return Embedding(
        here.coordinates - less.coordinates,
        (here.perp + less.perp) * (1 + 4 * U),
        (here.extra + less.extra + lost) * (1 + 8 * U),
    )


def _center(found: Coordinates, measures: RowMeasures) -> tuple[FloatArray, FloatArray]:
    if found.ball.center is None:
        return np.zeros(measures.count), np.zeros(measures.count)
    return found.sums.row_products(found.ball.center, measures)
