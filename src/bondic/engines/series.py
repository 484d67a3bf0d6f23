"""Series engine for Gaussian terms: moments of the many points near the center, pairs for the few far out.

    u^T K u = near^T K near + 2 near^T K far + far^T K far.

The degree of the series is set by the farthest points it has to serve. Leaving a small share of the points to direct
sums (share * N^2 pairs instead of N^2 / 2) cuts the number of features several times. The split decides only the cost:
every part has its proved error, whatever the split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import FloatArray
from bondic.core.kernels import series
from bondic.core.kernels.normal_form import Term
from bondic.engines import moments, pairs
from bondic.engines.engine import Engine, Partial, Survey
from bondic.engines.moments import Bands, band_root
from bondic.engines.recipes import joined_gaussian
from bondic.engines.series_sum import SeriesSum, Split

SMALLEST = 1000
_AIM = 1e-10
"""First aim, relative to (sum |u|)^2 of a column; refined when the result turns out to be small."""
_FAR_SHARES = (0.0, 0.001, 0.005, 0.01, 0.02, 0.05)
_BINS = 512
_ROOM = 4.0
"""Points a little farther out than those of a sample get the highest degree, too: their tail is cheaper than another pass."""
_LIKELY, _MIN_AIM = 1e-5, 1e-13
"""Weights of n points that cancel leave about 1/n of their mass, squared: a long sum has to be better than that at once."""


@dataclass(frozen=True)
class Series(Engine):
    """`always`: also where all pairs are cheaper, if there are not too many features."""

    always: bool = False
    name: str = "series"

    def cost(self, term: Term, survey: Survey) -> float | None:
        gaussian = joined_gaussian(term.factors)
        split = None if gaussian is None else self._split(*gaussian, survey)
        survey.notes[self.name] = split
        return None if split is None else 0.0 if self.always else split.cost

    def begin(self, term: Term, survey: Survey) -> Partial:
        gaussian = joined_gaussian(term.factors)
        assert gaussian is not None
        return SeriesSum(
            term, *gaussian, survey, survey.notes[self.name], lambda aims: self._split(*gaussian, survey, aims)
        )

    def _split(
        self, axes: list[int], scales: FloatArray, survey: Survey, aims: FloatArray | None = None
    ) -> Split | None:
        """From all points and weights where they are known, else from a sample; None: by all pairs."""
        points = survey.points[:, axes]
        center = points.mean(axis=0)
        with np.errstate(over="ignore"):
            norms = series.squared_norms((points - center) / scales)
        if survey.columns is None:
            return _sampled_split(center, norms, scales.size, survey)
        if (survey.count < SMALLEST and not self.always) or not np.all(np.isfinite(norms)):
            return None
        masses = np.abs(survey.columns)
        aims = _AIM * np.maximum(masses.sum(axis=0) ** 2, 1e-300) if aims is None else aims
        return choose_split(center, norms, masses, aims, np.inf if self.always else None)


def _sampled_split(center: FloatArray, norms: FloatArray, dimension: int, survey: Survey) -> Split | None:
    """A degree that serves all points of the sample with equal weights; None where the series is no help."""
    equal = np.full((norms.size, 1), 1.0 / norms.size)
    aim = np.array([max(_MIN_AIM, min(_AIM, _LIKELY / max(survey.count, 1)))])
    degree = moments.fitting_degree(norms, equal, dimension, aim)
    if degree is None or series.feature_count(degree, dimension) * 4 > survey.count:
        return None
    bands = Bands.of(degree, band_root(aim))
    cost = survey.count / max(norms.size, 1) * points_cost(bands, norms, np.ones(norms.size), dimension, survey.width)
    return Split(center, _ROOM * float(norms.max(initial=1e-3)), bands, cost)


def choose_split(
    center: FloatArray, norms: FloatArray, masses: FloatArray, aims: FloatArray, limit: float | None = None
) -> Split | None:
    """The cheapest share of far points; planned on bins of points, each represented by its farthest one."""
    count, total = masses.shape
    order = np.argsort(norms)
    cuts = np.unique(np.linspace(0, count, _BINS + 1).astype(np.int64))[1:]
    edges = norms[order][cuts - 1]
    binned = np.add.reduceat(masses[order], np.concatenate([[0], cuts[:-1]]), axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # sums that are too large end as errors of their own
        root = band_root(aims / np.maximum(binned.sum(axis=0) ** 2, 1e-300))
    best, limit = None, pairs.pair_cost(count, total) if limit is None else limit
    for share in _FAR_SHARES:
        keep = cuts <= (1.0 - share) * count
        if not keep.any():
            continue
        degree = moments.fitting_degree(edges[keep], binned[keep], center.size, aims)
        if degree is None:
            continue
        far, bands = count - int(cuts[keep][-1]), Bands.of(degree, root)
        near = points_cost(bands, edges[keep], np.diff(cuts[keep], prepend=0), center.size, total)
        cost = near + far * count * (pairs.PAIR + total)
        if cost < limit:
            best, limit = Split(center, float(edges[keep][-1]), bands, cost), cost
    return best


def points_cost(bands: Bands, norms: FloatArray, counts: npt.NDArray[Any], dimension: int, columns: int) -> float:
    """Points of the series, `counts` of them at each lambda, in pairs of points."""
    parts = moments.make_halves(int(bands.degrees[-1]), dimension)
    members = np.bincount(bands.places(norms), weights=counts, minlength=bands.degrees.size)
    each = np.array([_point_cost(parts, int(degree), columns) for degree in bands.degrees])
    return float(members @ each)


def _point_cost(parts: moments.Halves, degree: int, columns: int) -> float:
    features = parts.first.below[min(degree, parts.first.below.size - 1)] + max(parts.widths(degree))
    return 1200.0 + 1.3 * parts.products(degree) * columns + 3.0 * float(features)
