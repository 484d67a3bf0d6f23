"""Rows with the same (s, a, s') as another one, whatever their rewards: events that were logged twice and altered.

Continuous states come back by chance with probability 0. Where they come back for a reason (a wall, a fixed start with
everything that follows from it, a state that is measured coarsely), the behavior is free to act in another way. So judged are
the states of several rows whose row before is at a state of its own, in logs where most rows are. If two visits of one state
agreed in their action no more often than rows that follow each other do (a share q), D of G such states would agree in action
and next state with probability at most exp(-G KL(D/G, q)) (Chernoff).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bondic.data.hygiene.chance import RARE, surprise
from bondic.data.hygiene.findings import Finding
from bondic.data.hygiene.marks import fingerprints
from bondic.data.hygiene.walk import IntArray, WalkedPart

_MOST_ROWS = 1_000_000
_NONE = np.uint64(0)


class NearCopies:
    """Marks of state, of (s, a, s'), and of the state of the row before, for the first rows of a continuous log."""

    def __init__(self) -> None:
        self._marks: list[npt.NDArray[np.uint64]] = []
        self._rows: list[IntArray] = []
        self._held = 0
        self._last_action: npt.NDArray[np.float64] = np.zeros((0, 1))
        self._same_action = np.zeros(2)  # rows that act as the one before them, rows that have one

    def add(self, part: WalkedPart, actions: npt.NDArray[np.float64]) -> None:
        """The next rows of the log, with the actions of the fresh ones."""
        if part.discrete or self._held > _MOST_ROWS:
            return
        states = fingerprints(part.rows.observations + 0.0)
        earlier = np.full(states.size, _NONE)
        earlier[part.after] = states[part.before]
        fresh = part.fresh
        self._marks.append(np.stack([states[fresh], part.paths, earlier[fresh]]))
        self._rows.append(part.rows.number[fresh])
        self._held += fresh.size
        run = np.concatenate([self._last_action.reshape(-1, actions.shape[1]), actions])
        same = (run[1:] == run[:-1]).all(axis=1)
        self._same_action += same.sum(), same.size
        self._last_action = actions[-1:]

    def findings(self) -> Iterator[Finding]:
        if not self._marks:
            return
        states, paths, earlier = np.concatenate(self._marks, axis=1)
        rows = np.concatenate(self._rows)
        if (np.diff(np.sort(states)) > 0).all():
            return
        values, group, counts = np.unique(states, return_inverse=True, return_counts=True)
        if 2 * (counts == 1).sum() <= states.size:
            return
        place = np.minimum(np.searchsorted(values, earlier), values.size - 1)
        own = (earlier != _NONE) & ~((values[place] == earlier) & (counts[place] > 1))
        judged = np.flatnonzero((counts > 1) & (np.bincount(group[own], minlength=values.size) > 0))
        kinds = np.bincount(group[np.unique(paths, return_index=True)[1]], minlength=values.size)
        copied = judged[kinds[judged] == 1]
        share = (self._same_action[0] + 1) / (self._same_action[1] + 1)
        if copied.size < 2 or surprise(copied.size, judged.size, share) <= RARE:
            return
        yield _finding(rows, group, np.flatnonzero(np.isin(group, copied)))


def _finding(rows: IntArray, group: npt.NDArray[np.intp], same: IntArray) -> Finding:
    _, first, inverse = np.unique(group[same], return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse] != np.arange(same.size))
    row, original = (int(rows[same[k]]) for k in (again[0], first[inverse[again[0]]]))
    return Finding(
        "copies", "warn", again.size, row,
        f"{again.size} rows have the state, the action and the next state of an earlier row in every number, although "
        f"observations are continuous (first: row {row}, as row {original}); their rewards may differ. An event that is logged "
        "twice is not new data: the interval would be too short.",
        "Keep each event once, with the reward that was paid.",
    )  # fmt: skip
