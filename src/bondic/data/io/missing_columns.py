"""Columns for what a log does not record: ends where every row is an episode, steps for observations, zeros for actions.

Where the target policy's probabilities of the logged actions stand in the log, nothing else has to be known of states and
actions. The log says what stands in for what (`Transitions.unrecorded`), and serves `LoggedTarget` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput, one_line
from bondic.data import _arrays
from bondic.data._arrays import IntArray, numbered
from bondic.data.episodes import EpisodeNumbers, Episodes
from bondic.data.io.encode import Encoded
from bondic.data.io.table import SourceTable

_NOTE = "There is no column for observations: the step within the episode stands in for them, which only LoggedTarget() allows."
NO_ACTIONS = (
    "There is no column for actions: zeros stand in for them, which only LoggedTarget() (--policy logged) allows."
)


def steps_as_observations(source: str, parts: dict[str, Any], rows: int, *, one_step: bool, streamed: bool) -> Encoded:
    """The step of every row as its observation; ids and timesteps are filled in where ends tell them."""
    if one_step:
        steps = np.zeros(rows, dtype=np.int64)
    elif parts["timesteps"] is not None:
        steps = parts["timesteps"]
    elif streamed:
        raise InvalidInput(
            f"{source} has neither observations nor timesteps. A streamed log cannot count steps across its parts: name the "
            "column with the step, columns={'timesteps': 'name'} (--columns timesteps=NAME), or load the log with read_log."
        )
    else:
        steps = _counted(parts, rows)
        parts["timesteps"] = steps
    here = steps.astype(np.float64)[:, None]
    return Encoded(here, here + 1.0, ("step",), {}, (_NOTE,))


def _counted(parts: dict[str, Any], rows: int) -> IntArray:
    """Steps within episodes, which are told apart by their ids, else by their ends."""
    if parts["episode_ids"] is None:
        cut = parts["truncations"]
        parts["episode_ids"] = EpisodeNumbers().counted(parts["terminations"] | (False if cut is None else cut))
    return Episodes(_arrays.identifiers("episode_ids", parts["episode_ids"], rows)).step


UNUSED = ("next_observations", "timesteps")
"""Parts that say nothing in such a log: they are not read."""


def refuse_long_lines(table: SourceTable) -> None:
    """Lines that hold several steps are no episodes of one."""
    if table.longest > 1:
        raise InvalidInput(
            f"{table.source}: one_step=True (--one-step) states that every row is an episode of one step, but its lines are "
            f"episodes of up to {table.longest} steps, with a list entry for each. Leave it out; or make every line one step, "
            "with the sum of the log-probabilities of its steps in place of each list (behavior and target alike)."
        )


def end_every_row(source: str, columns: Mapping[str, tuple[str, ...]], parts: dict[str, Any], rows: int) -> None:
    """Every row terminates, and no row may say otherwise."""
    for part, ends in (("terminations", True), ("truncations", False)):
        if parts[part] is not None and (row := _arrays.first(parts[part] != ends)) is not None:
            raise InvalidInput(
                f"{source}: one_step=True (--one-step) states that every row ends, but column {one_line(columns[part][0])} "
                f"(`{part}`) is {str(not ends).lower()} at row {numbered(row)}. Leave out one_step if rows follow each other, or "
                f"columns={{'{part}': None}} (--columns {part}=none) if that column means something else."
            )
    _refuse_shared_ids(source, columns, parts["episode_ids"], rows)
    parts["terminations"], parts["truncations"] = np.ones(rows, dtype=bool), np.zeros(rows, dtype=bool)
    parts["next_observations"] = np.zeros(np.shape(parts["observations"]))


def _refuse_shared_ids(source: str, columns: Mapping[str, tuple[str, ...]], ids: Any, rows: int) -> None:
    if ids is None:
        return
    codes = _arrays.identifiers("episode_ids", ids, rows)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    earlier = first[inverse.reshape(-1)]
    if (row := _arrays.first(earlier != np.arange(rows))) is not None:
        raise InvalidInput(
            f"{source}: rows {numbered(int(earlier[row]))} and {numbered(row)} have the same id in column "
            f"{one_line(columns['episode_ids'][0])} (`episode_ids`), but one_step=True (--one-step) states that every row is an "
            "episode of its own. Leave out one_step if rows of an episode follow each other; "
            "columns={'episode_ids': None} (--columns episode_ids=none) leaves the ids out."
        )
