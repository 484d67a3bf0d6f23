"""read_log: any supported file or table as a log, with notes on what was understood."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput, one_line
from bondic.data._arrays import FloatArray
from bondic.data.io import jsonl, minari, scan
from bondic.data.io.arrow import arrays_table, is_arrow_like, to_arrow
from bondic.data.io.assemble import Assembly
from bondic.data.io.encode import Categorical, Missing, Treatment
from bondic.data.io.formats import FORMATS
from bondic.data.io.loaded import Coding, Encoding, LoadedLog, source_columns
from bondic.data.io.mapping import read_mapping, read_npz, read_records
from bondic.data.io.parts import Given, known_actions, with_propensity
from bondic.data.io.per_episode import whole_table
from bondic.data.io.table import SourceTable
from bondic.data.names import ALIASES, match_one, natural
from bondic.errors import did_you_mean, kind_of, shown
from bondic.modules import load_pickle

_PICKLES = (".pkl", ".pickle")
_FILES: dict[tuple[str, ...], Callable[[Path, Given | None], SourceTable]] = {
    **{form.endings: scan.read_files for form in FORMATS},
    jsonl.SUFFIXES: jsonl.read_jsonl,
    (".npz", ".npy"): lambda path, _: read_npz(path),
}
KNOWN = tuple(ending for endings in _FILES for ending in endings)
_OPEN_BANDIT = {"item_id": "actions", "click": "rewards", "propensity_score": "behavior_action_probs"}


def read_log(
    source: Any,
    *,
    columns: Given | None = None,
    missing: Missing = None,
    categorical: Categorical | Mapping[str, Categorical] | None = None,
    actions: Sequence[str | int] | int | None = None,
    propensity: str | float | Mapping[str, float] | None = None,
    one_step: bool = False,
    trust_pickle: bool = False,
    categories: Mapping[str, Sequence[str]] | None = None,
    like: LoadedLog | Coding | None = None,
) -> LoadedLog:
    """Read a log into memory.

    Whether rows were left out earlier because of what they contained cannot be checked here; such a selection breaks the
    guarantee.

    Parameters
    ----------
    source : path, table or mapping
        Parquet, CSV or Feather (a file, a folder or a pattern of parts), JSON lines, NPZ; minari:NAME; a
        table (pandas, polars, pyarrow: anything with an Arrow stream); a mapping of arrays.
    columns : mapping, default None
        Part of a transition -> column, where names are unusual: {"rewards": "payoff", "observations": ["age", "lab_*"]}.
        {"truncations": None} (or terminations) states that the log has none, {"observations": None} that policies know no state.
    missing : "indicator" or {column: value}, default None
        What to do with gaps in observations: fill 0, or your value, and add a 0/1 column that marks them. None: refuse gaps.
    categorical : "one-hot" or "codes", default None
        How text in observations becomes numbers, for all columns or per column {column: how}. None: one-hot.
    actions : sequence or int, default None
        Names of text actions in the order of their numbers, actions that were never taken included; or the number of actions.
        None: the names that occur, sorted.
    propensity : str, float or {action: float}, default None
        Probabilities with which the logged actions were taken: their column, the probability of every action (0.5 for two arms
        that are equally likely), or one for each, {"A": 0.3, "B": 0.7}. None: a column of a usual name, if there is one.
    one_step : bool, default False
        States that every row is an episode of its own (a bandit log): next observations and ends are not needed.
    trust_pickle : bool, default False
        Whether pickled files, which run code when they are loaded, may be read.
    categories : {column: [first, second, ...]}, default None
        All values that a text column may have. None: those that occur.
    like : LoadedLog, default None
        A log that was read before: text gets the same numbers as there, and a new value is refused.
    """
    columns = with_propensity(columns, propensity) or None
    before = like.coding if isinstance(like, LoadedLog) else like or Coding(())
    known = {name: coding.values for name, coding in before.encodings.items() if coding.kind != "actions"}
    treatment = Treatment(missing, categorical, categories={**(categories or {}), **known}, like=before.names)
    if actions is None and "actions" in before.encodings:
        actions = before.encodings["actions"].values
    table = read_table(source, trust_pickle=trust_pickle, columns=columns)
    loaded = Assembly(table, columns, treatment, actions, one_step=one_step, episodes=before.episodes).build()
    stated = {
        "columns": columns,
        "missing": missing,
        "categorical": categorical,
        "categories": treatment.categories,
        "actions": known_actions(actions),
        "one_step": one_step,
    }
    return replace(loaded, reading={name: value for name, value in stated.items() if value})


def read_table(source: Any, *, trust_pickle: bool = False, columns: Given | None = None) -> SourceTable:
    """Named columns of a file or table; `columns` says what some of them mean, which a few formats have to know."""
    return _open_bandit(_read(source, trust_pickle, columns))


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
    if isinstance(source, Mapping):
        return read_mapping(source, label)
    if isinstance(source, np.ndarray):
        return read_records(source, label)
    if minari.is_minari_dataset(source):
        return minari.read_minari_dataset(source)
    if hasattr(source, "collect_schema") and hasattr(source, "collect"):  # a lazy frame of polars
        source = source.collect()
    if is_arrow_like(source):
        return _from_frame(source, label, columns)
    raise InvalidInput(
        f"{label} is {kind_of(source)}, which cannot be read. Pass a path, a mapping of arrays by name, or a table "
        "(pandas, polars, pyarrow, anything with an Arrow stream). The page on logs has a few lines for replay buffers and "
        "datasets of other libraries."
    )


def _from_frame(source: Any, label: str, columns: Given | None) -> SourceTable:
    """By Arrow; a table with a column that Arrow cannot take goes column by column, and only those in use must be sound."""
    try:
        return whole_table(to_arrow(source, label), label, columns)
    except InvalidInput:
        names = [name for name in getattr(source, "columns", ()) if isinstance(name, str)]
        if not names or not hasattr(source, "to_numpy"):
            raise
        return arrays_table(label, {name: source[name].to_numpy() for name in names})


def _from_path(path: Path, trust_pickle: bool, columns: Given | None) -> SourceTable:
    try:
        folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"{one_line(path, 200)} is not a usable path ({one_line(problem, 200)}).") from problem
    if not exists or folder:
        return scan.read_files(path, columns)
    if path.stat().st_size == 0:
        raise InvalidInput(f"{one_line(path.name)} is empty.")
    name = path.name.lower()
    for suffixes, reader in _FILES.items():
        if name.endswith(suffixes):
            return reader(path, columns)
    if name.endswith(_PICKLES):
        return _from_pickle(path, trust_pickle, columns)
    raise InvalidInput(
        f"{one_line(path.name)}: the ending is not known. Files that can be read: {', '.join(KNOWN)}. For HDF5, Vowpal Wabbit "
        "and other libraries the page on logs has a few lines."
    )


def _from_pickle(path: Path, trust_pickle: bool, columns: Given | None) -> SourceTable:
    if not trust_pickle:
        raise InvalidInput(
            f"{one_line(path.name)} is a pickle, which runs code when it is loaded. Save the log as Parquet, CSV or NPZ, or pass "
            "trust_pickle=True (--with trust_pickle=yes) if you made the file yourself."
        )
    return _from_object(load_pickle(path), one_line(path.name), columns)


def _open_bandit(table: SourceTable) -> SourceTable:
    """A table with the columns of the Open Bandit Dataset, understood as such; others as they are."""
    features = tuple(sorted((name for name in table.names if name.startswith("user_feature_")), key=natural))
    if not features or table.groups or not set(table.names) >= {"timestamp", "position", *_OPEN_BANDIT}:
        return table
    groups = {part: (name,) for name, part in _OPEN_BANDIT.items()} | {"observations": (*features, "position")}
    note = (
        f"{one_line(table.source)} has the columns of the Open Bandit Dataset: item_id is the action, click the reward, "
        "propensity_score the behavior's probability; user features and position are observed; every row ends."
    )
    return replace(table, groups=groups, notes=(*table.notes, note), one_step=True)


_WEIGHTS = ("weight", "weights", "probability", "probabilities", "prob", "p")


def read_states(
    source: Any, names: Sequence[str], dimension: int, encodings: Mapping[str, Encoding] | None = None
) -> tuple[FloatArray, FloatArray | None]:
    """(states (n_0, d), weights (n_0,) or None) of a file, or of columns by name.

    Columns are those of the log's observations by name, else a list or numbered columns under a usual name for
    observations, else all columns in order besides the weights. Text becomes numbers as in the log, by `encodings`.
    """
    table = read_table(source)
    lower = {name.lower(): name for name in table.names}
    encodings = {name: coding for name, coding in (encodings or {}).items() if coding.kind != "actions"}
    known, codings = source_columns(names, encodings), dict[str, Encoding]()
    weight = next((lower[name] for name in _WEIGHTS if name in lower and lower[name] not in known), None)
    others = [name for name in table.names if name != weight]
    if names and all(name in others for name in names):
        chosen: Sequence[str] = names
    elif names and all(name in others for name in known):
        chosen = known
    else:
        chosen = match_one("observations", ALIASES["observations"], others) or others
    if len(chosen) == len(known) and (
        chosen != names or known == tuple(names)
    ):  # else: lists, or 0/1 columns written out
        codings = {name: encodings[of] for name, of in zip(chosen, known, strict=True) if of in encodings}
    parts = [_numbers(table, name, codings.get(name)) for name in chosen]
    states = np.column_stack(parts) if parts else np.zeros((0, 0))
    if states.shape[1] != dimension:
        raise InvalidInput(
            f"{table.source}: initial states have {states.shape[1]} dimension(s) ({one_line(', '.join(chosen), 120)}), the "
            f"log's observations {dimension}. They need the columns of the observations, one row per state."
        )
    return states, None if weight is None else _numbers(table, weight).ravel()


def _numbers(table: SourceTable, name: str, coding: Encoding | None = None) -> FloatArray:
    column = table.load(name)
    if (row := column.first_gap) is not None:
        raise InvalidInput(f"{table.source}: column {one_line(name)} is missing at row {row}. States must be complete.")
    if coding is not None and (column.text or coding.kind == "one-hot"):
        return _coded(table, name, list(map(str, column.values.ravel().tolist())), coding)
    if column.text:
        raise InvalidInput(
            f"{table.source}: column {one_line(name)} holds text; in the log's observations it is numbers."
        )
    return np.asarray(column.values, dtype=np.float64).reshape(len(column.values), -1)


def _coded(table: SourceTable, name: str, texts: list[str], coding: Encoding) -> FloatArray:
    """Text as the log's observations have it: 0/1 columns, or codes."""
    place = {value: code for code, value in enumerate(coding.values)}
    if (row := next((row for row, text in enumerate(texts) if text not in place), None)) is not None:
        raise InvalidInput(
            f"{table.source}: column {one_line(name)} is {one_line(repr(texts[row]))} at row {row}, which the log's "
            f"observations never are: {shown(coding.values)}.{did_you_mean(texts[row], coding.values)}"
        )
    codes = np.array([place[text] for text in texts], dtype=np.int64)
    return np.eye(len(place))[codes] if coding.kind == "one-hot" else codes.astype(np.float64)[:, None]
