"""Separable engine for the many points near the center, pairs for the few far out.

    u^T K u = core^T K core + 2 core^T K far + far^T K far.

The degree of the series is set by the farthest points it has to serve. Leaving a small share of the points to direct
sums (share * N^2 pairs instead of N^2 / 2) cuts the number of features several times. The split decides only the cost:
every part is an enclosure, whatever the split.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.engines import pairs, separable
from bondic.kernels import series
from bondic.rounding import TINY, Enclosure, U, certified_dot, certified_sum, inflate, upper_sum
from bondic.sums.reference import Progress

FloatArray = npt.NDArray[np.float64]

SMALLEST = 1000
_TOLERANCE = 1e-10
"""First aim, relative to (sum |u|)^2 of a column; refined when the result turns out to be small."""
_FAR_SHARES = (0.0, 0.001, 0.005, 0.01, 0.02, 0.05)
_BINS = 512
PAIR = 9.0
"""A pair costs this and 1 more per weight column; the unit is about 0.09 ns of a 2.8 GHz core (benchmarks/engines.py)."""


@dataclass(frozen=True, eq=False)
class Split:
    """Points with lambda <= `reach` go to the series of this degree."""

    reach: float
    degree: int
    cost: float  # in units of one pair


def gaussian_forms(
    points: FloatArray,
    scales: FloatArray,
    columns: FloatArray,
    groups: int,
    progress: Progress | None = None,
    *,
    at_any_cost: bool = False,
) -> list[Enclosure] | None:
    """Sum of u_p^T K u_p over the columns of each group, or None where all pairs are cheaper or more accurate."""
    count, total = columns.shape
    if count < SMALLEST and not at_any_cost:
        return None
    scaled = (points - points.mean(axis=0)) / scales
    norms, masses = series.squared_norms(scaled), np.abs(columns)
    if not np.all(np.isfinite(norms)):
        return None
    size = np.maximum(masses.sum(axis=0) ** 2, 1e-300)
    aims, width = _TOLERANCE * size, total // groups
    limit = np.inf if at_any_cost else pair_cost(count, total)
    for _ in range(2):
        split = choose_split(norms, masses, scaled.shape[1], aims, limit)
        if split is None:
            return None
        values = _evaluate(points, scaled, scales, columns, norms, split, progress)
        sums = [sum(values[g * width : (g + 1) * width], Enclosure(0.0)) for g in range(groups)]
        if all(value.rad <= 1e-4 * abs(value.mid) for value in sums) or np.all(aims <= 2e-13 * size):
            return sums
        results = np.repeat([abs(value.mid) for value in sums], width)
        aims = np.maximum(1e-5 * results / width, 1e-13 * size)
    return None


def first_split(points: FloatArray, scales: FloatArray, columns: FloatArray) -> Split | None:
    """The split `gaussian_forms` begins with: for an estimate of its cost."""
    if columns.shape[0] < SMALLEST:
        return None
    norms, masses = series.squared_norms((points - points.mean(axis=0)) / scales), np.abs(columns)
    return choose_split(norms, masses, points.shape[1], _TOLERANCE * np.maximum(masses.sum(axis=0) ** 2, 1e-300))


def pair_cost(count: int, columns: int) -> float:
    """All pairs, in the unit of `Split.cost`; measured by benchmarks/estimate.py and benchmarks/engines.py."""
    return 0.5 * count * count * (PAIR + columns)


def choose_split(
    norms: FloatArray, masses: FloatArray, dimension: int, aims: FloatArray, limit: float | None = None
) -> Split | None:
    """The cheapest share of far points; planned on bins of points, each represented by its farthest one."""
    count, total = masses.shape
    order = np.argsort(norms)
    cuts = np.unique(np.linspace(0, count, _BINS + 1).astype(np.int64))[1:]
    edges = norms[order][cuts - 1]
    binned = np.add.reduceat(masses[order], np.concatenate([[0], cuts[:-1]]), axis=0)
    best, limit = None, pair_cost(count, total) if limit is None else limit
    for share in _FAR_SHARES:
        keep = cuts <= (1.0 - share) * count
        if not keep.any():
            continue
        plan = separable.make_plan(edges[keep], binned[keep], dimension, aims)
        if plan is None:
            continue
        far = count - int(cuts[keep][-1])
        cost = count * _point_cost(plan.degree, dimension, total) + far * count * (PAIR + total)
        if cost < limit:
            best, limit = Split(float(edges[keep][-1]), plan.degree, cost), cost
    return best


def _point_cost(degree: int, dimension: int, columns: int) -> float:
    """A point of the series, in the same unit."""
    split = separable.make_split(degree, dimension)
    return 1200.0 + 1.3 * split.products * columns + 3.0 * (split.first.parents.size + split.second.parents.size)


def _evaluate(
    points: FloatArray,
    scaled: FloatArray,
    scales: FloatArray,
    columns: FloatArray,
    norms: FloatArray,
    split: Split,
    progress: Progress | None,
) -> list[Enclosure]:
    """u_p^T K u_p for every column."""
    near = norms <= split.reach
    core = columns[near]
    tail = separable.tail_error(norms[near], np.abs(core), split.degree)
    plan = separable.Plan(split.degree, series.feature_count(split.degree, scaled.shape[1]), tail)
    values = separable.quadratic(scaled[near], core, norms[near], plan, progress)
    if near.all():
        return values
    rest = _far_part(points[near], points[~near], scales, core, columns[~near])
    return [value + extra for value, extra in zip(values, rest, strict=True)]


def _far_part(
    near: FloatArray, far: FloatArray, scales: FloatArray, core: FloatArray, outer: FloatArray
) -> list[Enclosure]:
    """2 core^T K far + far^T K far for every column, by pairs."""
    crossed = pairs.cross_sums(far, near, scales, core)  # (far, columns)
    inner = pairs.block_sums(far, scales, outer)
    error = pairs.value_error(scales.size)
    # a crossed entry adds TILE terms in each of the tiles of near points, one after the other
    roundings = (pairs.TILE + near.shape[0] // pairs.TILE + 16) * U
    out = []
    for p in range(core.shape[1]):
        many, few = upper_sum(np.abs(core[:, p])), upper_sum(np.abs(outer[:, p]))
        mixed = certified_dot(np.ascontiguousarray(outer[:, p]), np.ascontiguousarray(crossed[:, p]))
        own = certified_sum(np.ascontiguousarray(inner[:, p]))
        spread = 2 * many * few * (error + roundings) + few * few * (error + pairs.sum_error(far.shape[0]))
        out.append(2.0 * mixed + Enclosure(own.mid, inflate(own.rad + spread + near.shape[0] * TINY)))
    return out
