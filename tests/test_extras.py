"""The pinned optional libraries install together and work: later parts of the library rest on them."""

from __future__ import annotations

import pytest


@pytest.mark.mujoco
def test_mujoco_environments_run():
    import gymnasium

    environment = gymnasium.make("InvertedPendulum-v5")
    observation, _ = environment.reset(seed=0)
    following, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
    environment.close()
    assert observation.shape == following.shape == (4,)
    assert (float(reward), terminated, truncated) == (1.0, False, False)


@pytest.mark.train
def test_a_policy_can_be_trained():
    import torch
    from stable_baselines3 import PPO

    assert torch.__version__.startswith("2.13.0")
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, n_epochs=1, seed=0, device="cpu")
    model.learn(64)
    action, _ = model.predict([0.0, 0.0, 0.0, 0.0], deterministic=True)
    assert action in (0, 1)


@pytest.mark.cluster
def test_dask_is_there():
    import dask

    total = dask.delayed(sum)([dask.delayed(lambda v: v * v)(k) for k in range(4)]).compute(scheduler="synchronous")
    assert total == 14
