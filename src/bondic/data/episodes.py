"""Which rows are an episode: those with one id; in a log that names none, a row after an end begins the next episode.

Rows of several episodes may alternate; within an episode they stand in the order of time. A log may be read in parts, over
which numbers are counted on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bondic.data._arrays import BoolArray, IntArray

if TYPE_CHECKING:
    from bondic.core.columns import RowRange
    from bondic.data.log import Log
    from bondic.data.transitions import Transitions


@dataclass(frozen=True, eq=False)
class Episodes:
    """The episodes of some rows, told by one id per row."""

    ids: npt.NDArray[np.generic]  # (n,)

    @staticmethod
    def of(part: Transitions) -> Episodes:
        """Those of a log in memory, or of a part of one that stands for itself."""
        return Episodes(EpisodeNumbers().of(part))

    @cached_property
    def order(self) -> IntArray:
        """(n,) all rows, episode by episode."""
        return np.argsort(self.ids, kind="stable")

    @cached_property
    def _begins(self) -> BoolArray:
        """(n,) whether an episode begins at this place of `order`."""
        sorted_ids = self.ids[self.order]
        return np.concatenate([np.ones(min(1, sorted_ids.size), dtype=bool), sorted_ids[1:] != sorted_ids[:-1]])

    @cached_property
    def lengths(self) -> IntArray:
        """(episodes,) in the order of first rows."""
        return np.bincount(self.number, minlength=self.first.size)

    @cached_property
    def first(self) -> IntArray:
        """(episodes,) the row that begins each, in order."""
        return np.sort(self.order[self._begins])

    @cached_property
    def last(self) -> IntArray:
        """(episodes,) the last row of each, in the order of first rows."""
        out = np.zeros(self.first.size, dtype=np.int64)
        out[self.number] = np.arange(self.number.size)  # the last assignment stays
        return out

    @cached_property
    def number(self) -> IntArray:
        """(n,) 0, 1, ... in order of first appearance."""
        out = np.empty(self.order.size, dtype=np.int64)
        out[self.order] = np.searchsorted(self.first, self.order[self._begins])[np.cumsum(self._begins) - 1]
        return out

    @cached_property
    def step(self) -> IntArray:
        """(n,) how many rows of its episode stand before each row."""
        out = np.empty(self.order.size, dtype=np.int64)
        out[self.order] = np.arange(out.size) - np.flatnonzero(self._begins)[np.cumsum(self._begins) - 1]
        return out

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Rows that follow each other within an episode: all that have a follower, and their followers."""
        return self.order[:-1][~self._begins[1:]], self.order[1:][~self._begins[1:]]


class EpisodeNumbers:
    """Feed it the parts of a log in order: ids as they are, numbers where there are none.

    `by_time`: a row whose timestep does not grow begins an episode as well.
    """

    def __init__(self, *, by_time: bool = False) -> None:
        self._by_time = by_time
        self._current, self._ended, self._time = 0, False, -1  # of the last row: number, whether it is an end, timestep

    def of(self, part: Transitions) -> IntArray:
        if part.episode_ids is not None:
            return np.asarray(part.episode_ids)
        times = part.timesteps if self._by_time else None
        return self.counted(part.terminations | np.asarray(part.truncations), times)

    def counted(self, ends: BoolArray, times: IntArray | None = None) -> IntArray:
        """Numbers of rows that name no episode, from where episodes end."""
        new = np.concatenate([[self._ended], ends[:-1]])
        if times is not None:
            new |= np.diff(times, prepend=self._time) <= 0
            self._time = int(times[-1])
        ids = self._current + np.cumsum(new, dtype=np.int64)
        self._current, self._ended = int(ids[-1]), bool(ends[-1])
        return np.asarray(ids)


def episode_starts(log: Log) -> Iterator[tuple[RowRange, Transitions, IntArray]]:
    """The log part by part, with those of its rows that begin an episode."""
    numbers, seen = EpisodeNumbers(), np.zeros(0, dtype=np.int64)
    for rows, part in log.batches():
        ids = numbers.of(part)
        first = Episodes(ids).first
        starts = first[~np.isin(ids[first], seen)]
        seen = np.union1d(seen, ids[starts])
        yield rows, part, starts
