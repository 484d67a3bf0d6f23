"""A Gaussian term by its series: near points into moments, far ones kept aside; tails from every point.

With a the embedding of the near points and b that of the far ones, |a + b|^2 = |a|^2 + 2 <a, b> + |b|^2. The mixed part is
summed in one more pass. Where points are read, that pass is spared if they weigh so little that 2 |a| |b| + |b|^2 bounds it
well enough, and a plan made from a sample is improved by what the first pass saw.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, FloatArray, U, inflate
from bondic.core.kernels import series
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import Share, enclose
from bondic.engines import moments, pairs
from bondic.engines.engine import Partial, Serializable, Survey, scaled
from bondic.engines.moments import Bands, Moments, band_root
from bondic.engines.products import Pairs
from bondic.engines.threads import Serial, in_order

IntArray = npt.NDArray[np.int64]

_FIRST_AIM = 1e-10
_BINS = 400
_EDGES = np.concatenate([np.geomspace(1e-3, 1e6, _BINS), [np.inf]])
_MAX_FAR = 20_000
"""Far points that are kept where points are read."""
_GOOD = 1e-4
"""A negligible relative error of the result: half of it goes into |μ|."""
_NOTHING = 1e-290
_PIECE = 65_536
"""Points of one task, where they are all held."""


@dataclass(frozen=True, eq=False)
class Split:
    """Points with lambda = |(x - center) / h|^2 <= limit go to the series."""

    center: FloatArray
    limit: float
    bands: Bands  # degrees of the series, by lambda
    cost: float  # in pairs of points


class SeriesSum(Serializable):
    """`again` makes a finer split from all points; where none is found, all pairs are summed."""

    def __init__(
        self,
        term: Term,
        axes: list[int],
        scales: FloatArray,
        survey: Survey,
        split: Split,
        again: Callable[[FloatArray], Split | None],
    ) -> None:
        self._term, self._axes, self._scales, self._survey, self._again = term, axes, scales, survey, again
        self._width, self._passes, self._finest = survey.width, 0, False
        self._other: Partial | None = None  # sums the term where no split helps
        self._far_points = self._far_columns = self._crossed = np.zeros((0, 0))
        self._ends: tuple[Share, ...] = ()
        self._result, self._tiles = [Share(np.zeros((1, self._width)), 0.0)], 0
        self._start(split.center, split.limit, split.bands)

    def _start(self, center: FloatArray, limit: float, bands: Bands) -> None:
        """A fresh pass over all batches."""
        self._center, self._limit, self._bands = center, limit, bands
        self._passes, self._crossing = self._passes + 1, False
        self._clear()

    def _clear(self) -> None:
        self._moments = self._no_moments()
        self._tails, self._masses = np.zeros((self._bands.degrees.size, self._width)), np.zeros(self._width)
        self._histogram, self._bin_largest = np.zeros((_BINS + 1, self._width)), np.zeros(_BINS + 1)
        self._outer = [np.zeros((0, len(self._axes)))], [np.zeros((0, self._width))]
        self._far, self._count, self._batches, self._largest = 0, 0, 0, 0.0

    def _no_moments(self) -> Moments:
        return Moments(int(self._bands.degrees[-1]), len(self._axes), self._width)

    def fork(self) -> Self:
        other = copy.copy(self)
        if self._crossing:
            other._crossed, other._tiles = np.zeros(()), 0
        else:
            other._clear()
        return other

    def __getstate__(self) -> dict[str, Any]:
        """A fork in another process works alone, and is never split again."""
        alone = replace(self._survey, points=self._survey.points[:0], executor=Serial(), progress=None, notes={})
        return {**vars(self), "_survey": alone, "_again": None}

    def merge(self, other: Self) -> None:
        if self._crossing:
            self._crossed = self._crossed + other._crossed
            self._tiles += other._tiles + 1
            return
        self._moments.merge(other._moments)
        self._tails, self._masses = self._tails + other._tails, self._masses + other._masses
        self._histogram = self._histogram + other._histogram
        self._bin_largest = np.maximum(self._bin_largest, other._bin_largest)
        self._far, self._count = self._far + other._far, self._count + other._count
        self._batches += other._batches + 1
        self._largest = max(self._largest, other._largest)
        if other._far and (self._far <= _MAX_FAR or self._survey.whole):  # with more there will be another split
            for mine, theirs in zip(self._outer, other._outer, strict=True):
                mine.extend(theirs)

    def add(self, points: FloatArray, columns: FloatArray) -> None:
        if self._other is not None:
            self._other.add(points, columns)
            return
        mine = points[:, self._axes]
        scaled = (mine - self._center) / self._scales
        norms = series.squared_norms(scaled)
        near = norms <= self._limit
        if self._crossing:
            self._add_crossed(mine[near], columns[near])
            return
        self._batches += 1
        if not self._survey.whole:
            self._note(norms, np.abs(columns))
        if not near.all():
            self._far += int((~near).sum())
            if self._far <= _MAX_FAR or self._survey.whole:
                self._outer[0].append(mine[~near])
                self._outer[1].append(columns[~near])
            scaled, norms, columns = scaled[near], norms[near], columns[near]
        if not norms.size:
            return
        self._masses += moments.column_masses(columns)
        self._largest = max(self._largest, float(norms.max()))
        self._count += norms.size
        self._add_bands(scaled, norms, columns)

    def _add_bands(self, scaled: FloatArray, norms: FloatArray, columns: FloatArray) -> None:
        """Every band with its degree. Points that are held are summed in pieces, which do not depend on who works on them."""
        places = self._bands.places(norms)
        pieces: list[tuple[int, IntArray]] = []
        for band in np.unique(places).tolist():
            mine = np.flatnonzero(places == band)
            self._tails[band] += moments.tail_roots(norms[mine], np.abs(columns[mine]), self._degree_of(band))
            pieces += [(band, mine[top : top + _PIECE]) for top in range(0, mine.size, _PIECE)]

        def summed(piece: tuple[int, IntArray]) -> Moments:
            band, mine = piece
            found = self._no_moments() if self._survey.whole else self._moments
            found.add(scaled[mine], columns[mine], self._degree_of(band))
            return found

        workers = self._survey.executor.workers if self._survey.whole else 1
        for number, found in enumerate(in_order(summed, pieces, workers)):
            if self._survey.whole:
                self._moments.merge(found)
            if self._survey.progress is not None:
                self._survey.progress((number + 1) / len(pieces))

    def _degree_of(self, band: int) -> int:
        return int(self._bands.degrees[band])

    def _note(self, norms: FloatArray, masses: FloatArray) -> None:
        """Absolute weights by lambda, for a better plan if one is needed; each bin remembers its farthest point."""
        place = np.searchsorted(_EDGES, norms)
        for p in range(self._width):
            self._histogram[:, p] += np.bincount(place, weights=masses[:, p], minlength=_BINS + 1)
        np.maximum.at(self._bin_largest, place, norms)

    def _add_crossed(self, points: FloatArray, columns: FloatArray) -> None:
        """K(far, near) u for the near points of a batch."""
        if points.shape[0]:
            mine, weights = np.ascontiguousarray(points), np.ascontiguousarray(columns)
            executor = self._survey.executor
            found = pairs.cross_sums(self._far_points, mine, self._scales, weights, executor=executor)
            self._crossed = self._crossed + found
            self._tiles += mine.shape[0] // pairs.TILE + 2

    def end_pass(self) -> None:
        if self._other is not None:
            self._other.end_pass()
            self.wants_more = self._other.wants_more
        elif self._crossing:
            near, far = self._ends
            axes, masses = len(self._axes), self._near_masses()
            crossed = np.broadcast_to(self._crossed, self._far_columns.shape)
            mixed = moments.mixed_share(crossed, self._far_columns, masses, self._count, self._tiles, axes)
            self._judge([near, mixed, far])
        elif self._far > _MAX_FAR and not self._survey.whole:
            if self._passes > 1:  # the plan knew all points: another one would be no better
                self._give_up()
            else:
                self._replan(_FIRST_AIM * self._all_masses() ** 2)
        elif self._far:
            self._far_points, self._far_columns = (np.concatenate(part) for part in self._outer)
            far = moments.far_share(self._far_points, self._scales, self._far_columns, self._survey.executor)
            self._meet_far(self._near_share(), far)
        else:
            self._judge([self._near_share()])

    def _meet_far(self, near: Share, far: Share) -> None:
        """Good enough, or another pass: far points against all others, or with a better plan."""
        if not self._survey.whole:
            inner = enclose([near], self._width)
            bounded = [_with_far(a, b) for a, b in zip(inner, enclose([far], self._width), strict=True)]
            if _good(bounded):
                errors = np.array([value.rad for value in bounded])
                self._finish([Share(np.array([[value.mid for value in bounded]]), 0.0, absolute=errors)])
                return
            if self._passes == 1 and not _good(inner):
                self._judge([near])
                return
        self._ends = near, far
        self._begin_crossing(self._far_points, self._far_columns)

    def _begin_crossing(self, points: FloatArray, columns: FloatArray) -> None:
        """A pass in which all near points meet the far ones."""
        self._crossing, self._far_points, self._far_columns = True, points, columns
        self._crossed, self._tiles = np.zeros(()), 0

    def _judge(self, shares: list[Share]) -> None:
        """A small result deserves a second round with a finer aim; there is no third."""
        whole = self._survey.whole
        groups = self._survey.groups if whole else self._width
        sums = enclose(shares, groups)
        if _good(sums) or self._finest or (not whole and (self._passes > 1 or self._crossing)):
            self._finish(shares)
        elif self._passes > 1:
            self._give_up()
        else:
            each = self._width // groups
            results = np.repeat([abs(value.mid) for value in sums], each)
            size = self._all_masses() ** 2
            aims = np.maximum(1e-5 * results / each, 1e-13 * size)
            self._finest = bool(np.all(aims <= 2e-13 * size))
            self._replan(aims)

    def _give_up(self) -> None:
        self._outer = [], []
        self.is_serializable = False
        self._other = Pairs().begin(self._term, self._survey)

    def _finish(self, shares: list[Share]) -> None:
        self._result, self.wants_more = [scaled(share, self._term.coefficient) for share in shares], False

    def _all_masses(self) -> FloatArray:
        if self._survey.columns is not None:
            return np.asarray(np.maximum(np.abs(self._survey.columns).sum(axis=0), 1e-150))
        return np.asarray(np.maximum(self._histogram.sum(axis=0), 1e-150))

    def _near_masses(self) -> FloatArray:
        return np.asarray(self._masses * (1 + (self._batches - 1) * 2 * U))

    def _replan(self, aims: FloatArray) -> None:
        """Degree and limit from all points, or from what the first pass saw: as good as the number of features allows."""
        if self._survey.whole:
            split = self._again(aims)
            if split is None:
                self._give_up()
            else:
                self._start(split.center, split.limit, split.bands)
            return
        seen, root = self._histogram.any(axis=1), band_root(aims / self._all_masses() ** 2)
        norms, masses = self._bin_largest[seen], self._histogram[seen]
        for last in range(len(norms) - 1, -1, -1):  # try to serve all, then leave the farthest bins out
            degree = moments.fitting_degree(norms[: last + 1], masses[: last + 1], len(self._axes), aims)
            if degree is not None:
                self._start(self._center, float(norms[last]), Bands.of(degree, root))
                return
        if len(norms):
            highest = moments.highest_degree(len(self._axes))
            self._start(self._center, float(norms[-1]), Bands.of(highest, root))
        else:  # nothing but weights that cancel
            self._start(self._center, self._limit, self._bands)

    def _near_share(self) -> Share:
        """|a|^2 for every column."""
        roots = self._tails * (1 + 4 * self._batches * U)
        shape = self._count, len(self._axes)
        return moments.near_share(self._moments, self._near_masses(), roots, self._bands, self._largest, shape)

    def values(self) -> list[Share]:
        return self._result if self._other is None else self._other.values()

    def close(self) -> None:
        self._outer = [], []
        if self._other is not None:
            self._other.close()


def _good(values: list[Enclosure]) -> bool:
    """Whether the errors are negligible; a column without weight counts as exact."""
    return all(value.rad <= _GOOD * abs(value.mid) or value.upper <= _NOTHING for value in values)


def _with_far(core: Enclosure, far: Enclosure) -> Enclosure:
    """|a + b|^2 known through |a|^2 and |b|^2 alone."""
    cross = 2.0 * (Enclosure(max(core.upper, 0.0)).sqrt() * Enclosure(max(far.upper, 0.0)).sqrt()).upper
    return Enclosure(core.mid, inflate(core.rad + cross + far.upper))
