"""Worlds of numbers: q* solves the Bellman equation, v* is its mean over the policy, and J* is the mean return."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments.defaults_problems_bandits import Campaign
from experiments.number_worlds import length_worlds, number_worlds
from experiments.number_worlds_bandits import open_bandit

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
