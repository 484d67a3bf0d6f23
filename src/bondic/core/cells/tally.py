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

from bondic.core.bounded import BoolArray, FloatArray, IntArray, U
from bondic.core.errors import InvalidInput


def rounding_of_sums(terms: int) -> float:
    """How far probabilities that were normalized in floats may be from 1 in all; `relative` and `error` cover more."""
    return 4.0 * (terms + 32) * U


@dataclass(frozen=True, eq=False)
class CellRows:
    """Some rows, in order."""

    block: IntArray  # (n,)
    cell: IntArray  # (n,)
    outcome: FloatArray  # (n,) o_i
    owner: IntArray  # (m,) the row, counted from 0, that each of the next entries belongs to; ascending
    atom: IntArray  # (m,)
    mass: FloatArray  # (m,) π_ij
    size: float  # max |r_i| + |V̂(s'_i)| + |q̂(x_i)|: what rounding errors of o_i are measured by


@dataclass(frozen=True, eq=False)
class CellShape:
    """How many blocks, cells and atoms there are, and what atoms are made of.

    Of several functions one stands after the other, in *layers* of cells: every row of the log is a row of each layer, at the
    same place of it.
    """

    blocks: int
    atoms: FloatArray  # (J, p) A; signed only where there are layers
    layers: int = 1

    def __post_init__(self) -> None:
        fine = self.atoms.ndim == 2 and self.layers in (1, 2) and self.atoms.shape[1] % self.layers == 0
        if not (fine and self._mixtures()):
            raise InvalidInput("An atom is a probability on cells: at least 0, and at most 1 in all.")

    def _mixtures(self) -> bool:
        values, most = self.entries.value, 1 if self.layers == 1 else 3
        fine = bool(np.all(np.abs(values) < np.inf)) and (self.layers > 1 or bool(np.all(values >= 0)))
        total = self.entries.over_rows(np.abs(values))
        return fine and bool(np.all(total <= most + most * rounding_of_sums(self.atoms.shape[1])))

    @cached_property
    def entries(self) -> Entries:
        """Those of A that are not 0; labels have none, and one 0 stands for all of a matrix that would not fit into memory."""
        empty = self.atoms.strides == (0, 0) and not self.atoms[:1, :1].any()
        found = Entries.of(self.atoms[:1, :1] if empty else self.atoms)
        return replace(found, shape=(self.atoms.shape[0], self.atoms.shape[1]))

    @cached_property
    def largest(self) -> float:
        """A bound of sum_c |A_jc|: how much larger values at atoms can be than values at cells."""
        return 1.0 if self.layers == 1 else 3.0 * (1 + 2 * rounding_of_sums(self.atoms.shape[1]))

    def of_policies(self, weights: FloatArray) -> FloatArray:
        """(..., p) weights on layers as weights on what varies inside the cells of each policy.

        ζ of the first layer is ζ_1 - ζ_2, that of the second ζ_2: w^1 (ζ_1 - ζ_2) + w^2 ζ_2 = w^1 ζ_1 + (w^2 - w^1) ζ_2.
        """
        if self.layers == 1:
            return weights
        first, second = np.split(weights, 2, axis=-1)
        return np.concatenate([first, second - first], axis=-1)

    def at_cells(self, allowed: FloatArray) -> FloatArray:
        """(p,) bounds of |ζ| of every layer from those of every policy."""
        if self.layers == 1:
            return allowed
        first, second = np.split(allowed, 2)
        return np.concatenate([(first + second) * (1 + 2 * U), second])

    def at_atoms(self, allowed: FloatArray) -> FloatArray:
        """(J,) the same at atoms: of the first layer |ζ'_1| + |ζ'_2|."""
        if not allowed.any():
            return np.zeros(self.atoms.shape[0])
        return np.asarray(np.abs(self.of_policies(self.atoms)) @ allowed)

    def own_at_atoms(self, allowed: FloatArray) -> FloatArray:
        """(J,) |ζ'_1| alone at atoms of the first layer, |ζ'_2| at those of the second."""
        if not allowed.any():
            return np.zeros(self.atoms.shape[0])
        own = np.abs(self.atoms)
        if self.layers == 2:
            own[self.atom_layers == 0, self.cells // 2 :] = 0.0
        return np.asarray(own @ allowed)

    @cached_property
    def atom_layers(self) -> IntArray:
        """(J,) the layer whose rows are followed by the atom."""
        if self.layers == 1:
            return np.zeros(self.atoms.shape[0], dtype=np.int64)
        return np.where(self.atoms[:, : self.cells // 2].any(axis=1), 0, 1)

    def by_layer(self, cells: FloatArray) -> FloatArray:
        """(..., p) as (..., layers, p / layers)."""
        return cells.reshape(*cells.shape[:-1], self.layers, -1)

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

    def of_blocks(self, kept: BoolArray) -> Tally:
        """The same of some blocks alone, (B,), the others empty."""
        entries = kept[self.at[0]]
        columns: dict[str, Any] = {name: np.where(kept[:, None], getattr(self, name), 0.0) for name in COLUMNS}
        at = (self.at[0][entries], self.at[1][entries], self.at[2][entries])
        return replace(self, **columns, at=at, mass=self.mass[entries], moment=self.moment[entries])


COLUMNS = ("count", "total", "square", "size", "low", "high")
"""Of a tally, by block and cell."""


def tally(
    parts: Iterable[CellRows],
    shape: CellShape,
    gamma: float,
    reference: FloatArray,
    at_atoms: FloatArray | None = None,
) -> Tally:
    """Add up all rows, part by part in their order; `at_atoms` in place of the reference's values b_j there."""
    if reference.shape != (shape.cells,) or not np.all(np.isfinite(reference)):
        raise InvalidInput("A reference has a finite value at every cell.")
    if not 0 <= gamma <= 1:
        raise InvalidInput(f"A discount lies between 0 and 1; {gamma!r} was passed.")
    sums = _Sums(shape, gamma, reference, shape.atoms @ reference if at_atoms is None else at_atoms)
    for part in parts:
        sums.add(part)
    return sums.finish()


_DENSE = 16
"""Up to so many places for each entry, sums at all of them are faster than sorting."""


class _Sums:
    """A tally that grows."""

    def __init__(self, shape: CellShape, gamma: float, reference: FloatArray, at_atoms: FloatArray) -> None:
        self.shape, self.gamma, self.reference, self.at_atoms = shape, gamma, reference, at_atoms
        size = (shape.blocks, shape.cells)
        self.sums = {name: np.zeros(size) for name in ("count", "total", "square", "size")}
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)
        self.keys, self.entries = np.zeros(0, dtype=np.int64), np.zeros((2, 0))
        self.ends = np.zeros(shape.cells, dtype=bool)
        self.terms, self.largest, self.longest, self.whole = 0, 0.0, 0, True

    def add(self, part: CellRows) -> None:
        self._check(part)
        n, place = part.cell.size, part.block * self.shape.cells + part.cell
        together, longest = np.bincount(part.owner, part.mass, minlength=n), np.bincount(part.owner, minlength=1).max()
        if np.any(together > 1 + rounding_of_sums(longest)):
            row = int(np.argmax(together))
            raise InvalidInput(
                f"The masses after row {row} are {together[row]:.17g} in all, more than 1: normalize the policy's probabilities."
            )
        ahead = np.bincount(part.owner, part.mass * self.at_atoms[part.atom], minlength=n)
        residual = self.reference[part.cell] - self.gamma * ahead - part.outcome
        columns = {"count": None, "total": residual, "square": residual**2, "size": np.abs(residual)}
        for name, values in columns.items():
            self.sums[name] += np.bincount(place, values, minlength=self.low.size).reshape(self.low.shape)
        np.minimum.at(self.low.reshape(-1), place, residual)
        np.maximum.at(self.high.reshape(-1), place, residual)
        key = place[part.owner] * self.shape.atoms.shape[0] + part.atom
        self._enter(key, np.stack([part.mass, part.mass * residual[part.owner]]))
        self.ends[part.cell[together < 1 - rounding_of_sums(longest)]] = True
        self.terms += n + part.owner.size
        self.largest = max(self.largest, part.size)
        self.longest = max(self.longest, int(longest))
        self.whole = self.whole and int(longest) <= 1 and bool(np.all(part.mass == 1.0))

    def _enter(self, key: IntArray, fresh: FloatArray) -> None:
        """Add entries (2, m) at places in any order; those at a place are added one by one, after what is there."""
        if not key.size:
            return
        first, last = int(key.min()), int(key.max()) + 1
        here = slice(*(int(k) for k in np.searchsorted(self.keys, [first, last])))
        places, both = np.concatenate([self.keys[here], key]), np.concatenate([self.entries[:, here], fresh], axis=1)
        if last - first <= _DENSE * places.size:
            position, size = places - first, last - first
            own = np.flatnonzero(np.bincount(position, minlength=size))
            keys, sums = own + first, [np.bincount(position, row, minlength=size)[own] for row in both]
        else:
            keys, position = np.unique(places, return_inverse=True)
            sums = [np.bincount(position, row, minlength=keys.size) for row in both]
        entries = [self.entries[:, : here.start], np.stack(sums), self.entries[:, here.stop :]]
        self.keys = np.concatenate([self.keys[: here.start], keys, self.keys[here.stop :]])
        self.entries = np.concatenate(entries, axis=1)

    def _check(self, part: CellRows) -> None:
        numbers = [(part.cell, self.shape.cells), (part.block, self.shape.blocks)]
        numbers += [(part.atom, self.shape.atoms.shape[0]), (part.owner, part.cell.size)]
        fine = all(one.min(initial=0) >= 0 and one.max(initial=-1) < count for one, count in numbers)
        if not (fine and np.all(part.mass >= 0) and np.all(np.isfinite(part.outcome)) and 0 <= part.size < np.inf):
            raise InvalidInput("Rows of a tally have known blocks, cells and atoms, and finite outcomes.")

    def finish(self) -> Tally:
        place, atom = np.divmod(self.keys, max(self.shape.atoms.shape[0], 1))
        block, cell = np.divmod(place, max(self.shape.cells, 1))
        largest = max(float(np.abs(own).max(initial=0.0)) for own in (self.reference, self.at_atoms))
        empty, largest = self.sums["count"] == 0, self.largest + 2 * self.shape.largest * largest
        return Tally(
            self.shape, self.gamma, self.reference, **self.sums,
            low=np.where(empty, 0.0, self.low), high=np.where(empty, 0.0, self.high), ends=self.ends,
            at=(block, cell, atom), mass=self.entries[0], moment=self.entries[1],
            terms=self.terms, error=8.0 * (self.longest + sum(self.shape.atoms.shape) + 32) * U * largest,
            whole=self.whole,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Entries:
    """A sparse matrix; every place at most once, in ascending order of rows, then columns."""

    row: IntArray  # (m,)
    column: IntArray  # (m,)
    value: FloatArray  # (m,)
    shape: tuple[int, int]

    @staticmethod
    def added(row: IntArray, column: IntArray, value: FloatArray, shape: tuple[int, int]) -> Entries:
        """Values at the same place are added up."""
        width = max(shape[1], 1)
        keys, place = np.unique(row * width + column, return_inverse=True)
        total = np.bincount(place.reshape(-1), value, minlength=keys.size)
        return Entries(*np.divmod(keys, width), np.asarray(total, dtype=np.float64), shape)

    @staticmethod
    def of(matrix: FloatArray) -> Entries:
        row, column = np.nonzero(matrix)
        return Entries(row, column, matrix[row, column], (matrix.shape[0], matrix.shape[1]))

    @cached_property
    def dense(self) -> FloatArray:
        found = np.zeros(self.shape)
        found[self.row, self.column] = self.value
        return found

    @cached_property
    def _keys(self) -> IntArray:
        return np.asarray(self.row * max(self.shape[1], 1) + self.column)

    def at(self, row: IntArray, column: IntArray) -> FloatArray:
        """The values at places; 0 where there is no entry."""
        if not self.value.size:
            return np.zeros(row.size)
        key = row * max(self.shape[1], 1) + column
        place = np.minimum(np.searchsorted(self._keys, key), self._keys.size - 1)
        return np.asarray(np.where(self._keys[place] == key, self.value[place], 0.0))

    def over_rows(self, values: FloatArray) -> FloatArray:
        """(rows,): sums of (m,) values, one for every entry."""
        return np.asarray(np.bincount(self.row, values, minlength=self.shape[0]), dtype=np.float64)

    def times(self, vector: FloatArray) -> FloatArray:
        """(rows,): the matrix times (columns,)."""
        return self.over_rows(self.value * vector[self.column])

    def onto(self, vector: FloatArray) -> FloatArray:
        """(columns,): (rows,) times the matrix."""
        found = np.bincount(self.column, self.value * vector[self.row], minlength=self.shape[1])
        return np.asarray(found, dtype=np.float64)

    def after(self, other: Entries) -> Entries:
        """The product of this matrix with the other one."""
        first, last = (np.searchsorted(other.row, self.column, side=side) for side in ("left", "right"))
        mine = np.repeat(np.arange(self.row.size), last - first)
        ranks = np.arange(mine.size) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
        place = first[mine] + ranks
        value = self.value[mine] * other.value[place]
        return Entries.added(self.row[mine], other.column[place], value, (self.shape[0], other.shape[1]))
