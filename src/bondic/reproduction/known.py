"""Worlds whose q* is a formula: there r_Q = factor · ‖q*‖ is a choice, not an estimate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from bondic.data.initial import InitialStates
from bondic.environments.rollout import Floats, Rollout
from bondic.environments.synthetic import SyntheticMDP
from bondic.environments.tabular import TabularMDP
from bondic.kernels.constant import Constant
from bondic.kernels.dirac import Dirac
from bondic.kernels.features import RandomFeatures
from bondic.kernels.gaussian import Gaussian
from bondic.policies.discrete import TablePolicy
from bondic.problem import Problem, make_problem
from bondic.reproduction.worlds import PAIRS, Setup, cut
from bondic.spaces.ball import Ball
from bondic.spaces.instruments import Instruments

ALIGNED = 10.0
"""r_Q = 10 ‖q*‖ unless the radius is what is varied."""


class _Target:
    """The target of a synthetic world as a policy."""

    def __init__(self, mdp: SyntheticMDP) -> None:
        self.action_probs = mdp.target_probs


@cache
def synthetic_world(gamma: float = 0.95) -> SyntheticMDP:
    """One-dimensional states, two actions, q* a sum of 8 Gaussians and a constant; target temperature 0.1, behaviour 1."""
    return SyntheticMDP.default(gamma)


def synthetic(
    rows: int,
    rng: np.random.Generator,
    *,
    gamma: float = 0.95,
    length: int = 50,
    mixtures: Sequence[float] = (0.0,),
) -> Setup:
    """A log of the behaviour α π + (1 − α) β for each α, equally many rows each; ‖q*‖ and J* are exact."""
    mdp = synthetic_world(gamma)
    parts = []
    for index, (rate, share) in enumerate(zip(mixtures, _shares(rows, len(mixtures)), strict=True)):
        episodes = share // length + 1

        def behaviour(states: Floats, rate: float = rate) -> Floats:
            return np.asarray(rate * mdp.target_probs(states) + (1.0 - rate) * mdp.behaviour_probs(states))

        part = cut(mdp.rollout(episodes, length, rng, behaviour=behaviour), share)
        parts.append((part, index * 10**6))
    columns = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations", "timesteps",
               "behavior_action_probs")  # fmt: skip
    joined = {key: np.concatenate([getattr(part, key) for part, _ in parts]) for key in columns}
    ids = np.concatenate([np.asarray(part.episode_ids) + first for part, first in parts])
    log = cut(Rollout(**joined, episode_ids=ids), rows)
    problem = make_problem(
        log,
        _Target(mdp),
        InitialStates.exact(mdp.initial_states, mdp.initial_probs),
        gamma=gamma,
        reward_range=mdp.reward_range,
        may_terminate=False,
    )
    assert isinstance(problem, Problem)
    # k: bandwidth 1/2 on the state; k~: the space in which ‖q*‖ is known
    features = RandomFeatures.gaussian(PAIRS, 1, 0.5, seed=0, on="state")
    weights = 0.5 * Constant(1.0) + 0.5 * (features * Dirac(on="action"))
    values = Gaussian(mdp.bandwidth, on="state") * Dirac(on="action") + mdp.offset * Constant(1.0)
    return Setup(problem, Instruments(weights), Ball(values, ALIGNED * mdp.q_norm), mdp.value, 1e-9)


@cache
def tabular_world(seed: int, gamma: float) -> TabularMDP:
    """4 states, 2 actions, rewards in [0, 1] with noise ±0.1."""
    return TabularMDP.random(np.random.default_rng(seed), n_states=4, n_actions=2, gamma=gamma, reward_noise=0.1)


def tabular(rows: int, rng: np.random.Generator, *, seed: int, gamma: float, length: int = 50) -> Setup:
    """k = k̃ = Dirac on (state, action), and a constant in k; ‖q*‖² is the sum of squares of the table."""
    mdp = tabular_world(seed, gamma)
    states = np.arange(mdp.initial_probs.size, dtype=float)[:, None]
    problem = make_problem(
        cut(mdp.rollout(rows // length + 1, length, rng), rows),
        TablePolicy(mdp.target),
        InitialStates.exact(states, mdp.initial_probs),
        gamma=gamma,
        reward_range=mdp.reward_range,
        may_terminate=False,
    )
    assert isinstance(problem, Problem)
    table = Dirac(on="state") * Dirac(on="action")
    weights = 0.5 * Constant(1.0) + 0.5 * table
    norm = float(np.linalg.norm(mdp.q_star))
    return Setup(problem, Instruments(weights), Ball(table, ALIGNED * norm), mdp.value, 1e-9)


def _shares(rows: int, parts: int) -> list[int]:
    """`rows` as a sum of nearly equal whole numbers."""
    return [rows // parts + (index < rows % parts) for index in range(parts)]
