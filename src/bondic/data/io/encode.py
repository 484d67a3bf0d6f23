"""Observations and actions as numbers: categories become 0/1 columns or codes, gaps become an indicator column.

Categories are those that occur, sorted, unless they are stated or taken from a log that was read before; a category that never
occurs is a column of zeros and changes no kernel value. Fill values are stated by the user, never computed from the log: a mean
over all rows would let earlier rows depend on later ones, and the guarantee rests on their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, Listing, one_line, shown
from bondic.data._arrays import numbered
from bondic.data.io.loaded import Encoding
from bondic.data.io.table import BoolArray, Column, SourceTable

FloatArray = npt.NDArray[np.float64]
Categorical: TypeAlias = Literal["one-hot", "codes"]
Missing: TypeAlias = Literal["indicator"] | Mapping[str, float] | None

_MOST_CATEGORIES = 256
"""More columns than that are rarely meant: ids, free text and spoiled numbers end up here."""
_LARGEST_EXACT = 2**53
_GAP = "(missing)"
"""The category of values that are not there."""


@dataclass(frozen=True)
class Treatment:
    """What was stated about missing values and categories; columns go by their own names or `name_k` of a list."""

    missing: Missing = None
    categorical: Categorical | Mapping[str, Categorical] | None = None
    streamed: bool = False  # a few rows at a time: what depends on all of them cannot be done
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of columns where they are known beforehand
    like: tuple[str, ...] = ()  # dimensions of the observations of a log that was read before

    def __post_init__(self) -> None:
        if isinstance(self.missing, Mapping):
            for name, value in self.missing.items():
                if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                    raise InvalidInput(
                        f"missing={{{name!r}: {value!r}}}: the value to fill in must be a finite number."
                    )
        elif self.missing not in (None, "indicator"):
            raise InvalidInput(f"missing={self.missing!r} is not known: 'indicator', or {{column: value to fill in}}.")
        kinds = self.categorical.values() if isinstance(self.categorical, Mapping) else (self.categorical,)
        for kind in kinds:
            if kind not in (None, "one-hot", "codes"):
                raise InvalidInput(f"categorical={kind!r} is not known: 'one-hot' or 'codes'.")
        for name, values in self.categories.items():
            if isinstance(values, str) or not values or len(set(values)) < len(values):
                raise InvalidInput(
                    f"categories={{{name!r}: {values!r}}}: a list of texts is needed, each of them once (--text "
                    "COLUMN=FIRST,SECOND,...)."
                )

    def fill(self, name: str) -> float | None:
        if isinstance(self.missing, Mapping):
            return None if name not in self.missing else float(self.missing[name])
        return None if self.missing is None else 0.0

    def kind(self, name: str, column: Column) -> Categorical | None:
        """How this column is encoded, None for plain numbers."""
        if isinstance(self.categorical, Mapping) and name in self.categorical:
            return self.categorical[name]
        if not (column.text or column.categorical):
            return None
        return "one-hot" if isinstance(self.categorical, Mapping) or self.categorical is None else self.categorical


@dataclass(frozen=True)
class Dimension:
    """One dimension of the observations: its values now and, where the log has them, at the next state."""

    name: str
    here: Column
    following: Column | None


@dataclass(frozen=True, eq=False)
class Encoded:
    observations: FloatArray
    following: FloatArray | None
    names: tuple[str, ...]
    encodings: dict[str, Encoding]
    notes: tuple[str, ...]


def encode_observations(
    table: SourceTable, here: Sequence[str], following: Sequence[str] | None, ended: BoolArray, treatment: Treatment
) -> Encoded:
    """Every dimension as numbers; `ended` are the terminated rows, which need no next observation."""
    dims = list(_dimensions(table, here, following, ended.size))
    _refuse_unknown(treatment, [dim.name for dim in dims])
    blocks, gaps, names, gap_names = [], [], [], []
    encodings: dict[str, Encoding] = {}
    notes: list[str] = []
    for dim in dims:
        kind = treatment.kind(dim.name, dim.here)
        if kind is not None and treatment.streamed:
            raise InvalidInput(
                f"{table.source}: {one_line(dim.name)} holds categories. Which ones there are is known at the end of a log only, "
                "so a streamed log cannot encode them: write numbers, or load the log with read_log."
            )
        gap = _gaps(dim, ended, treatment, table.source, category=kind is not None)
        if gap is None and f"{dim.name}_missing" in treatment.like:
            gap = np.zeros((ended.size, 1)), np.zeros((ended.size, 1))
        if kind is None:
            blocks.append(_numbers(dim, ended, treatment.fill(dim.name) or 0.0, table.source))
            names.append(dim.name)
            if gap is not None:
                gaps.append(gap)
                gap_names.append(f"{dim.name}_missing")
                filled = treatment.fill(dim.name) or 0.0
                notes.append(
                    f"Missing values of {one_line(dim.name)} were filled with {filled:g}; the 0/1 "
                    f"column {one_line(gap_names[-1])} says where."
                )
        else:
            block, encoding = _categories(dim, kind, ended, table.source, treatment.categories.get(dim.name))
            blocks.append(block)
            encodings[dim.name] = encoding
            names += encoding.columns
            notes.append(category_note(dim.name, encoding))
    parts = [*blocks, *gaps]
    after = None if following is None else np.concatenate([block[1] for block in parts], axis=1)
    return Encoded(
        np.concatenate([block[0] for block in parts], axis=1), after, (*names, *gap_names), encodings, tuple(notes)
    )


def _refuse_unknown(treatment: Treatment, names: list[str]) -> None:
    listed = treatment.categories if not treatment.like else None
    for what, stated in (
        ("missing", treatment.missing),
        ("categorical", treatment.categorical),
        ("categories", listed),
    ):
        unknown = [name for name in stated if name not in names] if isinstance(stated, Mapping) else []
        if unknown:
            raise InvalidInput(
                f"{what}= (--{what}) names {shown(unknown)}, which is no dimension of the observations: {shown(names)}."
            )


def _dimensions(
    table: SourceTable, here: Sequence[str], following: Sequence[str] | None, rows: int
) -> Iterator[Dimension]:
    now = list(_split(table, here, rows))
    then = None if following is None else list(_split(table, following, rows))
    if then is not None and len(then) == 1 and then[0][1].missing is not None and then[0][1].missing.all():
        then *= len(now)  # lists that are all missing do not tell how long they would be
    if then is not None and len(then) != len(now):
        raise InvalidInput(
            f"{table.source}: observations have {len(now)} dimensions, next observations {len(then)}. They describe the same "
            "space: give the same columns for both, in the same order."
        )
    for index, (name, column) in enumerate(now):
        after = None if then is None else then[index][1]
        _refuse_spoiled_numbers(name, column, table.source)
        if after is not None and after.text != column.text:
            raise InvalidInput(
                f"{table.source}: {one_line(name)} and {one_line(then[index][0] if then else '')} describe one dimension, but "
                "one holds text and the other numbers. Give both in one form."
            )
        yield Dimension(name, column, after)


def _split(table: SourceTable, group: Sequence[str], rows: int) -> Iterator[tuple[str, Column]]:
    """The dimensions of a part: one per column, and one per entry of a list column."""
    for name in group:
        column = table.column(name, rows)
        if column.values.ndim == 1:
            yield name, column
            continue
        if column.values.ndim != 2 or not column.values.shape[1]:
            raise InvalidInput(
                f"{table.source}: {one_line(name)} has shape {column.values.shape}; (rows, dimensions) is needed. Images and "
                "other arrays must be turned into a list of numbers per row first."
            )
        for k in range(column.values.shape[1]):
            gaps = None if column.missing is None else column.missing[:, k]
            label = name if column.values.shape[1] == 1 else f"{name}_{k}"
            yield label, Column(column.values[:, k], gaps, column.categorical)


def _gaps(dim: Dimension, ended: BoolArray, treatment: Treatment, source: str, *, category: bool) -> Any:
    """The indicator of missing values, None if nothing is missing; refused unless a treatment was stated."""
    now = np.zeros(ended.size, dtype=bool) if dim.here.missing is None else dim.here.missing
    after = dim.following.missing if dim.following is not None else None
    then = np.zeros(ended.size, dtype=bool) if after is None else after & ~ended
    if not (now.any() or then.any()):
        return None
    stated = treatment.missing if category else treatment.fill(dim.name)
    if stated is None:
        row = int(np.flatnonzero(now if now.any() else then)[0])
        where = dim.name if now.any() else f"{dim.name} of the next observation"
        what = f"{source}: {one_line(where)} is missing at row {numbered(row)}"
        if treatment.streamed:
            raise InvalidInput(
                f"{what}. The bound needs every value, and a streamed log cannot mark gaps in columns of their own: fill in what "
                "was observed, or load the log with read_log and missing=. Never drop such rows."
            )
        raise InvalidInput(
            f"{what} ({int(now.sum())} gaps now, {int(then.sum())} next). The "
            "bound needs every value. Fill in what was observed, or pass missing='indicator' (--missing indicator: fill 0 and "
            f"add a 0/1 column that says where) or missing={{'{one_line(dim.name)}': value}} (--missing "
            f"{one_line(dim.name)}=VALUE: your value and the column). Never drop such rows."
        )
    return now.astype(float)[:, None], then.astype(float)[:, None]


def _numbers(dim: Dimension, ended: BoolArray, fill: float, source: str) -> tuple[FloatArray, FloatArray | None]:
    out: list[FloatArray | None] = []
    for column, may_end in ((dim.here, False), (dim.following, True)):
        if column is None:
            out.append(None)
            continue
        values = column.values
        if values.dtype.kind in "iu" and values.size and max(int(values.max()), -int(values.min())) > _LARGEST_EXACT:
            raise InvalidInput(
                f"{source}: {one_line(dim.name)} holds integers beyond 2**53, which are not exact as floats. Rescale them."
            )
        filled = np.array(values, dtype=np.float64)
        if column.missing is not None:
            filled[column.missing] = fill
            if may_end:
                filled[column.missing & ended] = np.nan  # nothing follows a termination: the whole row becomes 0
        out.append(filled[:, None])
    assert out[0] is not None
    return out[0], out[1]


def _categories(
    dim: Dimension, kind: Categorical, ended: BoolArray, source: str, known: Sequence[str] | None
) -> tuple[tuple[FloatArray, FloatArray | None], Encoding]:
    columns = [column for column in (dim.here, dim.following) if column is not None]
    gone = [np.zeros(ended.size, dtype=bool) if column.missing is None else column.missing for column in columns]
    values = sorted({v for column, gap in zip(columns, gone, strict=True) for v in column.values[~gap].tolist()})
    gap = bool(gone[0].any() or (len(gone) > 1 and (gone[1] & ~ended).any()))
    labels = (*(str(value) for value in values), *((_GAP,) if gap else ()))
    if known is not None:
        _refuse_new_categories(dim, columns, gone, labels, known, source)
        labels = tuple(known)
    place = {label: index for index, label in enumerate(labels)}
    if kind == "one-hot" and len(labels) > _MOST_CATEGORIES:
        raise InvalidInput(
            f"{source}: {one_line(dim.name)} has {len(labels)} categories. So many 0/1 columns are rarely meant: leave the "
            "column out of the observations, pass numbers, or categorical='codes' (--text codes) for a kernel that only "
            "compares equality."
        )
    out = []
    for index, column in enumerate(columns):
        codes = np.array([place.get(str(value), len(labels)) for value in column.values.tolist()], dtype=np.int64)
        codes[gone[index]] = place.get(_GAP, len(labels))
        block = (
            codes.astype(np.float64)[:, None] if kind == "codes" else np.eye(len(labels) + 1)[codes][:, : len(labels)]
        )
        if index == 1:
            block[gone[1] & ended] = np.nan
        out.append(block)
    names = (dim.name,) if kind == "codes" else tuple(f"{dim.name}={label}" for label in labels)
    return (out[0], out[1] if len(out) > 1 else None), Encoding(kind, labels, names)


def _refuse_new_categories(
    dim: Dimension,
    columns: list[Column],
    gone: list[BoolArray],
    labels: Sequence[str],
    known: Sequence[str],
    source: str,
) -> None:
    """A value that has no column, with the first row where it stands."""
    new = [label for label in labels if label not in known]
    if not new:
        return
    word = "is missing" if new[0] == _GAP else f"is {one_line(repr(new[0]))}"
    rows = [
        int(row)
        for column, gap in zip(columns, gone, strict=True)
        for row in np.flatnonzero(
            gap if new[0] == _GAP else np.array([str(v) == new[0] for v in column.values.tolist()])
        )
    ]
    raise InvalidInput(
        f"{source}: {one_line(dim.name)} {word} at row {numbered(min(rows))}, and its categories were fixed before: "
        f"{shown(known)}. A category more would be another state space. State all that may come before the first row is read: "
        f"categories={{{dim.name!r}: [...]}} (--text {one_line(dim.name)}={','.join(map(one_line, [*known, new[0]]))})."
    )


def _refuse_spoiled_numbers(name: str, column: Column, source: str) -> None:
    """A column of numbers with a few words in it is read as text: categories would hide the slip."""
    if not column.text:
        return
    values = column.values.tolist()
    gone = np.zeros(len(values), dtype=bool) if column.missing is None else column.missing
    words = {value: is_number(value) for value, gap in zip(values, gone, strict=True) if not gap}
    if sum(words.values()) * 2 <= len(words):
        return
    odd = next((row for row, value in enumerate(values) if not gone[row] and not words[value]), None)
    where = "all of them, but as text" if odd is None else f"{one_line(repr(values[odd]))} at row {numbered(odd)}"
    raise InvalidInput(
        f"{source}: {one_line(name)} is text although most of its values are numbers ({where}). Write numbers, leave the "
        "field empty where a value is missing, or code the column yourself if these are categories."
    )


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def category_note(name: str, encoding: Encoding) -> Listing:
    """How text became numbers; it lists values that a single row may have."""
    listed = shown(encoding.values)
    if encoding.kind == "codes":
        return Listing(
            f"{one_line(name)} is categorical, kept as codes 0, 1, ... for: {listed}. Compare codes for equality only."
        )
    return Listing(f"{one_line(name)} is categorical, turned into {len(encoding.values)} 0/1 columns for: {listed}.")
