"""Observations and actions as numbers: categories become 0/1 columns or codes, gaps become an indicator column.

Categories are those that occur, sorted, unless they are stated or taken from a log that was read before; a category that never
occurs is a column of zeros and changes no kernel value. Fill values are stated by the user, never computed from the log: a mean
over all rows would let earlier rows depend on later ones, and the guarantee rests on their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, one_line
from bondic.data._arrays import BoolArray, FloatArray, numbered
from bondic.data.io.loaded import Encoding
from bondic.data.io.table import Column, SourceTable
from bondic.errors import Listing, shown

Categorical: TypeAlias = Literal["one-hot", "codes"]
Missing: TypeAlias = Literal["indicator"] | Mapping[str, float] | None

_MAX_CATEGORIES = 256
"""More columns than that are rarely meant: ids, free text and spoiled numbers end up here."""
_MAX_EXACT = 2**53
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


@dataclass(frozen=True, eq=False)
class Dimension:
    """One dimension of the observations: n values at the states and, where the log has them, n at the next states after them."""

    name: str
    column: Column  # (n,) or (2n,)
    missing: BoolArray
    needed: BoolArray  # all but the next states of terminated rows
    rows: int  # n
    source: str
    exact: bool  # integers that floats hold

    @staticmethod
    def of(name: str, here: Column, following: Column | None, ended: BoolArray, source: str) -> Dimension:
        parts = [here] if following is None else [here, following]
        column = Column(np.concatenate([part.values for part in parts]), None, here.categorical)
        gaps = [np.zeros(ended.size, dtype=bool) if part.missing is None else part.missing for part in parts]
        needed = np.concatenate([np.ones(ended.size, dtype=bool), ~ended])[: column.values.size]
        whole = [part.values for part in parts if part.values.dtype.kind in "iu" and part.values.size]
        largest = max((max(int(values.max()), -int(values.min())) for values in whole), default=0)
        return Dimension(name, column, np.concatenate(gaps), needed, ended.size, source, largest <= _MAX_EXACT)

    @cached_property
    def gaps(self) -> BoolArray:
        return self.missing & self.needed

    def row(self, place: Any) -> int:
        """The row of the log at this place."""
        return numbered(int(place) % self.rows)


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
    dims = list(_dimensions(table, here, following, ended))
    _refuse_unknown(treatment, [dim.name for dim in dims])
    blocks: list[FloatArray] = []
    indicators: list[FloatArray] = []
    names: list[str] = []
    indicator_names: list[str] = []
    encodings: dict[str, Encoding] = {}
    notes: list[str] = []
    gaps: list[InvalidInput] = []
    for dim in dims:
        kind = treatment.kind(dim.name, dim.column)
        if kind is not None and treatment.streamed:
            raise InvalidInput(
                f"{table.source}: {one_line(dim.name)} holds categories. A streamed log cannot list them before its end, so it "
                "cannot encode them: write numbers, or load the log with read_log."
            )
        fill = treatment.missing if kind is not None else treatment.fill(dim.name)
        if dim.gaps.any() and fill is None:
            gaps.append(_untreated(dim, streamed=treatment.streamed))
            continue
        if kind is not None:
            block, encoding = _categories(dim, kind, treatment.categories.get(dim.name))
            blocks.append(block)
            encodings[dim.name] = encoding
            names += encoding.columns
            notes.append(category_note(dim.name, encoding))
            continue
        value = treatment.fill(dim.name) or 0.0
        blocks.append(_numbers(dim, value))
        names.append(dim.name)
        if dim.gaps.any() or f"{dim.name}_missing" in treatment.like:
            indicators.append(dim.gaps.astype(np.float64)[:, None])
            indicator_names.append(f"{dim.name}_missing")
        if dim.gaps.any():
            notes.append(
                f"Missing values of {one_line(dim.name)} were filled with {value:g}; the 0/1 column "
                f"{one_line(indicator_names[-1])} says where."
            )
    if gaps:
        raise gaps[0] if len(gaps) == 1 else InvalidInput(" Also: ".join(map(str, gaps)))
    whole, n = np.concatenate([*blocks, *indicators], axis=1), ended.size
    after = None if following is None else whole[n:]
    return Encoded(whole[:n], after, (*names, *indicator_names), encodings, tuple(notes))


def _refuse_unknown(treatment: Treatment, names: list[str]) -> None:
    listed = treatment.categories if not treatment.like else None
    options = {"missing": treatment.missing, "categorical": treatment.categorical, "categories": listed}
    for what, stated in options.items():
        unknown = [name for name in stated if name not in names] if isinstance(stated, Mapping) else []
        if unknown:
            raise InvalidInput(
                f"{what}= (--{what}) names {shown(unknown)}, which is no dimension of the observations: {shown(names)}."
            )


def _dimensions(
    table: SourceTable, here: Sequence[str], following: Sequence[str] | None, ended: BoolArray
) -> Iterator[Dimension]:
    now = list(_split(table, here, ended.size))
    then = None if following is None else list(_split(table, following, ended.size))
    if then is not None and len(then) == 1 and then[0][1].missing is not None and then[0][1].missing.all():
        then *= len(now)  # lists that are all missing do not tell how long they would be
    if then is not None and len(then) != len(now):
        raise InvalidInput(
            f"{table.source}: observations have {len(now)} dimensions, next observations {len(then)}. They describe the same "
            "space: give the same columns for both, in the same order."
        )
    for index, (name, column) in enumerate(now):
        after_name, after = ("", None) if then is None else then[index]
        _refuse_spoiled_numbers(name, column, table.source)
        if after is not None and after.text != column.text:
            raise InvalidInput(
                f"{table.source}: {one_line(name)} and {one_line(after_name)} describe one dimension, but one holds text and the "
                "other numbers. Give both in one form."
            )
        yield Dimension.of(name, column, after, ended, table.source)


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


def _untreated(dim: Dimension, *, streamed: bool) -> InvalidInput:
    """Missing values, and nothing was stated about them."""
    first, name = int(np.argmax(dim.gaps)), one_line(dim.name)
    where = name if first < dim.rows else f"{name} of the next observation"
    what = f"{dim.source}: {where} is missing at row {dim.row(first)}"
    if streamed:
        return InvalidInput(
            f"{what}. The bound needs every value, and a streamed log cannot mark gaps in columns of their own: fill in what "
            "was observed, or load the log with read_log and missing=. Never drop such rows."
        )
    return InvalidInput(
        f"{what} ({int(dim.gaps[: dim.rows].sum())} gaps now, {int(dim.gaps[dim.rows :].sum())} next). The bound needs every "
        "value. Fill in what was observed, or pass missing='indicator' (--missing indicator: fill 0 and add a 0/1 column that "
        f"says where) or missing={{'{name}': value}} (--missing {name}=VALUE: your value and the column). Never drop such rows."
    )


def _numbers(dim: Dimension, fill: float) -> FloatArray:
    """(n or 2n, 1); NaN where nothing follows a termination: the whole row becomes 0."""
    if not dim.exact:
        raise InvalidInput(
            f"{dim.source}: {one_line(dim.name)} holds integers beyond 2**53, which are not exact as floats. Rescale them."
        )
    filled = np.array(dim.column.values, dtype=np.float64)
    if dim.missing.any():
        filled[dim.missing] = np.where(dim.needed, fill, np.nan)[dim.missing]
    return filled[:, None]


def _categories(dim: Dimension, kind: Categorical, known: Sequence[str] | None) -> tuple[FloatArray, Encoding]:
    """0/1 columns or codes; NaN where nothing follows a termination and nothing is recorded."""
    values = sorted(set(dim.column.values[~dim.missing].tolist()))
    labels = (*(str(value) for value in values), *((_GAP,) if dim.gaps.any() else ()))
    texts = np.array([str(value) for value in dim.column.values.tolist()], dtype=object)
    texts[dim.missing] = _GAP
    if known is not None:
        _refuse_new_categories(dim, texts, labels, known)
        labels = tuple(known)
    if kind == "one-hot" and len(labels) > _MAX_CATEGORIES:
        raise InvalidInput(
            f"{dim.source}: {one_line(dim.name)} has {len(labels)} categories. So many 0/1 columns are rarely meant: leave the "
            "column out of the observations, pass numbers, or categorical='codes' (--text codes) for a kernel that only "
            "compares equality."
        )
    place = {label: index for index, label in enumerate(labels)}
    codes = np.array([place.get(text, len(labels)) for text in texts.tolist()], dtype=np.int64)
    one_hot = kind == "one-hot"
    block = np.eye(len(labels) + 1)[codes][:, : len(labels)] if one_hot else codes.astype(np.float64)[:, None]
    block[dim.missing & ~dim.needed] = np.nan
    names = tuple(f"{dim.name}={label}" for label in labels) if one_hot else (dim.name,)
    return block, Encoding(kind, labels, names)


def _refuse_new_categories(
    dim: Dimension, texts: npt.NDArray[Any], labels: Sequence[str], known: Sequence[str]
) -> None:
    """A value that has no column, with the first row where it stands."""
    new = next((label for label in labels if label not in known), None)
    if new is None:
        return
    word = "is missing" if new == _GAP else f"is {one_line(repr(new))}"
    row = min(dim.row(place) for place in np.flatnonzero((texts == new) & dim.needed))
    raise InvalidInput(
        f"{dim.source}: {one_line(dim.name)} {word} at row {row}, and its categories were fixed before: {shown(known)}. A new "
        "category would change the state space. State all that may come before the first row is read: "
        f"categories={{{dim.name!r}: [...]}} (--text {one_line(dim.name)}={','.join(map(one_line, [*known, new]))})."
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
    if odd is None:  # text on purpose: names
        return
    where = f"{one_line(repr(values[odd]))} at row {numbered(odd)}"
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
