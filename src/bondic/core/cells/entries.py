"""A matrix with few entries that are not 0: what follows labels, or cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Entries:
    """Every place at most once, in ascending order of rows, then columns."""

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
        wanted = row * max(self.shape[1], 1) + column
        place = np.minimum(np.searchsorted(self._keys, wanted), self._keys.size - 1)
        return np.asarray(np.where(self._keys[place] == wanted, self.value[place], 0.0))

    def over_rows(self, values: FloatArray) -> FloatArray:
        """(rows,): sums of (m,) values, one for every entry."""
        return np.asarray(np.bincount(self.row, values, minlength=self.shape[0]), dtype=np.float64)

    def times(self, vector: FloatArray) -> FloatArray:
        """(rows,): the matrix times (columns,)."""
        return self.over_rows(self.value * vector[self.column])
