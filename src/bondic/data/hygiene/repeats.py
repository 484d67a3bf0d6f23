"""New rows of a growing log that came before: the longest run they share with earlier rows, and whether chance gives one.

Equal rows are ordinary where states are few; long equal runs are not. Let p be the probability that a row continues a match. A
match of L rows then begins at one of K pairs of places with probability at most K p^L. p is read off the rows: if the longest
run that occurs twice in n rows has r rows, none of the runs of r + 1 rows comes again; (n - r)^2 / 2 pairs of places, of which
r + 1 neighbors count as one, without a match bound p^(r + 1) by log(1/ε) / pairs, except with probability ε.

A process that repeats itself has long runs in itself: p is then near 1, and no match is held against it. (New rows would be the
same in any case.) The pairs are taken as independent: it is a test of a suspicion, no part of a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bondic.data.hygiene.chance import RARE
from bondic.data.hygiene.marks import Marks, mixed, state_marks

if TYPE_CHECKING:
    from bondic.data.transitions import Transitions

_BASE = 0x9E3779B97F4A7C15
"""Odd, so that it has an inverse modulo 2^64."""


@dataclass(frozen=True)
class SharedRun:
    """`length` rows from `first` on among the new ones equal those from `earlier` on."""

    first: int
    earlier: int
    length: int
    usual: int  # the longest run that occurs twice in the earlier rows, or in the new ones
    certain: bool  # chance does not give it


def repeated_run(log: Transitions, rows: Transitions, ends: Sequence[int], level: float) -> SharedRun | None:
    """The longest run of `rows` that is in `log` too, if it is no everyday one.

    `ends` are where the parts of the log end. All rows of a part again are certainly that part where chance gives them with a
    probability below `level`, and worth a word where they are longer than any run that came twice; another run, of which there
    are many, is certain where chance gives it in fewer than one of a million logs.
    """
    earlier, new = (_Windows(state_marks(part.row_matrix())) for part in (log, rows))
    length = _longest(lambda size: bool(np.isin(new.of(size), earlier.of(size)).any()), min(len(log), len(rows)))
    if length == 0:
        return None
    mine, theirs = new.of(length), earlier.of(length)
    parts = zip([0, *ends], ends, strict=False)
    whole = [begin for begin, stop in parts if stop - begin == length == len(rows) and theirs[begin] == mine[0]]
    usual = max(part.longest_repeat() for part in (earlier, new))

    def is_chance(places: int, price: float) -> bool:
        pairs = sum(max(part.size - usual, 0) ** 2 for part in (earlier, new)) / (2.0 * (usual + 1))
        return math.log(places) + length * min(math.log(price / pairs), 0.0) / (usual + 1) >= -price

    if whole and (not is_chance(len(ends), math.log(1.0 / level)) or length > usual):
        return SharedRun(0, whole[0], length, usual, not is_chance(len(ends), math.log(1.0 / level)))
    if is_chance(len(log) * len(rows), RARE):
        return None
    here = int(np.argmax(np.isin(mine, theirs)))
    return SharedRun(here, int(np.argmax(theirs == mine[here])), length, usual, True)


class _Windows:
    """Marks of all runs of a given length, by differences of one polynomial in the rows' marks."""

    def __init__(self, marks: Marks) -> None:
        self.size = marks.size
        powers, self._inverse = (
            np.cumprod(np.concatenate([[np.uint64(1)], np.full(marks.size, base, dtype=np.uint64)]), dtype=np.uint64)
            for base in (_BASE, pow(_BASE, -1, 2**64))
        )
        self._sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(marks * powers[:-1], dtype=np.uint64)])

    def of(self, length: int) -> Marks:
        count = self.size - length + 1
        return mixed((self._sums[length:] - self._sums[:count]) * self._inverse[:count])

    def longest_repeat(self) -> int:
        """Rows of the longest run that occurs at two places."""
        return _longest(lambda length: np.unique(self.of(length)).size <= self.size - length, self.size - 1)


def _longest(holds: Callable[[int], bool], most: int) -> int:
    """The largest length for which it holds, 0 if none: what holds for a run holds for its parts."""
    low, high = 0, 1
    while high <= most and holds(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def known_keys(log: Transitions, rows: Transitions) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows of both whose (episode, timestep) is the same, those of `rows` first; none where there are no keys."""
    nothing = np.zeros(0, dtype=np.int64)
    if log.episode_ids is None or log.timesteps is None or rows.episode_ids is None or rows.timesteps is None:
        return nothing, nothing
    kind = np.dtype([("episode", np.int64), ("time", np.int64)])
    mine, theirs = (np.empty(len(part), dtype=kind) for part in (rows, log))
    mine["episode"], mine["time"] = rows.episode_ids, rows.timesteps
    theirs["episode"], theirs["time"] = log.episode_ids, log.timesteps
    _, new, earlier = np.intersect1d(mine, theirs, return_indices=True)
    order = np.argsort(new)
    return new[order], earlier[order]
