"""What the policy said at the next and initial states: all that an interval needs to know about it.

A certificate stores these answers, so that verification needs no policy code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.errors import InvalidInput, PolicyError
from bondic.policies import protocol

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PolicyAnswers:
    """pi at the next states of continuing rows and at the initial states.

    Discrete actions: probabilities, (rows, slots). Continuous actions: draws, (rows, m, k).
    """

    next: FloatArray
    initial: FloatArray
    discrete: bool
    exact: bool  # means over actions are exact: discrete, or deterministic

    @property
    def slots(self) -> int:
        return int(self.initial.shape[1]) if self.discrete else 1


@dataclass(frozen=True, eq=False)
class Questions:
    """Where the policy is asked; times are None unless value depends on time."""

    next_states: FloatArray  # (continuing rows, d)
    next_times: IntArray | None
    next_rows: IntArray  # their rows in the log
    log_rows: int
    initial_states: FloatArray
    initial_times: IntArray | None
    action_dim: int  # 0 for discrete actions


def ask_policy(
    policy: Any, questions: Questions, *, draws: int, initial_draws: int | None, rng: np.random.Generator
) -> PolicyAnswers:
    """Ask once, validate everything."""
    initial, exact = ask_initial(policy, questions, draws=draws, initial_draws=initial_draws, rng=rng)
    discrete = questions.action_dim == 0
    following = ask_next(policy, questions, int(initial.shape[1]), draws=draws, rng=rng)
    return PolicyAnswers(following, initial, discrete, exact)


def ask_initial(
    policy: Any, q: Questions, *, draws: int, initial_draws: int | None, rng: np.random.Generator
) -> tuple[FloatArray, bool]:
    """The policy at the initial states, and whether means over its actions are exact."""
    if protocol.is_time_dependent(policy) and q.initial_times is None:
        raise InvalidInput(
            "The policy depends on time, but the problem does not: pass horizon= or time_varying=True (the log needs "
            "`timesteps`)."
        )
    if q.action_dim:
        return _initial_draws(policy, q, draws, initial_draws, rng)
    if isinstance(policy, protocol.RowProbabilities):
        return protocol.check_probabilities(policy.initial_probs, q.initial_states.shape[0], "initial state"), True
    if not hasattr(policy, "action_probs"):
        raise InvalidInput(
            "The log has discrete actions (whole numbers); the policy must offer action_probs(observations), or be "
            "RowProbabilities. Wrap a plain function in CallablePolicy, or pass actions as floats if they are continuous."
        )
    return protocol.discrete_probabilities(policy, q.initial_states, q.initial_times, "initial state"), True


def ask_next(policy: Any, q: Questions, slots: int, *, draws: int, rng: np.random.Generator) -> FloatArray:
    """The policy at the next states: probabilities of `slots` actions, or draws."""
    count = q.next_states.shape[0]
    if q.action_dim:
        m = 1 if protocol.is_deterministic(policy) else draws
        if count == 0:
            return np.zeros((0, m, q.action_dim))
        shape: dict[str, Any] = {"dimension": q.action_dim, "rng": rng, "log_rows": q.next_rows}
        return protocol.sampled_actions(policy, q.next_states, q.next_times, "next state", draws=m, **shape)
    if isinstance(policy, protocol.RowProbabilities):
        given = _given_probabilities(policy, q.log_rows)
        return protocol.check_probabilities(given[q.next_rows], count, "next state", slots, q.next_rows)
    if count == 0:
        return np.zeros((0, slots))
    return protocol.discrete_probabilities(policy, q.next_states, q.next_times, "next state", slots, q.next_rows)


def _given_probabilities(policy: protocol.RowProbabilities, log_rows: int) -> FloatArray:
    try:
        given = np.asarray(policy.next_probs, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise PolicyError("`next_probs` is not an array of numbers: one row of probabilities per row.") from problem
    if given.ndim != 2 or given.shape[0] != log_rows:
        raise InvalidInput(f"`next_probs` has shape {given.shape}; one row per row of the log ({log_rows}) is needed.")
    return given


def _initial_draws(
    policy: Any, q: Questions, draws: int, initial_draws: int | None, rng: np.random.Generator
) -> tuple[FloatArray, bool]:
    if not hasattr(policy, "sample_action"):
        raise InvalidInput(
            "The log has continuous actions (floats); the policy must offer sample_action(observations, rng). Wrap a "
            "plain function in CallableSampler, or pass actions as integers if they are discrete."
        )
    if any(count is not None and (int(count) != count or count < 1) for count in (draws, initial_draws)):
        raise InvalidInput(f"At least one action (a whole number) must be drawn per state: {draws=}, {initial_draws=}.")
    exact = protocol.is_deterministic(policy)
    # initial draws are cheap and their error is paid for directly: about 4096 in all unless told otherwise
    m0 = 1 if exact else (initial_draws or max(draws, -(-4096 // q.initial_states.shape[0])))
    shape: dict[str, Any] = {"dimension": q.action_dim, "rng": rng}
    return protocol.sampled_actions(
        policy, q.initial_states, q.initial_times, "initial state", draws=m0, **shape
    ), exact
