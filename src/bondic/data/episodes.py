"""Which rows are an episode: those with one id; in a log that names none, a row after an end begins the next episode.

Rows of several episodes may alternate; within an episode they stand in the order of time. A log may be read in parts, over
which numbers are counted on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.data import _arrays
from bondic.data._arrays import BoolArray, IntArray

if TYPE_CHECKING:
    from bondic.core.columns import RowRange
    from bondic.data.log import Log
    from bondic.data.transitions import Transitions


@dataclass(frozen=True, eq=False)
class Episodes:
    """The episodes of some rows, by one id per row."""

    ids: npt.NDArray[Any]  # (n,)

    @staticmethod
    def of(part: Transitions) -> Episodes:
        """Those of a log in memory, or of a part of one that stands for itself."""
        return Episodes(EpisodeNumbers().of(part))

    @cached_property
    def _ascending(self) -> bool:
        """Whether ids never fall, as in most logs: then nothing has to be sorted."""
        return bool(np.all(self.ids[1:] >= self.ids[:-1]))

    @cached_property
    def order(self) -> IntArray:
        """(n,) all rows, episode by episode."""
        return np.arange(self.ids.size) if self._ascending else np.argsort(self.ids, kind="stable")

    @cached_property
    def _begins(self) -> BoolArray:
        """(n,) whether an episode begins at this place of `order`."""
        sorted_ids = self.ids if self._ascending else self.ids[self.order]
        return np.concatenate([np.ones(min(1, sorted_ids.size), dtype=bool), sorted_ids[1:] != sorted_ids[:-1]])

    @cached_property
    def lengths(self) -> IntArray:
        """(episodes,) in the order of first rows."""
        if self._ascending:
            return np.diff(np.append(self.first, self.ids.size))
        return np.bincount(self.number, minlength=self.first.size)

    @cached_property
    def first(self) -> IntArray:
        """(episodes,) the row that begins each, in order."""
        return np.flatnonzero(self._begins) if self._ascending else np.sort(self.order[self._begins])

    @cached_property
    def last(self) -> IntArray:
        """(episodes,) the last row of each, in the order of first rows."""
        out = np.zeros(self.first.size, dtype=np.int64)
        out[self.number] = np.arange(self.number.size)  # the last assignment stays
        return out

    @cached_property
    def number(self) -> IntArray:
        """(n,) 0, 1, ... in order of first appearance."""
        if self._ascending:
            return np.cumsum(self._begins) - 1
        out = np.empty(self.order.size, dtype=np.int64)
        out[self.order] = np.searchsorted(self.first, self.order[self._begins])[np.cumsum(self._begins) - 1]
        return out

    @cached_property
    def step(self) -> IntArray:
        """(n,) how many rows of its episode stand before each row."""
        if self._ascending:
            found = np.arange(self.ids.size)
            found -= np.repeat(self.first, self.lengths)
            return found
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
    numbers, seen = EpisodeNumbers(), _KnownIds(counted=not log.has_episode_ids)
    for rows, part in log.batches():
        ids = numbers.of(part)
        first = Episodes(ids).first
        yield rows, part, first[seen.add(ids[first])]


class _KnownIds:
    """Ids of episodes, part by part. Those that are counted ascend, and are not held; those of most logs ascend, too."""

    def __init__(self, *, counted: bool) -> None:
        self._counted, self._last = counted, -1
        self._held: list[IntArray] = []

    def add(self, ids: IntArray) -> BoolArray:
        """Whether each of these different ids, in the order of their appearance, is new."""
        if self._counted or (ids[0] > self._last and bool(np.all(np.diff(ids) > 0))):
            new = ids > self._last
        else:
            new = ~np.isin(ids, np.concatenate([ids[:0], *self._held]))
        if not self._counted:
            self._held.append(ids[new])
        self._last = max(self._last, int(ids.max()))
        return new


class OutOfOrder(InvalidInput):
    """A row comes before an earlier one of its episode."""


def out_of_order(row: int, time: int, before: int, time_before: int) -> OutOfOrder:
    return OutOfOrder(
        f"Row {row} (timestep {time}) comes after row {before} (timestep {time_before}) of the same episode. Row order is the "
        "order of time, and a copied row is not new data: sort the rows by episode and timestep before building the log, and "
        "keep each event once."
    )


class KeyCheck:
    """Keys of a log, whole or in parts: an episode may go on in a later part, but not backwards and not after its end.

    Feed it the rows in order; the last row of every episode is carried from part to part.
    """

    def __init__(self) -> None:
        self._known: list[
            tuple[IntArray, IntArray]
        ] = []  # ids; their last rows, the timesteps of these, whether terminated

    def add(self, part: Transitions, first_row: int = 0) -> None:
        """Check the next rows of the log."""
        if part.episode_ids is not None:
            self._check(part, np.asarray(part.episode_ids), first_row)

    def _check(self, part: Transitions, episodes: IntArray, first_row: int) -> None:
        numbers = np.arange(episodes.size) + first_row
        times = np.zeros(episodes.size, dtype=np.int64) if part.timesteps is None else part.timesteps
        carried_ids, carried = self._near(int(episodes.min()), int(episodes.max()))
        known = np.isin(carried_ids, episodes)
        ids, rows = np.concatenate([carried_ids[known], episodes]), np.concatenate([carried[0, known], numbers])
        times = np.concatenate([carried[1, known], times])
        ended = np.concatenate([carried[2, known].astype(bool), part.terminations])
        if part.timesteps is not None:
            _refuse_repeated_keys(ids, rows, times)
        grouped = Episodes(ids)
        earlier, later = grouped.pairs
        back = _arrays.first(times[later] < times[earlier]) if part.timesteps is not None else None
        if (
            back is not None
        ):  # before what follows a termination: the last row of an episode is among those out of place
            row, before = int(later[back]), int(earlier[back])
            raise out_of_order(int(rows[row]), int(times[row]), int(rows[before]), int(times[before]))
        if (bad := _arrays.first(ended[earlier])) is not None:
            row, end = int(rows[later[bad]]), int(rows[earlier[bad]])
            raise InvalidInput(
                f"Row {row} follows row {end} in the same episode, but row {end} is terminated. Nothing follows a termination "
                "(vector environments that reset on the next step write such rows): drop rows whose action was not carried "
                "out, or give the new episode its own id. If the rows are out of order, sort them by episode and time."
            )
        last = grouped.last
        self._known.append((carried_ids[~known], carried[:, ~known]))
        self._known.append((ids[last], np.stack([rows[last], times[last], ended[last]])))

    def _near(self, low: int, high: int) -> tuple[IntArray, IntArray]:
        """What is known of episodes of earlier parts whose ids overlap with these; it is taken out."""
        found, apart = list[tuple[IntArray, IntArray]](), list[tuple[IntArray, IntArray]]()
        for ids, last in self._known:
            if ids.size:
                (found if ids.min() <= high and ids.max() >= low else apart).append((ids, last))
        self._known = apart
        if not found:
            return np.zeros(0, dtype=np.int64), np.zeros((3, 0), dtype=np.int64)
        return np.concatenate([ids for ids, _ in found]), np.concatenate([last for _, last in found], axis=1)


def _refuse_repeated_keys(episodes: IntArray, rows: IntArray, times: IntArray) -> None:
    """Before anything else: a log pasted twice also has rows after its terminations, with another way out."""
    later = times[1:] > times[:-1]  # differences of large numbers could wrap
    if np.all((episodes[1:] > episodes[:-1]) | ((episodes[1:] == episodes[:-1]) & later)):  # all in order
        return
    order = np.lexsort((times, episodes))
    same = (np.diff(episodes[order]) == 0) & (np.diff(times[order]) == 0)
    if same.any():
        earlier, later = min(zip(order[1:][same], order[:-1][same], strict=True))[::-1]
        many = "" if same.sum() == 1 else f" (and {same.sum() - 1} more pairs: is the log pasted twice?)"
        raise InvalidInput(
            f"Rows {rows[earlier]} and {rows[later]} carry the same (episode, timestep) key{many}. A copied row is "
            "not new data and breaks the guarantee: keep each event once."
        )
