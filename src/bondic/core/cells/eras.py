"""Forecasts from earlier rows: what follows a cell is expected to be what followed it before.

Blocks are gathered into eras. At its beginning the rows before it, those of earlier blocks and some that are given (a pilot),
have shown n_c rows of a cell, with outcomes o_i and masses π_ij. A label is an era with a cell,

    κ_ℓj = sum_i π_ij / n_c,    o_ℓ = sum_i o_i / n_c,        and for cells without such rows κ = 0, o = the middle of the range.

They are functions of earlier rows, so that nothing has to be believed about when they were made. As a label is known by its
block and cell, D_i = R_i + (o_ℓ + γ sum_j κ_ℓj b_j - b_c), and sums over labels follow from those over cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.cells.entries import Entries
from bondic.core.cells.forecasts import ForecastTally
from bondic.core.cells.tally import CellShape, Tally
from bondic.core.errors import InvalidInput

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EarlierRows:
    """Sums over rows before the certified ones."""

    count: FloatArray  # (p,)
    outcome: FloatArray  # (p,) sum of o
    cell: IntArray  # (m,)
    atom: IntArray  # (m,)
    mass: FloatArray  # (m,) sum of π

    def __post_init__(self) -> None:
        fine = self.count.ndim == 1 and self.outcome.shape == self.count.shape and self.mass.ndim == 1
        fine = fine and self.cell.shape == self.atom.shape == self.mass.shape and bool(np.all(self.atom >= 0))
        fine = fine and bool(np.all((self.cell >= 0) & (self.cell < self.count.size)))
        for own in (self.count, self.mass):
            fine = fine and bool(np.all((own >= 0) & (own < np.inf)))
        if not (fine and np.all(np.isfinite(self.outcome))):
            raise InvalidInput("Earlier rows are counted at known cells, with finite outcomes.")

    @staticmethod
    def of(tally: Tally) -> EarlierRows:
        """The rows of a tally."""
        _, cell, atom = tally.at
        count = tally.count.sum(axis=0)
        ahead = np.bincount(cell, tally.mass * (tally.shape.atoms @ tally.reference)[atom], minlength=count.size)
        outcome = count * tally.reference - tally.gamma * ahead - tally.total.sum(axis=0)
        return EarlierRows(count, outcome, cell, atom, tally.mass)

    def joined(self, other: EarlierRows) -> EarlierRows:
        both = [np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("cell", "atom", "mass")]
        return EarlierRows(self.count + other.count, self.outcome + other.outcome, *both)


def forecasts_of_eras(
    tally: Tally, past: EarlierRows, times: IntArray, firsts: Sequence[int], middle: float
) -> ForecastTally:
    """`times` (B,): when the rows of a block were, a number that grows; era k has firsts[k] <= time < firsts[k + 1]."""
    era = np.searchsorted(np.asarray(firsts), times, side="right") - 1
    if times.shape != (tally.shape.blocks,) or np.any(era < 0) or past.count.size != tally.shape.cells:
        raise InvalidInput("Every block belongs to an era, and earlier rows to the same cells.")
    if np.any(past.atom >= tally.shape.atoms.shape[0]):
        raise InvalidInput("Earlier rows are followed by other atoms.")
    (atoms, cells), eras = tally.shape.atoms.shape, len(firsts)
    offset, parts = np.zeros((eras, cells)), []
    for k, first in enumerate(firsts):
        before = past.joined(EarlierRows.of(_some(tally, times < first)))
        known = np.maximum(before.count, 1e-300)
        offset[k] = np.where(before.count > 0, before.outcome / known, middle)
        parts.append((before.cell + k * cells, before.atom, before.mass / known[before.cell]))
    label, atom, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    entries = Entries.added(label, atom, value, (eras * cells, atoms))
    expected = offset.reshape(-1) + tally.gamma * entries.times(tally.shape.atoms @ tally.reference)
    rows = _by_label(tally, era, expected.reshape(eras, cells), entries)
    places = (_among_own(era), era)
    return ForecastTally(rows, np.tile(np.arange(cells), eras), entries, tally.reference, places)


def _among_own(era: IntArray) -> IntArray:
    """How many blocks of the same era stand before each."""
    return np.array([int((era[:k] == one).sum()) for k, one in enumerate(era)], dtype=np.int64)


def _some(tally: Tally, kept: npt.NDArray[np.bool_]) -> Tally:
    """A tally of some blocks."""
    entries = kept[tally.at[0]]
    at = (tally.at[0][entries], tally.at[1][entries], tally.at[2][entries])
    own: dict[str, Any] = {name: np.where(kept[:, None], getattr(tally, name), 0.0) for name in ("count", "total")}
    return replace(tally, **own, at=at, mass=tally.mass[entries], moment=tally.moment[entries])


def _by_label(tally: Tally, era: IntArray, expected: FloatArray, entries: Entries) -> Tally:
    """The rows with D in place of R."""
    (eras, cells), atoms = expected.shape, tally.shape.atoms.shape[0]
    shift = expected[era] - tally.reference  # (B, p)
    block, cell, atom = tally.at
    count, relative = tally.count, 8 * tally.relative
    square = np.maximum(tally.square + shift * (2 * tally.total + shift * count), 0.0)
    square += relative * (tally.square + np.abs(shift) * (2 * tally.size + np.abs(shift) * count))
    found = {
        "count": count,
        "total": tally.total + shift * count,
        "square": square,
        "size": tally.size + np.abs(shift) * count,
        "low": np.where(count > 0, tally.low + shift, 0.0),
        "high": np.where(count > 0, tally.high + shift, 0.0),
    }
    local = _among_own(era)
    columns: dict[str, Any] = {}
    for name, values in found.items():
        columns[name] = np.zeros((int(local.max(initial=0)) + 1, eras, cells))
        columns[name][local, era] = values
    largest = float(np.abs(tally.reference).max(initial=0.0))
    sizes = entries.over_rows(np.abs(entries.value)) if entries.value.size else np.zeros(1)
    size = float(np.abs(expected).max(initial=0.0)) + (2 + float(sizes.max(initial=0.0))) * largest
    # o_l is a mean of R at a reference that later rows may have made: what its rounding shows of them is an error, too
    size += float(np.maximum(-tally.low, tally.high).max(initial=0.0))
    blocks = int(local.max(initial=0)) + 1
    shape = CellShape(blocks, np.broadcast_to(0.0, (atoms, eras * cells)))
    return replace(
        tally,
        shape=shape,
        reference=expected.reshape(-1),
        **{name: own.reshape(blocks, -1) for name, own in columns.items()},
        ends=np.tile(tally.ends, eras),
        at=(local[block], era[block] * cells + cell, atom),
        moment=tally.moment + shift[block, cell] * tally.mass,
        error=2 * tally.error + relative * size,
    )
