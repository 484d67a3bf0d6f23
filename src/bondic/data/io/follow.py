"""Next observations that were not recorded: s'_i is the observation in the following row of the same episode.

A row with no following row has no next observation. If it is terminated, none is needed. Otherwise it is left out.
That selection keeps the guarantee when it was decided by what was known before (r_i, s'_i), as time is: an episode cut
after a fixed number of steps loses its last row whatever happened in it. It does not when recording stopped because
of what happened in that row (a patient who was moved elsewhere): such rows must be given their next observation, or
their end must be recorded as a termination.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.errors import Doubt, InvalidInput
from bondic.data._arrays import BoolArray, FloatArray, IntArray
from bondic.data.episodes import EpisodeNumbers, Episodes
from bondic.data.keys import out_of_order

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
    doubts: tuple[Doubt, ...]  # notes that touch validity

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
    """Find the row that follows each row. Episodes are told apart by their ids, else by their ends."""
    n = terminations.size
    cut = np.zeros(n, dtype=bool) if truncations is None else truncations
    if episode_ids is None and truncations is None and not (cuts_stated or terminations.all()):
        raise InvalidInput(
            f"{source} has no next observations, and nothing tells where episodes that were cut off end: without episode ids or "
            "truncations a row could be joined to the start of another episode. Give a column for `next_observations`, "
            "`episode_ids` or `truncations`; columns={'truncations': None} (--columns truncations=none) states that no episode "
            "was cut off."
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
    notes, doubts = _notes(keep, cut, counted is not None, limited)
    return Following(row, keep, episodes.ids, counted, notes, doubts)


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


def _notes(keep: BoolArray, cut: BoolArray, counted: bool, limited: bool) -> tuple[tuple[str, ...], tuple[Doubt, ...]]:
    notes = ["Next observations were taken from the following row of the same episode."]
    if counted:
        notes.append("Episode ids and timesteps were counted from the ends of episodes.")
    dropped, unmarked = int((~keep).sum()), int((~keep & ~cut).sum())
    doubts: list[Doubt] = []
    if dropped - unmarked and limited:
        notes.append(
            f"{dropped - unmarked} truncated rows have no next observation and were left out. All were cut at the same step, "
            "beyond which no episode goes. An episode that is cut after a fixed time loses its last row whatever happened in "
            "it, so this selection is harmless: it depends on time only."
        )
    elif dropped - unmarked:
        doubts.append(
            Doubt(
                f"{dropped - unmarked} truncated rows (first: row {int(np.flatnonzero(~keep & cut)[0])}) have no next "
                f"observation and were left out. They were cut at different steps. {_VALID_ONLY_IF}"
            )
        )
    if unmarked:
        doubts.append(
            Doubt(
                f"{unmarked} rows end an episode (or the log) without being terminated or truncated (first: row "
                f"{int(np.flatnonzero(~keep & ~cut)[0])}); they have no next observation and were left out. {_VALID_ONLY_IF}"
            )
        )
    return tuple(notes), tuple(doubts)
