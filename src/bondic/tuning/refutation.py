"""Further instruments that test a chosen Q: a class that the log can refute is refuted.

W is picked for short intervals and may be blind to what is wrong with Q. These look elsewhere: at single state-action pairs, at
small neighborhoods, at one column at a time. Like W they see nothing of the certified rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bondic.bounds.dual import ClassTest
from bondic.classes.instruments import Instruments
from bondic.kernels.base import Kernel, Sum
from bondic.kernels.dirac import Dirac
from bondic.rows import Rows
from bondic.tuning.defaults import Choices, feature_pairs, local_features, provenance
from bondic.tuning.scales import measure_scales, pilot_points

FloatArray = npt.NDArray[np.float64]

_NARROW = (0.1, 0.3)
"""Bandwidths in units of the median distance."""
_COLUMN = 0.5
"""Bandwidth on a single column, in standard deviations."""
_MOST_COLUMNS = 4
_COORDINATES = 400
_IGNORED = 1e12
"""A bandwidth, in standard deviations, at which a column no longer matters."""
_VISITS = 2
"""A table of pairs is a test only if pairs repeat."""


def class_tests(
    pilot: Rows | None, choices: Choices, names: tuple[int, ...], probability: float
) -> tuple[ClassTest, ...]:
    """The tests with equal shares of `probability`; none without a pilot, which their scales come from."""
    if pilot is None:
        return ()
    kernels = _kernels(pilot, choices, names)
    origin = provenance(pilot, "scales")
    return tuple(ClassTest(name, Instruments(kernel, origin), probability / len(kernels)) for name, kernel in kernels)


def _kernels(pilot: Rows, choices: Choices, names: tuple[int, ...]) -> list[tuple[str, Kernel]]:
    layout, points = pilot.layout, pilot_points(pilot)
    choices = replace(choices, pairs=feature_pairs(layout, choices, _COORDINATES))
    scales = measure_scales(points, layout.dimension, names)
    out: list[tuple[str, Kernel]] = []
    rows = pilot.whole()
    pairs = np.unique(np.column_stack([rows.logged, rows.slots]), axis=0).shape[0]
    if layout.discrete and pairs * _VISITS <= len(pilot):
        out.append(("single state-action pairs", Dirac(on="state") * Dirac(on="action")))
    for width in _NARROW:
        local = local_features(layout, scales, choices, scales.bandwidth(width))
        out.append((f"neighborhoods of {width:g} x median distance", local))
    if layout.dimension > 1:
        columns = _informative(pilot)
        fewer = replace(choices, pairs=max(4, choices.pairs // len(columns)))
        parts = []
        for column in columns:
            bandwidth = scales.spread * _IGNORED
            bandwidth[column] = _COLUMN * scales.spread[column]
            parts.append((1.0 / len(columns)) * local_features(layout, scales, fewer, bandwidth))
        kernel = Sum(tuple(parts)) if len(parts) > 1 else parts[0]
        out.append((f"single columns {', '.join(map(str, columns))}", kernel))
    return out


def _informative(pilot: Rows) -> list[int]:
    """The columns most correlated with the reward on the pilot, a few of them."""
    rows = pilot.whole()
    points = rows.logged - rows.logged.mean(axis=0)
    reward = rows.rewards - rows.rewards.mean()
    size = np.sqrt((points**2).sum(axis=0)) + 1e-300
    strength = np.abs(points.T @ reward) / size
    return sorted(int(c) for c in np.argsort(-strength, kind="stable")[:_MOST_COLUMNS])
