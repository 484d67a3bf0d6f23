"""Logs with hundreds of actions: capped searches, and no decomposition that takes minutes."""

import numpy as np
import pytest

import bondic
from bondic.core.balls import Ball
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac, Gaussian
from bondic.search.best_so_far import evaluate_all
from bondic.search.search import kernel_search
from builders import setting_of


class Softmax:
    """pi(a | s) ~ exp(s . w_a)."""

    def __init__(self, actions, dimension):
        self.weights = np.random.default_rng(1).normal(size=(dimension, actions)) / np.sqrt(dimension)

    def scores(self, states):
        return states @ self.weights

    def action_probs(self, states):
        raised = np.exp(self.scores(states))
        return raised / raised.sum(axis=1, keepdims=True)


def clicks(rows, actions, dimension=3, seed=0):
    """One-step decisions by a uniform policy, reward 1 with a probability that depends on state and action."""
    rng, policy = np.random.default_rng(seed), Softmax(actions, dimension)
    states = rng.normal(size=(rows, dimension))
    taken = rng.integers(0, actions, size=rows)
    rate = 1 / (1 + np.exp(2 - policy.scores(states)))
    log = bondic.Transitions(
        observations=states,
        actions=taken,
        rewards=(rng.uniform(size=rows) < rate[np.arange(rows), taken]).astype(float),
        next_observations=states,
        terminations=np.ones(rows, bool),
        truncations=np.zeros(rows, bool),
        episode_ids=np.arange(rows),
        timesteps=np.zeros(rows, int),
    )
    truth = float((policy.action_probs(states) * rate).sum(axis=1).mean())
    return log, policy, truth


def question(rows, actions, dimension=3):
    log, policy, _ = clicks(rows, actions, dimension)
    return bondic.make_problem(
        log, policy, bondic.InitialStates.from_log(log), gamma=0.0, reward_range=(0.0, 1.0), accept=("unseen-actions",)
    )


@pytest.mark.parametrize("actions", [5, 60])
def test_what_a_capped_search_proposes_is_certified_and_its_primal_feasible(actions):
    problem = question(600, actions)
    features = RandomFeatures.gaussian(4, 3, np.full(3, 2.0), seed=0, center=np.zeros(3), on="state")
    weights = 0.5 * Constant(1.0) + 0.5 * (features * Dirac(on="action"))
    ball = Ball(Gaussian(2.0, on="state") * Dirac(on="action") + Constant(1.0), 1.0)
    setting = setting_of(problem, ball, weights, start=0.05)
    search = kernel_search(setting, 600)
    assert search.model.balance.shape[0] <= 2400 + 1
    assert search.model.balance.shape[1] <= 2400 + 1
    found = search.propose(sign=1.0, radius=1.0, kappa=setting.epsilon().upper)
    assert found.omega is not None
    ((_, (nothing,), _), (_, (claim,), _)), _ = evaluate_all(setting, ("upper",), [found.omega])
    assert claim.bound - search.offset >= found.primal - 1e-9
    assert claim.bound < nothing.bound


def test_a_thousand_actions_are_a_matter_of_seconds():
    log, policy, truth = clicks(1200, 1000)
    result = bondic.evaluate_policy(log, policy, gamma=0.0, reward_range=(0.0, 1.0), accept=("unseen-actions",))
    assert result.low <= truth <= result.high
    assert sum(result.seconds.values()) < 120  # a decomposition with coordinates for every action takes many minutes
