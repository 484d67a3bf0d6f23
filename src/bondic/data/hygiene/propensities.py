"""Propensities that were not recorded: all are 1, or the log's own frequencies, n(s, a) / n(s) for every state, or n(a) / n; of
two actions also those of the other action, or those of a logistic regression on this log.

Two actions, b the logged probability of the action taken. The other one's in its place makes prod (1 - b)/b an e-value: where
b is right its mean is 1, whatever the behavior knew of the past (Ville). A logistic fit solves sum (1[a = 1] - b(1)) x = 0 for
the constant and, up to its penalty, for every state column; where b is right and never comes twice, S'V^-1 S with V = sum b(1
- b) x x' is chi-square. Trees learn single rows: sum log b is then far above its mean under b.
"""

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
_TOO_WELL = float(np.log(2e3))
"""Drawn actions fit their probabilities as well as that in one of 2 000 logs, by each of two measures."""
_GAIN = 5.0
"""Standard deviations by which the log-likelihood exceeds its mean: actions that are known better than they were drawn."""
_CHANGES, _COLUMNS = 0.5, 64
"""Share of rows whose probability is not that of the row before, and most state columns of a fit that is looked for."""
_RECORDED = (
    "Log the probabilities with which actions were drawn; or state by which factor these may be wrong: "
    "Propensities(gamma_sensitivity=...) (--with gamma_sensitivity=...)."
)
_PLANNED = 100
"""Larger denominators than that are those of counts: probabilities that were planned are 1/2, 0.05, 1/3, 0.37."""


class PropensityCheck:
    """Add the rows in order: counts and propensities of actions, for all states together and for every state."""

    def __init__(self) -> None:
        self._groups = [_Groups(), _Groups()]
        self._certain = True  # all propensities so far are 1
        self._other = 0.0  # sum of log (1 - b)/b over all rows
        self._score = self._spread = np.zeros(0)  # S and V, of the constant and the state columns
        self._gain = np.zeros(2)  # sum of log b less its mean, and its variance
        self._values = 0  # propensities that differ from the one before

    def add(self, part: Transitions) -> None:
        probs = logged_propensities(part)
        self._certain &= probs is not None and bool((probs == 1).all())
        if probs is None or not part.discrete_actions:
            self._groups = []
        else:
            self._add_two(part, np.clip(probs, _DIGITS, 1 - _DIGITS))
        for groups, by_state in zip(self._groups, (False, True), strict=False):
            assert probs is not None
            if groups.given_up:
                continue
            states = state_marks(part.observations) if by_state else np.zeros(len(part), dtype=np.uint64)
            groups.add(states, np.asarray(part.actions, dtype=np.int64), probs)

    def _add_two(self, part: Transitions, probs: npt.NDArray[np.float64]) -> None:
        """Sums for two actions, 0 and 1; those of logs with more actions are never looked at."""
        if (second := part.actions == 1).sum() + (part.actions == 0).sum() < len(part) or part.observations.shape[
            1
        ] > _COLUMNS:
            self._other, self._values = -math.inf, -(2**62)
            return
        with np.errstate(over="ignore", invalid="ignore"):
            x = np.column_stack([np.ones(len(part)), part.observations])
            score = ((second - np.where(second, probs, 1 - probs))[:, None] * x).sum(axis=0)
            spread = (x * (probs * (1 - probs))[:, None]).T @ x
        odds = np.log((1 - probs) / probs)
        self._other += float(odds.sum())
        self._gain += (-(1 - probs) * odds).sum(), (probs * (1 - probs) * odds**2).sum()
        self._score, self._spread = (
            (score, spread) if not self._score.size else (self._score + score, self._spread + spread)
        )
        self._values += int((np.diff(probs) != 0).sum())

    def _is_fit(self, rows: int) -> bool:
        """Whether the log's actions agree with their probabilities better than drawn ones do."""
        if not (self._values > _CHANGES * rows and np.isfinite(self._spread).all()):
            return False
        size = np.sqrt(np.diag(self._spread))
        used = size > 0
        score, spread = (
            self._score[used] / size[used],
            (self._spread / np.outer(size, size).clip(1e-300))[np.ix_(used, used)],
        )
        chi = float(score @ np.linalg.pinv(spread, rcond=1e-9, hermitian=True) @ score)
        degrees = int(np.linalg.matrix_rank(spread, tol=1e-9 * score.size, hermitian=True))
        small = 0.5 * degrees * math.log(max(chi, 1e-300) / 2) - math.lgamma(
            0.5 * degrees + 1
        )  # >= log P(chi-square <= chi)
        certain = self._gain[0] > _GAIN * math.sqrt(self._gain[1])
        return certain or min(small, math.log(max(abs(float(score[0])), 1e-300))) < -_TOO_WELL

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
        elif self._other > _RARE and taken == 2:
            yield Finding(
                "other-propensities", "warn", rows, 0,
                "The propensities look like those of the action that was not taken: with 1 - p in their place the log's "
                f"actions are e^{self._other:.0f} times as likely. Weights are then turned around, and the interval is "
                "wrong.",
                "Log the probability of the action that was taken, in every row.",
            )  # fmt: skip
        for groups, words in zip(self._groups, ("all states together", "every state by itself"), strict=False):
            if groups.are_frequencies():
                rows = int(groups.counts.sum())
                yield Finding(
                    "estimated-propensities", "warn", rows, 0,
                    f"The propensities of all {rows} rows are the frequencies with which the log itself took its actions, "
                    f"counted for {words}, to the last digit. They were probably estimated from this log; intervals that use "
                    "them are not valid then.",
                    _RECORDED,
                )  # fmt: skip
                return
        if self._is_fit(rows) and taken == 2:
            yield Finding(
                "estimated-propensities", "warn", rows, 0,
                f"The propensities of these {rows} rows fit the log's own actions better than chance lets actions fit the "
                "probabilities they were drawn with: a logistic regression on this log makes such a column. Intervals that "
                "use it are not valid then.",
                _RECORDED,
            )  # fmt: skip


def logged_propensities(part: Transitions) -> npt.NDArray[np.float64] | None:
    """b_i(a_i | s_i), (n,), from either column."""
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
