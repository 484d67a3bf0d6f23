"""What every format is turned into: named columns of plain arrays, with missing values marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.data._arrays import numbered
from bondic.errors import InvalidInput, one_line, shown

BoolArray = npt.NDArray[np.bool_]

_TEXT = (str, np.str_, bytes, np.bytes_)


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table, (n,) or (n, k): numbers, or text as Python strings."""

    values: npt.NDArray[Any]
    missing: BoolArray | None = None  # of the same shape; None: nothing is missing
    categorical: bool = False  # declared to be categories, whatever the values are

    @property
    def text(self) -> bool:
        return bool(self.values.dtype.kind == "O")

    def at(self, rows: npt.NDArray[Any]) -> Column:
        return Column(self.values[rows], None if self.missing is None else self.missing[rows], self.categorical)


@dataclass(frozen=True, eq=False)
class SourceTable:
    """Named columns, converted when they are asked for: columns that nobody uses cannot be wrong."""

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
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise InvalidInput(f"{self.source}: two columns are called {one_line(twice)}. Rename one of them.")

    def column(self, name: str, rows: int | None, part: str = "") -> Column:
        """A column with as many rows as the rewards."""
        column = self.load(name)
        if rows is not None and (count := column.values.shape[0]) != rows:
            raise InvalidInput(
                f"{self.source}: {one_line(name)}{part} has {count} rows, the rewards have {rows}. Every column needs one entry "
                "per row."
            )
        return column


def arrays_table(source: str, arrays: Mapping[str, Any], **more: Any) -> SourceTable:
    """A table over arrays (or sequences) by name."""
    given = {"ticks": lambda name: dates(arrays[name]), **more}
    return SourceTable(source, tuple(arrays), lambda name: as_column(name, arrays[name], source), **given)


def dates(values: Any) -> npt.NDArray[Any] | None:
    """An array of dates or times as it is; None for anything else."""
    return values if isinstance(values, np.ndarray) and values.dtype.kind in "Mm" else None


def as_column(name: str, values: Any, source: str) -> Column:
    """Anything array-like as a column; what cannot be read as numbers or text is refused."""
    masked = np.ma.getmaskarray(values).copy() if np.ma.isMaskedArray(values) else None
    try:
        array = np.ma.getdata(values) if masked is not None else np.asarray(values)
    except ValueError:
        array = _objects(values)
    if array.ndim == 0:
        raise InvalidInput(f"{source}: {one_line(name)} is a single value; one entry per row is needed.")
    if array.dtype.kind == "O" and array.size:
        column = _from_objects(name, array, source)
    elif array.dtype.kind in "US":
        column = Column(_text(name, array, source))
    elif array.dtype.kind in "biuf" or not array.size:
        missing = np.isnan(array) if array.dtype.kind == "f" else None
        column = Column(array, missing if missing is not None and missing.any() else None)
    else:
        raise InvalidInput(
            f"{source}: {one_line(name)} has dtype {one_line(array.dtype)}; numbers or text are needed. Dates and times can be "
            "given as numbers (hours since the start of the episode, say)."
        )
    if masked is None or not masked.any():
        return column
    return Column(column.values, masked if column.missing is None else masked | column.missing)


def _objects(values: Any) -> npt.NDArray[Any]:
    """Rows of unequal length as an array of objects, so that the odd row can be named."""
    rows = list(values)
    out = np.empty(len(rows), dtype=object)
    for index, row in enumerate(rows):
        out[index] = row
    return out


def _from_objects(name: str, array: npt.NDArray[Any], source: str) -> Column:
    """Python objects: text, numbers or rows of numbers, with None or NaN where a value is missing."""
    flat = array.ravel()
    missing = np.array([value is None or (isinstance(value, float) and value != value) for value in flat.tolist()])
    present = [value for value, gap in zip(flat.tolist(), missing, strict=True) if not gap]
    mask = missing.reshape(array.shape) if missing.any() else None
    if all(isinstance(value, _TEXT) for value in present):
        return Column(_text(name, array, source), mask)
    if all(isinstance(value, bool | int | float | np.number | np.bool_) for value in present):
        filled = np.array([0 if gap else value for value, gap in zip(flat.tolist(), missing, strict=True)])
        if filled.dtype.kind in "biuf":
            return Column(filled.reshape(array.shape), mask)
    if array.ndim == 1 and all(isinstance(value, list | tuple | np.ndarray) for value in present):
        return _from_rows(name, flat, missing, source)
    kinds = shown(sorted({type(value).__name__ for value in present}))
    raise InvalidInput(
        f"{source}: {one_line(name)} mixes {kinds}; every row needs a number, a text or a list of numbers."
    )


def _from_rows(name: str, rows: npt.NDArray[Any], missing: BoolArray, source: str) -> Column:
    present = np.flatnonzero(~missing)
    width = np.shape(rows[present[0]]) if present.size else (1,)
    for row in present:
        if np.shape(rows[row]) != width:
            raise unequal_rows(source, name, int(row), np.size(rows[row]), int(np.prod(width)))
    stacked = as_column(name, np.stack([np.asarray(rows[row]) for row in present]), source)
    if not missing.any():
        return stacked
    values = np.zeros((rows.size, *stacked.values.shape[1:]), dtype=stacked.values.dtype)
    values[present] = stacked.values
    mask = np.ones(values.shape, dtype=bool)
    mask[present] = False if stacked.missing is None else stacked.missing
    return Column(values, mask)


def unequal_rows(source: str, name: str, row: int, length: int, before: int) -> InvalidInput:
    return InvalidInput(
        f"{source}: column {one_line(name)} holds a list of {length} numbers at row {numbered(row)}, {before} before. Every row "
        "needs a list of one length: the dimensions of an observation or action do not change."
    )


def _text(name: str, array: npt.NDArray[Any], source: str) -> npt.NDArray[Any]:
    out = np.empty(array.shape, dtype=object)
    flat = out.ravel()
    for index, value in enumerate(array.ravel().tolist()):
        try:
            flat[index] = value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else ""
        except UnicodeDecodeError as problem:
            raise InvalidInput(f"{source}: {one_line(name)} holds text that is not UTF-8 (entry {index}).") from problem
    return flat.reshape(array.shape)
