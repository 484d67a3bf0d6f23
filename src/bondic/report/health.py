"""Data health: what was counted in the log, so that a reader can see whether it is the log he thinks it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.data.initial import episode_starts
from bondic.data.log import Log
from bondic.policies.logged_target import LoggedTarget
from bondic.report.bins import FEWEST_ROWS, Bins, range_bins
from bondic.rows import Rows

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ActionUse:
    """How often an action was logged, and how often the target policy takes it at the log's next states."""

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
    actions: tuple[ActionUse, ...]  # shares (discrete) or means (continuous)
    discrete: bool
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
    asked = not isinstance(question.policy, LoggedTarget)  # else nothing is known of other actions than the logged ones
    width = question.layout.slots if question.layout.discrete else question.layout.action_dim
    logged, target, weight, used = np.zeros(width), np.zeros(width), 0.0, np.zeros(width, dtype=np.int64)
    distinct = None
    for part in question.batches():
        counts += np.bincount(bins.of(part.rewards), minlength=len(bins))
        total += float(part.rewards.sum())
        final += int((~part.continues).sum())
        if not asked:
            continue
        if part.layout.discrete:
            used += np.bincount(part.slots, minlength=width)
            target += part.next.weights.sum(axis=0)
        else:
            logged += part.logged[:, -width:].sum(axis=0)
            target += (part.next.points[:, -width:] * part.next.weights).sum(axis=0)
        weight += float(part.next.weights.sum())
        if len(part) == rows:
            distinct = int(np.unique(np.column_stack([part.logged, part.slots]), axis=0).shape[0])
    logged = (used if question.layout.discrete else logged) / max(rows, 1)
    thin = used < FEWEST_ROWS if no_rows and question.layout.discrete else np.zeros(width, dtype=bool)
    actions = tuple(
        ActionUse(
            f"action {k}", float(logged[k]), float(target[k]) / max(weight, 1e-300), -1 if thin[k] else int(used[k])
        )
        for k in range(width if asked else 0)
    )
    if no_rows:
        counts[counts < FEWEST_ROWS] = 0.0
    source = question.log if log is None else log
    return Health(
        rows, question.dropped, final, distinct, bins, counts, (low, high), total / max(rows, 1), actions,
        question.layout.discrete, **_of_log(source),
    )  # fmt: skip


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
