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
def test_a_seed_fixes_the_episode_and_wrong_actions_are_refused():
    from bondic_lab.worlds.gym import GymEnvironment

    environment = GymEnvironment(Glucose())
    with pytest.raises(InvalidInput, match="reset"):
        environment.step(0)
    paths = []
    for seed in (3, 3, 4):
        environment.reset(seed=seed)
        paths.append([environment.step(1)[1] for _ in range(10)])
    assert paths[0] == paths[1] != paths[2]
    environment.reset()
    with pytest.raises(InvalidInput, match=r"0\.\.4"):
        environment.step(5)
    with pytest.raises(InvalidInput, match="length"):
        GymEnvironment(CartPole(), 0)


@pytest.mark.train
def test_the_line_as_a_space_of_actions():
    """Draws of both policies stay within the finite spaces; what is no number is refused, and settings reach the world."""
    import gymnasium

    from bondic_lab.worlds.gym import GymEnvironment, register

    register()
    environment = gymnasium.make("bondic/continuous-v0", gamma=0.5, seed=2, length=200).unwrapped
    assert environment.dynamics.gamma == 0.5
    mdp, rng = environment.dynamics, np.random.default_rng(0)
    observation, _ = environment.reset(seed=1)
    for _ in range(199):
        action = mdp.behavior.sample_action(observation[None], rng)[0]
        assert environment.action_space.contains(action)
        observation, reward, terminated, truncated, _ = environment.step(action)
        assert environment.observation_space.contains(observation)
        assert mdp.reward_range[0] <= reward <= mdp.reward_range[1]
        assert not terminated
        assert not truncated
    assert environment.step(0.5)[3]
    for wrong in (np.nan, [1.0, 2.0]):
        environment.reset()
        with pytest.raises(InvalidInput, match="one finite number"):
            environment.step(wrong)
    assert GymEnvironment(SyntheticMDP.default()).length == 50


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


@pytest.mark.mujoco
def test_mujoco_with_seven_actions():
    from bondic_lab.worlds.gym import mujoco_pendulum, rollout_gym

    environment = mujoco_pendulum()
    assert environment.action_space.n == 7
    log = rollout_gym(environment, lambda s: np.full((len(s), 7), 1 / 7), 10, 50, rng=np.random.default_rng(0))
    environment.close()
    assert log.observations.shape == (len(log.rewards), 4)
    assert np.array_equal(log.rewards, np.where(log.terminations, 0.0, 1.0))


@pytest.mark.train
def test_a_trained_network_is_exported_without_loss():
    """The numpy policy gives the probabilities of the torch network, to single precision."""
    import importlib.util
    from pathlib import Path

    import torch
    from stable_baselines3 import PPO

    from bondic_lab.worlds.gym import GymEnvironment

    path = Path(__file__).parents[2] / "scripts" / "train_policies.py"
    specification = importlib.util.spec_from_file_location("train_policies", path)
    assert specification is not None
    assert specification.loader is not None
    script = importlib.util.module_from_spec(specification)
    import sys

    sys.modules["train_policies"] = script  # dataclasses look their module up
    specification.loader.exec_module(script)
    model = PPO("MlpPolicy", GymEnvironment(CartPole()), n_steps=64, batch_size=64, n_epochs=1, seed=0, device="cpu")
    model.learn(64)
    policy = script.export(model)
    states = np.random.default_rng(0).uniform(-1, 1, (20, 4))
    with torch.no_grad():
        expected = model.policy.get_distribution(torch.as_tensor(states, dtype=torch.float32)).distribution.probs
    np.testing.assert_allclose(policy.action_probs(states), expected.numpy(), atol=1e-6)
