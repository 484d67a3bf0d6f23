"""Inside an episode: s'_i is s_{i+1}, and no step is missing.

Judged where it is known that one row follows the other: same episode id and no end between them; without ids, where
timesteps count up by 1 in most rows. Otherwise rows may be independent draws, and nothing follows from anything.

s' = s in most rows of continuous states: the column of next observations was filled with the observations. A
continuous process does not come to rest on the very same numbers, except at walls and absorbing states: those are met again,
so that stays at a state which another such row has are left out. A process that waits is at s in the following row, too: what
that row confirms is left out. What remains has probability 0 where next states have a density. More than half of the rows are
reported, no fewer: a process may wait now and then in a log whose rows do not follow each other. Where states
are few a process may stay in any number of rows; what it cannot do is to stay in every row and be elsewhere in the next one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bondic.data._arrays import BoolArray, FloatArray, IntArray
from bondic.data.hygiene.consecutive import ConsecutiveRows, EpisodeRows
from bondic.data.hygiene.findings import Finding, Severity
from bondic.data.hygiene.marks import Marks, fingerprints

TOLERANCE = 1e-6
"""Differences below this share of a column's size are rounding: single precision keeps 6e-8 of a number."""
SYSTEMATIC = 0.05
"""From this share of differing rows on, the column is not what it is called, and the log is refused."""
_SURE = 10
"""So many gaps, all of them followed by the very state that was announced, are a clock that ticks unevenly."""


class ChainCheck:
    """Counts over all parts."""

    def __init__(self) -> None:
        self._steps, self._jumps = _Pairs(), _Pairs()  # timesteps that grow by 1 (or are not kept), by more
        self._unjudged = 0  # pairs without an end between them whose timesteps do not tell
        self._after_cut = (0, -1, -1)  # how many, first: row, row before
        self._discrete = True

    def add(self, part: ConsecutiveRows) -> None:
        rows, before, after = part.rows, part.before, part.after
        self._discrete &= part.discrete
        cut = rows.truncated[before]
        if cut.any():
            first = int(np.flatnonzero(cut)[np.argmin(rows.number[after[cut]])])
            count, row, earlier = self._after_cut
            found = (int(rows.number[after[first]]), int(rows.number[before[first]]))
            self._after_cut = (count + int(cut.sum()), *((row, earlier) if count else found))
        open_ones = ~cut & ~rows.terminated[before]
        before, after = before[open_ones], after[open_ones]
        if not before.size:
            return
        scale = np.maximum(np.abs(rows.observations).max(axis=0), np.abs(rows.following).max(axis=0))
        distance = _distance(rows.following[before], rows.observations[after], scale)
        step = np.ones(before.size, dtype=np.int64) if rows.times is None else rows.times[after] - rows.times[before]
        for pairs, chosen in ((self._steps, step == 1), (self._jumps, step > 1)):
            pairs.add(distance[chosen], rows.number[before[chosen]], rows.number[after[chosen]])
        self._unjudged += int((step < 1).sum())

    def findings(self, *, has_ids: bool, has_times: bool) -> Iterator[Finding]:
        count, row, earlier = self._after_cut
        if count:
            yield Finding(
                "rows-after-cut", "warn", count, row,
                f"{count} rows follow a truncated row of their own episode (first: row {row} after row {earlier}). After a cut "
                "nothing of the episode is recorded: they belong to another episode, or they are the rows that a vector "
                "environment writes when it resets, whose actions were ignored.",
                "Drop rows whose action was not carried out, and give each episode its own id.",
            )  # fmt: skip
        steps, jumps = self._steps, self._jumps
        if has_times and not steps.count and jumps.count:
            steps, jumps = jumps, _Pairs()  # a clock in other units: the smallest step is not 1
        followed = steps.count + jumps.count + self._unjudged
        if not has_ids and not (has_times and 2 * steps.count >= followed > 0):
            return
        yield from _differences(steps, sure=has_ids)
        yield from self._gaps(jumps)

    def _gaps(self, jumps: _Pairs) -> Iterator[Finding]:
        even = jumps.large == 0 and (jumps.count >= _SURE or not self._discrete)
        if jumps.count and not even:
            row, later = jumps.first
            yield Finding(
                "gaps", "warn", jumps.count, row,
                f"Timesteps jump {jumps.count} times inside episodes (first: from row {row} to row {later}): rows are missing. "
                "A row that was left out because of its reward or of what followed makes the interval wrong.",
                "Put the missing rows back.",
            )  # fmt: skip


class _Pairs:
    """How many pairs of rows were compared, and how many differ by a little and by a lot."""

    def __init__(self) -> None:
        self.count = self.small = self.large = 0
        self.first = self.first_large = (-1, -1)

    def add(self, distance: FloatArray, before: IntArray, after: IntArray) -> None:
        large = distance > TOLERANCE
        if distance.size and not self.count:
            self.first = _earliest(before, after)
        if large.any() and not self.large:
            self.first_large = _earliest(before[large], after[large])
        self.count += distance.size
        self.large += int(large.sum())
        self.small += int((distance > 0).sum() - large.sum())


def _earliest(before: IntArray, after: IntArray) -> tuple[int, int]:
    first = int(np.argmin(before))
    return int(before[first]), int(after[first])


def _distance(one: FloatArray, other: FloatArray, scale: FloatArray) -> npt.NDArray[np.float64]:
    """Largest difference of a row, in sizes of the column."""
    return np.asarray((np.abs(one - other) / np.where(scale > 0, scale, 1.0)).max(axis=1))


def _differences(steps: _Pairs, *, sure: bool) -> Iterator[Finding]:
    if steps.large:
        row, later = steps.first_large
        severity: Severity = "refuse" if sure and steps.large >= SYSTEMATIC * steps.count else "warn"
        yield Finding(
            "next-observations", severity, steps.large, row,
            f"In {steps.large} of {steps.count} rows `next_observations` is not the observation of the following row of the "
            f"episode (first: row {row}, followed by row {later}). Rows are missing or out of place, or the column holds "
            "something other than the state that followed; the interval rests on that state.",
            "Sort rows by episode and time if they are out of order; take next observations from the "
            "following row, or put missing rows back.",
        )  # fmt: skip
    elif steps.small:
        yield Finding(
            "next-observations", "note", steps.small, -1,
            f"In {steps.small} of {steps.count} rows `next_observations` differs from the following observation by rounding "
            f"(less than {TOLERANCE:g} of the column's size).",
            "Nothing needs to be done.",
        )  # fmt: skip


class StayCheck:
    """Marks and rows of the states in which the process seems to stay."""

    def __init__(self) -> None:
        self._marks: list[Marks] = []
        self._rows: list[IntArray] = []
        self._judged = 0
        self._left, self._elsewhere, self._resting = False, False, 0  # of states that are few

    def add(self, part: ConsecutiveRows) -> None:
        rows = part.rows
        goes_on = ~rows.terminated & ~rows.truncated
        if part.discrete:
            self._add_few(goes_on, part)
            return
        followed = goes_on[part.before]
        before, after = part.before[followed], part.after[followed]
        cut = part.fresh[rows.truncated[part.fresh] & ~rows.terminated[part.fresh]]
        self._judged += before.size + cut.size
        waits = _equal(rows.following[before], rows.observations[after])
        self._keep(rows.take(np.concatenate([before[~waits], cut])))

    def _add_few(self, goes_on: BoolArray, part: ConsecutiveRows) -> None:
        """Whether a step leads to another state, and whether a row that follows one is at another state."""
        rows, fresh = part.rows, part.fresh[goes_on[part.fresh]]
        before, after = (side[goes_on[part.before]] for side in (part.before, part.after))
        self._left |= not _equal(rows.following[fresh], rows.observations[fresh]).all()
        self._elsewhere |= not _equal(rows.observations[before], rows.observations[after]).all()
        self._resting += fresh.size

    def _keep(self, rows: EpisodeRows) -> None:
        stays = _equal(rows.following, rows.observations)
        self._marks.append(fingerprints(rows.observations[stays] + 0.0))
        self._rows.append(rows.number[stays])

    def findings(self) -> Iterator[Finding]:
        if self._elsewhere and not self._left:
            yield _filled(
                self._resting, 0,
                f"In all {self._resting} rows that go on `next_observations` equals `observations`, and following rows are at "
                "other states.",
            )  # fmt: skip
        if not self._marks:
            return
        _, first, counts = np.unique(np.concatenate(self._marks), return_index=True, return_counts=True)
        rows = np.concatenate(self._rows)[first[counts == 1]]
        if 2 * rows.size > self._judged:
            yield _filled(
                rows.size, int(rows.min()),
                f"In {rows.size} of {self._judged} rows `next_observations` equals `observations` in every number, although "
                f"observations are continuous (first: row {rows.min()}).",
            )  # fmt: skip


def _filled(count: int, row: int, what: str) -> Finding:
    return Finding(
        "next-observations", "warn", count, row,
        f"{what} A column that was filled with the state before the step says nothing about what follows, and the interval rests "
        "on that.",
        "Write the state that followed each row.",
    )  # fmt: skip


def _equal(one: np.ndarray, other: np.ndarray) -> BoolArray:
    return np.asarray((one == other).all(axis=1))
