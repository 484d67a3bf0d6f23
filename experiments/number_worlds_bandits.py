"""Published data as logs without propensities: digits of scikit-learn, and Open Bandit where the package obp is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from experiments.defaults_cells import FloatArray
from experiments.defaults_problems_bandits import (
    OBP_ABSENT,
    SKLEARN_ABSENT,
    Campaign,
    campaign,
    fitted_rule,
    labeled_data,
    shares_policy,
)
from experiments.number_worlds_base import NumberWorld, Values, decisions, listed, over_policy, uniform_actions

import bondic


def population_world(
    name: str, population: FloatArray, actions: int, chance: Values, policy: Any, probabilities: Callable[..., Any]
) -> NumberWorld:
    """Contexts drawn from a list, actions uniform, a reward of 1 with a known chance; d_0 is the list."""

    def step(s: FloatArray, a: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        return (rng.random(len(s)) < chance(s, a)).astype(np.float64), s, np.ones(len(s), dtype=bool)

    def contexts(n: int, rng: np.random.Generator) -> FloatArray:
        return population[rng.integers(len(population), size=n)]

    states, counts = np.unique(population, axis=0, return_counts=True)
    return NumberWorld(
        name=name,
        gamma=0.0,
        reward_range=(0.0, 1.0),
        value_range=None,
        terminates=True,
        make_log=decisions(contexts, uniform_actions(actions), step),
        policy=policy,
        initial=bondic.InitialStates.exact(states, counts / counts.sum()),
        q_star=chance,
        v_star=lambda s: over_policy(chance, listed(probabilities), s),
        step=step,
    )


def digits() -> NumberWorld:
    """Half of the images fit the policy, a tree of 15 leaves; the other half is the population. Reward 1 for the right label."""
    features, labels = labeled_data("digits")
    order = np.random.default_rng(0).permutation(len(labels))
    fit, rest = order[: len(order) // 2], order[len(order) // 2 :]
    names = {image.tobytes(): label for image, label in zip(features[rest], labels[rest], strict=True)}
    assert len(names) == len(rest), "two equal images: their label is not a function"
    policy = bondic.DeterministicPolicy(fitted_rule(features[fit], labels[fit]), n_actions=10)

    def chance(s: FloatArray, a: Any) -> FloatArray:
        """Known for the population alone."""
        return np.asarray(np.array([names[image.tobytes()] for image in s]) == a, dtype=np.float64)

    return population_world("digits, γ 0", features[rest], 10, chance, policy, policy.action_probs)


def open_bandit(data: Campaign) -> NumberWorld:
    """Contexts of the random log, items at random, a click with the item's pooled rate; policy: item shares by position."""
    policy = shares_policy(data.shares)

    def chance(s: FloatArray, a: Any) -> FloatArray:
        return np.asarray(np.broadcast_to(data.rates[a], len(s)))

    return population_world("Open Bandit, γ 0", data.contexts, len(data.rates), chance, policy, policy.action_probs)


def bandit_worlds() -> list[NumberWorld]:
    """Those whose data are installed."""
    found = [] if SKLEARN_ABSENT else [digits()]
    return found if OBP_ABSENT else [*found, open_bandit(campaign("all"))]
