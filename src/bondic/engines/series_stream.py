"""The Gaussian's series over batches: degree from a sample, tail from every point, far points kept aside.

Points with lambda <= reach go into the moments. With a the embedding of these and b that of the far ones,

    | |a + b|^2 - |a|^2 | <= 2 |a| |b| + |b|^2,

which is all that is needed when the far points weigh little; otherwise 2 <a, b> is summed directly in one more pass.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bondic.engines import pairs, separable
from bondic.kernels import series
from bondic.rounding import TINY, Enclosure, U, certified_dot, certified_sum, inflate, upper_sum
from bondic.sums.term_sum import TermSum

FloatArray = npt.NDArray[np.float64]

_FIRST_AIM = 1e-10
"""First aim, relative to the square of the absolute weights; refined when the result turns out to be small."""
_ROOM = 1.5
_BINS = 400
_MOST_FAR = 20_000
_GOOD = 1e-4
"""A relative error of the result that nobody notices: half of it goes into |mu|."""
_NOTHING = 1e-290


class SeriesSum(TermSum):
    """One Gaussian term."""

    def __init__(
        self,
        coefficient: float,
        axes: list[int],
        scales: FloatArray,
        center: FloatArray,
        width: int,
        otherwise: Callable[[], TermSum],
    ) -> None:
        self._otherwise = otherwise  # what sums the term when too many points stay far from any plan
        self._other: TermSum | None = None
        self._coefficient, self._axes, self._scales, self._center = coefficient, axes, scales, center
        self._width = width
        self._reach, self._degree = 0.0, 1
        self._edges = np.concatenate([np.geomspace(1e-3, 1e6, _BINS), [np.inf]])
        self._stage = "moments"
        self._passes = 0
        self._crossed: FloatArray | None = None
        self._result: list[Enclosure] = []

    @staticmethod
    def plan(
        coefficient: float,
        axes: list[int],
        scales: FloatArray,
        sample: FloatArray,
        count: int,
        width: int,
        otherwise: Callable[[], TermSum],
    ) -> SeriesSum | None:
        """A degree that serves all points of the sample with equal weights; None where the series is no help."""
        some = sample[:, axes]
        center = some.mean(axis=0)
        norms = series.squared_norms((some - center) / scales)
        reach = _ROOM * float(norms.max(initial=1e-3))
        aim = np.array([_FIRST_AIM])
        equal = np.full((norms.size, 1), 1.0 / norms.size)
        plan = separable.make_plan(norms, equal, len(axes), aim)
        if plan is None or plan.features * 4 > count:
            return None
        out = SeriesSum(coefficient, axes, scales, center, width, otherwise)
        out._start(reach, plan.degree)
        return out

    def _start(self, reach: float, degree: int) -> None:
        """A fresh pass over all batches."""
        self._reach, self._degree = reach, degree
        self._moments = separable.Moments(degree, len(self._axes), self._width)
        self._tails, self._masses = np.zeros(self._width), np.zeros(self._width)
        self._histogram, self._bin_largest = np.zeros((_BINS + 1, self._width)), np.zeros(_BINS + 1)
        self._far_points: list[FloatArray] = []
        self._far_columns: list[FloatArray] = []
        self._far, self._count, self._batches, self._largest = 0, 0, 0, 0.0
        self._passes += 1

    def add(self, points: FloatArray, columns: FloatArray) -> None:
        if self._other is not None:
            self._other.add(points, columns)
            return
        mine = points[:, self._axes]
        if self._stage == "cross":
            self._add_crossed(mine, columns)
            return
        scaled = (mine - self._center) / self._scales
        norms = series.squared_norms(scaled)
        self._note(norms, np.abs(columns))
        near = norms <= self._reach
        if not near.all():
            self._far += int((~near).sum())
            if self._far <= _MOST_FAR:
                self._far_points.append(mine[~near])
                self._far_columns.append(columns[~near])
            scaled, norms, columns = scaled[near], norms[near], columns[near]
        if not norms.size:
            return
        roots = np.sqrt(series.poisson_tail(norms, self._degree)) * (1 + 4 * U)
        masses = np.abs(columns)
        self._tails += [upper_sum(masses[:, p] * roots) for p in range(self._width)]
        self._masses += [upper_sum(masses[:, p]) for p in range(self._width)]
        self._largest = max(self._largest, float(norms.max()))
        self._count += norms.size
        self._moments.add(scaled, np.ascontiguousarray(columns))

    def _note(self, norms: FloatArray, masses: FloatArray) -> None:
        """Absolute weights by lambda, for a better plan if one is needed; each bin remembers its farthest point."""
        self._batches += 1
        place = np.searchsorted(self._edges, norms)
        for p in range(self._width):
            self._histogram[:, p] += np.bincount(place, weights=masses[:, p], minlength=_BINS + 1)
        np.maximum.at(self._bin_largest, place, norms)

    def end_pass(self) -> None:
        if self._other is not None:
            self._other.end_pass()
            self.wants_more = self._other.wants_more
            return
        if self._stage == "cross":
            self._result, self.wants_more = self._with_crossed(), False
            return
        if self._far > _MOST_FAR and self._passes > 1:  # the plan knew all points: another one would be no better
            self._far_points, self._far_columns = [], []
            self._other = self._otherwise()
            return
        if self._far > _MOST_FAR:
            self._replan(_FIRST_AIM * self._all_masses() ** 2)
            return
        core = self._core()
        far = self._far_square()
        bounded = [_with_far(a, b) for a, b in zip(core, far, strict=True)]
        if _good(bounded):
            self._result, self.wants_more = bounded, False
        elif self._far and _good(core):
            self._start_crossing(core, far)
        elif self._passes == 1:
            size = self._all_masses() ** 2
            aims = np.maximum(1e-5 * np.array([abs(value.mid) for value in core]), 1e-13 * size)
            self._replan(aims)
        elif self._far:
            self._start_crossing(core, far)
        else:
            self._result, self.wants_more = bounded, False

    def _all_masses(self) -> FloatArray:
        return np.asarray(np.maximum(self._histogram.sum(axis=0), 1e-150))

    def _replan(self, aims: FloatArray) -> None:
        """Degree and reach from what the first pass saw; as good as the number of features allows."""
        seen = self._histogram.any(axis=1)
        if not seen.any():  # nothing but weights that cancel
            self._start(self._reach, self._degree)
            return
        norms, masses = self._bin_largest[seen], self._histogram[seen]
        far = np.searchsorted(norms, norms[-1], side="left")  # try to serve all, then leave the farthest bins out
        while far >= 0:
            plan = separable.make_plan(norms[: far + 1], masses[: far + 1], len(self._axes), aims)
            if plan is not None:
                self._start(float(norms[far]), plan.degree)
                return
            far -= 1
        self._start(float(norms[-1]), separable.highest_degree(len(self._axes)))

    def _core(self) -> list[Enclosure]:
        """|a|^2 for every column."""
        tails = np.array([inflate(t * t * (1 + (2 * self._batches + 8) * U)) for t in self._tails])
        plan = separable.Plan(self._degree, series.feature_count(self._degree, len(self._axes)), tails)
        masses = [float(mass * (1 + (self._batches + 4) * U)) for mass in self._masses]
        return separable.enclose(self._moments.total(), masses, plan, self._largest, (self._count, len(self._axes)))

    def _far_square(self) -> list[Enclosure]:
        """|b|^2 for every column, by pairs."""
        if not self._far:
            return [Enclosure(0.0)] * self._width
        points, columns = np.concatenate(self._far_points), np.concatenate(self._far_columns)
        inner = pairs.block_sums(points, self._scales, columns)
        error = pairs.value_error(len(self._axes)) + pairs.sum_error(points.shape[0])
        out = []
        for p in range(self._width):
            own = certified_sum(np.ascontiguousarray(inner[:, p]))
            mass = upper_sum(np.abs(columns[:, p]))
            out.append(Enclosure(own.mid, inflate(own.rad + mass * mass * error + points.shape[0] * TINY)))
        return out

    def _start_crossing(self, core: list[Enclosure], far: list[Enclosure]) -> None:
        self._stage, self._ends = "cross", (core, far)
        self._outer = np.concatenate(self._far_points), np.concatenate(self._far_columns)
        self._crossed = np.zeros_like(self._outer[1])
        self._tiles = 0

    def _add_crossed(self, points: FloatArray, columns: FloatArray) -> None:
        """K(far, near) u for the near points of a batch."""
        assert self._crossed is not None
        near = series.squared_norms((points - self._center) / self._scales) <= self._reach
        if near.any():
            mine, weights = np.ascontiguousarray(points[near]), np.ascontiguousarray(columns[near])
            self._crossed += pairs.cross_sums(self._outer[0], mine, self._scales, weights)
            self._tiles += mine.shape[0] // pairs.TILE + 2

    def _with_crossed(self) -> list[Enclosure]:
        """|a|^2 + 2 <a, b> + |b|^2; an entry of `crossed` adds TILE terms in each tile of near points, in sequence."""
        assert self._crossed is not None
        roundings = (pairs.TILE + self._tiles + 16) * U
        error = pairs.value_error(len(self._axes)) + roundings
        out = []
        for p, (core, far) in enumerate(zip(*self._ends, strict=True)):
            weights = np.ascontiguousarray(self._outer[1][:, p])
            mixed = certified_dot(weights, np.ascontiguousarray(self._crossed[:, p]))
            few = upper_sum(np.abs(weights))
            spread = float(self._masses[p]) * (1 + (self._batches + 4) * U) * few * error + self._count * TINY
            out.append(core + far + 2.0 * Enclosure(mixed.mid, inflate(mixed.rad + spread)))
        return out

    def values(self) -> list[Enclosure]:
        if self._other is not None:
            return self._other.values()
        return [Enclosure(self._coefficient) * value for value in self._result]

    def close(self) -> None:
        self._far_points, self._far_columns = [], []
        if self._other is not None:
            self._other.close()


def _good(values: list[Enclosure]) -> bool:
    """Whether nobody would notice the errors; a column without weight is as good as it gets."""
    return all(value.rad <= _GOOD * abs(value.mid) or value.upper <= _NOTHING for value in values)


def _with_far(core: Enclosure, far: Enclosure) -> Enclosure:
    """|a + b|^2 known through |a|^2 and |b|^2 alone."""
    if far.upper <= 0:
        return core
    cross = 2.0 * (Enclosure(max(core.upper, 0.0)).sqrt() * Enclosure(max(far.upper, 0.0)).sqrt()).upper
    return Enclosure(core.mid, inflate(core.rad + cross + far.upper))
