"""Columns of many rows in the shortest types that hold them exactly: a table of names takes some 20 bytes a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.columns import RowRange

Array = npt.NDArray[Any]


class CompactColumns:
    """Rows part by part, to be cut out again with the types that they had."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Array]] = []
        self._ends: list[int] = [0]
        self._types: dict[str, np.dtype[Any]] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return self._ends[-1]

    def add(self, columns: Mapping[str, Array | None]) -> None:
        """The next rows; a column that is None is absent from all of them."""
        there = {name: column for name, column in columns.items() if column is not None}
        short = {name: _shortest(column) for name, column in there.items()}
        self._types = {name: column.dtype for name, column in there.items()}
        self._parts.append(short)
        self._ends.append(len(self) + len(there["rewards"]))
        self.bytes += sum(column.nbytes for column in short.values())

    def cut(self, rows: RowRange) -> dict[str, Array]:
        """These rows."""
        first, last = np.searchsorted(self._ends, [rows.start, rows.stop - 1], side="right") - 1
        found: dict[str, list[Array]] = {name: [] for name in self._types}
        for part in range(int(first), int(last) + 1):
            top, end = self._ends[part], self._ends[part + 1]
            here = slice(max(rows.start, top) - top, min(rows.stop, end) - top)
            for name, column in self._parts[part].items():
                found[name].append(column[here] if len(column) == end - top else _repeated(column, here))
        return {name: np.concatenate(parts, dtype=self._types[name], casting="unsafe") for name, parts in found.items()}


def _repeated(column: Array, here: slice) -> Array:
    return np.broadcast_to(column, (here.stop - here.start, *column.shape[1:]))


def _shortest(column: Array) -> Array:
    """One row where all are equal; else the first of some types that gives the same numbers back."""
    if bool((column == column[:1]).all()):
        return column[:1].copy()
    for kind in {"i": (np.int8, np.int16, np.int32), "f": (np.float32,)}.get(column.dtype.kind, ()):
        with np.errstate(over="ignore"):
            shorter = column.astype(kind)
        if np.array_equal(shorter.astype(column.dtype), column):
            return shorter
    return column.copy()
