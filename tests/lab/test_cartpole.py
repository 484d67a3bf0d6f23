"""CartPole: a slow twin, Gymnasium's own, and the conventions of its logs."""

from __future__ import annotations

from math import cos, pi, sin

import numpy as np
import pytest
from conformance_worlds import DynamicsCase
from hypothesis import given
from hypothesis import strategies as st

from bondic_lab.worlds.cartpole import CartPole

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
