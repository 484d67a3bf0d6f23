"""Actions at simulated states: drawn by the policy, or of any kind."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.policies.answers import StoredAnswers
from bondic.policies.protocol import RowProbabilities, discrete_probabilities, is_time_dependent, sampled_actions
from bondic.rows import Batch, Rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def can_be_asked(policy: object) -> bool:
    """Whether a policy answers at states that are in no log."""
    return not (isinstance(policy, RowProbabilities | StoredAnswers) or is_time_dependent(policy))


def policy_action(pilot: Rows, states: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Points and slots of actions drawn by the policy."""
    if not pilot.layout.discrete:
        actions = sampled_actions(
            pilot.policy, states, None, "simulated state", draws=1, dimension=pilot.layout.action_dim, rng=rng
        )
        return np.hstack([states, actions[:, 0]]), np.zeros(len(states), dtype=np.int64)
    probs = discrete_probabilities(pilot.policy, states, None, "simulated state", pilot.layout.slots)
    drawn = (rng.random(len(states))[:, None] > np.cumsum(probs, axis=1)).sum(axis=1)
    return states, np.minimum(drawn, pilot.layout.slots - 1)


def any_action(pilot: Rows, rows: Batch, states: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Points and slots of actions of all kinds: each discrete one as often, or those of other rows."""
    if pilot.layout.discrete:
        return states, rng.integers(0, pilot.layout.slots, len(states))
    actions = rows.logged[rng.integers(0, len(rows), len(states)), -pilot.layout.action_dim :]
    return np.hstack([states, actions]), np.zeros(len(states), dtype=np.int64)
