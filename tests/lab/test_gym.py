"""Gymnasium's view: its own checker, the same draws as the vectorized rollout, logs of foreign environments."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bondic.core.errors import InvalidInput
from bondic_lab.worlds.cartpole import CartPole
from bondic_lab.worlds.continuous import ContinuousMDP
from bondic_lab.worlds.glucose import Glucose
from bondic_lab.worlds.pendulum import InvertedPendulum
from bondic_lab.worlds.synthetic import SyntheticMDP
from bondic_lab.worlds.tabular import TabularMDP

KINDS = {
    "cartpole": CartPole,
    "pendulum": InvertedPendulum,
    "glucose": Glucose,
    "synthetic": lambda: SyntheticMDP.default(0.9, termination=0.1),
    "tabular": lambda: TabularMDP.random(np.random.default_rng(3), reward_noise=0.1, termination=0.1),
    "continuous": lambda: ContinuousMDP.default(0.9, reward_noise=0.1),
}
kinds = pytest.mark.parametrize("name", KINDS)


@pytest.mark.train
@kinds
def test_the_checker_of_gymnasium_has_no_complaint(name):
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    from bondic_lab.worlds.gym import register

    assert register() == register()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if name == "continuous":  # s, a ∈ R: a scaled action would be another world
            warnings.filterwarnings("ignore", message=".*symmetric and normalized space")
        check_env(gymnasium.make(f"bondic/{name}-v0").unwrapped)


@pytest.mark.train
@kinds
def test_steps_are_those_of_the_dynamics(name):
    from bondic_lab.worlds.gym import GymEnvironment

    dynamics = KINDS[name]()
    environment, rng = GymEnvironment(dynamics, 15), np.random.default_rng(7)
    observation, _ = environment.reset(seed=7)
    states = dynamics.starts(1, rng)
    for time in range(15):
        assert np.array_equal(observation, states[0])
        action = np.array([time / 7 - 1]) if name == "continuous" else time % dynamics.n_actions
        rewards, states, ended = dynamics.step(states, np.array([action]), rng)
        observation, reward, terminated, truncated, _ = environment.step(action)
        assert (reward, terminated) == (rewards[0], ended[0])
        assert truncated == (not terminated and time == 14)
        if terminated or truncated:
            break
    with pytest.raises(InvalidInput, match="reset"):
        environment.step(0)


@pytest.mark.train
def test_logs_of_a_foreign_environment_tell_ends_from_cuts():
    import gymnasium

    from bondic_lab.worlds.gym import rollout_gym

    environment = gymnasium.make("CartPole-v1", max_episode_steps=25)

    def uniform(states: np.ndarray) -> np.ndarray:
        return np.full((len(states), 2), 0.5)

    logs = [rollout_gym(environment, uniform, 40, 40, rng=np.random.default_rng(seed)) for seed in (0, 0)]
    assert all(np.array_equal(a, b) for a, b in zip(vars(logs[0]).values(), vars(logs[1]).values(), strict=True))
    log = logs[0]
    lengths = np.bincount(log.episode_ids)
    assert lengths.max() == 25
    last = np.append(np.diff(log.episode_ids) != 0, True)
    assert np.array_equal(last, log.terminations | log.truncations)
    assert not (log.terminations & log.truncations).any()
    assert log.terminations.any()
    assert log.truncations.any()
    angle = np.abs(log.next_observations[:, 2])
    assert np.array_equal(log.terminations, (angle > 12 * np.pi / 180) | (np.abs(log.next_observations[:, 0]) > 2.4))
    assert np.array_equal(log.observations[1:][~last[:-1]], log.next_observations[:-1][~last[:-1]])
    with pytest.raises(InvalidInput, match="step to log"):
        rollout_gym(environment, uniform, 1, 0, rng=np.random.default_rng(0))
