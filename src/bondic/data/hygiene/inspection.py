"""One pass over a log, in memory or in parts: everything that can be told without policy and question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bondic.data.hygiene.chain import ChainCheck
from bondic.data.hygiene.copies import Pieces, copied
from bondic.data.hygiene.findings import Finding
from bondic.data.hygiene.limits import LimitCheck, missing_episodes, widened
from bondic.data.hygiene.near_copies import NearCopies
from bondic.data.hygiene.resets import ResetCheck
from bondic.data.hygiene.scale import ScaleCheck
from bondic.data.hygiene.stays import StayCheck
from bondic.data.hygiene.walk import FloatArray, IntArray, Walk

if TYPE_CHECKING:
    from bondic.data.transitions import Transitions

_ORDER = {"refuse": 0, "warn": 1, "note": 2}


class Inspection:
    """Add the rows in order, then ask for the findings. Holds a few numbers per episode and the last row of some."""

    def __init__(self) -> None:
        self._walk, self._pieces = Walk(), Pieces()
        self._chain, self._resets, self._limits = ChainCheck(), ResetCheck(), LimitCheck()
        self._stays, self._near, self._scale = StayCheck(), NearCopies(), ScaleCheck()
        self._discrete, self._timed = True, False
        self._certain = True  # all propensities so far are 1
        self.action_counts: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # of discrete actions
        self.action_range: tuple[FloatArray, FloatArray] | None = None  # of continuous actions, per dimension

    @staticmethod
    def of(log: Transitions) -> Inspection:
        """The inspection of a log in memory."""
        out = Inspection()
        out.add(log, 0)
        return out

    def add(self, part: Transitions, first_row: int) -> None:
        """The next rows of the log."""
        rows = self._walk.part(part, first_row)
        self._discrete &= rows.discrete
        self._timed = part.timesteps is not None
        self._chain.add(rows)
        self._resets.add(rows)
        self._limits.add(rows, self._walk)
        self._pieces.add(rows.paths, first_row)
        self._stays.add(rows)
        self._near.add(rows, np.asarray(part.actions, dtype=np.float64).reshape(len(part), -1))
        self._scale.add(part, first_row)
        self._certain &= _all_certain(part)
        if part.discrete_actions:
            more = np.bincount(part.actions)
            size = max(more.size, self.action_counts.size)
            self.action_counts = np.pad(more, (0, size - more.size)) + np.pad(
                self.action_counts, (0, size - self.action_counts.size)
            )
        else:
            self.action_range = widened(self.action_range, part.actions)

    @property
    def episode_lengths(self) -> IntArray:
        """Rows of every episode."""
        return self._walk.lengths

    @property
    def one_step(self) -> bool:
        """Whether every row ends an episode of its own."""
        return bool((self._walk.lengths == 1).all() and (self._walk.ends == 1).all())

    def findings(self, *, gamma: float | None = None, horizon: int | None = None) -> tuple[Finding, ...]:
        """Everything found, the worst first; `gamma` and `horizon` tell which ends are natural."""
        keyed = self._walk.has_ids and self._timed
        found = [
            *(list(self._chain.findings(has_ids=self._walk.has_ids, has_times=self._timed)) or self._stays.findings()),
            *self._resets.findings(),
            *(list(copied(self._walk, self._pieces, discrete=self._discrete, keyed=keyed)) or self._near.findings()),
            *self._scale.findings(),
            *missing_episodes(self._walk),
            *self._sure_propensities(),
            *self._limits.findings(self._walk, gamma=gamma, horizon=horizon),
        ]
        return tuple(sorted(found, key=lambda item: _ORDER[item.severity]))

    def _sure_propensities(self) -> Iterator[Finding]:
        """Several actions, each with probability 1: a rule took them, or the column was filled in."""
        taken, rows = int((self.action_counts > 0).sum()), int(self.action_counts.sum())
        if self._certain and taken > 1:
            yield Finding(
                "sure-propensities", "warn", rows, 0,
                f"All {rows} propensities of the log are 1, although it took {taken} different actions. If the column was filled "
                "in because the probabilities are not known, no interval that uses them is valid. If a rule decided, no other "
                "action was possible at any row, and the log says nothing about them.",
                "Leave the column out (columns={'behavior_action_probs': None}, --columns behavior_action_probs=none), or log "
                "the probabilities with which the actions were drawn.",
            )  # fmt: skip


def _all_certain(part: Transitions) -> bool:
    """Whether the log holds propensities of these rows, and all are 1."""
    if part.behavior_log_probs is not None:
        return bool((part.behavior_log_probs == 0).all())
    return part.behavior_action_probs is not None and bool((part.behavior_action_probs == 1).all())
