"""Rows of a log in the form the formulas need: points, slot weights, rewards.

Points are rows z = (observation | time? | continuous action?). A discrete action is a *slot*: next and initial
points carry a row of slot weights pi(. | s'), so that means over next actions are exact sums. A continuous
next action is represented by m draws with weight 1/m each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.core.kernels.normal_form import Layout
from bondic.core.terms import Terms
from bondic.data.blocks import RowRange
from bondic.data.initial import InitialStates
from bondic.data.transitions import Transitions
from bondic.policies.logged_target import LoggedTarget, refuse_logged_target
from bondic.rows.frame import Frame

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points with slot weights; `rows[j]` tells which row (or initial state) point j belongs to, in ascending order."""

    points: FloatArray  # (N, D)
    weights: FloatArray  # (N, slots)
    rows: IntArray  # (N,)
    draws: int = 1  # points of one state, one after the other

    def per_row(self, values: FloatArray, count: int) -> FloatArray:
        """sum over the points of a row of weights . values; values (N, slots) -> (count,)."""
        means = np.einsum("ij,ij->i", self.weights, values)
        return np.asarray(np.bincount(self.rows, weights=means, minlength=count))

    def cut(self, first: int, last: int) -> Cloud:
        """The points of rows first..last-1, which are then counted from 0."""
        there = slice(*(int(k) for k in np.searchsorted(self.rows, [first, last])))
        return replace(self, points=self.points[there], weights=self.weights[there], rows=self.rows[there] - first)

    @property
    def roundings(self) -> int:
        """Float operations behind one entry of `per_row`."""
        longest = int(np.bincount(self.rows).max()) if self.rows.size else 0
        return int(longest + self.weights.shape[1] + 2)

    def pick(self, rows: IntArray) -> Cloud:
        """The points of these rows, ascending, which are then counted from 0."""
        place = np.searchsorted(rows, self.rows)
        there = np.flatnonzero((place < rows.size) & (rows[np.minimum(place, rows.size - 1)] == self.rows))
        return replace(self, points=self.points[there], weights=self.weights[there], rows=place[there])


class NoCloud(Cloud):
    """Next or initial points of a policy that is known at logged actions alone: there are none, and asking is refused."""

    def __init__(self) -> None:
        """Nothing is known."""

    def cut(self, first: int, last: int) -> Cloud:
        del first, last
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


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that count, in order, with the policy's answers at their next states."""

    terms: Terms
    layout: Layout
    initial: Cloud
    initial_states: InitialStates
    logged: FloatArray  # (n, D)
    slots: IntArray  # (n,) slot of the logged action
    rewards: FloatArray  # (n,)
    continues: BoolArray  # (n,) the transition has a next point
    next: Cloud  # next points of continuing rows
    times: IntArray | None  # (n,)
    log_rows: IntArray  # (n,) where each row stands in the log
    rows: RowRange  # the stretch of the log, rows beyond the horizon included

    def __len__(self) -> int:
        return int(self.rewards.shape[0])

    @property
    def gamma(self) -> float:
        return self.terms.gamma

    @property
    def next_answers(self) -> FloatArray:
        """What the policy said at the next states: (states, slots), or (states, m, k)."""
        if self.layout.discrete:
            return self.next.weights
        dimension = self.layout.action_dim
        return self.next.points[:, -dimension:].reshape(-1, self.next.draws, dimension)

    def cut(self, rows: RowRange) -> Batch:
        """Those of the rows that lie in the stretch."""
        if rows.start <= self.rows.start and self.rows.stop <= rows.stop:
            return self
        part = RowRange(max(rows.start, self.rows.start), min(rows.stop, self.rows.stop))
        first, last = (int(k) for k in np.searchsorted(self.log_rows, [part.start, part.stop]))
        here = slice(first, last)
        return replace(
            self,
            logged=self.logged[here],
            slots=self.slots[here],
            rewards=self.rewards[here],
            continues=self.continues[here],
            next=self.next.cut(first, last),
            times=None if self.times is None else self.times[here],
            log_rows=self.log_rows[here],
            rows=part,
        )

    def pick(self, rows: IntArray) -> Batch:
        """Some of the rows, by their places in this batch, ascending: for searches, which may look at fewer."""
        return replace(
            self,
            logged=self.logged[rows],
            slots=self.slots[rows],
            rewards=self.rewards[rows],
            continues=self.continues[rows],
            next=self.next.pick(rows),
            times=None if self.times is None else self.times[rows],
            log_rows=self.log_rows[rows],
        )


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


def join(batches: Sequence[Batch]) -> Batch:
    """Several batches as one."""
    if len(batches) == 1:
        return batches[0]
    tops = np.cumsum([0, *map(len, batches)])
    times = [batch.times for batch in batches if batch.times is not None]
    return replace(
        batches[0],
        logged=np.concatenate([batch.logged for batch in batches]),
        slots=np.concatenate([batch.slots for batch in batches]),
        rewards=np.concatenate([batch.rewards for batch in batches]),
        continues=np.concatenate([batch.continues for batch in batches]),
        log_rows=np.concatenate([batch.log_rows for batch in batches]),
        next=_joined([batch.next for batch in batches], tops),
        times=np.concatenate(times) if times else None,
        rows=RowRange(batches[0].rows.start, batches[-1].rows.stop),
    )


def _joined(clouds: Sequence[Cloud], tops: IntArray) -> Cloud:
    if isinstance(clouds[0], NoCloud):
        return clouds[0]
    return Cloud(
        np.concatenate([cloud.points for cloud in clouds]),
        np.concatenate([cloud.weights for cloud in clouds]),
        np.concatenate([cloud.rows + top for cloud, top in zip(clouds, tops, strict=False)]),
        clouds[0].draws,
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
