"""Data health: what was counted in the log, so that a reader can see whether it is the log they think it is.

Bins have round edges, never values of single rows, and thin ones can be withheld.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.columns import Batch, Cloud
from bondic.core.sums.measure import equal_rows
from bondic.data.episodes import episode_starts
from bondic.data.hygiene.single_rows import SingleRowsInspection
from bondic.data.log import Log
from bondic.policies.answers import answers_queries, logged_state_probs
from bondic.policies.logged_target import LoggedTarget
from bondic.rendering import grouped
from bondic.rows import Rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MIN_ROWS = 5
"""A cell with fewer rows is not shown when rows are withheld."""
_MOST_ASKED = 1_000_000
"""Rows from which on the policy is not asked once more for what it would have done: a share is known well enough."""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 25.0, 50.0)
_MAX_BINS = 24


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins between round edges; values beyond the ends belong to the outermost bins."""

    edges: FloatArray  # (bins + 1,)

    def __len__(self) -> int:
        return self.edges.size - 1

    def of(self, values: FloatArray) -> IntArray:
        inside = np.searchsorted(self.edges, values, side="right") - 1
        return np.clip(inside, 0, len(self) - 1).astype(np.int64)

    def label(self, index: int) -> str:
        low, high = (f"{float(edge):.4g}" for edge in self.edges[index : index + 2] + 0.0)
        return f"{low} to {high}"


def range_bins(low: float, high: float) -> Bins:
    """The finest round bins that cover [low, high] with at most 24 of them."""
    span = high - low
    if not (math.isfinite(span) and span > 1e-12 * max(abs(low), abs(high), 1e-300)):
        size = 10.0 ** math.floor(math.log10(max(abs(low), 1.0)))
        return Bins(np.array([math.floor(low / size) * size, (math.floor(low / size) + 1) * size]))
    size = 10.0 ** math.floor(math.log10(span / _MAX_BINS))
    for step in (size * factor for factor in _STEPS):
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first <= _MAX_BINS:
            break
    # whole multiples divided back, so that 0.30000000000000004 does not appear as an edge
    return Bins(np.array([float(f"{k * step:.12g}") for k in range(first, max(last, first + 1) + 1)]))


@dataclass(frozen=True)
class ActionUse:
    """How often an action was logged, and how often the target policy takes it at the queried states."""

    name: str
    logged: float
    target: float
    rows: int


@dataclass(frozen=True, eq=False)
class Health:
    """Counts over the certified rows, and over the whole log where `log` was at hand."""

    certified: int
    dropped: int  # beyond the horizon
    final: int  # certified rows without a next state
    distinct: int | None  # distinct logged points: equal ones are summed once
    reward_bins: Bins
    reward_counts: FloatArray
    reward_range: tuple[float, float]
    reward_mean: float
    actions: tuple[
        ActionUse, ...
    ]  # shares (discrete) or means (continuous); none of a policy known at logged actions alone
    discrete: bool
    queried_at: str  # the states at which the target policy was queried, in words
    rows: int | None = None
    episodes: int | None = None
    terminations: int | None = None
    truncations: int | None = None
    return_mean: float | None = None  # sum of the rewards of an episode, on average, where there are several steps


def examine(question: Rows, log: Log | None = None, *, no_rows: bool = False) -> Health:
    """One pass over the certified rows, one over the log."""
    low, high = question.terms.reward_range
    bins = range_bins(low, high)
    counts, total, final, rows = np.zeros(len(bins)), 0.0, 0, len(question)
    distinct, actions = None, None if isinstance(question.policy, LoggedTarget) else _Actions(question)
    for part in question.batches():
        counts += np.bincount(bins.of(part.rewards), minlength=len(bins))
        total += float(part.rewards.sum())
        final += int((~part.continues).sum())
        if len(part) == rows:
            distinct = _distinct(np.column_stack([part.logged, part.slots]))
        if actions is not None:
            actions.add(part)
    uses, queried_at = ((), "") if actions is None else actions.uses(no_rows)
    if no_rows:
        counts[counts < MIN_ROWS] = 0.0
    source = question.log if log is None else log
    return Health(
        rows, question.dropped, final, distinct, bins, counts, (low, high), total / max(rows, 1), uses,
        question.layout.discrete, queried_at, **_of_log(source),
    )  # fmt: skip


class _Actions:
    """What the log did beside what the target policy does.

    The policy's shares (discrete) or means (continuous) are those at the logged states where a policy of discrete actions can be
    asked there; else at the next states, for which it has answered already; else at the initial ones.
    """

    def __init__(self, question: Rows) -> None:
        self._question, self._discrete = question, question.layout.discrete
        self._width = question.layout.slots if self._discrete else question.layout.action_dim
        self._asks = self._discrete and answers_queries(question.policy)
        self._used, self._logged = np.zeros(self._width, dtype=np.int64), np.zeros(self._width)
        self._target, self._weight = np.zeros(self._width), 0.0

    def add(self, part: Batch) -> None:
        """Some rows."""
        if self._discrete:
            self._used += np.bincount(part.slots, minlength=self._width)
        else:
            self._logged += part.logged[:, -self._width :].sum(axis=0)
        if self._asks and self._weight < _MOST_ASKED:
            policy, states = self._question.policy, part.logged[:, : self._question.layout.observation_dim]
            probs = logged_state_probs(policy, states, part.times, slots=self._width, log_rows=part.log_rows)
            self._target += probs.sum(axis=0)
            self._weight += len(part)
        elif not self._asks and part.next.weights.size:
            self._target += _taken(part.next, self._width, discrete=self._discrete)
            self._weight += float(part.next.weights.sum())

    def uses(self, no_rows: bool) -> tuple[tuple[ActionUse, ...], str]:
        """Every action, and the states at which the policy was queried."""
        logged = (self._used if self._discrete else self._logged) / max(len(self._question), 1)
        target, queried_at = self._shares()
        thin = self._used < MIN_ROWS if no_rows and self._discrete else np.zeros(self._width, dtype=bool)
        uses = (
            ActionUse(
                self._question.action_name(k) if self._discrete else f"action {k}",
                float(logged[k]),
                float(target[k]),
                -1 if thin[k] else int(self._used[k]),
            )
            for k in range(self._width)
        )
        return tuple(uses), queried_at

    def _shares(self) -> tuple[FloatArray, str]:
        if self._weight:
            every = self._weight == len(self._question)
            states = "logged states" if every else f"first {grouped(int(self._weight))} logged states"
            return self._target / self._weight, states if self._asks else "next states of the log"
        question = self._question
        weights = question.initial_states.weights[question.initial.rows, None]
        start = replace(question.initial, weights=question.initial.weights * weights)
        return _taken(start, self._width, discrete=self._discrete), "initial states"


def _distinct(rows: FloatArray) -> int:
    """How many different rows there are."""
    return int(equal_rows((rows + 0.0).view(np.uint64))[1].size) if rows.size else len(rows)


def _taken(cloud: Cloud, width: int, *, discrete: bool) -> FloatArray:
    """Sums of the probabilities of all actions, or of the weighted actions themselves."""
    taken = cloud.weights if discrete else cloud.points[:, -width:] * cloud.weights
    return np.asarray(taken.sum(axis=0))


def _of_log(log: Log) -> dict[str, Any]:
    """Episodes, ends and returns of the whole log."""
    if isinstance(log.inspection, SingleRowsInspection) and not log.held:  # all of it was counted when it was opened
        return {
            **dict.fromkeys(("rows", "episodes", "terminations"), len(log)),
            "truncations": log.inspection.truncations,
        }
    episodes, terminations, truncations, earned = 0, 0, 0, 0.0
    for _, part, starts in episode_starts(log):
        episodes += starts.size
        terminations += int(part.terminations.sum())
        earned += float(part.rewards.sum())
        truncations += int(np.asarray(part.truncations).sum())
    return {
        "rows": len(log),
        "episodes": episodes,
        "terminations": terminations,
        "truncations": truncations,
        "return_mean": earned / episodes if 1 < episodes < len(log) else None,
    }
