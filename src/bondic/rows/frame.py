"""The log against what was stated: which rows count, which go on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.core.terms import Terms
from bondic.data._arrays import BoolArray, IntArray
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
