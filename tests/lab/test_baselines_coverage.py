"""Asymptotic intervals miss about as often as they say where their assumptions hold: many small logs, exact values."""

from __future__ import annotations

import numpy as np
import pytest

import bondic
from bondic_lab.baselines.coindice import CoinDice
from bondic_lab.baselines.double_rl import DoubleRL
from bondic_lab.baselines.fqe import FittedQ
from bondic_lab.baselines.lstd import Lstd
from bondic_lab.baselines.marginalized import Marginalized
from bondic_lab.baselines.model_based import ModelBased
from bondic_lab.baselines.trajectory_dr import DoublyRobust
from bondic_lab.worlds.tabular import TabularMDP
from builders import as_log, tabular_problem

LOGS, MOST = 60, 25
"""At alpha = 0.2 more than 25 misses in 60 logs have probability below 1e-4."""


@pytest.mark.parametrize(
    "method",
    [Lstd(), Marginalized(), DoubleRL(), CoinDice(), DoublyRobust(), FittedQ(replicates=60), ModelBased(replicates=60)],
    ids=lambda m: m.name,
)
def test_asymptotic_intervals_cover_about_as_often_as_they_say(method):
    mdp = TabularMDP.random(
        np.random.default_rng(3), n_states=3, n_actions=2, gamma=0.6, reward_range=(-1.0, 1.0), termination=0.3
    )
    logs = (as_log(mdp.rollout(80, 12, np.random.default_rng(k))) for k in range(LOGS))
    results = [bondic.estimate_interval(tabular_problem(mdp, log), alpha=0.2, method=method) for log in logs]
    misses = sum(not r.low <= mdp.value <= r.high for r in results)
    assert misses <= MOST
    assert np.mean([r.length for r in results]) < 0.2 * results[0].value_range.width
    errors = np.array([r.estimate - mdp.value for r in results])
    assert abs(errors.mean()) < 4 * errors.std() / np.sqrt(LOGS) + 0.01


@pytest.mark.parametrize("method", [Lstd(), DoublyRobust(), FittedQ(replicates=60)], ids=lambda m: m.name)
def test_starts_read_off_the_log_cover(method):
    """Values differ a lot by start: the interval must account for which starts were drawn. Misses as above."""
    mdp = TabularMDP(
        np.eye(2)[:, None, :], np.array([[1.0], [-1.0]]), np.array([0.5, 0.5]), np.ones((2, 1)), np.ones((2, 1)), 0.5,
        (-1.0, 1.0), 0.5,
    )  # fmt: skip
    misses = 0
    for seed in range(LOGS):
        log = as_log(mdp.rollout(40, 20, np.random.default_rng(seed)))
        start = bondic.InitialStates.from_log(log)
        problem = bondic.make_problem(
            log, bondic.TablePolicy(mdp.target), start, gamma=mdp.gamma, reward_range=mdp.reward_range
        )
        result = bondic.estimate_interval(problem, alpha=0.2, method=method)
        misses += not result.low <= mdp.value <= result.high
    assert misses <= MOST
    assert misses >= 3  # an interval that never misses would not be told apart from one that is far too long
