"""A log part by part, as episodes: which row follows which, which rows begin an episode, which end one.

Episodes are told apart by their ids; without ids, a row after an end begins a new one, and so does a row whose timestep
does not grow. What is carried from part to part is the last row of every episode of the part before, and a few numbers for
every episode of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bondic.data.hygiene.marks import Marks, fingerprints, placed, state_marks

if TYPE_CHECKING:
    from bondic.data.transitions import Transitions

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class WalkedRows:
    """Columns that the checks compare; `number` is the row's place in the log."""

    observations: FloatArray
    following: FloatArray
    rewards: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    ids: IntArray
    times: IntArray | None
    number: IntArray

    def take(self, index: IntArray) -> WalkedRows:
        columns: dict[str, Any] = {name: None if mine is None else mine[index] for name, mine in vars(self).items()}
        return WalkedRows(**columns)

    def after(self, earlier: WalkedRows | None) -> WalkedRows:
        """The rows of `earlier`, then these."""
        if earlier is None:
            return self
        columns: dict[str, Any] = {
            name: None if mine is None else np.concatenate([getattr(earlier, name), mine])
            for name, mine in vars(self).items()
        }
        return WalkedRows(**columns)


@dataclass(frozen=True, eq=False)
class WalkedPart:
    """`before[k]` and `after[k]` are consecutive rows of one episode; `starts` are first rows, `last` the last seen so far."""

    rows: WalkedRows  # carried rows first
    before: IntArray
    after: IntArray
    starts: IntArray
    fresh: IntArray  # rows of this part, without the carried ones
    marks: Marks  # of all their numbers, one per fresh row
    paths: Marks  # of state, action and next state alone; of all numbers where states are discrete
    discrete: bool


class Walk:
    """Turns parts of a log into `WalkedPart`s, and keeps length, content mark and end of every episode."""

    def __init__(self) -> None:
        self.has_ids = False
        self.ids: IntArray = np.zeros(0, dtype=np.int64)  # in the order of first appearance
        self.lengths: IntArray = np.zeros(0, dtype=np.int64)
        self.ends: npt.NDArray[np.int8] = np.zeros(0, dtype=np.int8)  # 0 open, 1 terminated, 2 truncated
        self.contents: Marks = np.zeros(0, dtype=np.uint64)
        self.paths: Marks = np.zeros(0, dtype=np.uint64)  # contents without rewards, where states are continuous
        self.first_rows: IntArray = np.zeros(0, dtype=np.int64)
        self.start_marks: Marks = np.zeros(0, dtype=np.uint64)
        self._sorted: IntArray = np.zeros(0, dtype=np.int64)  # order of ids by value
        self._carried: WalkedRows | None = None
        self._derived = (0, False, -1)  # current id, whether the last row ended it, its timestep

    def part(self, log: Transitions, first_row: int) -> WalkedPart:
        """The next rows of the log."""
        assert log.truncations is not None
        self.has_ids = log.episode_ids is not None
        ids = self._derive(log) if log.episode_ids is None else np.asarray(log.episode_ids)
        fresh = WalkedRows(
            log.observations, log.next_observations, log.rewards, log.terminations, log.truncations, ids, log.timesteps,
            first_row + np.arange(len(log), dtype=np.int64),
        )  # fmt: skip
        rows = fresh.after(self._carried)
        offset = len(rows.ids) - len(ids)
        order = np.argsort(rows.ids, kind="stable")
        same = np.diff(rows.ids[order]) == 0
        marks = fingerprints(log.row_matrix())
        paths = marks if log.discrete_observations else fingerprints(log.row_matrix(paid=False))
        starts = self._register(ids, {"contents": marks, "paths": paths}, fresh)
        last = np.sort(order[np.append(~same, True)])
        self._carried = rows.take(last[last >= offset])
        later = order[1:][same] >= offset  # pairs of two carried rows do not exist: one row per episode is carried
        return WalkedPart(
            rows, order[:-1][same][later], order[1:][same][later], starts + offset,
            offset + np.arange(len(ids), dtype=np.int64), marks, paths, bool(log.discrete_observations),
        )  # fmt: skip

    def _derive(self, log: Transitions) -> IntArray:
        """Numbers for episodes without ids, counted on from part to part."""
        assert log.truncations is not None
        current, ended, time = self._derived
        stops = log.terminations | log.truncations
        new = np.concatenate([[ended], stops[:-1]])
        if log.timesteps is not None:
            new |= np.diff(log.timesteps, prepend=time) <= 0
        ids = current + np.cumsum(new, dtype=np.int64)
        self._derived = (int(ids[-1]), bool(stops[-1]), -1 if log.timesteps is None else int(log.timesteps[-1]))
        return ids

    def _register(self, ids: IntArray, marks: Mapping[str, Marks], rows: WalkedRows) -> IntArray:
        """Update the episodes; returns the rows of this part that begin one."""
        known = self.ids[self._sorted]
        here, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        place = np.searchsorted(known, here)
        old = np.zeros(here.size, dtype=bool)
        inside = place < known.size
        old[inside] = known[place[inside]] == here[inside]
        starts = np.sort(first[~old])
        if starts.size:
            self.ids = np.concatenate([self.ids, ids[starts]])
            self.first_rows = np.concatenate([self.first_rows, rows.number[starts]])
            self.start_marks = np.concatenate([self.start_marks, state_marks(rows.observations[starts])])
            for name in ("lengths", "ends", *marks):
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros(starts.size, dtype=column.dtype)]))
            self._sorted = np.argsort(self.ids, kind="stable")
            place = np.searchsorted(self.ids[self._sorted], here)
        slot = self._sorted[place]  # (episodes here,)
        order = np.argsort(inverse, kind="stable")
        counts = np.bincount(inverse, minlength=here.size)
        within = np.empty(ids.size, dtype=np.int64)
        within[order] = np.arange(ids.size) - np.repeat(np.cumsum(counts) - counts, counts)
        for name, column in marks.items():
            np.add.at(getattr(self, name), slot[inverse], placed(column, self.lengths[slot][inverse] + within))
        self.lengths[slot] += counts
        last = order[np.cumsum(counts) - 1]
        self.ends[slot] = np.where(rows.terminated[last], 1, np.where(rows.truncated[last], 2, 0))
        return starts
