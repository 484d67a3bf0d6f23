"""What advice counts in a log: actions, pairs that were never logged, rewards, returns, episodes.

One pass over the certified rows, over the first 50 000 of them where there are more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.data.blocks import RowRange
from bondic.policies.logged_target import LoggedTarget
from bondic.rows import Batch, Rows
from bondic.rows.recorded import recorded_returns

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_MOST_ROWS = 50_000
_MOST_STATES = 5000
"""Distinct states above which pairs are not counted."""


@dataclass(frozen=True, eq=False)
class LogFacts:
    """Counts over the certified rows."""

    rows: int  # that were looked at
    logged: IntArray  # (slots,) rows of every action; empty where actions are numbers
    target: FloatArray  # (slots,) share of the policy's probability; empty where it is not known
    unseen: float  # share of the policy's probability at pairs of state and action without a row; NaN: not counted
    states: int  # distinct states, 0 where there are too many to count
    not_left: float  # share of the initial distribution at states that no row leaves; NaN: not counted
    first_not_left: FloatArray  # (d,) the first of these states; empty where there is none
    rewards: tuple[float, float]  # the least and the largest
    ends: int  # rows without a next state
    longest: int  # rows of the longest episode
    returns: tuple[float, float] | None  # discounted, of episodes that are complete; None: there are none


def count_facts(certified: Rows) -> LogFacts:
    """Facts about the rows that an interval was made from."""
    stop = min(certified.rows.stop, certified.rows.start + _MOST_ROWS)
    part = certified.restricted(RowRange(certified.rows.start, stop))
    batches = list(part.batches())
    rewards = np.concatenate([batch.rewards for batch in batches])
    longest, returns = _episodes(part)
    known = part.layout.discrete and not isinstance(part.policy, LoggedTarget)
    states, unseen = _pairs(batches, part) if known else (0, float("nan"))
    not_left, first_not_left = _starts(batches, part) if states else (float("nan"), np.zeros(0))
    return LogFacts(
        len(rewards),
        _logged(batches, part.layout.slots) if part.layout.discrete else np.zeros(0, dtype=np.int64),
        _target(batches, part) if known else np.zeros(0),
        unseen,
        states,
        not_left,
        first_not_left,
        (float(rewards.min()), float(rewards.max())),
        sum(int((~batch.continues).sum()) for batch in batches),
        longest,
        returns,
    )


def _logged(batches: list[Batch], slots: int) -> IntArray:
    return np.asarray(np.sum([np.bincount(batch.slots, minlength=slots) for batch in batches], axis=0))


def _target(batches: list[Batch], part: Rows) -> FloatArray:
    """Shares at the states that the log reaches; at the initial states where nothing follows any row."""
    found = np.sum([batch.next.weights.sum(axis=0) for batch in batches], axis=0)
    if not found.sum():
        found = (part.initial.weights * part.initial_states.weights[part.initial.rows, None]).sum(axis=0)
    return np.asarray(found / max(found.sum(), 1e-300))


def _pairs(batches: list[Batch], part: Rows) -> tuple[int, float]:
    """Distinct states, and the share of the policy's probability at pairs that no row has."""
    logged = np.concatenate([batch.logged for batch in batches])
    slots = np.concatenate([batch.slots for batch in batches])
    clouds = [batch.next for batch in batches if batch.next.rows.size] or [part.initial]
    reached = np.concatenate([cloud.points for cloud in clouds])
    weights = np.concatenate([cloud.weights for cloud in clouds])
    distinct, codes = np.unique(np.concatenate([logged, reached]), axis=0, return_inverse=True)
    if len(distinct) > min(_MOST_STATES, len(logged) // 2):
        return 0, float("nan")
    seen = np.zeros((len(distinct), part.layout.slots), dtype=bool)
    codes = codes.reshape(-1)
    seen[codes[: len(logged)], slots] = True
    lost = float(weights[~seen[codes[len(logged) :]]].sum())
    return len(distinct), lost / max(float(weights.sum()), 1e-300)


def _starts(batches: list[Batch], part: Rows) -> tuple[float, FloatArray]:
    """Share of the initial distribution at states that no row leaves, and the first of them."""
    cloud = part.initial
    logged = np.concatenate([batch.logged for batch in batches])
    _, codes = np.unique(np.concatenate([logged, cloud.points]), axis=0, return_inverse=True)
    codes = codes.reshape(-1)
    missing = ~np.isin(codes[len(logged) :], codes[: len(logged)])
    weights = part.initial_states.weights[cloud.rows]
    share = float(weights[missing].sum()) / max(float(weights.sum()), 1e-300)
    return share, cloud.points[missing][0, : part.layout.observation_dim] if missing.any() else np.zeros(0)


def _episodes(part: Rows) -> tuple[int, tuple[float, float] | None]:
    """The longest episode, and the least and largest discounted return of those that came to an end."""
    found = recorded_returns(part)
    complete = found.returns[found.ended]
    return int(found.steps.max(initial=0)), (float(complete.min()), float(complete.max())) if complete.size else None
