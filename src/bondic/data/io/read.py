"""read_log: any supported file or table as a log, with notes on what was understood."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bondic.data.io import (
    arrow,
    csv,
    d3rlpy,
    hdf5,
    huggingface,
    jsonl,
    minari,
    npz,
    obp,
    parquet,
    sb3_buffer,
    scope_rl,
    vowpal,
)
from bondic.data.io.arrow import is_arrow_like, to_arrow, whole_table
from bondic.data.io.assemble import Assembly
from bondic.data.io.encode import Categorical, Missing, Treatment
from bondic.data.io.loaded import Coding, LoadedLog
from bondic.data.io.mapping import read_mapping, read_records
from bondic.data.io.parts import Given, checked_columns
from bondic.data.io.table import SourceTable, as_column, dates
from bondic.data.io.words import reading_words
from bondic.errors import InvalidInput, kind_of, one_line
from bondic.folders import near

_PICKLES = (".pkl", ".pickle")
_LISTS: dict[tuple[str, ...], Callable[[Path, Given | None], SourceTable]] = {
    parquet.SUFFIXES: parquet.read_parquet,
    arrow.SUFFIXES: arrow.read_feather,
    jsonl.SUFFIXES: jsonl.read_jsonl,
}
"""Formats whose lines may be episodes, with lists of steps: which columns hold what has to be known."""
_FILES: dict[tuple[str, ...], Callable[[Path], SourceTable]] = {
    csv.SUFFIXES: csv.read_csv,
    npz.SUFFIXES: npz.read_npz,
    hdf5.SUFFIXES: hdf5.read_hdf5,
    vowpal.SUFFIXES: vowpal.read_vowpal,
}
KNOWN = tuple(ending for endings in (*_LISTS, *_FILES) for ending in endings)
_OBJECTS: tuple[tuple[Callable[[Any], bool], Callable[[Any, str], SourceTable]], ...] = (
    (scope_rl.is_scope_rl, scope_rl.read_scope_rl),
    (obp.is_bandit_feedback, obp.read_bandit_feedback),
    (sb3_buffer.is_replay_buffer, sb3_buffer.read_replay_buffer),
    (d3rlpy.is_d3rlpy_dataset, d3rlpy.read_d3rlpy_dataset),
)
"""Objects of other libraries, told by what they offer."""


def read_log(
    source: Any,
    *,
    columns: Given | None = None,
    missing: Missing = None,
    categorical: Categorical | Mapping[str, Categorical] | None = None,
    actions: Sequence[str | int] | int | None = None,
    one_step: bool = False,
    trust_pickle: bool = False,
    categories: Mapping[str, Sequence[str]] | None = None,
    like: LoadedLog | Coding | None = None,
) -> LoadedLog:
    """Read a log: Parquet (file or folder), Feather, CSV, JSON lines, NPZ, HDF5 (D4RL, d3rlpy, Minari), Vowpal Wabbit's bandit
    logs, a table or a mapping of arrays, or an object of another library (the page on logs lists them).

    `columns` maps parts of a transition to columns where the names do not tell: {"rewards": "payoff",
    "observations": ["age", "lab_*"]}; {"truncations": None} (or terminations) states that there are none. `missing`
    states what to do with gaps in observations: "indicator" fills 0 and adds a 0/1 column, {column: value} fills your
    value and adds the column. `categorical` is "one-hot" (the default for text) or "codes", also per column.
    `actions` names text actions in the order of their numbers (sorted unless said); it may name some never taken, or say
    how many actions there are.
    `one_step=True` states that every row is an episode of its own (a bandit log): next observations and ends are then not
    needed. Pickles run code when they are loaded: only with `trust_pickle=True`.
    `categories` states the values that a column of text may have, {column: [first, second, ...]}, in place of those that occur.
    `like` is a log that was read before: text becomes the same numbers as there, and a value that has none is refused.

    Nothing here can tell whether rows were left out before because of what they contained.
    """
    columns = checked_columns(columns) or None
    before = like.coding if isinstance(like, LoadedLog) else like or Coding(())
    known = {name: coding.values for name, coding in before.encodings.items() if coding.kind != "actions"}
    treatment = Treatment(missing, categorical, categories={**(categories or {}), **known}, like=before.names)
    if actions is None and "actions" in before.encodings:
        actions = before.encodings["actions"].values
    table = read_table(source, trust_pickle=trust_pickle, columns=columns)
    loaded = Assembly(table, columns, treatment, actions, one_step=one_step, episodes=before.episodes).build()
    stated = reading_words(
        columns=columns,
        missing=missing,
        categorical=categorical,
        categories=treatment.categories,
        actions=actions,
        one_step=one_step,
    )
    return replace(loaded, reading=stated)


def read_table(source: Any, *, trust_pickle: bool = False, columns: Given | None = None) -> SourceTable:
    """Named columns of a file or table; `columns` says what some of them mean, which a few formats have to know."""
    return obp.recognized(_read(source, trust_pickle, columns))


def _read(source: Any, trust_pickle: bool, columns: Given | None) -> SourceTable:
    if isinstance(source, str) and source.startswith(minari.PREFIX):
        return minari.read_minari_name(source.removeprefix(minari.PREFIX))
    if isinstance(source, str | Path):
        return _from_path(_home(source), trust_pickle, columns)
    return _from_object(source, "The log", columns)


def _home(source: str | Path) -> Path:
    try:
        return Path(source).expanduser()
    except RuntimeError:  # no such user
        return Path(source)


def _from_object(source: Any, label: str, columns: Given | None) -> SourceTable:
    for fits, reader in _OBJECTS:
        if fits(source):
            return reader(source, label)
    huggingface.refuse_splits(source, label)
    if huggingface.is_dataset(source):
        source = huggingface.dataset_rows(source)
    if isinstance(source, Mapping):
        return read_mapping(source, label)
    if isinstance(source, np.ndarray):
        return read_records(source, label)
    if minari.is_minari_dataset(source):
        return minari.read_minari_dataset(source)
    if hasattr(source, "to_arrow") and not is_arrow_like(source):
        source = source.to_arrow()
    if is_arrow_like(source):
        return _from_frame(source, label, columns)
    raise InvalidInput(
        f"{label} is {kind_of(source)}, which cannot be read. Pass a path, a mapping of arrays by name, or a table "
        "(pandas, polars, pyarrow, datasets)."
    )


def _from_frame(source: Any, label: str, columns: Given | None) -> SourceTable:
    """By Arrow; a table with a column that Arrow cannot take goes column by column, and only those in use must be sound."""
    try:
        return whole_table(to_arrow(source, label), label, columns)
    except InvalidInput:
        names = [name for name in getattr(source, "columns", ()) if isinstance(name, str)]
        if not names or not hasattr(source, "to_numpy"):
            raise
        return SourceTable(
            label,
            tuple(names),
            lambda name: as_column(name, source[name].to_numpy(), label),
            ticks=lambda name: dates(source[name].to_numpy()),
        )


def _from_path(path: Path, trust_pickle: bool, columns: Given | None) -> SourceTable:
    try:
        folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"{one_line(path, 200)} is not a usable path ({one_line(problem, 200)}).") from problem
    if folder:
        return minari.read_minari_folder(path) if minari.is_minari_folder(path) else parquet.read_parquet(path, columns)
    if not exists:
        raise InvalidInput(f"There is no file or folder {one_line(path, 200)}.{near(path)}")
    if path.stat().st_size == 0:
        raise InvalidInput(f"{one_line(path.name)} is empty.")
    name = path.name.lower()
    for suffixes, with_lists in _LISTS.items():
        if name.endswith(suffixes):
            return with_lists(path, columns)
    for suffixes, reader in _FILES.items():
        if name.endswith(suffixes):
            return reader(path)
    if name.endswith(_PICKLES):
        return _from_pickle(path, trust_pickle, columns)
    raise InvalidInput(f"{one_line(path.name)}: the ending is not known. Files that can be read: {', '.join(KNOWN)}.")


def _from_pickle(path: Path, trust_pickle: bool, columns: Given | None) -> SourceTable:
    if not trust_pickle:
        raise InvalidInput(
            f"{one_line(path.name)} is a pickle, which runs code when it is loaded. Save the log as Parquet, CSV or NPZ, or pass "
            "trust_pickle=True (--trust-pickle) if you made the file yourself."
        )
    try:
        with path.open("rb") as file:
            content = pickle.load(file)
    except (Exception, SystemExit) as problem:  # a pickle can raise anything
        raise InvalidInput(
            f"{one_line(path.name)} cannot be unpickled ({type(problem).__name__}: {one_line(problem, 200)})."
        ) from problem
    return _from_object(content, one_line(path.name), columns)
