"""The log against what was stated: which rows count, which go on, and where the policy has to be asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.data.initial import InitialStates
from bondic.data.transitions import Transitions
from bondic.errors import InvalidInput
from bondic.policies.answers import Questions
from bondic.terms import Terms

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Frame:
    """Which rows of a log count, and which of them have a next point."""

    kept: BoolArray  # (all rows) inside the horizon
    times: IntArray | None  # (kept rows)
    continues: BoolArray  # (kept rows)
    next_rows: IntArray  # rows of the log with a next point


def make_frame(log: Transitions, initial: InitialStates, terms: Terms, first_row: int = 0) -> Frame:
    """Check the log against what was stated, and find the rows that count."""
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
    if initial.observations.shape[1] != log.observations.shape[1]:
        raise InvalidInput(
            f"Initial states have {initial.observations.shape[1]} dimensions, the log {log.observations.shape[1]}. They "
            "need the columns of the log's observations, one row per state: a single state is [[x_1, x_2, ...]]."
        )
    kept = np.ones(len(log), dtype=bool)
    times: IntArray | None = None
    if terms.time_varying:
        if log.timesteps is None:
            raise InvalidInput(
                "A finite horizon or a time-varying problem needs `timesteps` in the log: value depends on time."
            )
        if terms.horizon is not None:
            kept = np.asarray(log.timesteps < terms.horizon)
        times = log.timesteps[kept]
    continues = ~log.terminations[kept]
    if times is not None and terms.horizon is not None:
        continues = continues & (times + 1 < terms.horizon)
    return Frame(kept, times, continues, np.flatnonzero(kept)[continues])


def refuse_nothing(count: int, terms: Terms) -> None:
    if count == 0:
        raise InvalidInput(f"Every row lies at or beyond the horizon {terms.horizon}: nothing is left to evaluate.")


def refuse_unknown_action(log: Transitions, frame: Frame, slots: int, first_row: int = 0) -> None:
    kept_rows = np.flatnonzero(frame.kept)
    if log.discrete_actions and (log.actions[kept_rows] >= slots).any():
        row = int(kept_rows[np.flatnonzero(log.actions[kept_rows] >= slots)[0]])
        raise InvalidInput(
            f"Row {first_row + row} has action {log.actions[row]}, but the policy knows actions 0..{slots - 1} only."
        )


def questions(log: Transitions, initial: InitialStates, frame: Frame, first_row: int, log_rows: int) -> Questions:
    """Where the policy has to be asked for these rows."""
    return Questions(
        next_states=log.next_observations[frame.next_rows],
        next_times=None if frame.times is None else frame.times[frame.continues] + 1,
        next_rows=frame.next_rows + first_row,
        log_rows=log_rows,
        initial_states=initial.observations,
        initial_times=None if frame.times is None else np.zeros(len(initial), dtype=np.int64),
        action_dim=0 if log.discrete_actions else int(log.actions.shape[1]),
    )
