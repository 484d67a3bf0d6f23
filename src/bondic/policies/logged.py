"""pi(a_i | s_i): the target policy at the logged states and actions, asked only by methods that weigh trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, PolicyError
from bondic.data._arrays import FloatArray, IntArray
from bondic.policies import protocol
from bondic.policies.logged_target import refuse_logged_target


def logged_action_probs(
    policy: Any,
    observations: FloatArray,
    actions: npt.NDArray[Any],
    timesteps: IntArray | None,
    *,
    slots: int,
    log_rows: IntArray,
) -> FloatArray:
    """pi(a_i | s_i): a probability for discrete actions (n,), a density for continuous ones (n, k)."""
    refuse_logged_target(policy, "the policy's probabilities, from the policy itself")
    if actions.ndim == 1:
        rows = logged_state_probs(policy, observations, timesteps, slots=slots, log_rows=log_rows)
        return np.asarray(rows[np.arange(actions.size), actions])
    if not hasattr(policy, "action_density"):
        raise InvalidInput(
            "Weights of trajectories need the policy's density of the logged actions: give the policy a method "
            "action_density(observations, actions), or use a method that needs no weights, such as Dual()."
        )
    more = (timesteps,) if protocol.is_time_dependent(policy) else ()
    try:
        density = np.asarray(policy.action_density(observations.copy(), actions.copy(), *more), dtype=np.float64)
    except PolicyError:
        raise
    except (Exception, SystemExit) as problem:
        raise PolicyError(f"action_density raised {type(problem).__name__}: {problem}") from problem
    if density.shape != (actions.shape[0],) or not np.all(np.isfinite(density)) or np.any(density < 0):
        raise PolicyError("action_density must return one finite number >= 0 per row.")
    return density


def can_be_asked(policy: Any) -> bool:
    """Whether a policy of discrete actions says what it would do at logged states."""
    if isinstance(policy, protocol.RowProbabilities):
        return policy.logged_probs is not None
    return hasattr(policy, "action_probs")


def logged_state_probs(
    policy: Any, observations: FloatArray, timesteps: IntArray | None, *, slots: int, log_rows: IntArray
) -> FloatArray:
    """pi(. | s_i) at every logged state, (n, slots)."""
    refuse_logged_target(policy, "the policy's probabilities of all actions at the logged states")
    if isinstance(policy, protocol.RowProbabilities):
        if policy.logged_probs is None:
            raise InvalidInput(
                "The policy is written down per row without `logged_probs`, its probabilities at the logged states, which "
                "weights of trajectories need: RowProbabilities(next_probs, initial_probs, logged_probs)."
            )
        given = np.asarray(policy.logged_probs, dtype=np.float64)
        if given.ndim != 2 or given.shape[0] <= int(log_rows.max(initial=-1)):
            raise InvalidInput(f"`logged_probs` has shape {given.shape}; one row per row of the log is needed.")
        return protocol.check_probabilities(given[log_rows], log_rows.size, "logged state", slots, log_rows)
    return protocol.discrete_probabilities(policy, observations, timesteps, "logged state", slots, log_rows)
