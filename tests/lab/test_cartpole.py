"""CartPole: a slow twin, Gymnasium's own, and the conventions of its logs."""

from __future__ import annotations

from math import cos, pi, sin

import numpy as np
import pytest
from conformance_worlds import DynamicsCase
from hypothesis import given
from hypothesis import strategies as st

from bondic_lab.worlds import pendulum
from bondic_lab.worlds.cartpole import CartPole
from bondic_lab.worlds.pendulum import FORCES, InvertedPendulum
from bondic_lab.worlds.shipped import shipped_policy

CART = CartPole()


class TestCartPole(DynamicsCase):
    world = CART
    steps_in_box = 500


def slow_step(state: list[float], action: int) -> tuple[list[float], bool]:
    """The published equations in plain Python: https://coneural.org/florian/papers/05_cart_pole.pdf, Euler."""
    x, speed, angle, turning = state
    g, cart, pole, half, step = 9.8, 1.0, 0.1, 0.5, 0.02
    force = 10.0 if action else -10.0
    t = (force + pole * half * turning * turning * sin(angle)) / (cart + pole)
    bend = (g * sin(angle) - cos(angle) * t) / (half * (4 / 3 - pole * cos(angle) ** 2 / (cart + pole)))
    push = t - pole * half * bend * cos(angle) / (cart + pole)
    after = [x + step * speed, speed + step * push, angle + step * turning, turning + step * bend]
    return after, abs(after[0]) > 2.4 or abs(after[2]) > 12 * pi / 180


@given(
    state=st.tuples(st.floats(-2.4, 2.4), st.floats(-5, 5), st.floats(-0.2, 0.2), st.floats(-5, 5)),
    action=st.integers(0, 1),
)
def test_one_step_by_the_slow_twin(state, action):
    rewards, after, ended = CART.step(np.array([state]), np.array([action]), np.random.default_rng(0))
    expected, over = slow_step(list(state), action)
    np.testing.assert_allclose(after[0], expected, rtol=1e-13, atol=1e-14)
    assert ended[0] == over
    assert rewards[0] == 1.0


@pytest.mark.train
def test_trajectories_are_those_of_gymnasium():
    import gymnasium

    theirs = gymnasium.make("CartPole-v1").unwrapped
    rng = np.random.default_rng(0)
    for seed in range(10):
        theirs.reset(seed=seed)
        for _ in range(200):
            action = int(rng.integers(2))
            _, after, ended = CART.step(np.array([theirs.state]), np.array([action]), rng)
            _, reward, terminated, _, _ = theirs.step(action)
            np.testing.assert_allclose(after[0], theirs.state, rtol=1e-13, atol=1e-15)
            assert (reward, terminated) == (1.0, ended[0])
            if terminated:
                break


# --- The inverted pendulum: a slow twin from the Lagrangian, energy, and MuJoCo itself.

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
