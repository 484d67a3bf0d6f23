"""Propensities that were not recorded: all are 1, or the log's own frequencies, n(s, a) / n(s) for every state, or n(a) / n."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bondic.data.hygiene.findings import Finding
from bondic.data.hygiene.marks import Marks, placed, state_marks

if TYPE_CHECKING:
    from bondic.data.transitions import Transitions

_DIGITS = 1e-7
"""Relative: propensities may have been stored with 32 bits."""
_MAX_GROUPS = 100_000
_RARE = float(np.log(1e4))
"""Drawn actions have exactly the frequencies of their probabilities in fewer than one of 10 000 logs where it is reported."""
_PLANNED = 100
"""Larger denominators than that are those of counts: probabilities that were planned are 1/2, 0.05, 1/3, 0.37."""


class PropensityCheck:
    """Add the rows in order: counts and propensities of actions, for all states together and for every state."""

    def __init__(self) -> None:
        self._groups = [_Groups(), _Groups()]
        self._certain = True  # all propensities so far are 1

    def add(self, part: Transitions) -> None:
        probs = _propensities(part)
        self._certain &= probs is not None and bool((probs == 1).all())
        if probs is None or not part.discrete_actions:
            self._groups = []
        for groups, by_state in zip(self._groups, (False, True), strict=False):
            assert probs is not None
            if groups.given_up:
                continue
            states = state_marks(part.observations) if by_state else np.zeros(len(part), dtype=np.uint64)
            groups.add(states, np.asarray(part.actions, dtype=np.int64), probs)

    def findings(self, action_counts: npt.NDArray[np.int64]) -> Iterator[Finding]:
        taken, rows = int((action_counts > 0).sum()), int(action_counts.sum())
        if self._certain and taken > 1:
            yield Finding(
                "sure-propensities", "warn", rows, 0,
                f"All {rows} propensities of the log are 1, although it took {taken} different actions. If the column was filled "
                "in because the probabilities are not known, no interval that uses them is valid. If a rule decided, no other "
                "action was possible at any row, and the log says nothing about them.",
                "Leave the column out (columns={'behavior_action_probs': None}, --columns behavior_action_probs=none), or log "
                "the probabilities with which the actions were drawn.",
            )  # fmt: skip
        for groups, words in zip(self._groups, ("all states together", "every state by itself"), strict=False):
            if groups.are_frequencies():
                rows = int(groups.counts.sum())
                yield Finding(
                    "estimated-propensities", "warn", rows, 0,
                    f"The propensities of all {rows} rows are the frequencies with which the log itself took its actions, "
                    f"counted for {words}, to the last digit. They were probably estimated from this log; intervals that use "
                    "them are not valid then.",
                    "Log the probabilities with which actions were drawn; or state by which factor these may be wrong: "
                    "Propensities(gamma_sensitivity=...) (--with gamma_sensitivity=...).",
                )  # fmt: skip
                return


def _propensities(part: Transitions) -> npt.NDArray[np.float64] | None:
    if part.behavior_log_probs is not None:
        return np.asarray(np.exp(part.behavior_log_probs))
    return part.behavior_action_probs


class _Groups:
    """Counts and propensities of (state, action), while every pair has one propensity; empty when it is given up."""

    def __init__(self) -> None:
        self._states: Marks = np.zeros(0, dtype=np.uint64)
        self._pairs: Marks = np.zeros(0, dtype=np.uint64)
        self.counts: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._probs: npt.NDArray[np.float64] = np.zeros(0)
        self.given_up = False

    def add(self, states: Marks, actions: npt.NDArray[np.int64], probs: npt.NDArray[np.float64]) -> None:
        pairs = np.concatenate([self._pairs, placed(states, actions)])
        probs = np.concatenate([self._probs, probs])
        counts = np.concatenate([self.counts, np.ones(states.size, dtype=np.int64)])
        self._pairs, first, place = np.unique(pairs, return_index=True, return_inverse=True)
        self._states = np.concatenate([self._states, states])[first]
        self.counts = np.bincount(place, weights=counts).astype(np.int64)
        self._probs = probs[first]
        several = bool(np.any(np.abs(probs - self._probs[place]) > _DIGITS * probs))
        self.given_up = several or len(first) > _MAX_GROUPS

    def are_frequencies(self) -> bool:
        """Whether every propensity is a frequency, which chance or a plan would hardly make it."""
        if self.given_up or not self.counts.size:
            return False
        _, place = np.unique(self._states, return_inverse=True)
        totals = np.bincount(place, weights=self.counts)[place].astype(np.int64)
        if np.any(np.abs(self._probs - self.counts / totals) > _DIGITS * self._probs):
            return False
        pairs = list(zip(self.counts.tolist(), totals.tolist(), strict=True))
        if any(total // math.gcd(count, total) > _PLANNED for count, total in pairs):
            return True
        # -log of the multinomial probability of exactly these counts; n(s) log-factorials are divided among its actions
        chance: float = sum(math.lgamma(c + 1) - c * math.log(c / n) - math.lgamma(n + 1) * c / n for c, n in pairs)
        return chance > _RARE
