"""The Gaussian's series over batches: degree from a sample, tail from every point, far points kept aside.

Points with lambda <= reach go into the moments. With a the embedding of these and b that of the far ones,

    | |a + b|^2 - |a|^2 | <= 2 |a| |b| + |b|^2,

which is all that is needed when the far points weigh little; otherwise 2 <a, b> is summed directly in one more pass.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from bondic.engines import moments, pairs
from bondic.engines.moments import Moments
from bondic.engines.products import Pairs
from bondic.kernels import series
from bondic.kernels.normal_form import Term
from bondic.rounding import Enclosure, U, inflate
from bondic.sums.engine import Partial, Share, Survey, enclose

FloatArray = npt.NDArray[np.float64]

_FIRST_AIM = 1e-10
"""First aim, relative to the square of the absolute weights; refined when the result turns out to be small."""
_ROOM = 1.5
_BINS = 400
_MOST_FAR = 20_000
_GOOD = 1e-4
"""A relative error of the result that nobody notices: half of it goes into |mu|."""
_NOTHING = 1e-290
_EDGES = np.concatenate([np.geomspace(1e-3, 1e6, _BINS), [np.inf]])


@dataclass(frozen=True, eq=False)
class StreamPlan:
    """Coordinates (x - center) / h; points with lambda <= reach go to the series of this degree."""

    center: FloatArray
    reach: float
    degree: int


class SeriesStream(Partial):
    """One Gaussian term."""

    def __init__(self, term: Term, axes: list[int], scales: FloatArray, survey: Survey) -> None:
        self._term, self._axes, self._scales, self._survey = term, axes, scales, survey
        self._width = survey.width
        plan = SeriesStream.plan(axes, scales, survey)
        assert plan is not None
        self._other: Partial | None = None  # sums the term when too many points stay far from any plan
        self._crossing = False
        self._passes, self._result = 1, [Share(np.zeros((1, self._width)), 0.0)]
        self._center, self._reach, self._degree = plan.center, plan.reach, plan.degree
        self._clear()

    @staticmethod
    def plan(axes: list[int], scales: FloatArray, survey: Survey) -> StreamPlan | None:
        """A degree that serves all points of the sample with equal weights; None where the series is no help."""
        some = survey.points[:, axes]
        center = some.mean(axis=0)
        norms = series.squared_norms((some - center) / scales)
        equal = np.full((norms.size, 1), 1.0 / norms.size)
        plan = moments.make_plan(norms, equal, len(axes), np.array([_FIRST_AIM]))
        if plan is None or plan.features * 4 > survey.count:
            return None
        return StreamPlan(center, _ROOM * float(norms.max(initial=1e-3)), plan.degree)

    def _start(self, reach: float, degree: int) -> None:
        """A fresh pass over all batches."""
        self._reach, self._degree = reach, degree
        self._passes += 1
        self._clear()

    def _clear(self) -> None:
        self._moments = Moments(self._degree, len(self._axes), self._width)
        self._tails, self._masses = np.zeros(self._width), np.zeros(self._width)
        self._histogram, self._bin_largest = np.zeros((_BINS + 1, self._width)), np.zeros(_BINS + 1)
        self._far_points: list[FloatArray] = []
        self._far_columns: list[FloatArray] = []
        self._far, self._count, self._batches, self._largest = 0, 0, 0, 0.0

    def fork(self) -> Self:
        other = copy.copy(self)
        if self._other is not None:
            other._other = self._other.fork()
        elif self._crossing:
            other._crossed, other._tiles = np.zeros_like(self._crossed), 0
        else:
            other._clear()
        return other

    def merge(self, other: Self) -> None:
        if self._other is not None:
            self._other.merge(other._other)  # type: ignore[arg-type]
            return
        if self._crossing:
            self._crossed += other._crossed
            self._tiles += other._tiles + 1
            return
        self._moments.merge(other._moments)
        self._tails, self._masses = self._tails + other._tails, self._masses + other._masses
        self._histogram += other._histogram
        self._bin_largest = np.maximum(self._bin_largest, other._bin_largest)
        self._far_points += other._far_points
        self._far_columns += other._far_columns
        self._far, self._count = self._far + other._far, self._count + other._count
        self._batches, self._largest = self._batches + other._batches + 1, max(self._largest, other._largest)

    def add(self, points: FloatArray, columns: FloatArray) -> None:
        if self._other is not None:
            self._other.add(points, columns)
            return
        mine = points[:, self._axes]
        scaled = (mine - self._center) / self._scales
        norms = series.squared_norms(scaled)
        near = norms <= self._reach
        if self._crossing:
            self._add_crossed(mine[near], columns[near])
            return
        self._note(norms, np.abs(columns))
        if not near.all():
            self._far += int((~near).sum())
            if self._far <= _MOST_FAR:
                self._far_points.append(mine[~near])
                self._far_columns.append(columns[~near])
            scaled, norms, columns = scaled[near], norms[near], columns[near]
        if not norms.size:
            return
        self._tails += moments.tail_roots(norms, np.abs(columns), self._degree)
        self._masses += moments.column_masses(columns)
        self._largest = max(self._largest, float(norms.max()))
        self._count += norms.size
        self._moments.add(scaled, np.ascontiguousarray(columns))

    def _note(self, norms: FloatArray, masses: FloatArray) -> None:
        """Absolute weights by lambda, for a better plan if one is needed; each bin remembers its farthest point."""
        self._batches += 1
        place = np.searchsorted(_EDGES, norms)
        for p in range(self._width):
            self._histogram[:, p] += np.bincount(place, weights=masses[:, p], minlength=_BINS + 1)
        np.maximum.at(self._bin_largest, place, norms)

    def _add_crossed(self, points: FloatArray, columns: FloatArray) -> None:
        """K(far, near) u for the near points of a batch."""
        if points.shape[0]:
            mine, weights = np.ascontiguousarray(points), np.ascontiguousarray(columns)
            far, executor = self._outer[0], self._survey.executor
            self._crossed += pairs.cross_sums(far, mine, self._scales, weights, executor=executor)
            self._tiles += mine.shape[0] // pairs.TILE + 2

    def end_pass(self) -> None:
        if self._other is not None:
            self._other.end_pass()
            self.wants_more = self._other.wants_more
        elif self._crossing:
            near = self._near_masses()
            mixed = moments.mixed_share(self._crossed, self._outer[1], near, self._count, self._tiles, len(self._axes))
            self._finish([*self._ends, mixed])
        elif self._far > _MOST_FAR and self._passes > 1:  # the plan knew all points: another one would be no better
            self._far_points, self._far_columns = [], []
            self._other = Pairs().begin(self._term, self._survey)
        elif self._far > _MOST_FAR:
            self._replan(_FIRST_AIM * self._all_masses() ** 2)
        else:
            self._judge(self._near_share(), self._far_share())

    def _judge(self, near: Share, far: Share) -> None:
        """Good enough, or another pass: far points against all others, or with a better plan."""
        inner = bounded = enclose([near], self._width)
        if self._far:
            bounded = [_with_far(a, b) for a, b in zip(inner, enclose([far], self._width), strict=True)]
        if _good(bounded) or (self._passes > 1 and not self._far):
            values, errors = np.array([[value.mid for value in bounded]]), np.array([value.rad for value in bounded])
            self._finish([Share(values, 0.0, absolute=errors)])
        elif self._far and (_good(inner) or self._passes > 1):
            self._crossing, self._ends = True, (near, far)
            self._outer = np.concatenate(self._far_points), np.concatenate(self._far_columns)
            self._crossed, self._tiles = np.zeros_like(self._outer[1]), 0
        else:
            results = np.array([abs(value.mid) for value in inner])
            self._replan(np.maximum(1e-5 * results, 1e-13 * self._all_masses() ** 2))

    def _finish(self, shares: list[Share]) -> None:
        self._result, self.wants_more = [share.scaled(self._term.coefficient) for share in shares], False

    def _all_masses(self) -> FloatArray:
        return np.asarray(np.maximum(self._histogram.sum(axis=0), 1e-150))

    def _near_masses(self) -> FloatArray:
        return np.asarray(self._masses * (1 + (self._batches + 4) * U))

    def _replan(self, aims: FloatArray) -> None:
        """Degree and reach from what the first pass saw; as good as the number of features allows."""
        seen = self._histogram.any(axis=1)
        if not seen.any():  # nothing but weights that cancel
            self._start(self._reach, self._degree)
            return
        norms, masses = self._bin_largest[seen], self._histogram[seen]
        far = np.searchsorted(norms, norms[-1], side="left")  # try to serve all, then leave the farthest bins out
        while far >= 0:
            plan = moments.make_plan(norms[: far + 1], masses[: far + 1], len(self._axes), aims)
            if plan is not None:
                self._start(float(norms[far]), plan.degree)
                return
            far -= 1
        self._start(float(norms[-1]), moments.highest_degree(len(self._axes)))

    def _near_share(self) -> Share:
        """|a|^2 for every column."""
        tail = np.array([inflate(t * t * (1 + (2 * self._batches + 8) * U)) for t in self._tails])
        shape = self._count, len(self._axes)
        return moments.near_share(self._moments.total(), self._near_masses(), tail, self._degree, self._largest, shape)

    def _far_share(self) -> Share:
        """|b|^2 for every column, by pairs."""
        points = np.concatenate([np.zeros((0, len(self._axes))), *self._far_points])
        columns = np.concatenate([np.zeros((0, self._width)), *self._far_columns])
        return moments.far_share(points, self._scales, columns, self._survey.executor)

    def values(self) -> list[Share]:
        return self._result if self._other is None else self._other.values()

    def close(self) -> None:
        self._far_points, self._far_columns = [], []
        if self._other is not None:
            self._other.close()


def _good(values: list[Enclosure]) -> bool:
    """Whether nobody would notice the errors; a column without weight is as good as it gets."""
    return all(value.rad <= _GOOD * abs(value.mid) or value.upper <= _NOTHING for value in values)


def _with_far(core: Enclosure, far: Enclosure) -> Enclosure:
    """|a + b|^2 known through |a|^2 and |b|^2 alone."""
    cross = 2.0 * (Enclosure(max(core.upper, 0.0)).sqrt() * Enclosure(max(far.upper, 0.0)).sqrt()).upper
    return Enclosure(core.mid, inflate(core.rad + cross + far.upper))
