"""Rows as sums over cells: all that the bound on cells needs of a log, in memory that does not grow with it.

A row i is a cell c_i (a state-action pair of a table, or a group of states with an action), an outcome

    o_i = r_i + γ V̂(s'_i) - q̂(x_i),

and next atoms j with masses π_ij >= 0, sum_j π_ij <= 1 (0 after an end). An atom is a probability A_j on cells: a next
state with the policy's actions there, or a single cell. With a reference b on cells and b_j = sum_c A_jc b_c, the
residual of q̂ + b∘c is

    R_i = b(c_i) - γ sum_j π_ij b_j - o_i,                                                                     (2)

and a tally holds, for every block of rows and every cell, their number, sum R, sum R^2, sum |R|, min R, max R; and for
every block, cell and atom that occur together, sum π and sum R π.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import U
from bondic.core.errors import InvalidInput

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


def rounding_of_sums(terms: int) -> float:
    """How far probabilities that were normalized in floats may be from 1 in all; `relative` and `error` cover more."""
    return 4.0 * (terms + 32) * U


@dataclass(frozen=True, eq=False)
class CellRows:
    """Some rows, in order."""

    block: IntArray  # (n,)
    cell: IntArray  # (n,) -1: the row has no weight anywhere
    outcome: FloatArray  # (n,) o_i
    owner: IntArray  # (m,) the row, counted from 0, that each of the next entries belongs to; ascending
    atom: IntArray  # (m,)
    mass: FloatArray  # (m,) π_ij
    size: float  # max |r_i| + |V̂(s'_i)| + |q̂(x_i)|: what rounding errors of o_i are measured by


@dataclass(frozen=True, eq=False)
class CellShape:
    """How many blocks, cells and atoms there are, and what atoms are made of."""

    blocks: int
    atoms: FloatArray  # (J, p) A

    def __post_init__(self) -> None:
        fine = self.atoms.ndim == 2 and bool(np.all((self.atoms >= 0) & (self.atoms < np.inf)))
        if not (fine and np.all(self.atoms.sum(axis=1) <= 1 + rounding_of_sums(self.atoms.shape[1]))):
            raise InvalidInput("An atom is a probability on cells: at least 0, and at most 1 in all.")

    @property
    def cells(self) -> int:
        return int(self.atoms.shape[1])


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over rows; see the head of this file."""

    shape: CellShape
    gamma: float
    reference: FloatArray  # (p,) b
    count: FloatArray  # (B, p)
    total: FloatArray  # (B, p) sum R
    square: FloatArray  # (B, p) sum R^2
    size: FloatArray  # (B, p) sum |R|
    low: FloatArray  # (B, p) min R; 0 where there is no row
    high: FloatArray  # (B, p) max R
    ends: BoolArray  # (p,) whether some row of the cell has less than all of its mass on atoms
    at: tuple[IntArray, IntArray, IntArray]  # (E,) block, cell, atom of every entry
    mass: FloatArray  # (E,) sum π
    moment: FloatArray  # (E,) sum R π
    terms: int  # rows and next entries that were added up
    error: float  # a bound of the error of every R
    whole: bool = False  # whether every row is followed by one atom, with all of its mass, or by none

    @cached_property
    def relative(self) -> float:
        """A bound of the relative error of a sum over rows, entries or cells, measured by the sum of absolute values."""
        return 4.0 * (self.terms + self.mass.size + sum(self.shape.atoms.shape) + 256) * U

    def over_atoms(self, weights: FloatArray, values: FloatArray) -> FloatArray:
        """(J,): sum over blocks and cells of weights[b, c] times the entries of `values`."""
        block, cell, atom = self.at
        found = np.bincount(atom, weights[block, cell] * values, minlength=self.shape.atoms.shape[0])
        return np.asarray(found, dtype=np.float64)

    def over_pairs(self, weights: FloatArray, values: FloatArray) -> FloatArray:
        """(p, J): the same for every cell."""
        block, cell, atom = self.at
        atoms, cells = self.shape.atoms.shape
        found = np.bincount(cell * atoms + atom, weights[block, cell] * values, minlength=cells * atoms)
        return np.asarray(found, dtype=np.float64).reshape(cells, atoms)

    def blocks(self, first: int, stop: int) -> Tally:
        """The same of some blocks alone, the others empty."""
        kept = np.zeros((self.shape.blocks, 1), dtype=bool)
        kept[first:stop] = True
        entries = kept[self.at[0], 0]
        columns = {name: np.where(kept, getattr(self, name), 0.0) for name in _COLUMNS}
        at = (self.at[0][entries], self.at[1][entries], self.at[2][entries])
        return Tally(
            self.shape, self.gamma, self.reference, **columns, ends=self.ends, at=at,
            mass=self.mass[entries], moment=self.moment[entries], terms=self.terms, error=self.error,
            whole=self.whole,
        )  # fmt: skip

    def padded(self) -> Tally:
        """With one more block, which is empty."""
        extra = np.zeros((1, self.shape.cells))
        columns: dict[str, Any] = {name: np.concatenate([getattr(self, name), extra]) for name in _COLUMNS}
        return replace(self, shape=CellShape(self.shape.blocks + 1, self.shape.atoms), **columns)

    def repeated(self, times: float) -> Tally:
        """As if every row had come so often: what a longer log may look like."""
        columns = {name: getattr(self, name) * times for name in ("count", "total", "square", "size")}
        return replace(self, **columns, mass=self.mass * times, moment=self.moment * times)


_COLUMNS = ("count", "total", "square", "size", "low", "high")


def tally(
    parts: Iterable[CellRows],
    shape: CellShape,
    gamma: float,
    reference: FloatArray,
    at_atoms: FloatArray | None = None,
) -> Tally:
    """Add up all rows, part by part in their order; `at_atoms` in place of the reference's values b_j there."""
    adding = _Adding(shape, gamma, reference, at_atoms)
    for part in parts:
        adding.add(part)
    return adding.finish()


class _Adding:
    """A tally that grows."""

    def __init__(
        self, shape: CellShape, gamma: float, reference: FloatArray, at_atoms: FloatArray | None = None
    ) -> None:
        if reference.shape != (shape.cells,) or not np.all(np.isfinite(reference)):
            raise InvalidInput("A reference has a finite value at every cell.")
        if not 0 <= gamma <= 1:
            raise InvalidInput(f"A discount lies between 0 and 1; {gamma!r} was passed.")
        self.shape, self.gamma, self.reference = shape, gamma, reference
        self.at_atoms = shape.atoms @ reference if at_atoms is None else at_atoms
        size = (shape.blocks, shape.cells)
        self.sums = {name: np.zeros(size) for name in ("count", "total", "square", "size")}
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)
        self.keys, self.entries = np.zeros(0, dtype=np.int64), np.zeros((2, 0))
        self.ends = np.zeros(shape.cells, dtype=bool)
        self.terms, self.largest, self.longest, self.whole = 0, 0.0, 0, True

    def add(self, part: CellRows) -> None:
        self._check(part)
        n, (blocks, cells) = part.cell.size, self.low.shape
        together, longest = np.bincount(part.owner, part.mass, minlength=n), np.bincount(part.owner, minlength=1).max()
        if np.any(together > 1 + rounding_of_sums(longest)):
            row = int(np.argmax(together))
            raise InvalidInput(
                f"The masses after row {row} are {together[row]:.17g} in all, more than 1: normalize the policy's probabilities."
            )
        ahead = np.bincount(part.owner, part.mass * self.at_atoms[part.atom], minlength=n)
        kept = np.flatnonzero(part.cell >= 0)
        place = part.block[kept] * cells + part.cell[kept]
        residual = (self.reference[part.cell] - self.gamma * ahead - part.outcome)[kept]
        for name, values in (
            ("count", None),
            ("total", residual),
            ("square", residual**2),
            ("size", np.abs(residual)),
        ):
            found = np.bincount(place, values, minlength=blocks * cells)
            self.sums[name] += found.reshape(blocks, cells)
        np.minimum.at(self.low.reshape(-1), place, residual)
        np.maximum.at(self.high.reshape(-1), place, residual)
        self._add_entries(part, kept, residual)
        self.ends[part.cell[kept][together[kept] < 1 - rounding_of_sums(longest)]] = True
        self.terms += n + part.owner.size
        self.largest = max(self.largest, part.size)
        self.longest = max(self.longest, int(longest))
        self.whole = self.whole and int(longest) <= 1 and bool(np.all(part.mass == 1.0))

    def _check(self, part: CellRows) -> None:
        fine = np.all((part.cell >= -1) & (part.cell < self.shape.cells))
        fine = fine and np.all((part.block >= 0) & (part.block < self.shape.blocks))
        fine = fine and np.all((part.atom >= 0) & (part.atom < self.shape.atoms.shape[0]))
        fine = fine and np.all((part.owner >= 0) & (part.owner < part.cell.size)) and np.all(part.mass >= 0)
        if not (fine and np.all(np.isfinite(part.outcome)) and 0 <= part.size < np.inf):
            raise InvalidInput("Rows of a tally have known blocks, cells and atoms, and finite outcomes.")

    def _add_entries(self, part: CellRows, kept: IntArray, residual: FloatArray) -> None:
        place = np.full(part.cell.size, -1, dtype=np.int64)
        place[kept] = np.arange(kept.size)
        mine = place[part.owner] >= 0
        owner, atom, mass = part.owner[mine], part.atom[mine], part.mass[mine]
        key = (part.block[owner] * self.shape.cells + part.cell[owner]) * self.shape.atoms.shape[0] + atom
        fresh = np.stack([mass, mass * residual[place[owner]]])
        keys, position = np.unique(np.concatenate([self.keys, key]), return_inverse=True)
        both = np.concatenate([self.entries, fresh], axis=1)
        self.entries = np.stack([np.bincount(position, row, minlength=keys.size) for row in both])
        self.keys = keys

    def finish(self) -> Tally:
        atoms = self.shape.atoms.shape[0]
        place, atom = np.divmod(self.keys, max(atoms, 1))
        block, cell = np.divmod(place, max(self.shape.cells, 1))
        largest = max(float(np.abs(own).max(initial=0.0)) for own in (self.reference, self.at_atoms))
        empty = self.sums["count"] == 0
        return Tally(
            self.shape, self.gamma, self.reference, **self.sums,
            low=np.where(empty, 0.0, self.low), high=np.where(empty, 0.0, self.high), ends=self.ends,
            at=(block, cell, atom), mass=self.entries[0], moment=self.entries[1],
            terms=self.terms, error=8.0 * (self.longest + sum(self.shape.atoms.shape) + 32) * U * (self.largest + 2 * largest),
            whole=self.whole,
        )  # fmt: skip
