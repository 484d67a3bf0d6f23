"""What every format is turned into: named columns of plain arrays, with missing values marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, one_line
from bondic.data._arrays import BoolArray, numbered


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table, (n,) or (n, k): numbers, or text as Python strings."""

    values: npt.NDArray[Any]
    missing: BoolArray | None = None  # of the same shape; None: nothing is missing
    categorical: bool = False  # declared to be categories, whatever the values are

    @property
    def text(self) -> bool:
        return bool(self.values.dtype.kind == "O")

    @property
    def first_gap(self) -> int | None:
        """The first row with a missing value."""
        return None if self.missing is None or not self.missing.any() else int(np.argwhere(self.missing)[0, 0])


@dataclass(frozen=True, eq=False)
class SourceTable:
    """Named columns, converted when they are used: unused columns cannot cause an error."""

    source: str  # as it appears in messages
    names: tuple[str, ...]
    load: Callable[[str], Column]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # what the format itself settles
    notes: tuple[str, ...] = ()
    one_step: bool = False  # the format itself says that every row is an episode of its own
    longest: int = 1  # steps of the longest line, where a line may hold several
    place: Callable[[int], str] = "row {}".format  # where a row stands in the file, in words
    placed: int = 0  # how many rows have such a place
    ticks: Callable[[str], npt.NDArray[Any] | None] = lambda _: None  # dates and times, which `load` refuses

    def __post_init__(self) -> None:
        refuse_twins(self.source, self.names)

    def column(self, name: str, rows: int | None, part: str = "") -> Column:
        """A column with as many rows as the rewards."""
        column = self.load(name)
        if rows is not None and (count := column.values.shape[0]) != rows:
            raise InvalidInput(
                f"{self.source}: {one_line(name)}{part} has {count} rows, the rewards have {rows}. Every column needs one entry "
                "per row."
            )
        return column


def refuse_twins(source: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{source}: two columns are called {one_line(twice)}. Rename one of them.")


def unequal_rows(source: str, name: str, row: int, length: int, before: int) -> InvalidInput:
    return InvalidInput(
        f"{source}: column {one_line(name)} holds a list of {length} numbers at row {numbered(row)}, {before} before. Every row "
        "needs a list of one length: the dimensions of an observation or action do not change."
    )
