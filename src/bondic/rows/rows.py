"""(log, policy, d_0, gamma, reward range) -> points, signed weights, rewards. Everything below sees only this."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.data.blocks import RowRange
from bondic.data.initial import InitialStates
from bondic.data.spread import spread_rows
from bondic.data.transitions import Transitions
from bondic.errors import InvalidInput
from bondic.kernels.normal_form import Layout
from bondic.policies.answers import PolicyAnswers
from bondic.rows.frame import Frame, make_frame, refuse_nothing, refuse_unknown_action
from bondic.rows.question import Cloud, Question
from bondic.terms import Terms

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Source:
    """The log and the policy as they were given, for methods that need more of them than the bounds do."""

    log: Transitions
    policy: Any


@dataclass(frozen=True, eq=False, repr=False)
class Problem(Question):
    """A policy-evaluation question in the form the bounds need, all rows in memory."""

    terms: Terms
    layout: Layout
    logged: FloatArray  # (n, D)
    slots: IntArray  # (n,) slot of the logged action
    rewards: FloatArray  # (n,)
    continues: BoolArray  # (n,) the transition has a next point
    next: Cloud  # next points of continuing rows
    initial: Cloud
    initial_states: InitialStates
    answers: PolicyAnswers
    times: IntArray | None  # (n,)
    log_rows: IntArray  # (n,) where each row stands in the log
    rows: RowRange  # the stretch of the log this problem covers, rows beyond the horizon included
    log_hash: str
    seed: int
    source: Source | None = None  # None in a problem that was put together from a certificate
    doubts: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.rewards.shape[0])

    def parts(self) -> Iterator[Problem]:
        yield self

    def load(self, start: int, stop: int) -> Problem | None:
        usable = np.searchsorted(self.log_rows, [start, stop])
        return self.select(start, stop) if usable[0] < usable[1] else None

    def some_points(self, most_rows: int) -> FloatArray:
        chosen = np.zeros(len(self), dtype=bool)
        chosen[spread_rows(len(self), most_rows)] = True
        return np.concatenate([self.initial.points, self.logged[chosen], self.next.points[chosen[self.next.rows]]])

    def select(self, start: int, stop: int | None = None) -> Problem:
        part = self.checked_range(start, stop)
        first, last = (int(k) for k in np.searchsorted(self.log_rows, [part.start, part.stop]))
        if first == last:
            raise InvalidInput(f"No usable row is left in {part} of the log.")
        keep = (self.next.rows >= first) & (self.next.rows < last)
        cut = slice(first, last)
        return replace(
            self,
            logged=self.logged[cut],
            slots=self.slots[cut],
            rewards=self.rewards[cut],
            continues=self.continues[cut],
            next=Cloud(self.next.points[keep], self.next.weights[keep], self.next.rows[keep] - first),
            times=None if self.times is None else self.times[cut],
            log_rows=self.log_rows[cut],
            rows=part,
        )


def assemble(
    log: Transitions,
    initial: InitialStates,
    answers: PolicyAnswers,
    terms: Terms,
    *,
    seed: int,
    first_row: int = 0,
    starts: Cloud | None = None,
) -> Problem:
    """Put log, initial states and the policy's answers together; verification enters here.

    `first_row` is where the rows stand in a longer log, `starts` the initial cloud when it was made already.
    """
    frame = make_frame(log, initial, terms, first_row)
    kept_rows = np.flatnonzero(frame.kept)
    refuse_nothing(kept_rows.size, terms)
    refuse_unknown_action(log, frame, answers.slots, first_row)
    layout = Layout(
        observation_dim=int(log.observations.shape[1]),
        has_time=frame.times is not None,
        action_dim=0 if log.discrete_actions else int(log.actions.shape[1]),
        slots=answers.slots,
    )
    logged, slots = logged_pairs(log, frame)
    later = None if frame.times is None else frame.times[frame.continues] + 1
    positions = np.flatnonzero(frame.continues)
    return Problem(
        terms=terms,
        layout=layout,
        logged=logged,
        slots=slots,
        rewards=log.rewards[kept_rows],
        continues=frame.continues,
        next=_cloud(log.next_observations[frame.next_rows], later, answers.next, positions, answers.discrete),
        initial=initial_cloud(initial, answers, timed=layout.has_time) if starts is None else starts,
        initial_states=initial,
        answers=answers,
        times=frame.times,
        log_rows=kept_rows + first_row,
        rows=RowRange(first_row, first_row + len(log)),
        log_hash=log.content_hash,
        seed=seed,
    )


def logged_pairs(log: Transitions, frame: Frame) -> tuple[FloatArray, IntArray]:
    """Points (n, D) and slots (n,) of the rows that count."""
    rows = np.flatnonzero(frame.kept)
    discrete = log.discrete_actions
    points = _points(log.observations[rows], frame.times, None if discrete else log.actions[rows])
    return points, np.asarray(log.actions[rows] if discrete else np.zeros(rows.size), dtype=np.int64)


def initial_cloud(initial: InitialStates, answers: PolicyAnswers, *, timed: bool) -> Cloud:
    """The points of d_{pi,0}."""
    times = np.zeros(len(initial), dtype=np.int64) if timed else None
    return _cloud(initial.observations, times, answers.initial, np.arange(len(initial)), answers.discrete)


def _points(observations: FloatArray, times: IntArray | None, actions: Any = None) -> FloatArray:
    parts = [observations]
    if times is not None:
        parts.append(times[:, None].astype(np.float64))
    if actions is not None:
        parts.append(actions)
    return np.ascontiguousarray(np.hstack(parts))


def _cloud(states: FloatArray, times: IntArray | None, answers: FloatArray, rows: IntArray, discrete: bool) -> Cloud:
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
    return Cloud(points, np.full((points.shape[0], 1), 1.0 / m), np.repeat(rows, m))
