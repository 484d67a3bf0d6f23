"""What is expected to follow a row, by labels that are finer than cells: a control variate, never trusted.

A label ℓ belongs to one cell, and is known before the row, as is a number m_i. With o_ℓ (a number) and κ_ℓ (weights on atoms)
fixed before the rows,

    Ŷ_i = clip( q̂(x_i) + m_i + o_ℓ + γ <e, κ_ℓ> ),    -Δ_i = D_i + γ ( <F, κ_ℓ> - sum_j π_ij F_j ) - γ ζ'_i before the clip,

D_i = m_i + o_ℓ + γ sum_j κ_ℓj b_j - o_i - γ sum_j π_ij b_j. Where labels foresee which cells follow, deviations do not depend
on e.
Without labels Ŷ_i = clip( q̂(x_i) + e(c_i) ), and the same holds with the label c, D = R, κ = P, and t_c added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import U
from bondic.core.cells.entries import Entries
from bondic.core.cells.tally import CellRows, CellShape, Tally, tally
from bondic.core.errors import InvalidInput

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
    entries: Entries  # (Λ, J) κ
    reference: FloatArray  # (p,) b
    places: tuple[IntArray, IntArray] | None = (
        None  # (B,) where labels are a part of the blocks: the block among its own, and the part
    )

    def spread(self, weights: FloatArray) -> FloatArray:
        """(B, p) of blocks and cells as (B', Λ) of the blocks and labels of `rows`."""
        if self.places is None:
            return weights[:, self.cell]
        cells = weights.shape[1]
        found = np.zeros((self.rows.shape.blocks, self.cell.size // cells, cells))
        found[self.places] = weights
        return found.reshape(found.shape[0], -1)

    @property
    def following(self) -> FloatArray:
        """(Λ, J) κ."""
        return self.entries.dense

    def check(self, tally: Tally) -> None:
        """Refuse a tally of other rows, or at another reference."""
        count = np.bincount(self.cell, self.rows.count.sum(axis=0), minlength=tally.shape.cells)
        own = tally.count.sum(axis=0)
        same = np.allclose(count, own, rtol=self.rows.relative, atol=0.0) and self.rows.gamma == tally.gamma
        if not (same and np.array_equal(self.reference, tally.reference)):
            raise InvalidInput("Forecasts are tallied for other rows, or at another reference.")


def forecast_tally(
    parts: Iterable[CellRows],
    labels: IntArray,
    forecasts: Forecasts,
    shape: CellShape,
    gamma: float,
    reference: FloatArray,
    foreseen: FloatArray | None = None,
) -> ForecastTally:
    """`labels` of all rows, in their order, and `foreseen`, m_i; None: 0."""
    count, (atoms, cells) = forecasts.cell.size, shape.atoms.shape
    if forecasts.following.shape[1] != atoms or np.any(forecasts.cell >= cells):
        raise InvalidInput("Forecasts are those of other cells.")
    at_atoms = shape.atoms @ reference
    own = CellShape(shape.blocks, np.zeros((atoms, count)))
    expected = forecasts.offset + gamma * (forecasts.following @ at_atoms)
    numbers = np.zeros(labels.size) if foreseen is None else foreseen
    found = tally(_by_label(parts, labels, numbers, forecasts), own, gamma, expected, at_atoms)
    # b_j is a sum over cells, and κ multiplies its error
    largest = float(np.abs(reference).max(initial=0.0)) * (1 + 8 * cells * U)
    size = (1.0 + float(np.abs(forecasts.following).sum(axis=1).max(initial=0.0))) * largest
    error = found.error + (found.relative + 8 * cells * U) * (size + float(np.abs(expected).max(initial=0.0)))
    return ForecastTally(replace(found, error=error), forecasts.cell, Entries.of(forecasts.following), reference)


def _by_label(
    parts: Iterable[CellRows], labels: IntArray, foreseen: FloatArray, forecasts: Forecasts
) -> Iterable[CellRows]:
    if foreseen.shape != labels.shape or not np.all(np.isfinite(foreseen)):
        raise InvalidInput("Every row that has a label has a finite forecast.")
    first = 0
    for part in parts:
        here = slice(first, first + part.cell.size)
        own, number, first = labels[here], foreseen[here], here.stop
        if own.size != part.cell.size or np.any((own < 0) | (own >= forecasts.cell.size)):
            raise InvalidInput("Every row has a label.")
        if np.any(forecasts.cell[own] != part.cell):
            raise InvalidInput("A label belongs to another cell than its row.")
        size = part.size + float(np.abs(number).max(initial=0.0))
        yield replace(part, cell=own, outcome=part.outcome - number, size=size)
    if first != labels.size:
        raise InvalidInput(f"There are labels of {labels.size} rows, and {first} rows.")
