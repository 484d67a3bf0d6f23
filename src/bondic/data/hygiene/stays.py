"""s' = s in most rows of continuous states: the column of next observations was filled with the observations.

A continuous process does not come to rest on the very same numbers, except at walls and absorbing states: those are met again,
so that stays at a state which another such row has are left out. A process that waits is at s in the following row, too: what
that row confirms is left out. What remains has probability 0 where next states have a density. More than half of the rows are
reported, no fewer: a process may wait now and then in a log whose rows do not follow each other. Where states
are few a process may stay in any number of rows; what it cannot do is to stay in every row and be elsewhere in the next one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bondic.data.hygiene.findings import Finding
from bondic.data.hygiene.marks import Marks, fingerprints
from bondic.data.hygiene.walk import BoolArray, IntArray, WalkedPart, WalkedRows


class StayCheck:
    """Marks and rows of the states in which the process seems to stay."""

    def __init__(self) -> None:
        self._marks: list[Marks] = []
        self._rows: list[IntArray] = []
        self._judged = 0
        self._left, self._elsewhere, self._resting = False, False, 0  # of states that are few

    def add(self, part: WalkedPart) -> None:
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

    def _add_few(self, goes_on: BoolArray, part: WalkedPart) -> None:
        """Whether a step leads to another state, and whether a row that follows one is at another state."""
        rows, fresh = part.rows, part.fresh[goes_on[part.fresh]]
        before, after = (side[goes_on[part.before]] for side in (part.before, part.after))
        self._left |= not _equal(rows.following[fresh], rows.observations[fresh]).all()
        self._elsewhere |= not _equal(rows.observations[before], rows.observations[after]).all()
        self._resting += fresh.size

    def _keep(self, rows: WalkedRows) -> None:
        stays = _equal(rows.following, rows.observations)
        self._marks.append(fingerprints(rows.observations[stays] + 0.0))
        self._rows.append(rows.number[stays])

    def findings(self) -> Iterator[Finding]:
        if self._elsewhere and not self._left:
            yield Finding(
                "next-observations", "warn", self._resting, 0,
                f"In all {self._resting} rows that go on `next_observations` equals `observations`, and following rows are at "
                "other states. A column that was filled with the state before the step says nothing about what follows, and the "
                "interval rests on that.",
                "Write the state that followed each row.",
            )  # fmt: skip
        if not self._marks:
            return
        _, first, counts = np.unique(np.concatenate(self._marks), return_index=True, return_counts=True)
        rows = np.concatenate(self._rows)[first[counts == 1]]
        if 2 * rows.size <= self._judged:
            return
        yield Finding(
            "next-observations", "warn", rows.size, int(rows.min()),
            f"In {rows.size} of {self._judged} rows `next_observations` equals `observations` in every number, although "
            f"observations are continuous (first: row {rows.min()}). A column that was filled with the state before the step "
            "says nothing about what follows, and the interval rests on that.",
            "Write the state that followed each row.",
        )  # fmt: skip


def _equal(one: np.ndarray, other: np.ndarray) -> BoolArray:
    return np.asarray((one == other).all(axis=1))
