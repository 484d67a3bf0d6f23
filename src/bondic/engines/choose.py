"""Which engine sums a Gaussian term: series, cut-off or all pairs, by estimated cost.

| engine | cost in units of a pair and a weight column | good for |
|---|---|---|
| pairs | n^2 / 2 | small n, or everything near everything in many dimensions |
| separable | n times features, far points by pairs | wide bandwidths, few dimensions |
| cutoff | n times neighbours | small bandwidths |

The choice decides cost and radius; every engine returns enclosures of the same numbers.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from bondic.engines import cutoff, hybrid
from bondic.rounding import Enclosure
from bondic.sums.reference import Progress

FloatArray = npt.NDArray[np.float64]
Engine = Literal["auto", "pairs", "separable", "cutoff", "numpy"]
"""How Gaussian terms are summed; other terms have one way only.

`separable` falls back to all pairs where the series would need too many features or cannot resolve the result;
`cutoff` always applies; `numpy` is the slow twin.
"""

WORTH = 0.7
"""All pairs have the smaller radius: a cut-off has to save at least this much."""


def gaussian_forms(
    points: FloatArray,
    scales: FloatArray,
    columns: FloatArray,
    groups: int,
    engine: Engine,
    progress: Progress | None = None,
) -> list[Enclosure] | None:
    """Sum of u_p^T K u_p over the columns of each group, or None: by all pairs."""
    if engine == "cutoff":
        return cutoff.gaussian_forms(points, scales, columns, groups, progress)
    if engine == "separable":
        return hybrid.gaussian_forms(points, scales, columns, groups, progress, at_any_cost=True)
    if engine != "auto":
        return None
    split = hybrid.first_split(points, scales, columns)
    series = np.inf if split is None else split.cost
    limit = min(series, WORTH * hybrid.pair_cost(*columns.shape))
    found = cutoff.plan(points, scales, columns, limit)
    if found is not None:
        return cutoff.evaluate(*found, groups, progress)
    return None if split is None else hybrid.gaussian_forms(points, scales, columns, groups, progress)
