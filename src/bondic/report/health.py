"""Data health: what was counted in the log, so that a reader can see whether it is the log he thinks it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.data.initial import episode_starts
from bondic.data.log import Log
from bondic.policies.logged import can_be_asked, logged_state_probs
from bondic.policies.logged_target import LoggedTarget
from bondic.report.bins import FEWEST_ROWS, Bins, range_bins
from bondic.rows import Cloud, Rows

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ActionUse:
    """How often an action was logged, and how often the target policy takes it where it was asked."""

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
    asked_at: str  # the states at which the target policy was asked, in words
    rows: int | None = None
    episodes: int | None = None
    terminations: int | None = None
    truncations: int | None = None
    copies: int | None = None  # rows that equal an earlier row in every value


def examine(question: Rows, log: Log | None = None, *, no_rows: bool = False) -> Health:
    """One pass over the certified rows, one over the log."""
    low, high = question.terms.reward_range
    bins = range_bins(low, high)
    counts, total, final, rows = np.zeros(len(bins)), 0.0, 0, len(question)
    distinct = None
    for part in question.batches():
        counts += np.bincount(bins.of(part.rewards), minlength=len(bins))
        total += float(part.rewards.sum())
        final += int((~part.continues).sum())
        if len(part) == rows:
            distinct = int(np.unique(np.column_stack([part.logged, part.slots]), axis=0).shape[0])
    actions, asked_at = _actions(question, no_rows)
    if no_rows:
        counts[counts < FEWEST_ROWS] = 0.0
    source = question.log if log is None else log
    return Health(
        rows, question.dropped, final, distinct, bins, counts, (low, high), total / max(rows, 1), actions,
        question.layout.discrete, asked_at, **_of_log(source),
    )  # fmt: skip


def _actions(question: Rows, no_rows: bool) -> tuple[tuple[ActionUse, ...], str]:
    """What the log did beside what the target policy does, and where that was asked."""
    if isinstance(question.policy, LoggedTarget):
        return (), ""
    discrete, rows = question.layout.discrete, max(len(question), 1)
    width = question.layout.slots if discrete else question.layout.action_dim
    logged, used = np.zeros(width), np.zeros(width, dtype=np.int64)
    for part in question.batches():
        if discrete:
            used += np.bincount(part.slots, minlength=width)
        else:
            logged += part.logged[:, -width:].sum(axis=0)
    logged = (used if discrete else logged) / rows
    target, asked_at = _target(question, width)
    thin = used < FEWEST_ROWS if no_rows and discrete else np.zeros(width, dtype=bool)
    uses = (
        ActionUse(f"action {k}", float(logged[k]), float(target[k]), -1 if thin[k] else int(used[k]))
        for k in range(width)
    )
    return tuple(uses), asked_at


def _target(question: Rows, width: int) -> tuple[FloatArray, str]:
    """Shares (discrete) or means (continuous) of the target policy's actions, and at which states.

    At the logged states where a policy of discrete actions can be asked there; else at the next states, for which it has answered
    already; else at the initial ones.
    """
    total, weight = np.zeros(width), 0.0
    if question.layout.discrete and can_be_asked(question.policy):
        for part in question.batches():
            states = part.logged[:, : question.layout.observation_dim]
            probs = logged_state_probs(question.policy, states, part.times, slots=width, log_rows=part.log_rows)
            total += probs.sum(axis=0)
        return total / max(len(question), 1), "logged states"
    for part in question.batches():
        if part.next.weights.size:
            total += _taken(part.next, width, discrete=question.layout.discrete)
            weight += float(part.next.weights.sum())
    if weight:
        return total / weight, "next states of the log"
    weights = question.initial_states.weights[question.initial.rows, None]
    start = replace(question.initial, weights=question.initial.weights * weights)
    return _taken(start, width, discrete=question.layout.discrete), "initial states"


def _taken(cloud: Cloud, width: int, *, discrete: bool) -> FloatArray:
    """Sums of the probabilities of all actions, or of the weighted actions themselves."""
    taken = cloud.weights if discrete else cloud.points[:, -width:] * cloud.weights
    return np.asarray(taken.sum(axis=0))


def _of_log(log: Log) -> dict[str, int | None]:
    """Episodes, ends and copies of the whole log; copies only of a log in memory."""
    episodes, terminations, truncations = 0, 0, 0
    for _, part, starts in episode_starts(log):
        episodes += starts.size
        terminations += int(part.terminations.sum())
        truncations += int(np.asarray(part.truncations).sum())
    copies = None
    if log.held:
        columns = log.read().columns().values()
        numbers = [np.asarray(column, dtype=np.float64) for column in columns if column is not None]
        copies = len(log) - int(np.unique(np.column_stack(numbers), axis=0).shape[0])
    return {
        "rows": len(log),
        "episodes": episodes,
        "terminations": terminations,
        "truncations": truncations,
        "copies": copies,
    }
