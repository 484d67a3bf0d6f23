"""What the options say about reading: the log (whole, or in batches within a memory budget) and a file of initial states."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.data.initial import InitialStates
from bondic.data.io.loaded import Coding, LoadedLog
from bondic.data.io.read import read_log
from bondic.data.io.states import read_states
from bondic.data.io.words import categories_of, columns_of, missing_of
from bondic.data.log import Log
from bondic.data.open import stream_log
from bondic.data.stream import LogStream
from bondic.data.transitions import Transitions

SAMPLE = "sample:"
"""Before the name of a file of initial states that are draws."""


def read_rows(
    log: str,
    options: Mapping[str, Any],
    progress: Callable[[float], None] | None = None,
    like: Coding | None = None,
) -> tuple[Transitions | LogStream, LoadedLog | None]:
    """The log, and how it was understood (None for a log in batches); `like` is how an earlier part of it was."""
    columns = columns_of(options["columns"])
    if options.get("memory"):
        return _stream(log, columns, options, progress), None
    loaded = read_log(
        log,
        columns=columns or None,
        missing=missing_of(options["missing"]),
        categorical=options["text"],
        actions=options["actions"],
        one_step=options["one_step"],
        trust_pickle=options["trust_pickle"],
        categories=categories_of(options["categories"]),
        like=like,
    )
    return loaded.transitions, loaded


def _stream(
    log: str, columns: dict[str, Any], options: Mapping[str, Any], progress: Callable[[float], None] | None
) -> LogStream:
    if options["missing"] or options["text"] or options["categories"]:
        raise InvalidInput("--missing, --text and --categories need the log in memory: leave out --memory.")
    given = {name: options[name] for name in ("memory", "actions", "one_step")}
    return stream_log(Path(log), columns=columns or None, progress=progress, **given)


def read_initial(path: Path, log: Log, loaded: LoadedLog | None) -> tuple[Any, Any]:
    """(states, weights or None) of a file, with the dimensions of the log; one state may be written out, as in 36 or 0.5,2."""
    if (state := _written_out(path)) is not None:
        if len(state) != log.observation_dim:
            raise InvalidInput(
                f"--initial {path} is a state of {len(state)} numbers (there is no such file); states of the log have "
                f"{log.observation_dim}."
            )
        return np.array([state]), None
    return read_states(path, () if loaded is None else loaded.names, log.observation_dim)


def stated_initial(text: str | None, log: Log, loaded: LoadedLog | None) -> InitialStates | None:
    """The initial distribution of --initial: exact, or a sample of it; None where nothing is said."""
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


def _written_out(path: Path) -> list[float] | None:
    """Numbers with commas between them, where no file has that name."""
    try:
        state = [float(word) for word in str(path).split(",")]
    except ValueError:
        return None
    return None if path.exists() or not all(map(math.isfinite, state)) else state


def stated_gamma(options: Mapping[str, Any], loaded: LoadedLog | None = None) -> float:
    """The discount; that of steps which do not exist need not be stated."""
    if one_step(options, loaded):
        return 0.0
    if options["gamma"] is not None:
        return float(options["gamma"])
    raise InvalidInput(
        "--gamma is missing: the discount of later rewards, in [0, 1). With --one-step it is not needed."
    )
