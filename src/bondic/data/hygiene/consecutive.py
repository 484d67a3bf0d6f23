"""A log part by part, as episodes: which row follows which, which rows begin an episode, which end one.

Episodes are identified by their ids; without ids, a row after an end begins a new one, and so does a row whose timestep
does not grow. What is carried from part to part is the last row of every episode of the part before, and a few numbers for
every episode of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bondic.data._arrays import BoolArray, FloatArray, IntArray
from bondic.data.episodes import EpisodeNumbers, Episodes
from bondic.data.hygiene.marks import Marks, placed, row_marks

if TYPE_CHECKING:
    from bondic.data.transitions import Transitions


@dataclass(frozen=True, eq=False)
class EpisodeRows:
    """Columns that the checks compare; `number` is the row's place in the log."""

    observations: FloatArray
    following: FloatArray
    rewards: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    ids: IntArray
    times: IntArray | None
    number: IntArray

    def take(self, index: IntArray) -> EpisodeRows:
        columns: dict[str, Any] = {name: None if mine is None else mine[index] for name, mine in vars(self).items()}
        return EpisodeRows(**columns)

    def after(self, earlier: EpisodeRows | None) -> EpisodeRows:
        """The rows of `earlier`, then these."""
        if earlier is None:
            return self
        columns: dict[str, Any] = {
            name: None if mine is None else np.concatenate([getattr(earlier, name), mine])
            for name, mine in vars(self).items()
        }
        return EpisodeRows(**columns)


@dataclass(frozen=True, eq=False)
class ConsecutiveRows:
    """`before[k]` and `after[k]` are consecutive rows of one episode; `starts` are first rows, `last` the last seen so far."""

    rows: EpisodeRows  # carried rows first
    before: IntArray
    after: IntArray
    starts: IntArray
    fresh: IntArray  # rows of this part, without the carried ones
    marks: Marks  # of all their numbers, one per fresh row
    states: Marks  # of the states alone
    discrete: bool


class EpisodeIndex:
    """Turns parts of a log into `ConsecutiveRows`s, and keeps length, content mark and end of every episode."""

    def __init__(self) -> None:
        self.has_ids = False
        self.ids: IntArray = np.zeros(0, dtype=np.int64)  # in the order of first appearance
        self.lengths: IntArray = np.zeros(0, dtype=np.int64)
        self.ends: npt.NDArray[np.int8] = np.zeros(0, dtype=np.int8)  # 0 open, 1 terminated, 2 truncated
        self.contents: Marks = np.zeros(0, dtype=np.uint64)
        self.returns: FloatArray = np.zeros(0)  # sums of rewards, and of actions where they are numbers of actions
        self.acts: FloatArray = np.zeros(0)
        self.first_rows: IntArray = np.zeros(0, dtype=np.int64)
        self._sorted: IntArray = np.zeros(0, dtype=np.int64)  # order of ids by value
        self._carried: EpisodeRows | None = None
        self._numbers = EpisodeNumbers(by_time=True)

    def part(self, log: Transitions, first_row: int) -> ConsecutiveRows:
        """The next rows of the log."""
        assert log.truncations is not None
        self.has_ids = log.episode_ids is not None
        ids = self._numbers.of(log)
        fresh = EpisodeRows(
            log.observations, log.next_observations, log.rewards, log.terminations, log.truncations, ids, log.timesteps,
            first_row + np.arange(len(log), dtype=np.int64),
        )  # fmt: skip
        rows = fresh.after(self._carried)
        offset = len(rows.ids) - len(ids)
        episodes = Episodes(rows.ids)
        states, marks = row_marks(log)
        sums = {"returns": log.rewards, "acts": log.actions if log.discrete_actions else np.zeros(len(log))}
        starts = self._register(ids, marks, sums, fresh)
        last = np.sort(episodes.last)
        self._carried = rows.take(last[last >= offset])
        return ConsecutiveRows(  # pairs of two carried rows do not exist: one row per episode is carried
            rows, *episodes.pairs, starts + offset,
            offset + np.arange(len(ids), dtype=np.int64), marks, states, bool(log.discrete_observations),
        )  # fmt: skip

    def _register(
        self, ids: IntArray, marks: Marks, sums: Mapping[str, npt.NDArray[Any]], rows: EpisodeRows
    ) -> IntArray:
        """Update the episodes; returns the rows of this part that begin one."""
        known, episodes = self.ids[self._sorted], Episodes(ids)
        here = ids[episodes.first]
        place = np.searchsorted(known, here)
        old = np.zeros(here.size, dtype=bool)
        inside = place < known.size
        old[inside] = known[place[inside]] == here[inside]
        starts = episodes.first[~old]
        if starts.size:
            self.ids = np.concatenate([self.ids, ids[starts]])
            self.first_rows = np.concatenate([self.first_rows, rows.number[starts]])
            for name in ("lengths", "ends", "contents", *sums):
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros(starts.size, dtype=column.dtype)]))
            self._sorted = np.argsort(self.ids, kind="stable")
            place = np.searchsorted(self.ids[self._sorted], here)
        slot = self._sorted[place]  # (episodes here,)
        mine = slot[episodes.number]  # (rows,)
        np.add.at(self.contents, mine, placed(marks, self.lengths[mine] + episodes.step))
        for name, added in sums.items():
            np.add.at(getattr(self, name), mine, added)
        self.lengths[mine[episodes.last]] += episodes.lengths
        last = episodes.last
        self.ends[mine[last]] = np.where(rows.terminated[last], 1, np.where(rows.truncated[last], 2, 0))
        return starts
