"""Worlds of numbers: q* solves the Bellman equation, v* is its mean over the policy, and J* is the mean return."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

import bondic

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments import number_worlds_physics
from experiments.defaults_problems_bandits import Campaign
from experiments.defaults_problems_worlds import steering_value
from experiments.number_worlds import length_worlds, number_worlds
from experiments.number_worlds_actions import steering_sum
from experiments.number_worlds_bandits import open_bandit
from experiments.number_worlds_base import Boxes, box_values, listed
from experiments.number_worlds_physics import glucose

CAMPAIGN = Campaign(
    contexts=np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0]]),
    items=np.array([0, 1, 2, 1]),
    clicks=np.array([0.0, 1.0, 0.0, 0.0]),
    shares=np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]),
    rates=np.array([0.1, 0.02, 0.3]),
    propensities=np.full(4, 1 / 3),
    bts_mean=0.0,
    bts_error=0.0,
)
WORLDS = {world.name: world for world in [*number_worlds(), *length_worlds(), open_bandit(CAMPAIGN)]}
EXACT = [name for name, world in WORLDS.items() if not world.noisy]
LASTING = [name for name in EXACT if WORLDS[name].gamma > 0]
DRAWS, SIGMAS = 4000, 5.0


def actions_of(world, states, rng):
    """The policy's draws."""
    if hasattr(world.policy, "action_probs") and world.make_log(2, 0).discrete_actions:
        below = np.cumsum(world.policy.action_probs(states), axis=1)[:, :-1]
        return np.sum(rng.random(len(states))[:, None] >= below, axis=1)
    return world.policy.sample_action(states, rng)


def allowed(samples, world):
    """5 standard errors, plus what is stated."""
    return SIGMAS * samples.std(axis=-1) / math.sqrt(samples.shape[-1]) + 2 * world.error + 1e-8


@pytest.mark.parametrize("name", EXACT)
def test_bellman_equation(name, rng):
    """q*(s, a) = E[r + γ v*(s')] at rows of the log and at starts, by draws of the world's own step."""
    world = WORLDS[name]
    log = world.make_log(300, 1)
    rows = np.concatenate(
        [rng.choice(300, 5, replace=False), [int(np.argmax(log.rewards)), int(np.argmin(log.rewards))]]
    )
    first = world.initial.observations[:2]
    states = np.concatenate([log.observations[rows], first])
    actions = np.concatenate([log.actions[rows], actions_of(world, first, rng)])
    many, repeated = np.repeat(states, DRAWS, axis=0), np.repeat(actions, DRAWS, axis=0)
    if world.error >= 1e-8:  # deterministic, and v* is simulated
        many, repeated = states, actions
    rewards, following, ends = world.step(many, repeated, rng)
    later = np.zeros(len(many))
    if world.gamma and not ends.all():
        later[~ends] = world.v_star(following[~ends])
    targets = (rewards + world.gamma * later).reshape(len(states), -1)
    assert np.all(np.abs(targets.mean(axis=1) - world.q_star(states, actions)) <= allowed(targets, world))


@pytest.mark.parametrize("name", EXACT)
def test_residuals_of_a_long_log(name):
    """Σ w_i (r_i + γ v*(s'_i) − q*(s_i, a_i)) is 0 for w = 1 and for w = q* − mean: sees errors of 5 % in later values."""
    world = WORLDS[name]
    log = world.make_log(100_000 if world.error < 1e-8 else 1000, 2)
    q, later = world.q_star(log.observations, log.actions), np.zeros(len(log))
    on = np.flatnonzero(~log.terminations)
    if world.gamma and len(on):
        later[on] = world.v_star(log.next_observations[on])
    residuals = log.rewards + world.gamma * later - q
    for weighted in (residuals, residuals * (q - q.mean())):
        assert abs(weighted.mean()) <= allowed(weighted, world)


@pytest.mark.parametrize("name", EXACT)
def test_v_is_the_mean_of_q_over_the_policy(name, rng):
    world = WORLDS[name]
    states = world.initial.observations[:5]
    many = np.repeat(states, DRAWS if world.error < 1e-8 else 4, axis=0)
    draws = world.q_star(many, actions_of(world, many, rng)).reshape(len(states), -1)
    assert np.all(np.abs(draws.mean(axis=1) - world.v_star(states)) <= allowed(draws, world))


@pytest.mark.parametrize("name", LASTING)
def test_mean_return_is_the_truth(name, rng):
    """2000 episodes of the policy from the listed starts, cut where 1e-3 of the range is left."""
    world = WORLDS[name]
    low, high = world.reward_range
    states = world.initial.observations[rng.choice(len(world.initial), 2000, p=world.initial.weights)]
    total, rows = np.zeros(2000), np.arange(2000)
    for time in range(math.ceil(math.log(1e-3) / math.log(world.gamma))):
        rewards, states, ends = world.step(states, actions_of(world, states, rng), rng)
        assert np.all((rewards >= low) & (rewards <= high))
        total[rows] += world.gamma**time * rewards
        states, rows = states[~ends], rows[~ends]
    error = allowed(total, world) + 1e-3 * max(abs(low), abs(high)) / (1 - world.gamma)
    assert abs(total.mean() - world.truth) <= error


@pytest.mark.parametrize("name", list(WORLDS))
def test_logs_can_be_asked(name):
    """Default inspection accepts the log; a seed is one log; no propensities; q* lies in the range."""
    world = WORLDS[name]
    log, again, other = (world.make_log(400, seed) for seed in (3, 3, 4))
    assert len(log) == 400
    assert log.content_hash == again.content_hash != other.content_hash
    assert not log.has("behavior_action_probs")
    assert log.has_timesteps
    assert log.has_episode_ids
    assert not np.any(log.terminations & log.truncations)
    assert world.terminates or not log.terminations.any()
    bondic.inspect_log(log)
    world.problem(400, 3)
    if not world.noisy:
        low, high = world.value_range or (r / (1 - world.gamma) for r in world.reward_range)
        values = world.q_star(log.observations, log.actions)
        assert np.all((values >= low - 1e-6) & (values <= high + 1e-6))


def test_finer_quadrature_changes_nothing():
    """With 8 and with 20 nodes, where a world is smooth inside its boxes; with a jump inside, they differ."""
    boxes = Boxes(np.array([[0.0], [0.5]]), np.array([[0.5], [1.0]]))
    half = listed(lambda s: np.full((len(s), 2), 0.5))

    def reward(s, a):
        return np.sin(3 * s[:, 0] + a) + (s[:, 0] > 0.5)

    def moves(s, a):
        up = 0.3 + 0.2 * np.cos(s[:, 0]) * a
        return np.column_stack([1 - up, up])

    found = [box_values(boxes, reward, moves, half, 0.9, order) for order in (8, 20)]
    assert found[0] == pytest.approx(found[1], abs=1e-10)
    jumps = [box_values(boxes, lambda s, _: (s[:, 0] > 0.3) * 1.0, moves, half, 0.9, order) for order in (8, 20)]
    assert abs(jumps[0] - jumps[1]).max() > 1e-3


def test_steering_agrees_with_the_sum_for_one_start():
    starts = np.array([-0.7, 0.2, 1.0])
    assert steering_sum(starts, 0.0, 0.9).mean() == pytest.approx(steering_value(starts, 0.9), abs=1e-10)


def test_glucose_values_are_means_of_returns(monkeypatch):
    """v* over 21 steps is Σ_a π(a|s) q*(s, a), one step and 20 more; a return has a standard deviation below .3."""
    monkeypatch.setattr(number_worlds_physics, "FEW_VALUES", 256)
    short, long = glucose(length=20), glucose(length=21)
    states = short.initial.observations[:4]
    probs = short.policy.action_probs(states)
    columns = [short.q_star(states, np.full(4, action)) for action in range(probs.shape[1])]
    gaps = np.sum(probs * np.stack(columns, axis=1), axis=1) - long.v_star(states)
    assert np.all(np.abs(gaps) < SIGMAS * 0.3 * math.sqrt(2 / 64))
    assert long.v_star(states).max() < 0.0
