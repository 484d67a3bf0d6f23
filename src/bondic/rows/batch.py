"""Batches of columns (`core.columns`) from rows of a log and the policy's answers at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bondic.core.columns import Batch, Cloud, RowRange
from bondic.core.errors import InvalidInput
from bondic.data._arrays import FloatArray, IntArray
from bondic.data.transitions import Transitions
from bondic.policies.logged_target import LoggedTarget, refuse_logged_target
from bondic.rows.frame import Frame


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
    rows = np.flatnonzero(frame.kept)
    discrete = log.discrete_actions
    points = _points(log.observations[rows], frame.times, None if discrete else log.actions[rows])
    return points, np.asarray(log.actions[rows] if discrete else np.zeros(rows.size), dtype=np.int64)


def _points(observations: FloatArray, times: IntArray | None, actions: Any = None) -> FloatArray:
    parts = [observations]
    if times is not None:
        parts.append(times[:, None].astype(np.float64))
    if actions is not None:
        parts.append(actions)
    return np.ascontiguousarray(np.hstack(parts))
