"""Batches of columns (`core.columns`) from rows of a log and the policy's answers at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bondic.core.columns import Batch, Cloud, RowRange
from bondic.core.errors import InvalidInput
from bondic.core.terms import Terms
from bondic.data._arrays import BoolArray, FloatArray, IntArray
from bondic.data.unread import Unread
from bondic.policies.logged_target import LoggedTarget, refuse_logged_target

if TYPE_CHECKING:
    from bondic.data.transitions import Transitions


@dataclass(frozen=True, eq=False)
class Frame:
    """Which rows of a log count, and which of them have a next point."""

    kept: BoolArray  # (all rows) inside the horizon
    times: IntArray | None  # (kept rows)
    continues: BoolArray  # (kept rows)
    next_rows: IntArray  # rows of the log with a next point


def make_frame(log: Transitions, terms: Terms) -> Frame:
    """The rows that count."""
    kept = np.ones(len(log), dtype=bool)
    times: IntArray | None = None
    if terms.time_varying:
        assert log.timesteps is not None
        if terms.horizon is not None:
            kept = np.asarray(log.timesteps < terms.horizon)
        times = log.timesteps[kept]
    continues = ~log.terminations[kept]
    if times is not None and terms.horizon is not None:
        continues = continues & (times + 1 < terms.horizon)
    return Frame(kept, times, continues, np.flatnonzero(kept)[continues])


def check_part(log: Transitions, terms: Terms, first_row: int) -> None:
    """Rewards and terminations of these rows against what was stated."""
    low, high = terms.reward_range
    outside = (log.rewards < low) | (log.rewards > high)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise InvalidInput(
            f"`rewards` leave `reward_range` [{low}, {high}]: {log.rewards[row]} at row {first_row + row}. The interval is valid "
            "only if every possible reward is inside; pass a wider range."
        )
    if not terms.may_terminate and log.terminations.any():
        row = int(np.flatnonzero(log.terminations)[0])
        raise InvalidInput(
            f"may_terminate=False, but row {first_row + row} is terminated. Drop the statement, or mark it as truncated."
        )


def check_actions(log: Transitions, frame: Frame, slots: int, first_row: int) -> None:
    """Actions that the policy does not know have no slot."""
    unknown = np.flatnonzero(frame.kept & (log.actions >= slots)) if log.discrete_actions else np.zeros(0, np.int64)
    if unknown.size:
        row = int(unknown[0])
        raise InvalidInput(
            f"Row {first_row + row} has action {log.actions[row]}, but the policy knows actions 0..{slots - 1} only. "
            "Give it a probability for every logged action, 0 where it never takes one; a classifier: load_policy(model, "
            "actions=K)."
        )


_SALT = 0x626F6E64
"""Separates the action draws from those of a simulator of the log with the same small seed."""


@dataclass(frozen=True)
class Draws:
    """Generators of a continuous policy's draws, by key, from a seed that must not depend on the log.

    Row i of the log has place i mod 256 in group floor(i / 256). What is drawn for a row depends on the seed and on its number,
    never on how the log is read, which rows are selected, who does the work, or how far the log goes on: a log that grows keeps
    the draws of its rows.
    """

    seed: int

    def at_start(self) -> np.random.Generator:
        return np.random.default_rng([_SALT, self.seed])

    def at_group(self, number: int) -> np.random.Generator:
        # a spawn key, not a third number: a seed (salt, seed, 0) is the seed (salt, seed) of the initial states
        return np.random.default_rng(np.random.SeedSequence([_SALT, self.seed], spawn_key=(number,)))


class NoCloud(Cloud):
    """Next or initial points of a policy that is known at logged actions alone: there are none, and asking is refused."""

    def __init__(self) -> None:
        """Nothing is known."""

    def cut(self, first: int, last: int) -> Cloud:
        del first, last
        return self

    def joined(self, clouds: Sequence[Cloud], tops: IntArray) -> Cloud:
        del clouds, tops
        return self

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            refuse_logged_target(LoggedTarget(), "the policy's probabilities of all actions at next and initial states")
        raise AttributeError(name)


class LaterCloud(Unread, Cloud):
    """Points of starts of a log that is read in batches."""


def make_cloud(
    states: FloatArray, times: IntArray | None, answers: FloatArray, rows: IntArray, *, discrete: bool
) -> Cloud:
    """States with the policy's answers at them: one point each, or one for every draw."""
    if answers.shape[0] != states.shape[0]:
        raise InvalidInput(f"The policy's answers cover {answers.shape[0]} states; there are {states.shape[0]}.")
    if discrete:
        return Cloud(_points(states, times), answers, rows)
    m = answers.shape[1]
    points = _points(
        np.repeat(states, m, axis=0),
        None if times is None else np.repeat(times, m),
        answers.reshape(-1, answers.shape[2]),
    )
    return Cloud(points, np.full((points.shape[0], 1), 1.0 / m), np.repeat(rows, m), m)


def make_batch(start: Batch, log: Transitions, frame: Frame, answers: FloatArray | None, first_row: int) -> Batch:
    """Rows `first_row`, ... of a log, with the policy's answers if it has any; `start` has what does not depend on them."""
    kept = np.flatnonzero(frame.kept)
    logged, slots = logged_pairs(log, frame)
    later = None if frame.times is None else frame.times[frame.continues] + 1
    following = log.next_observations[frame.next_rows]
    positions = np.flatnonzero(frame.continues)
    discrete = start.layout.discrete
    return replace(
        start,
        logged=logged,
        slots=slots,
        rewards=log.rewards[kept],
        continues=frame.continues,
        next=NoCloud() if answers is None else make_cloud(following, later, answers, positions, discrete=discrete),
        times=frame.times,
        log_rows=kept + first_row,
        rows=RowRange(first_row, first_row + len(log)),
    )


def logged_pairs(log: Transitions, frame: Frame) -> tuple[FloatArray, IntArray]:
    """Points (n, D) and slots (n,) of the rows that count."""
    rows: Any = np.flatnonzero(frame.kept) if not frame.kept.all() else slice(None)
    discrete = log.discrete_actions
    points = _points(log.observations[rows], frame.times, None if discrete else log.actions[rows])
    return points, np.asarray(log.actions[rows] if discrete else np.zeros(len(points)), dtype=np.int64)


def _points(observations: FloatArray, times: IntArray | None, actions: Any = None) -> FloatArray:
    parts = [observations]
    if times is not None:
        parts.append(times[:, None].astype(np.float64))
    if actions is not None:
        parts.append(actions)
    return np.ascontiguousarray(np.hstack(parts) if len(parts) > 1 else observations)
