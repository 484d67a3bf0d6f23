"""What the rows of one part of a log say about some ω: weights at its rows, measures, and sums over its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.columns import Batch
from bondic.core.functions import Function, values_together
from bondic.core.identity import rows_measure, values_at_rows, weighted_residuals
from bondic.core.rounding import Enclosure, U, certified_dot
from bondic.core.sums.forms import STANDARD, Sums
from bondic.core.sums.measure import Measure
from bondic.core.terms import row_widths

FloatArray = npt.NDArray[np.float64]

_AT_ONCE = 16
"""Omegas evaluated together: enough to share the work on features, few enough that values for all slots fit into memory."""


def weights_at_rows(problem: Batch, omega: Function | None, sums: Sums = STANDARD) -> tuple[FloatArray, float]:
    """ω(x_i) as floats, and a bound of their distance to the function's exact values."""
    return all_weights_at_rows(problem, [omega], sums)[0]


def all_weights_at_rows(
    problem: Batch, omegas: list[Function | None], sums: Sums = STANDARD
) -> list[tuple[FloatArray, float]]:
    """The same for several ω."""
    out = [(np.zeros(len(problem)), 0.0) for _ in omegas]
    used = [(k, omega) for k, omega in enumerate(omegas) if omega is not None and not omega.is_zero]
    for top in range(0, len(used), _AT_ONCE):
        some = used[top : top + _AT_ONCE]
        found = values_together([omega for _, omega in some], problem.logged, sums)
        for (k, _), (values, error) in zip(some, found, strict=True):
            out[k] = np.ascontiguousarray(values[np.arange(len(problem)), problem.slots]), error
    return out


@dataclass(frozen=True, eq=False)
class PartSums:
    """What the rows of one part add, for every candidate."""

    rows: int
    residuals: tuple[Enclosure, ...]  # sum_i ω_i R̂q̂_i
    masses: tuple[Enclosure, ...]  # sum_i |ω_i| (1 + gamma 1[a next point exists])
    etas: tuple[float, ...]
    moments: FloatArray  # (candidates, 3): sums of |ω_i|, ω_i^2 and (B_i |ω(x_i)|)^2

    @staticmethod
    def of(part: Batch, center: Function | None, weights: list[tuple[FloatArray, float]], sums: Sums) -> PartSums:
        values = values_at_rows(part, center, sums)
        factors = np.asarray(1.0 + part.gamma * part.continues, dtype=np.float64)
        widths = row_widths(part.terms, part.times, len(part))
        residuals = [weighted_residuals(part, values, rows) for rows, _ in weights]
        masses = [certified_dot(np.abs(rows), factors) * (1 + 4 * U) for rows, _ in weights]
        moments = [
            (np.abs(rows).sum(), np.sum(rows**2), np.sum(((np.abs(rows) + eta) * widths) ** 2)) for rows, eta in weights
        ]
        return PartSums(
            len(part),
            tuple(residuals),
            tuple(masses),
            tuple(eta for _, eta in weights),
            np.array(moments, dtype=np.float64).reshape(len(weights), 3),
        )


@dataclass(frozen=True, eq=False)
class Weigher:
    """Makes the measures μ_ω of some ω, part by part; wherever the parts are."""

    omegas: tuple[Function | None, ...]
    center: Function | None
    count: int  # rows in all
    sums: Sums

    def weigh(self, part: Batch, *, fresh: bool) -> tuple[Measure, PartSums | None]:
        """The measures of a part, and what its rows add unless that is known."""
        weights = all_weights_at_rows(part, list(self.omegas), self.sums)
        found = PartSums.of(part, self.center, weights, self.sums) if fresh else None
        return rows_measure(part, [rows for rows, _ in weights], self.count), found
