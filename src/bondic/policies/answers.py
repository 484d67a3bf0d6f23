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
    if protocol.is_time_dependent(policy) and questions.initial_times is None:
        raise InvalidInput(
            "The policy depends on time, but the problem does not: pass horizon= or time_varying=True (the log needs "
            "`timesteps`)."
        )
    if questions.action_dim == 0:
        return _ask_discrete(policy, questions)
    return _ask_continuous(policy, questions, draws, initial_draws, rng)


def _ask_discrete(policy: Any, q: Questions) -> PolicyAnswers:
    count, starts = q.next_states.shape[0], q.initial_states.shape[0]
    if isinstance(policy, protocol.RowProbabilities):
        initial = protocol.check_probabilities(policy.initial_probs, starts, "initial state")
        try:
            given = np.asarray(policy.next_probs, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise PolicyError("`next_probs` is not an array of numbers: one row of probabilities per row.") from problem
        if given.ndim != 2 or given.shape[0] != q.log_rows:
            raise InvalidInput(
                f"`next_probs` has shape {given.shape}; one row per row of the log ({q.log_rows}) is needed."
            )
        following = protocol.check_probabilities(given[q.next_rows], count, "next state", initial.shape[1], q.next_rows)
        return PolicyAnswers(following, initial, True, True)
    if not hasattr(policy, "action_probs"):
        raise InvalidInput(
            "The log has discrete actions (whole numbers); the policy must offer action_probs(observations), or be "
            "RowProbabilities. Wrap a plain function in CallablePolicy, or pass actions as floats if they are continuous."
        )
    initial = protocol.discrete_probabilities(policy, q.initial_states, q.initial_times, "initial state")
    slots = initial.shape[1]
    if count == 0:
        return PolicyAnswers(np.zeros((0, slots)), initial, True, True)
    following = protocol.discrete_probabilities(policy, q.next_states, q.next_times, "next state", slots, q.next_rows)
    return PolicyAnswers(following, initial, True, True)


def _ask_continuous(
    policy: Any, q: Questions, draws: int, initial_draws: int | None, rng: np.random.Generator
) -> PolicyAnswers:
    if not hasattr(policy, "sample_action"):
        raise InvalidInput(
            "The log has continuous actions (floats); the policy must offer sample_action(observations, rng). Wrap a "
            "plain function in CallableSampler, or pass actions as integers if they are discrete."
        )
    if any(count is not None and (int(count) != count or count < 1) for count in (draws, initial_draws)):
        raise InvalidInput(f"At least one action (a whole number) must be drawn per state: {draws=}, {initial_draws=}.")
    exact = protocol.is_deterministic(policy)
    m = 1 if exact else draws
    # initial draws are cheap and their error is paid for directly: about 4096 in all unless told otherwise
    m0 = 1 if exact else (initial_draws or max(draws, -(-4096 // q.initial_states.shape[0])))
    shape: dict[str, Any] = {"dimension": q.action_dim, "rng": rng}
    initial = protocol.sampled_actions(policy, q.initial_states, q.initial_times, "initial state", draws=m0, **shape)
    if q.next_states.shape[0] == 0:
        return PolicyAnswers(np.zeros((0, m, q.action_dim)), initial, False, exact)
    following = protocol.sampled_actions(
        policy, q.next_states, q.next_times, "next state", draws=m, log_rows=q.next_rows, **shape
    )
    return PolicyAnswers(following, initial, False, exact)
