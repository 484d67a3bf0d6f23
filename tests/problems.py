"""Small problems that several test files share."""

from __future__ import annotations

import numpy as np

import bondic
from bondic.environments.synthetic import SyntheticMDP
from bondic.environments.tabular import TabularMDP


def as_log(rollout: object) -> bondic.Transitions:
    return bondic.Transitions(**{name: getattr(rollout, name) for name in rollout.__dataclass_fields__})


def synthetic(rows: int = 400, seed: int = 0, gamma: float = 0.8, **more: object):
    """(MDP, log, policy, initial states) of the continuous-state problem with known q*."""
    mdp = SyntheticMDP.default(gamma, seed=1, **more)
    log = as_log(mdp.rollout(max(1, rows // 20), min(rows, 20), np.random.default_rng(seed)))
    return (
        mdp,
        log,
        bondic.CallablePolicy(mdp.target_probs),
        bondic.InitialStates.exact(mdp.initial_states, mdp.initial_probs),
    )


def tabular(rows: int = 400, seed: int = 0, gamma: float = 0.8, **more: object):
    """(MDP, log, policy, initial states) of a random tabular problem."""
    mdp = TabularMDP.random(np.random.default_rng(11), gamma=gamma, **more)
    log = as_log(mdp.rollout(max(1, rows // 20), min(rows, 20), np.random.default_rng(seed)))
    states = np.arange(mdp.initial_probs.size, dtype=float)[:, None]
    return mdp, log, bondic.TablePolicy(mdp.target), bondic.InitialStates.exact(states, mdp.initial_probs)


def continuous(rows: int = 200, seed: int = 0):
    """(log, policy, initial states) with one-dimensional continuous actions."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(rows, 2))
    actions = rng.normal(size=(rows, 1))
    following = 0.7 * states + 0.2 * actions + 0.1 * rng.normal(size=(rows, 2))
    rewards = np.tanh(states[:, 0] - 0.3 * actions[:, 0] ** 2)
    log = bondic.Transitions(states, actions, rewards, following, rng.random(rows) < 0.05)
    policy = bondic.GaussianPolicy(lambda s: 0.4 * s[:, :1], 0.2)
    return log, policy, bondic.InitialStates.exact(rng.normal(size=(6, 2)))
