"""Columns for what a log does not record: next observations, ends where every row is an episode, steps, zeros for actions.

Next observations: s'_i is the observation in the following row of the same episode. A row with no following row has none. If it
is terminated, none is needed. Otherwise it is left out. That selection keeps the guarantee when it was decided by what was known
before (r_i, s'_i), as time is: an episode cut after a fixed number of steps loses its last row whatever happened in it. It does
not when recording stopped because of what happened in that row (a patient who was moved elsewhere): such rows must be given
their next observation, or their end must be recorded as a termination.

Where the target policy's probabilities of the logged actions stand in the log, nothing else has to be known of states and
actions. The log says what stands in for what (`Transitions.unrecorded`), and serves `LoggedTarget` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, one_line
from bondic.data import _arrays
from bondic.data._arrays import BoolArray, FloatArray, IntArray, numbered
from bondic.data.episodes import EpisodeNumbers, Episodes, out_of_order
from bondic.data.io.encode import Encoded
from bondic.data.io.table import SourceTable
from bondic.errors import ValidityNote

_VALID_ONLY_IF = (
    "The interval is valid only if recording stopped for reasons known before that row, such as time, not because of what "
    "happened in it."
)


@dataclass(frozen=True, eq=False)
class Following:
    """`row[i]` is the row after i in its episode, -1 if there is none; `keep` are the rows that can be used."""

    row: IntArray
    keep: BoolArray
    episode_ids: npt.NDArray[np.generic]
    timesteps: IntArray | None  # counted from the first row of an episode, where the log has no keys of its own
    notes: tuple[str, ...]
    validity_notes: tuple[ValidityNote, ...]  # notes that touch validity

    def take(self, values: FloatArray) -> FloatArray:
        """values at the following rows; NaN where nothing follows."""
        out = values[np.maximum(self.row, 0)].astype(np.float64)
        out[self.row < 0] = np.nan
        return out


def following_rows(
    source: str,
    terminations: BoolArray,
    truncations: BoolArray | None,
    episode_ids: npt.NDArray[np.generic] | None,
    timesteps: IntArray | None,
    *,
    cuts_stated: bool,
) -> Following:
    """Find the row that follows each row. Episodes are identified by their ids, else by their ends."""
    n = terminations.size
    cut = np.zeros(n, dtype=bool) if truncations is None else truncations
    if episode_ids is None and truncations is None and not (cuts_stated or terminations.all()):
        raise InvalidInput(
            f"{source} has no next observations, and it is unknown where episodes were cut off: without episode ids or "
            "truncations a row could be joined to the start of another episode. Give a column for `next_observations`, "
            "`episode_ids` or `truncations`; columns={'truncations': None} (--columns truncations=none) states that no "
            "episode was cut off."
        )
    ends = terminations | cut
    episodes = Episodes(EpisodeNumbers().counted(ends) if episode_ids is None else episode_ids)
    counted = episodes.step if episode_ids is None and timesteps is None else None
    before, after = episodes.pairs
    row = np.full(n, -1, dtype=np.int64)
    row[before[~ends[before]]] = after[~ends[before]]
    _refuse_gaps(source, row, timesteps)
    keep = terminations | (row >= 0)
    if not keep.any():
        raise InvalidInput(f"{source} has no next observations, and no row has a following row in its episode.")
    limited = any(_one_limit(clock, cut & ~keep) for clock in (episodes.step, timesteps) if clock is not None)
    notes, validity_notes = _notes(keep, cut, counted is not None, limited)
    return Following(row, keep, episodes.ids, counted, notes, validity_notes)


def _refuse_gaps(source: str, row: IntArray, timesteps: IntArray | None) -> None:
    if timesteps is None:
        return
    here = np.flatnonzero(row >= 0)
    back = here[timesteps[row[here]] < timesteps[here]]
    if back.size:
        i = int(back[0])
        raise out_of_order(int(row[i]), int(timesteps[row[i]]), i, int(timesteps[i]))
    odd = here[timesteps[row[here]] != timesteps[here] + 1]
    if odd.size:
        i = int(odd[0])
        raise InvalidInput(
            f"{source} has no next observations, and row {i} (timestep {timesteps[i]}) is followed by row {row[i]} (timestep "
            f"{timesteps[row[i]]}) of its episode: what came right after row {i} is not recorded. Give `next_observations`; a "
            "row that was left out because of what it contains would break the guarantee."
        )


def _one_limit(clock: IntArray, cut: BoolArray) -> bool:
    """Whether every cut came at the same time, one that no row is beyond: a limit that was set beforehand looks so."""
    return bool(cut.any() and np.all(clock[cut] == clock.max()))


def _notes(
    keep: BoolArray, cut: BoolArray, counted: bool, limited: bool
) -> tuple[tuple[str, ...], tuple[ValidityNote, ...]]:
    notes = ["Next observations were taken from the following row of the same episode."]
    if counted:
        notes.append("Episode ids and timesteps were counted from the ends of episodes.")
    dropped, unmarked = int((~keep).sum()), int((~keep & ~cut).sum())
    validity_notes: list[ValidityNote] = []
    if dropped - unmarked and limited:
        notes.append(
            f"{dropped - unmarked} truncated rows have no next observation and were left out. All were cut at the same step, "
            "beyond which no episode goes. An episode that is cut after a fixed time loses its last row whatever happened in "
            "it, so this selection is harmless: it depends on time only."
        )
    elif dropped - unmarked:
        validity_notes.append(
            ValidityNote(
                f"{dropped - unmarked} truncated rows (first: row {int(np.flatnonzero(~keep & cut)[0])}) have no next "
                f"observation and were left out. They were cut at different steps. {_VALID_ONLY_IF}"
            )
        )
    if unmarked:
        validity_notes.append(
            ValidityNote(
                f"{unmarked} rows end an episode (or the log) without being terminated or truncated (first: row "
                f"{int(np.flatnonzero(~keep & ~cut)[0])}); they have no next observation and were left out. {_VALID_ONLY_IF}"
            )
        )
    return tuple(notes), tuple(validity_notes)


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
    """Steps within episodes, which are identified by their ids, else by their ends."""
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
