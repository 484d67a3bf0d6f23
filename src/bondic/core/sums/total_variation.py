"""sum_x |μ(x)| over distinct points and actions, with a proved error: the dual norm of the largest deviation.

Equal points are merged before absolute values are taken; points that differ in any bit of a coordinate count as
different (except 0.0 and -0.0), which can only make the sum larger.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.core.rounding import TINY, Enclosure, certified_sum, inflate, upper_sum
from bondic.core.sums.measure import Source, check_finite
from bondic.core.sums.merge import merge_points

FloatArray = npt.NDArray[np.float64]

MOST_POINTS = 2_000_000
"""Distinct points held at once; a log with more of them has no use for a table."""


def total_variations(source: Source) -> list[Enclosure]:
    """One enclosure for each weighting.

    Weights have the relative error of their batch, and every merge adds its own, both relative to the absolute weights
    before merging: cancellation hides no error.
    """
    points: FloatArray | None = None
    weights = np.zeros((0, source.groups * source.slots))
    mass, relative, merges = np.zeros(source.groups), 0.0, 0.0
    for batch in source.batches():
        check_finite(batch.points, batch.weights)
        flat = batch.weights.transpose(1, 0, 2).reshape(-1, source.groups * source.slots)
        mass = np.array([inflate(old + upper_sum(np.abs(g))) for old, g in zip(mass, batch.weights, strict=True)])
        relative = max(relative, batch.error)
        fresh = batch.points + 0.0  # -0.0 and 0.0 are one point
        together = fresh if points is None else np.concatenate([points, fresh])
        points, weights, error = merge_points(together, flat if points is None else np.concatenate([weights, flat]))
        merges += error
        if points.shape[0] > MOST_POINTS:
            raise InvalidInput(
                f"More than {MOST_POINTS} distinct points: a table of values says nothing about such a log. Use a class that "
                "relates points to one another: a Ball of a kernel (categorical=False, --categorical none)."
            )
    columns = weights.reshape(weights.shape[0], source.groups, source.slots)
    out = []
    for g in range(source.groups):
        total = certified_sum(np.ascontiguousarray(np.abs(columns[:, g])))
        # (1 + e)^merges of growth between merges is far below the factor 1.01
        spread = 1.01 * (relative + merges) * mass[g] + columns[:, g].size * TINY
        out.append(Enclosure(total.mid, inflate(total.rad + spread)))
    return out
