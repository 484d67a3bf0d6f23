"""(log, policy, d_0, gamma, reward range) -> points, signed weights, rewards. Everything below sees only this.

Points are rows z = (observation | time? | continuous action?). A discrete action is a *slot*: next and initial
points carry a row of slot weights pi(. | s'), so that means over next actions are exact sums. A continuous
next action is represented by m draws with weight 1/m each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.data.blocks import RowRange
from bondic.data.initial import InitialStates
from bondic.data.transitions import Transitions
from bondic.errors import InvalidInput
from bondic.kernels.normal_form import Layout
from bondic.policies.answers import PolicyAnswers, Questions, ask_policy

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


_SEED_SALT = 0x626F6E64
"""Keeps the action draws apart from whatever simulated the log with the same small seed."""


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points with slot weights; `rows[j]` tells which row (or initial state) point j belongs to."""

    points: FloatArray  # (N, D)
    weights: FloatArray  # (N, slots)
    rows: IntArray  # (N,)

    def per_row(self, values: FloatArray, count: int) -> FloatArray:
        """sum over the points of a row of weights . values; values (N, slots) -> (count,)."""
        means = np.einsum("ij,ij->i", self.weights, values)
        return np.asarray(np.bincount(self.rows, weights=means, minlength=count))

    @property
    def roundings(self) -> int:
        """Float operations behind one entry of `per_row`."""
        longest = int(np.bincount(self.rows).max()) if self.rows.size else 0
        return int(longest + self.weights.shape[1] + 2)


@dataclass(frozen=True)
class Terms:
    """What the user states about the question; all of it goes into the certificate."""

    gamma: float
    reward_range: tuple[float, float]
    may_terminate: bool = True
    horizon: int | None = None
    time_varying: bool = False


@dataclass(frozen=True, eq=False)
class Source:
    """The log and the policy as they were given, for methods that need more of them than the bounds do."""

    log: Transitions
    policy: Any


@dataclass(frozen=True, eq=False)
class Problem:
    """A policy-evaluation question in the form the bounds need."""

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

    def __len__(self) -> int:
        return int(self.rewards.shape[0])

    @property
    def gamma(self) -> float:
        return self.terms.gamma

    @property
    def dropped(self) -> int:
        """Rows of the stretch that lie at or beyond the horizon."""
        return len(self.rows) - len(self)

    @property
    def next_draws(self) -> int:
        """Draws per next state; 0 when means over actions are exact."""
        return 0 if self.answers.exact else int(self.answers.next.shape[1])

    @property
    def initial_draws(self) -> int:
        return 0 if self.answers.exact else int(self.answers.initial.shape[1])

    def select(self, start: int, stop: int | None = None) -> Problem:
        """The same question with rows start..stop-1 of the log only."""
        part = RowRange(start, self.rows.stop if stop is None else stop)
        if part.start < self.rows.start or part.stop > self.rows.stop:
            raise InvalidInput(f"{part} cannot be selected from a problem that covers {self.rows}.")
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

    def __repr__(self) -> str:
        actions = f"{self.layout.slots} actions" if self.layout.discrete else f"{self.layout.action_dim}-d actions"
        horizon = "" if self.terms.horizon is None else f", horizon={self.terms.horizon}"
        return (
            f"Problem(n={len(self)}, observation_dim={self.layout.observation_dim}, {actions}, gamma={self.gamma:g}, "
            f"reward_range={self.terms.reward_range}, initial={self.initial_states.kind} x {len(self.initial_states)}{horizon})"
        )


def make_problem(
    log: Transitions,
    policy: Any,
    initial: InitialStates,
    *,
    gamma: float,
    reward_range: tuple[float, float],
    horizon: int | None = None,
    may_terminate: bool = True,
    time_varying: bool = False,
    draws: int = 5,
    initial_draws: int | None = None,
    seed: int = 0,
) -> Problem:
    """Build the question "what would `policy` have earned from `initial`?" on this log.

    `reward_range` is knowledge about every possible reward, never read off the log. `may_terminate=False` states
    that the process never ends (it narrows the value range when all rewards have one sign). `draws` actions are
    drawn at each next state of a continuous policy, `initial_draws` at each initial state, from `seed`, which must
    not depend on the log.
    """
    if not isinstance(log, Transitions) or not isinstance(initial, InitialStates):
        raise InvalidInput(
            f"make_problem(log, policy, initial) needs Transitions and InitialStates, not {type(log).__name__} and "
            f"{type(initial).__name__}. Wrap initial states: InitialStates.exact(states) or InitialStates.sample(states)."
        )
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"`seed` is {seed!r}; a whole number >= 0 is needed, so that the draws can be repeated.")
    terms = _terms(gamma, reward_range, horizon, may_terminate, time_varying)
    frame = _frame(log, initial, terms)
    start_times = None if frame.times is None else np.zeros(len(initial), dtype=np.int64)
    questions = Questions(
        next_states=log.next_observations[frame.next_rows],
        next_times=None if frame.times is None else frame.times[frame.continues] + 1,
        next_rows=frame.next_rows,
        log_rows=len(log),
        initial_states=initial.observations,
        initial_times=start_times,
        action_dim=0 if log.discrete_actions else int(log.actions.shape[1]),
    )
    rng = np.random.default_rng([_SEED_SALT, seed])
    answers = ask_policy(policy, questions, draws=draws, initial_draws=initial_draws, rng=rng)
    return replace(assemble(log, initial, answers, terms, seed=seed), source=Source(log, policy))


def assemble(log: Transitions, initial: InitialStates, answers: PolicyAnswers, terms: Terms, *, seed: int) -> Problem:
    """Put log, initial states and the policy's answers together; verification enters here."""
    frame = _frame(log, initial, terms)
    layout = Layout(
        observation_dim=int(log.observations.shape[1]),
        has_time=frame.times is not None,
        action_dim=0 if log.discrete_actions else int(log.actions.shape[1]),
        slots=answers.slots,
    )
    kept_rows = np.flatnonzero(frame.kept)
    if layout.discrete and (log.actions[kept_rows] >= layout.slots).any():
        row = int(kept_rows[np.flatnonzero(log.actions[kept_rows] >= layout.slots)[0]])
        raise InvalidInput(
            f"Row {row} has action {log.actions[row]}, but the policy knows actions 0..{layout.slots - 1} only."
        )
    later = None if frame.times is None else frame.times[frame.continues] + 1
    start_times = None if frame.times is None else np.zeros(len(initial), dtype=np.int64)
    positions = np.flatnonzero(frame.continues)
    return Problem(
        terms=terms,
        layout=layout,
        logged=_points(log.observations[kept_rows], frame.times, None if layout.discrete else log.actions[kept_rows]),
        slots=np.asarray(log.actions[kept_rows] if layout.discrete else np.zeros(kept_rows.size), dtype=np.int64),
        rewards=log.rewards[kept_rows],
        continues=frame.continues,
        next=_cloud(log.next_observations[frame.next_rows], later, answers.next, positions, answers.discrete),
        initial=_cloud(initial.observations, start_times, answers.initial, np.arange(len(initial)), answers.discrete),
        initial_states=initial,
        answers=answers,
        times=frame.times,
        log_rows=kept_rows,
        rows=RowRange(0, len(log)),
        log_hash=log.content_hash,
        seed=seed,
    )


def _terms(
    gamma: float, reward_range: tuple[float, float], horizon: int | None, may_terminate: bool, time_varying: bool
) -> Terms:
    if not isinstance(gamma, Real) or not math.isfinite(gamma):
        raise InvalidInput(f"`gamma` is {gamma!r}; a discount in [0, 1) is needed.")
    if not 0 <= gamma < 1 and not (gamma == 1 and horizon is not None):
        raise InvalidInput(
            f"`gamma` is {gamma}. The discount lies in [0, 1); gamma = 1 needs a finite horizon: pass horizon=."
        )
    if horizon is not None and not (isinstance(horizon, Real) and horizon >= 1 and float(horizon).is_integer()):
        raise InvalidInput(f"`horizon` is {horizon!r}; a whole number of steps >= 1 is needed.")
    try:
        low, high = (float(value) for value in reward_range)
    except (TypeError, ValueError) as problem:
        raise InvalidInput("`reward_range` is a pair (lowest, highest possible reward).") from problem
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise InvalidInput(f"`reward_range` is [{low}, {high}]; two finite numbers, lowest first, are needed.")
    steps = None if horizon is None else int(horizon)
    return Terms(float(gamma), (low, high), bool(may_terminate), steps, bool(time_varying or horizon is not None))


@dataclass(frozen=True, eq=False)
class _Frame:
    kept: BoolArray  # (all rows) inside the horizon
    times: IntArray | None  # (kept rows)
    continues: BoolArray  # (kept rows)
    next_rows: IntArray  # rows of the log with a next point


def _frame(log: Transitions, initial: InitialStates, terms: Terms) -> _Frame:
    """Check the log against what was stated, and find the rows that count."""
    low, high = terms.reward_range
    outside = (log.rewards < low) | (log.rewards > high)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise InvalidInput(
            f"`rewards` leave `reward_range` [{low}, {high}]: {log.rewards[row]} at row {row}. The interval is valid "
            "only if every possible reward is inside; pass a wider range."
        )
    if not terms.may_terminate and log.terminations.any():
        row = int(np.flatnonzero(log.terminations)[0])
        raise InvalidInput(
            f"may_terminate=False, but row {row} is terminated. Drop the statement, or mark it as truncated."
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
            if not kept.any():
                raise InvalidInput(
                    f"Every row lies at or beyond the horizon {terms.horizon}: nothing is left to evaluate."
                )
        times = log.timesteps[kept]
    continues = ~log.terminations[kept]
    if times is not None and terms.horizon is not None:
        continues = continues & (times + 1 < terms.horizon)
    return _Frame(kept, times, continues, np.flatnonzero(kept)[continues])


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
