"""What the noise of rows costs: sum_i g(-s_i |Δ_i|), row by row or at one worst e, whichever is less (15), (16), (19)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bondic.core.betting import curvature, loss
from bondic.core.classes.ellipsoids import Ellipsoid, Quadratic, supremum
from bondic.core.classes.landmarks import Embedding

FloatArray = npt.NDArray[np.float64]

_MOST = 0.995
"""Of a bet: g is infinite at 1."""


def cheapest(
    weight: FloatArray,
    sizes: FloatArray,
    largest: FloatArray,
    offsets: FloatArray,
    deviations: Embedding,
    ellipsoids: Sequence[Ellipsoid],
) -> tuple[float, int]:
    """The price of rows that come `weight` times with bets of these sizes; and which ellipsoid gives the least joint one."""
    bets = np.minimum(sizes * largest, _MOST)
    single = float(weight @ loss(-bets))
    form = Quadratic.of(weight * sizes**2 * curvature(-bets), offsets, deviations, ellipsoids[0].ball)
    joint = [supremum(one, np.zeros(form.linear.size), 0.0, form)[0] for one in ellipsoids]
    pick = int(np.argmin(joint))
    return min(single, joint[pick]), pick
