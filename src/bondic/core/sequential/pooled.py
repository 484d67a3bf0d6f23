"""What landmarks leave over of the rows of a block, bounded together: one e has to serve all rows (`classes.shared`).

    | sum_i λ_i φ_i <e, R_i> |  <=  r `operator`,       sum_i w_i <e, R_i>^2  <=  r^2 `squares`,

R_i what is left over of T_i in the first, of gamma x'_i in the second; w_i = |λ_i φ_i|^2, or v_i^2 of an end. Both are sums
over stretches of rows, so blocks can be added. Row by row the same would cost r sum_i |λ_i φ_i| |R_i| and r^2 sum_i w_i |R_i|^2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import SMALL, U, inflate, row_norms, upper_sum
from bondic.core.claims import End
from bondic.core.kernels.normal_form import Layout
from bondic.core.sequential.basis import one_hot
from bondic.core.sequential.embedded import Embedded
from bondic.core.sequential.landmarks import Coordinates
from bondic.core.sequential.plan import Predictable
from bondic.core.sums.measure import RowMeasures

FloatArray = npt.NDArray[np.float64]

MOST_ROWS, MOST_PAIRS = 2000, 100_000_000
"""Next points of a stretch, and stretch times rows of the log: left-overs of long logs are pooled in shorter stretches."""


@dataclass(frozen=True, eq=False)
class Pooled:
    """Bounds over some rows, per unit of |e|; infinite where nothing was pooled."""

    operator: float = math.inf
    squares: float = math.inf
    tails: dict[End, float] | None = None

    def of_end(self, end: End) -> float:
        return math.inf if self.tails is None else self.tails[end]


NOT_POOLED = Pooled()
"""Rows pay one by one."""


def pool(found: Coordinates, block: Embedded, columns: Predictable, layout: Layout, rows: int) -> Pooled:
    """The rows of a block of a log with so many rows, stretch by stretch."""
    size = max(1, min(MOST_ROWS, MOST_PAIRS // max(rows, 1)) // max(1, block.after.longest()))
    parts = []
    for top in range(0, len(block), size):
        part = slice(top, min(top + size, len(block)))
        parts.append(_stretch(found, block.stretch(part), columns.cut(part), layout))
    return total(parts, tuple(columns.weights))


def total(parts: Sequence[Pooled], ends: tuple[End, ...]) -> Pooled:
    """All rows of all parts."""
    tails = {end: _sum([part.of_end(end) for part in parts]) for end in ends}
    return Pooled(_sum([part.operator for part in parts]), _sum([part.squares for part in parts]), tails)


def _sum(values: list[float]) -> float:
    return inflate(upper_sum(np.array(values)))


def _stretch(found: Coordinates, rows: Embedded, columns: Predictable, layout: Layout) -> Pooled:
    n = len(rows)
    logged = RowMeasures(rows.points, one_hot(rows.slots, layout), np.arange(n), n)
    step, after = found.together(logged, rows.after, rows.gamma, rows.step.coordinates, rows.next.coordinates)
    share = rows.gamma**2 * (1 + 4 * U)

    def squares(weights: FloatArray) -> float:
        return after.squares(weights**2 * (1 + 4 * U)) * share

    tails = {end: squares(weights) for end, weights in columns.weights.items()}
    return Pooled(step.operator(columns.instruments), squares(row_norms(columns.instruments)), tails)


def pooled_squares(weights: FloatArray, single: FloatArray, along: FloatArray, together: float) -> float:
    """A bound of sum_i g_i, where g_i <= single_i, and g_i <= w_i (along_i + y_i)^2 with sum_i w_i y_i^2 <= together.

    Rows are divided in two by what the second costs them without y; any division is valid.
    """
    if not math.isfinite(together):
        return upper_sum(single)
    own = weights * along**2 * (1 + 8 * U)
    order = np.argsort(own - single, kind="stable")
    guess = (np.sqrt(np.cumsum(own[order])) + math.sqrt(together)) ** 2 - np.cumsum(single[order])
    count = int(np.argmin(guess)) + 1 if len(order) else 0
    near, rest = order[:count], order[count:]
    joint = (math.sqrt(upper_sum(own[near])) + math.sqrt(together)) ** 2 * (1 + 16 * U)
    return min(upper_sum(single), inflate(joint + upper_sum(single[rest])))


def share_of(weights: FloatArray, given: FloatArray, together: float) -> float:
    """What `together` is for other weights: at most so many times the `given` ones, row by row."""
    largest = float(np.max(weights / np.maximum(given, 1e-300), initial=0.0))
    return inflate(together * largest * (1 + 8 * U) + SMALL) if math.isfinite(together) else math.inf
