"""The inverted pendulum: a slow twin from the Lagrangian, energy, and MuJoCo itself."""

from __future__ import annotations

import numpy as np
import pytest
from conformance_worlds import DynamicsCase
from hypothesis import given
from hypothesis import strategies as st

from bondic_lab.worlds import pendulum
from bondic_lab.worlds.pendulum import FORCES, InvertedPendulum
from bondic_lab.worlds.shipped import shipped_policy

PENDULUM = InvertedPendulum()


def uniform(states: np.ndarray) -> np.ndarray:
    return np.full((len(states), 7), 1 / 7)


class TestPendulum(DynamicsCase):
    world = PENDULUM


def test_rewards_starts_and_ends(rng):
    log = PENDULUM.rollout(uniform, 100, rng=rng)
    assert np.array_equal(log.rewards, np.where(log.terminations, 0.0, 1.0))
    assert np.abs(log.observations[log.timesteps == 0]).max() <= 0.01
    over = (np.abs(log.next_observations[:, 1]) > 0.2) | (np.abs(log.next_observations[:, 0]) > 1.0)
    assert np.array_equal(over, log.terminations)


def slow_slopes(_: float, y: np.ndarray, force: float) -> np.ndarray:
    """M(q) q'' = forces, solved as a 2 × 2 linear system."""
    _, angle, speed, turning = y
    m, total, arm = pendulum.POLE_MASS, pendulum.CART_MASS + pendulum.POLE_MASS, pendulum.ARM
    lean = angle + pendulum.LEAN
    mass = np.array([[total, m * arm * np.cos(lean)], [m * arm * np.cos(lean), pendulum.POLE_INERTIA + m * arm**2]])
    forces = [force - speed + m * arm * turning**2 * np.sin(lean), m * 9.81 * arm * np.sin(lean) - turning]
    return np.concatenate([[speed, turning], np.linalg.solve(mass, forces)])


@given(
    state=st.tuples(st.floats(-1, 1), st.floats(-0.2, 0.2), st.floats(-2, 2), st.floats(-2, 2)),
    action=st.integers(0, 6),
)
def test_one_step_is_two_runge_kutta_steps_of_the_slow_twin(state, action):
    _, after, ended = PENDULUM.step(np.array([state]), np.array([action]), np.random.default_rng(0))
    y, h, force = np.array(state), 0.02, 100.0 * FORCES[action]
    for _ in range(2):
        k1 = slow_slopes(0, y, force)
        k2 = slow_slopes(0, y + h / 2 * k1, force)
        k3 = slow_slopes(0, y + h / 2 * k2, force)
        k4 = slow_slopes(0, y + h * k3, force)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    np.testing.assert_allclose(after[0], y, rtol=1e-11, atol=1e-12)
    assert ended[0] == (abs(y[1]) > 0.2 or abs(y[0]) > 1.0)


@pytest.mark.mujoco
def test_steps_are_those_of_mujoco():
    from bondic_lab.worlds.gym import mujoco_pendulum

    theirs, rng, rows = mujoco_pendulum(), np.random.default_rng(0), 0
    policy = shipped_policy("pendulum", "partly", 1.0)
    for seed in range(10):
        state, _ = theirs.reset(seed=seed)
        for _ in range(60):
            action = int(rng.choice(7, p=policy.action_probs(state[None])[0]))
            reward, after, ended = PENDULUM.step(state[None], np.array([action]), rng)
            state, their_reward, terminated, truncated, _ = theirs.step(action)
            np.testing.assert_allclose(after[0], state, rtol=0, atol=1e-6)  # their actions are rounded to float32
            assert (their_reward, terminated, truncated) == (reward[0], ended[0], False)
            rows += 1
            if terminated:
                break
    theirs.close()
    assert rows > 200
