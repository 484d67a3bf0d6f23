"""What is expected to follow a row, by labels that are finer than cells: a control variate, never trusted.

A label ℓ belongs to one cell, and is known before the row. With o_ℓ (a number) and κ_ℓ (weights on atoms) fixed before the rows,

    Ŷ_i = clip( q̂(x_i) + o_ℓ + γ <e, κ_ℓ> ),    -Δ_i = D_i + γ ( <F, κ_ℓ> - sum_j π_ij F_j ) - γ ζ'_i   before it is clipped,

D_i = o_ℓ + γ sum_j κ_ℓj b_j - o_i - γ sum_j π_ij b_j. Where labels foresee which cells follow, deviations do not depend on e.
Without labels Ŷ_i = clip( q̂(x_i) + e(c_i) ), and the same holds with the label c, D = R, κ = P, and t_c added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.core.tally import CellRows, CellShape, Tally, tally
from bondic.errors import InvalidInput
from bondic.rounding import U

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Fixed before the rows."""

    cell: IntArray  # (Λ,) of every label
    offset: FloatArray  # (Λ,) o
    following: FloatArray  # (Λ, J) κ

    def __post_init__(self) -> None:
        fine = self.cell.ndim == 1 and self.offset.shape == self.cell.shape
        fine = fine and self.following.ndim == 2 and self.following.shape[0] == self.cell.size
        if not (
            fine and np.all(np.isfinite(self.offset)) and np.all(np.isfinite(self.following)) and np.all(self.cell >= 0)
        ):
            raise InvalidInput("Every label has a cell, and finite forecasts.")


@dataclass(frozen=True, eq=False)
class ForecastTally:
    """The rows by labels, with D_i in place of R_i."""

    rows: Tally
    cell: IntArray  # (Λ,)
    following: FloatArray  # (Λ, J)
    reference: FloatArray  # (p,) b

    def check(self, tally: Tally) -> None:
        """Refuse a tally of other rows, or at another reference."""
        count = np.zeros(tally.count.shape[::-1])
        np.add.at(count, self.cell, self.rows.count.T)
        same = np.allclose(count.T, tally.count, rtol=self.rows.relative, atol=0.0) and self.rows.gamma == tally.gamma
        if not (same and np.array_equal(self.reference, tally.reference)):
            raise InvalidInput("Forecasts are tallied for other rows, or at another reference.")


def forecast_tally(
    parts: Iterable[CellRows],
    labels: IntArray,
    forecasts: Forecasts,
    shape: CellShape,
    gamma: float,
    reference: FloatArray,
) -> ForecastTally:
    """`labels` of all rows, in their order."""
    count, (atoms, cells) = forecasts.cell.size, shape.atoms.shape
    if forecasts.following.shape[1] != atoms or np.any(forecasts.cell >= cells):
        raise InvalidInput("Forecasts are those of other cells.")
    at_atoms = shape.atoms @ reference
    own = CellShape(shape.blocks, np.zeros((atoms, count)))
    expected = forecasts.offset + gamma * (forecasts.following @ at_atoms)
    found = tally(_labelled(parts, labels, forecasts), own, gamma, expected, at_atoms)
    # b_j is a sum over cells, and κ multiplies its error
    largest = float(np.abs(reference).max(initial=0.0)) * (1 + 8 * cells * U)
    size = (1.0 + float(np.abs(forecasts.following).sum(axis=1).max(initial=0.0))) * largest
    error = found.error + (found.relative + 8 * cells * U) * (size + float(np.abs(expected).max(initial=0.0)))
    return ForecastTally(replace(found, error=error), forecasts.cell, forecasts.following, reference)


def _labelled(parts: Iterable[CellRows], labels: IntArray, forecasts: Forecasts) -> Iterable[CellRows]:
    first = 0
    for part in parts:
        own = labels[first : first + part.cell.size]
        first += part.cell.size
        if own.size != part.cell.size or np.any((own < 0) | (own >= forecasts.cell.size)):
            raise InvalidInput("Every row has a label.")
        if np.any(forecasts.cell[own] != part.cell):
            raise InvalidInput("A label belongs to another cell than its row.")
        yield replace(part, cell=own)
    if first != labels.size:
        raise InvalidInput(f"There are labels of {labels.size} rows, and {first} rows.")
