"""What the options say about reading: the log (whole, or in batches within a memory budget), names, initial states."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput, one_line
from bondic.data.initial import InitialStates
from bondic.data.io.formats import FORMATS
from bondic.data.io.loaded import Coding, Encoding, LoadedLog, source_columns
from bondic.data.io.parts import with_propensity
from bondic.data.io.read import read_log, read_states
from bondic.data.io.scan import list_files
from bondic.data.log import Log
from bondic.data.names import MAY_BE_ABSENT
from bondic.data.open import stream_log
from bondic.data.stream import LogStream
from bondic.data.transitions import Transitions
from bondic.errors import did_you_mean, shown

SAMPLE = "sample:"
"""Before the name of a file of initial states that are draws."""
_EVERY, _NONE = "obs", "none"
"""What --categorical calls all observation columns, and no one of them."""
_BUDGET = "2GB"
"""Memory of a log that is read in batches, by default."""
LARGE = 2**28
"""Bytes of files from which on a log is read in batches, if it can be."""
MANY_DECISIONS = 2**24
"""The same of single decisions: every row is a start, and a certificate of a log in memory holds all starts and answers."""


# --- rows ---------------------------------------------------------------------------------------------


def reading_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the options say about reading a log, as arguments of `read_log`; nothing where they say nothing."""
    ways, lists = ([item for item in options["text"] if ("=" in item) == listed] for listed in (False, True))
    if len(ways) > 1 or not set(ways) <= {"one-hot", "codes"}:
        raise InvalidInput(
            f"--text {one_line(ways[-1])}: one-hot, codes, or COLUMN=NAME,NAME,... is needed, each once."
        )
    stated = {
        "columns": with_propensity(_columns(options["columns"]), _propensity(options["propensity"])),
        "missing": _missing(options["missing"]),
        "categorical": ways[0] if ways else None,
        "categories": _categories(lists),
        "actions": options["actions"],
        "one_step": options["one_step"],
    }
    return {name: value for name, value in stated.items() if value}


def read_rows(
    log: str,
    options: Mapping[str, Any],
    progress: Callable[[float], None] | None = None,
    like: Coding | None = None,
    reading: Mapping[str, Any] | None = None,
    most: float = math.inf,
) -> tuple[Transitions | LogStream, LoadedLog | None]:
    """The log, and how it was understood (None for a log in batches); `like` is how an earlier part of it was.

    `reading` are arguments of `read_log` in place of what the options say; files of more than `most` bytes are read in batches,
    if they can be.
    """
    stated = reading_options(options) if reading is None else reading
    batches = stated.keys() <= {"columns", "actions", "one_step"}
    memory = options.get("memory") or (_BUDGET if elsewhere(options) else None)
    if memory is None and batches and "columns" not in _policies(options) and _larger(Path(log), most):
        with contextlib.suppress(InvalidInput):  # what needs all rows at once: they are read as a whole
            return stream_log(Path(log), progress=progress, memory=_BUDGET, **stated), None
    if memory is None:
        loaded = read_log(log, trust_pickle=options["trust_pickle"], like=like, **stated)
        return loaded.transitions, loaded
    if not batches:
        raise InvalidInput("--missing and --text need the log in memory: leave out --with memory.")
    return stream_log(Path(log), progress=progress, memory=memory, **stated), None


def _policies(options: Mapping[str, Any]) -> tuple[Any, ...]:
    return options.get("policy"), *(options.get("policies") or ())


def most_bytes_held(options: Mapping[str, Any]) -> float:
    """Of the files of a log from which an interval is made."""
    return MANY_DECISIONS if options["one_step"] else LARGE


def _larger(path: Path, most: float) -> bool:
    """Whether files that can be read in batches take more bytes."""
    try:
        files, _, _ = list_files(path)
    except InvalidInput:  # no such file, or another format: reported where it is read
        return False
    return any(form.fits(files[0]) for form in FORMATS) and sum(file.stat().st_size for file in files) > most


def _columns(items: Sequence[str]) -> dict[str, str | list[str] | None]:
    """("observations=x,y", "terminations=none") -> {"observations": ["x", "y"], "terminations": None}."""
    out: dict[str, str | list[str] | None] = {}
    for item in items:
        part, sign, names = (word.strip() for word in item.partition("="))
        if not sign or not part or not names:
            raise InvalidInput(f"--columns {item}: write PART=COLUMN, or PART=COLUMN,COLUMN,... for several.")
        if part in out:
            raise InvalidInput(f"--columns {part} is given twice. Name all its columns at once: PART=COLUMN,COLUMN,...")
        group = [name.strip() for name in names.split(",")]
        absent = part in MAY_BE_ABSENT and names.lower() == "none"
        out[part] = None if absent else group[0] if len(group) == 1 else group
    return out


def _propensity(text: str | None) -> str | float | dict[str, float] | None:
    """A column, 0.5, or A=0.3,B=0.7."""
    if text is None:
        return None
    try:
        pairs = [item.rpartition("=") for item in text.split(",")] if "=" in text else []
        return {name.strip(): float(number) for name, _, number in pairs} or float(text)
    except ValueError:
        return text


def _categories(items: Sequence[str]) -> dict[str, list[str]]:
    """("color=red,blue",) -> {"color": ["red", "blue"]}."""
    out: dict[str, list[str]] = {}
    for item in items:
        name, sign, values = (word.strip() for word in item.partition("="))
        if not sign or not name or name in out:
            raise InvalidInput(f"--text {item}: write COLUMN=FIRST,SECOND,... once for every column.")
        out[name] = [value.strip() for value in values.split(",")]
    return out


def _missing(items: Sequence[str]) -> Any:
    """("indicator",) -> "indicator"; ("bmi=25",) -> {"bmi": 25.0}; () -> None."""
    if not items or list(items) == ["indicator"]:
        return items[0] if items else None
    out: dict[str, float] = {}
    for item in items:
        name, sign, value = (word.strip() for word in item.rpartition("="))  # names may hold "=": values never do
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not sign or not name or not math.isfinite(number) or name in out:
            raise InvalidInput(
                f"--missing {item}: write `indicator` alone, or COLUMN=NUMBER once for every column with gaps."
            )
        out[name] = number
    return out


def stated_columns(
    options: Mapping[str, Any], loaded: LoadedLog | None, dimension: int
) -> bool | tuple[int, ...] | None:
    """Which observation columns hold names: all, none, or their numbers; None by default.

    Text columns of the log always hold names.
    """
    words: Sequence[str] = options["categorical"]
    names = () if loaded is None else loaded.names
    if not words:
        return _coded(loaded, names, dimension)
    if _NONE in words and _NONE not in names:
        if len(words) > 1:
            raise InvalidInput(
                f"--categorical {_NONE} says that no column holds names, and another that one does. Keep one of them."
            )
        return False
    if _EVERY in words and _EVERY not in names:
        return True
    return tuple(sorted({_column(word, names, dimension) for word in words}))


def _column(word: str, names: Sequence[str], dimension: int) -> int:
    """A name of a column, or else its number from 0."""
    if word in names:
        return names.index(word)
    if word.isdecimal() and int(word) < dimension:
        return int(word)
    known = f"observations have the columns {shown(tuple(names))}" if names else "columns have no names here"
    raise InvalidInput(
        f"--categorical {one_line(word)} is no observation column: {known}; their numbers are 0 to {dimension - 1}, "
        f"{_EVERY} means all of them, {_NONE} none.{did_you_mean(word, names)}"
    )


def _coded(loaded: LoadedLog | None, names: Sequence[str], dimension: int) -> bool | tuple[int, ...] | None:
    """Columns that were text and became codes 0, 1, ...: nothing relates them but equality."""
    codings = {} if loaded is None else loaded.encodings
    coded = {name for coding in codings.values() if coding.kind == "codes" for name in coding.columns}
    columns = tuple(index for index, name in enumerate(names) if name in coded)
    return (True if len(columns) == dimension else columns) if columns else None


# --- question -----------------------------------------------------------------------------------------


def read_initial(path: Path, log: Log, loaded: LoadedLog | None) -> tuple[Any, Any]:
    """(states, weights or None) of a file, with the dimensions of the log; one state may be written out: 36, or good,2."""
    names, encodings = ((), {}) if loaded is None else (loaded.names, loaded.encodings)
    if not path.exists() and (words := _in_words(path, names, encodings)) is not None:
        return read_states(words, names, log.observation_dim, encodings)
    if (state := _written_out(path)) is not None:
        if len(state) != log.observation_dim:
            raise InvalidInput(
                f"--initial {path} is a state of {len(state)} numbers (there is no such file); states of the log have "
                f"{log.observation_dim}."
            )
        return np.array([state]), None
    return read_states(path, names, log.observation_dim, encodings)


def _in_words(path: Path, names: Sequence[str], encodings: Mapping[str, Encoding]) -> dict[str, Any] | None:
    """One state with text, by column; None where this is no state of the log."""
    values = {name: coding.values for name, coding in encodings.items() if coding.kind != "actions"}
    columns, words = source_columns(names, encodings), str(path).split(",")
    if not values or len(words) != len(columns):
        return None
    state: dict[str, Any] = {}
    for name, word in zip(columns, words, strict=True):
        if name in values and word not in values[name]:
            raise InvalidInput(
                f"--initial {one_line(path, 200)}: there is no such file, and no such state, since {one_line(name)} is one of "
                f"{shown(values[name])}.{did_you_mean(word, values[name])}"
            )
        try:
            state[name] = np.array([word if name in values else float(word)])
        except ValueError:
            return None
    return state


def _written_out(path: Path) -> list[float] | None:
    """Numbers with commas between them, where no file has that name."""
    try:
        state = [float(word) for word in str(path).split(",")]
    except ValueError:
        return None
    return None if path.exists() or not all(map(math.isfinite, state)) else state


def stated_initial(text: str | None, log: Log, loaded: LoadedLog | None) -> InitialStates | None:
    """The initial distribution of --initial: exact, or a sample of it; None by default."""
    if text is None:
        return None
    path = Path(text.removeprefix(SAMPLE))
    states, weights = read_initial(path, log, loaded)
    if not text.startswith(SAMPLE):
        return InitialStates.exact(states, weights)
    if weights is not None:
        raise InvalidInput(f"{path} has weights; independent draws have none. Drop them, or {SAMPLE}.")
    return InitialStates.sample(states)


def one_step(options: Mapping[str, Any], loaded: LoadedLog | None = None) -> bool:
    """Whether it was stated, or is known of the format, that every row is an episode of its own."""
    return bool(options["one_step"] or (loaded is not None and loaded.one_step))


def stated_gamma(options: Mapping[str, Any], loaded: LoadedLog | None = None) -> float:
    """The discount; that of steps which do not exist need not be stated."""
    if one_step(options, loaded):
        return 0.0
    if options["gamma"] is not None:
        return float(options["gamma"])
    raise InvalidInput(
        "--gamma is missing: the discount of later rewards, in [0, 1). With --one-step it is not needed."
    )


def elsewhere(options: Mapping[str, Any]) -> bool:
    """Whether rows are worked on by other processes, which read them part by part: the log is not held here."""
    return (options.get("executor") or "").partition("://")[0] in ("dask", "processes")
