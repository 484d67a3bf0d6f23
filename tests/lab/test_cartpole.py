"""CartPole: a slow twin, Gymnasium's own, and the conventions of its logs."""

from __future__ import annotations

from math import cos, pi, sin

import numpy as np
import pytest
from conformance_worlds import DynamicsCase
from hypothesis import given
from hypothesis import strategies as st

from bondic.data.initial import InitialStates
from bondic.data.transitions import Transitions
from bondic.policies.standard import UniformPolicy
from bondic.rows.problem import make_problem
from bondic_lab.worlds.cartpole import CartPole
from bondic_lab.worlds.rollout import discounted_returns, simulate_steps
from bondic_lab.worlds.shipped import shipped_policy

CART = CartPole()
uniform = UniformPolicy(2).action_probs


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


@given(action=st.integers(0, 1), seed=st.integers(0, 100))
def test_left_and_right_are_mirror_images(action, seed):
    rng = np.random.default_rng(seed)
    states = rng.uniform(-0.2, 0.2, (5, 4))
    _, after, _ = CART.step(states, np.full(5, action), rng)
    _, mirrored, _ = CART.step(-states, np.full(5, 1 - action), rng)
    assert np.array_equal(mirrored, -after)


def test_termination_is_where_the_limits_are_and_nowhere_else(rng):
    log = CART.rollout(uniform, 300, 200, rng=rng)
    x, angle = np.abs(log.next_observations[:, 0]), np.abs(log.next_observations[:, 2])
    assert np.array_equal(log.terminations, (x > 2.4) | (angle > 12 * pi / 180))
    assert log.terminations.sum() + log.truncations.sum() == 300


def test_the_good_policy_stays_in_the_box_and_its_probabilities_are_logged(rng):
    good, (low, high) = shipped_policy("cartpole", "good", 1.0), CART.state_box
    log = CART.rollout(good.action_probs, 20, 500, rng=rng)
    assert ((log.next_observations >= low) & (log.next_observations <= high)).all()
    probs = good.action_probs(log.observations)[np.arange(len(log.actions)), log.actions]
    np.testing.assert_allclose(log.behavior_action_probs, probs, rtol=1e-9)
    assert np.abs(log.observations[log.timesteps == 0]).max() <= 0.05
    lengths = np.bincount(log.episode_ids)
    sums = np.bincount(log.episode_ids, weights=0.95**log.timesteps * log.rewards)
    np.testing.assert_allclose(sums, (1 - 0.95**lengths) / 0.05, rtol=1e-12)


def test_truncation_bias_bounds_what_is_cut():
    """Reward 1 for ever is the worst case, and attains it."""
    shorter, longer = (1 - 0.95**250) / 0.05, 1 / 0.05
    assert CART.truncation_bias(250) == pytest.approx(longer - shorter, rel=1e-9)


def test_a_log_becomes_a_problem(rng):
    log = CART.rollout(uniform, 30, rng=rng)
    problem = make_problem(
        Transitions(**vars(log)),
        shipped_policy("cartpole"),
        InitialStates.sample(CART.starts(20, rng)),
        gamma=CART.gamma,
        reward_range=CART.reward_range,
        may_terminate=CART.may_terminate,
    )
    assert len(problem) == len(log.rewards)


def test_steps_with_a_random_outcome_are_drawn_once_per_row():
    """`simulate_steps` on a coin: the reward that is logged is the one that was drawn, and ends episodes as stated."""

    def coin(states, actions, rng):
        heads = rng.random(len(states)) < 0.5
        return heads + 10.0 * actions, states + 1.0, heads

    rng = np.random.default_rng(0)
    log = simulate_steps(np.zeros((500, 1)), 6, coin, uniform, rng=rng)
    assert np.array_equal(log.terminations, log.rewards % 10 == 1)
    assert np.array_equal(log.actions, log.rewards // 10)
    assert np.array_equal(log.observations[:, 0], log.timesteps)
    assert abs(len(log.rewards) / 500 - (2 - 2**-5)) < 0.3
    sums = discounted_returns(np.zeros((500, 1)), 6, coin, uniform, gamma=0.5, rng=np.random.default_rng(0))
    np.testing.assert_allclose(sums, np.bincount(log.episode_ids, weights=0.5**log.timesteps * log.rewards))


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
