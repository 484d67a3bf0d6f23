"""Series engine: moments of the many points near the center, pairs for the few far out.

    u^T K u = near^T K near + 2 near^T K far + far^T K far.

The degree of the series is set by the farthest points it has to serve. Leaving a small share of the points to direct
sums (share * N^2 pairs instead of N^2 / 2) cuts the number of features several times. The split decides only the cost:
every part has its proved error, whatever the split.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.engines import moments, pairs
from bondic.engines.moments import Moments
from bondic.engines.products import Pairs
from bondic.engines.series_stream import SeriesStream
from bondic.kernels import series
from bondic.kernels.normal_form import Term, joined_gaussian
from bondic.sums.engine import Collected, Crossed, Partial, Share, Survey, enclose
from bondic.sums.executor import Executor

FloatArray = npt.NDArray[np.float64]

SMALLEST = 1000
_TOLERANCE = 1e-10
"""First aim, relative to (sum |u|)^2 of a column; refined when the result turns out to be small."""
_FAR_SHARES = (0.0, 0.001, 0.005, 0.01, 0.02, 0.05)
_BINS = 512


@dataclass(frozen=True, eq=False)
class Split:
    """Points with lambda <= `reach` go to the series of this degree."""

    reach: float
    degree: int
    cost: float  # in units of one pair


@dataclass(frozen=True)
class Series:
    """Gaussian terms; `always`: also where all pairs are cheaper, if there are not too many features."""

    always: bool = False
    name: str = "series"

    def cost(self, term: Term, survey: Survey, limit: float) -> float | None:
        del limit
        gaussian = joined_gaussian(term.factors)
        if gaussian is None:
            return None
        if not survey.whole:
            plan = SeriesStream.plan(*gaussian, survey)
            each = None if plan is None else point_cost(plan.degree, len(gaussian[0]), survey.width)
            cost = None if each is None else each * survey.count
        else:
            survey.notes["series"] = cloud = Cloud.of(term, survey.points, survey.columns)
            split = None if self.always else cloud.split()
            cost = split.cost if split is not None else 0.0 if self.always else None
        return 0.0 if cost is not None and self.always else cost

    def begin(self, term: Term, survey: Survey) -> Partial:
        gaussian = joined_gaussian(term.factors)
        assert gaussian is not None
        if not survey.whole:
            return SeriesStream(term, *gaussian, survey)

        def finish(points: FloatArray, columns: FloatArray) -> list[Share]:
            known = survey.notes.get("series") if points is survey.points else None
            found = (known or Cloud.of(term, points, columns)).shares(survey, always=self.always)
            if found is None:  # all pairs are cheaper, or more accurate
                return [Pairs().own(term, points, columns, survey.executor, survey.progress)]
            return [share.scaled(term.coefficient) for share in found]

        return Collected(survey, finish)

    def cross(
        self, term: Term, x: FloatArray, y: FloatArray, columns: FloatArray, executor: Executor
    ) -> Crossed | None:
        del term, x, y, columns, executor
        return None


@dataclass(frozen=True, eq=False)
class Cloud:
    """All points of a Gaussian term, as they are and in coordinates z = (x - mean) / h; lambda = |z|^2."""

    points: FloatArray
    scales: FloatArray
    columns: FloatArray
    scaled: FloatArray
    norms: FloatArray

    @staticmethod
    def of(term: Term, points: FloatArray, columns: FloatArray | None) -> Cloud:
        gaussian = joined_gaussian(term.factors)
        assert gaussian is not None
        assert columns is not None
        return Cloud.scaled_by(points[:, gaussian[0]], gaussian[1], columns)

    @staticmethod
    def scaled_by(points: FloatArray, scales: FloatArray, columns: FloatArray) -> Cloud:
        with np.errstate(over="ignore"):
            scaled = (points - points.mean(axis=0)) / scales
        return Cloud(points, scales, columns, scaled, series.squared_norms(scaled))

    def split(self) -> Split | None:
        """What a sum begins with: for an estimate of its cost."""
        if self.columns.shape[0] < SMALLEST or not np.all(np.isfinite(self.norms)):
            return None
        return choose_split(self.norms, np.abs(self.columns), self.scales.size, _TOLERANCE * self._sizes())

    def _sizes(self) -> FloatArray:
        return np.asarray(np.maximum(np.abs(self.columns).sum(axis=0) ** 2, 1e-300))

    def shares(self, survey: Survey, *, always: bool = False) -> list[Share] | None:
        """Shares of u_p^T K u_p, or None where all pairs are cheaper or more accurate."""
        count, total = self.columns.shape
        if (count < SMALLEST and not always) or not np.all(np.isfinite(self.norms)):
            return None
        size, width = self._sizes(), total // survey.groups
        aims = _TOLERANCE * size
        limit = np.inf if always else pairs.pair_cost(count, total)
        for _ in range(2):
            split = choose_split(self.norms, np.abs(self.columns), self.scales.size, aims, limit)
            if split is None:
                return None
            shares = self._evaluate(split, survey)
            sums = enclose(shares, survey.groups)
            if all(value.rad <= 1e-4 * abs(value.mid) for value in sums) or np.all(aims <= 2e-13 * size):
                return shares
            results = np.repeat([abs(value.mid) for value in sums], width)
            aims = np.maximum(1e-5 * results / width, 1e-13 * size)
        return None

    def _evaluate(self, split: Split, survey: Survey) -> list[Share]:
        near = self.norms <= split.reach
        core, norms = self.columns[near], self.norms[near]
        sums = Moments(split.degree, self.scales.size, core.shape[1])
        sums.add(self.scaled[near], core, survey.progress)
        masses, tail = moments.column_masses(core), moments.tail_error(norms, np.abs(core), split.degree)
        largest = float(norms.max(initial=0.0))
        share = moments.near_share(sums.total(), masses, tail, split.degree, largest, (len(core), self.scales.size))
        if near.all():
            return [share]
        far, outer, executor = self.points[~near], self.columns[~near], survey.executor
        crossed = pairs.cross_sums(far, self.points[near], self.scales, core, executor=executor)
        mixed = moments.mixed_share(crossed, outer, masses, len(core), len(core) // pairs.TILE, self.scales.size)
        return [share, mixed, moments.far_share(far, self.scales, outer, executor)]


def choose_split(
    norms: FloatArray, masses: FloatArray, dimension: int, aims: FloatArray, limit: float | None = None
) -> Split | None:
    """The cheapest share of far points; planned on bins of points, each represented by its farthest one."""
    count, total = masses.shape
    order = np.argsort(norms)
    cuts = np.unique(np.linspace(0, count, _BINS + 1).astype(np.int64))[1:]
    edges = norms[order][cuts - 1]
    binned = np.add.reduceat(masses[order], np.concatenate([[0], cuts[:-1]]), axis=0)
    best, limit = None, pairs.pair_cost(count, total) if limit is None else limit
    for share in _FAR_SHARES:
        keep = cuts <= (1.0 - share) * count
        if not keep.any():
            continue
        plan = moments.make_plan(edges[keep], binned[keep], dimension, aims)
        if plan is None:
            continue
        far = count - int(cuts[keep][-1])
        cost = count * point_cost(plan.degree, dimension, total) + far * count * (pairs.PAIR + total)
        if cost < limit:
            best, limit = Split(float(edges[keep][-1]), plan.degree, cost), cost
    return best


def point_cost(degree: int, dimension: int, columns: int) -> float:
    """A point of the series, in the same unit."""
    split = moments.make_split(degree, dimension)
    return 1200.0 + 1.3 * split.products * columns + 3.0 * (split.first.parents.size + split.second.parents.size)
