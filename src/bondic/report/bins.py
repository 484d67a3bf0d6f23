"""Round bins: edges are round numbers, never values of single rows, and thin cells can be withheld."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FEWEST_ROWS = 5
"""A cell with fewer rows is not shown when rows are withheld."""

_LEAST_INSIDE = 0.9
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins between round edges; values beyond the ends belong to the outermost bins."""

    edges: FloatArray  # (bins + 1,)
    whole: bool  # one bin per whole number

    def __len__(self) -> int:
        return self.edges.size - 1

    def of(self, values: FloatArray) -> IntArray:
        inside = np.searchsorted(self.edges, values, side="right") - 1
        return np.clip(inside, 0, len(self) - 1).astype(np.int64)

    def label(self, index: int) -> str:
        low, high = float(self.edges[index]), float(self.edges[index + 1])
        return f"{round(low + 0.5)}" if self.whole else f"{short(low)} to {short(high)}"


def short(value: float) -> str:
    return "0" if value == 0 else f"{value:.4g}"


def round_bins(values: FloatArray, most: int = 24, *, fewest: int = 1) -> Bins:
    """Bins for a sample: whole numbers get one each, others a step of 1, 2, 2.5 or 5 times a power of ten.

    The outer one percent on each side goes into the outermost bins, so that stragglers do not squeeze the picture. With
    `fewest` above 1 the outermost values leave no mark: whole numbers end where so many rows share one, others where so
    many rows lie beyond.
    """
    finite = np.sort(values[np.isfinite(values)])
    inner = finite[fewest - 1 : finite.size - fewest + 1]
    if inner.size == 0:
        return Bins(np.array([0.0, 1.0]) if fewest == 1 else np.array([-np.inf, np.inf]), False)
    if bool(np.all(inner == np.round(inner))) and max(abs(inner[0]), abs(inner[-1])) < 1e6:
        distinct, counts = np.unique(finite, return_counts=True)
        shared = distinct[(counts >= fewest) & (distinct == np.round(distinct))]
        # ends that cut off more than stragglers would hide the spread: then the bins are wider
        if shared.size and shared[-1] - shared[0] < most and _share(finite, shared) >= _LEAST_INSIDE:
            return Bins(np.arange(shared[0], shared[-1] + 2.0) - 0.5, True)
    low, high = (float(np.clip(q, inner[0], inner[-1])) for q in np.quantile(finite, [0.01, 0.99]))
    return range_bins(low, high, most)


def _share(values: FloatArray, ends: FloatArray) -> float:
    return float(np.mean((values >= ends[0]) & (values <= ends[-1])))


def range_bins(low: float, high: float, most: int = 24) -> Bins:
    """The finest round bins that cover [low, high] with at most `most` of them."""
    span = high - low
    if not (math.isfinite(span) and span > 1e-12 * max(abs(low), abs(high), 1e-300)):
        size = 10.0 ** math.floor(math.log10(max(abs(low), 1.0)))
        return Bins(np.array([math.floor(low / size) * size, (math.floor(low / size) + 1) * size]), False)
    size = 10.0 ** math.floor(math.log10(span / most))
    for step in (size * factor for factor in (*_STEPS, 20.0, 25.0, 50.0)):
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first <= most:
            break
    # whole multiples divided back, so that 0.30000000000000004 does not appear as an edge
    return Bins(np.array([float(f"{k * step:.12g}") for k in range(first, max(last, first + 1) + 1)]), False)
