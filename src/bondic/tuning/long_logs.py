"""Long logs with many columns: where sums over all pairs of points would take too long, Q's Gaussian gives way to its series.

In few dimensions the sums of a Gaussian are linear in the rows. In more of them they go over all pairs, and a million rows would
take hours. `GaussianSeries`, cut at a degree, is a kernel with explicit features: its sums are linear in the rows, and its
functions are functions of the Gaussian's space. At all but a hundredth of the points that were looked at both kernels are
within `_TOLERANCE` of each other; with the median distance as bandwidth a low degree does that in many dimensions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.leaves import Dirac, Gaussian
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.kernels.series import GaussianSeries, feature_count, squared_norms
from bondic.engines.sums import STANDARD

FloatArray = npt.NDArray[np.float64]

FEWEST_ROWS = 20_000
"""Below, every sum over pairs is a matter of seconds or minutes."""
_SUMS = 3
"""Sums over all rows behind an interval: the initial distribution, and both ends."""
_MOST_SECONDS = 600.0
"""Of one core, for these sums."""
_TOLERANCE = 0.1
_MOST_FEATURES = 1000


def expected_points(points: FloatArray, rows: int) -> int:
    """How many different points a log of so many rows has; `points` are logged, next and initial ones of some of them.

    Every row brings two, as a rule one of them again: its next state is the state of the following row, or its state an
    initial one.
    """
    return int(2 * rows * np.unique(points, axis=0).shape[0] / max(len(points), 1))


def seconds_of_sums(kernel: Kernel, layout: Layout, points: FloatArray, rows: int) -> float:
    """About how long one core needs for the sums behind an interval with a Q of this kernel."""
    return _SUMS * STANDARD.seconds(normal_form(kernel, layout), expected_points(points, rows), points)


def _near(points: FloatArray, kernel: Gaussian) -> FloatArray:
    """Without the hundredth that is farthest from the mean, in bandwidths."""
    norms = squared_norms((points - points.mean(axis=0)) / kernel.bandwidth)
    return points[norms <= np.quantile(norms, 0.99)]


def affordable(kernel: Gaussian, layout: Layout, points: FloatArray, rows: int) -> Gaussian | GaussianSeries:
    """The Gaussian, or its series where the log is too long for it; the Gaussian all the same where no series is near it."""
    whole = kernel * Dirac(on="action") if layout.discrete else kernel
    if rows < FEWEST_ROWS or seconds_of_sums(whole, layout, points, rows) <= _MOST_SECONDS:
        return kernel
    columns = list(layout.columns(kernel.on))
    try:
        series = GaussianSeries.fit(
            _near(points[:, columns], kernel), kernel.bandwidth, tolerance=_TOLERANCE, on=kernel.on
        )
    except InvalidInput:  # points too far apart, as where columns hold names
        return kernel
    return series if feature_count(series.degree, len(columns)) <= _MOST_FEATURES else kernel
