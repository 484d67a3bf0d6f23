"""What every simulated world owes: Markov states, seeds, conventions of its logs, limits. A world inherits `DynamicsCase`."""

from __future__ import annotations

import copy
from typing import ClassVar

import numpy as np
import pytest

from bondic.core.errors import InvalidInput
from bondic.errors import PolicyError
from bondic_lab.worlds.dynamics import Dynamics


def only(world: Dynamics, action: int):
    """The policy that always takes one action."""
    return lambda states: np.eye(world.n_actions)[np.full(len(states), action)]


class DynamicsCase:
    """The laws of `Dynamics`, by short episodes of the uniform policy."""

    world: ClassVar[Dynamics]
    length: ClassVar[int] = 40
    steps_in_box: ClassVar[int] = 200

    def uniform(self, states):
        return np.full((len(states), self.world.n_actions), 1.0 / self.world.n_actions)

    def log(self, seed=1, episodes=12):
        return self.world.rollout(self.uniform, episodes, self.length, rng=np.random.default_rng(seed))

    def test_log_conventions(self):
        log = self.log(episodes=30)
        assert not any(column.flags.writeable for column in vars(log).values())
        assert np.array_equal(np.unique(log.episode_ids), np.arange(30))
        first = np.append(True, np.diff(log.episode_ids) != 0)
        last = np.append(first[1:], True)
        assert first.sum() == 30  # each episode is one stretch of rows
        assert np.array_equal(
            log.timesteps, np.arange(first.size) - np.maximum.accumulate(first * np.arange(first.size))
        )
        assert np.array_equal(last, log.terminations | log.truncations)
        assert not (log.terminations & log.truncations).any()
        assert (log.timesteps[log.truncations] == self.length - 1).all()
        assert np.array_equal(log.observations[~first], log.next_observations[~last])
        assert log.terminations.any() == self.world.may_terminate
        np.testing.assert_allclose(log.behavior_action_probs, 1.0 / self.world.n_actions, rtol=1e-12)
        low, high = self.world.reward_range
        assert ((log.rewards >= low) & (log.rewards <= high)).all()

    def test_the_world_s_own_horizon_cuts(self):
        log = self.world.rollout(only(self.world, 0), 3, rng=np.random.default_rng(0))
        assert log.timesteps.max() <= self.world.horizon - 1
        assert (log.timesteps[log.truncations] == self.world.horizon - 1).all()

    def test_a_restart_repeats_the_continuation(self, rng):
        """Markov: the state and the noise to come are all that the future depends on; bit for bit."""
        states = self.world.starts(5, rng)
        for _ in range(60):
            noise, actions = copy.deepcopy(rng), rng.integers(self.world.n_actions, size=5)
            found = self.world.step(states, actions, rng)
            noise.integers(self.world.n_actions, size=5)
            again = copy.deepcopy(self.world).step(np.array(states.tolist()), actions, noise)
            assert all(np.array_equal(one, two) for one, two in zip(found, again, strict=True))
            states = np.where(found[2][:, None], self.world.starts(5, rng), found[1])

    def test_same_seed_same_log(self):
        first, again, other = (self.log(seed) for seed in (1, 1, 2))
        assert all(np.array_equal(a, b) for a, b in zip(vars(first).values(), vars(again).values(), strict=True))
        assert not np.array_equal(first.observations[:5], other.observations[:5])

    def test_returns_and_rollout_see_the_same_episodes(self):
        log = self.log(5)
        sums = self.world.returns(self.uniform, 12, self.length, rng=np.random.default_rng(5))
        slow = np.bincount(log.episode_ids, weights=self.world.gamma**log.timesteps * log.rewards)
        np.testing.assert_allclose(sums, slow, rtol=1e-12)

    def test_states_stay_in_the_box(self, rng):
        low, high = self.world.state_box
        for action in range(self.world.n_actions):
            log = self.world.rollout(only(self.world, action), 20, self.steps_in_box, rng=rng)
            assert ((log.next_observations >= low) & (log.next_observations <= high)).all()

    def test_refusals(self, rng):
        with pytest.raises(InvalidInput, match="length"):
            self.world.rollout(self.uniform, 3, 0, rng=rng)
        with pytest.raises(InvalidInput, match="n_episodes"):
            self.world.returns(self.uniform, 0, 3, rng=rng)
        with pytest.raises(PolicyError, match="sum to"):
            self.world.rollout(lambda s: 1.2 * self.uniform(s), 1, rng=rng)
        with pytest.raises(PolicyError, match="shape"):
            self.world.rollout(lambda s: self.uniform(s)[:, 1:], 1, rng=rng)
        for changes, name in (({"gamma": 1.0}, "gamma"), ({"gamma": -0.1}, "gamma"), ({"horizon": 0}, "horizon")):
            with pytest.raises(InvalidInput, match=name):
                type(self.world)(**changes)
