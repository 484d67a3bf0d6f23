"""What is expected to follow a row, by labels that are finer than cells: a control variate, never trusted.

A label ℓ belongs to one cell, and is known before the row, as is a number m_i. With o_ℓ (a number) and κ_ℓ (weights on atoms)
fixed before the rows,

    Ŷ_i = clip( q̂(x_i) + m_i + o_ℓ + γ <e, κ_ℓ> ),    -Δ_i = D_i + x_i(f) - γ ζ'_i before the clip,

    D_i = m_i + o_ℓ + γ sum_j κ_ℓj b_j - o_i - γ sum_j π_ij b_j,        x_i(f) = γ ( <F, κ_ℓ> - sum_j π_ij F_j ).

Where labels foresee which atoms follow, deviations do not depend on e.

*Groups* have labels of their own, with forecasts from a pilot. *Tables* forecast from earlier rows: blocks are gathered into
eras, a label is an era with a cell, and

    κ_ℓj = sum_i π_ij / n_c,    o_ℓ = sum_i o_i / n_c,      for cells without earlier rows κ = 0, o = the middle of the range,

over the n_c rows of the cell before the era, those of earlier blocks and of a pilot. These are functions of earlier rows, so
that nothing has to be believed about when they were made. As such a label is known by its block and cell, D_i = R_i + (o_ℓ + γ
sum_j κ_ℓj b_j - b_c), and sums over labels follow from those over cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bondic.core.bounded import FloatArray, IntArray, U
from bondic.core.cells.tally import COLUMNS, CellRows, CellShape, Entries, Tally, tally
from bondic.core.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Fixed before the rows."""

    cell: IntArray  # (Λ,) of every label
    offset: FloatArray  # (Λ,) o
    following: FloatArray  # (Λ, J) κ

    def __post_init__(self) -> None:
        fine = self.cell.ndim == 1 and self.offset.shape == self.cell.shape and bool(np.all(self.cell >= 0))
        fine = fine and self.following.ndim == 2 and self.following.shape[0] == self.cell.size
        if not (fine and np.all(np.isfinite(self.offset)) and np.all(np.isfinite(self.following))):
            raise InvalidInput("Every label has a cell, and finite forecasts.")


@dataclass(frozen=True, eq=False)
class LabelTally:
    """The rows by labels, with D_i in place of R_i."""

    rows: Tally
    cell: IntArray  # (Λ,)
    expected: Entries  # (Λ, J) κ
    reference: FloatArray  # (p,) b
    places: tuple[IntArray, IntArray] | None = None  # (B,) for eras: the block among its own, and the era
    center: FloatArray | float = 0.0  # (Λ,) max |q̂(x_i) + m_i| over the rows of a label

    def check(self, tally: Tally) -> None:
        """Refuse a tally of other rows, or at another reference."""
        count = np.bincount(self.cell, self.rows.count.sum(axis=0), minlength=tally.shape.cells)
        same = count.size == tally.shape.cells and self.rows.gamma == tally.gamma
        same = same and np.allclose(count, tally.count.sum(axis=0), rtol=self.rows.relative, atol=0.0)
        if not (same and np.array_equal(self.reference, tally.reference)):
            raise InvalidInput("Forecasts are tallied for other rows, or at another reference.")

    def spread(self, weights: FloatArray) -> FloatArray:
        """(B, p) of blocks and cells as (B', Λ) of the blocks and labels of `rows`."""
        if self.places is None:
            return weights[:, self.cell]
        cells = weights.shape[1]
        found = np.zeros((self.rows.shape.blocks, self.cell.size // cells, cells))
        found[self.places] = weights
        return found.reshape(found.shape[0], -1)


def tally_by_label(
    parts: Iterable[CellRows],
    labels: IntArray,
    numbers: FloatArray,
    forecasts: Forecasts,
    shape: CellShape,
    gamma: float,
    reference: FloatArray,
) -> LabelTally:
    """`labels` and `numbers`, m_i, of all rows, in their order."""
    count, (atoms, cells) = forecasts.cell.size, shape.atoms.shape
    if forecasts.following.shape[1] != atoms or np.any(forecasts.cell >= cells):
        raise InvalidInput("Forecasts are those of other cells.")
    at_atoms = shape.atoms @ reference
    own = CellShape(shape.blocks, np.broadcast_to(0.0, (atoms, count)))
    expected = forecasts.offset + gamma * (forecasts.following @ at_atoms)
    found = tally(_with_labels(parts, labels, numbers, forecasts), own, gamma, expected, at_atoms)
    # b_j is a sum over cells, and κ multiplies its error
    largest = float(np.abs(reference).max(initial=0.0)) * (1 + 8 * cells * U)
    size = (1.0 + float(np.abs(forecasts.following).sum(axis=1).max(initial=0.0))) * largest
    error = found.error + (found.relative + 8 * cells * U) * (size + float(np.abs(expected).max(initial=0.0)))
    return LabelTally(replace(found, error=error), forecasts.cell, Entries.of(forecasts.following), reference)


def _with_labels(
    parts: Iterable[CellRows], labels: IntArray, numbers: FloatArray, forecasts: Forecasts
) -> Iterable[CellRows]:
    if numbers.shape != labels.shape or not np.all(np.isfinite(numbers)):
        raise InvalidInput("Every row that has a label has a finite forecast.")
    first = 0
    for part in parts:
        here = slice(first, first + part.cell.size)
        own, number, first = labels[here], numbers[here], here.stop
        if own.size != part.cell.size or np.any((own < 0) | (own >= forecasts.cell.size)):
            raise InvalidInput("Every row has a label.")
        if np.any(forecasts.cell[own] != part.cell):
            raise InvalidInput("A label belongs to another cell than its row.")
        size = part.size + float(np.abs(number).max(initial=0.0))
        yield replace(part, cell=own, outcome=part.outcome - number, size=size)
    if first != labels.size:
        raise InvalidInput(f"There are labels of {labels.size} rows, and {first} rows.")


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
    def of(tally: Tally, at_atoms: FloatArray | None = None) -> EarlierRows:
        """The rows of a tally; `at_atoms` (J,): its reference there, if that is known."""
        _, cell, atom = tally.at
        count = tally.count.sum(axis=0)
        following = tally.shape.atoms @ tally.reference if at_atoms is None else at_atoms
        ahead = np.bincount(cell, tally.mass * following[atom], minlength=count.size)
        outcome = count * tally.reference - tally.gamma * ahead - tally.total.sum(axis=0)
        return EarlierRows(count, outcome, cell, atom, tally.mass.astype(np.float64))

    def joined(self, other: EarlierRows) -> EarlierRows:
        both = [np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("cell", "atom", "mass")]
        return EarlierRows(self.count + other.count, self.outcome + other.outcome, *both)


def tally_by_era(
    tally: Tally, past: EarlierRows, times: IntArray, firsts: Sequence[int], middle: FloatArray | float
) -> LabelTally:
    """`times` (B,): when the rows of a block were, a number that grows; era k has firsts[k] <= time < firsts[k + 1]."""
    era = np.searchsorted(np.asarray(firsts), times, side="right") - 1
    if times.shape != (tally.shape.blocks,) or np.any(era < 0) or past.count.size != tally.shape.cells:
        raise InvalidInput("Every block belongs to an era, and earlier rows to the same cells.")
    if np.any(past.atom >= tally.shape.atoms.shape[0]):
        raise InvalidInput("Earlier rows are followed by other atoms.")
    (atoms, cells), eras = tally.shape.atoms.shape, len(firsts)
    offset, parts, at_atoms = np.zeros((eras, cells)), [], tally.shape.atoms @ tally.reference
    for k, first in enumerate(firsts):
        before = past.joined(EarlierRows.of(tally.of_blocks(times < first), at_atoms))
        known = np.maximum(before.count, 1e-300)
        offset[k] = np.where(before.count > 0, before.outcome / known, middle)
        parts.append((before.cell + k * cells, before.atom, before.mass / known[before.cell]))
    label, atom, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    entries = Entries.added(label, atom, value, (eras * cells, atoms))
    expected = offset.reshape(-1) + tally.gamma * entries.times(at_atoms)
    places = np.array([int((era[:k] == one).sum()) for k, one in enumerate(era)], dtype=np.int64), era
    rows = _shifted(tally, places, expected.reshape(eras, cells), entries)
    return LabelTally(rows, np.tile(np.arange(cells), eras), entries, tally.reference, places)


def _shifted(tally: Tally, places: tuple[IntArray, IntArray], expected: FloatArray, entries: Entries) -> Tally:
    """The rows with D in place of R; `expected` (eras, p) is o_ℓ + γ sum_j κ_ℓj b_j."""
    (local, era), (eras, cells) = places, expected.shape
    shift = expected[era] - tally.reference  # (B, p)
    block, cell, atom = tally.at
    count, relative = tally.count, 8 * tally.relative
    square = np.maximum(tally.square + shift * (2 * tally.total + shift * count), 0.0)
    square += relative * (tally.square + np.abs(shift) * (2 * tally.size + np.abs(shift) * count))
    total, size = tally.total + shift * count, tally.size + np.abs(shift) * count
    low, high = (np.where(count > 0, side + shift, 0.0) for side in (tally.low, tally.high))
    blocks, columns = int(local.max(initial=0)) + 1, {}
    for name, values in zip(COLUMNS, (count, total, square, size, low, high), strict=True):
        columns[name] = np.zeros((blocks, eras, cells))
        columns[name][places] = values
    largest = float(np.abs(tally.reference).max(initial=0.0))
    masses = float(entries.over_rows(np.abs(entries.value)).max(initial=0.0))
    error = float(np.abs(expected).max(initial=0.0)) + (2 + masses) * tally.shape.largest * largest
    # o_l is a mean of R at a reference that later rows may have made: what its rounding shows of them is an error, too
    error += float(np.maximum(-tally.low, tally.high).max(initial=0.0))
    return replace(
        tally,
        shape=CellShape(blocks, np.broadcast_to(0.0, (tally.shape.atoms.shape[0], eras * cells))),
        reference=expected.reshape(-1),
        **{name: own.reshape(blocks, -1) for name, own in columns.items()},  # type: ignore[arg-type]
        ends=np.tile(tally.ends, eras),
        at=(local[block], era[block] * cells + cell, atom),
        moment=tally.moment + shift[block, cell] * tally.mass,
        error=2 * tally.error + relative * error,
    )
