"""Gymnasium's view of the environments, and logs of Gymnasium's own; the only module that imports gymnasium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.errors import MissingExtra
from bondic.policies.protocol import check_probabilities
from bondic_lab.worlds.cartpole import CartPole
from bondic_lab.worlds.continuous import ContinuousMDP
from bondic_lab.worlds.dynamics import Dynamics
from bondic_lab.worlds.glucose import Glucose
from bondic_lab.worlds.pendulum import FORCES, InvertedPendulum
from bondic_lab.worlds.rollout import ActionProbs, Flags, Floats, Rollout
from bondic_lab.worlds.synthetic import SyntheticMDP
from bondic_lab.worlds.tabular import TabularMDP

try:
    import gymnasium
except ImportError as problem:
    raise MissingExtra("gymnasium", "train", "The Gymnasium interface") from problem


KNOWN_LENGTH = 50
"""Rows of an episode of a world with known q*, unless told otherwise: such a world has no horizon of its own."""

World = Dynamics | SyntheticMDP | TabularMDP | ContinuousMDP


class GymEnvironment(gymnasium.Env[Any, Any]):  # type: ignore[misc]  # gymnasium is skipped by the type checker
    """One episode at a time of any world; truncated, not terminated, after `length` steps (its `horizon`, or 50).

    Spaces are finite, as Gymnasium asks: those of `ContinuousMDP`, where s, a ∈ R, are so wide that no draw of a policy of that
    world will leave them.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, dynamics: World, length: int | None = None) -> None:
        self.dynamics = dynamics
        horizon = dynamics.horizon if isinstance(dynamics, Dynamics) else KNOWN_LENGTH
        self.length = horizon if length is None else length
        if self.length < 1:
            raise InvalidInput(f"`length` is {length}: an episode has at least one step.")
        low, high = dynamics.state_box
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float64)
        if isinstance(dynamics, ContinuousMDP):
            self.action_space = gymnasium.spaces.Box(*dynamics.action_box, dtype=np.float64)
        else:
            self.action_space = gymnasium.spaces.Discrete(dynamics.n_actions)
        self._state: Floats | None = None
        self._time = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """s_0 ~ d_0; with a seed, the whole episode follows from it and the actions."""
        super().reset(seed=seed, options=options)
        self._state = self.dynamics.starts(1, self.np_random)
        self._time = 0
        return self._state[0].copy(), {}

    def step(self, action: Any) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """(s', r, terminated, truncated, info)."""
        if self._state is None:
            raise InvalidInput("The episode is over or has not begun; call reset() first.")
        rewards, states, ended = self._next(self._state, action)
        self._time += 1
        terminated = bool(ended[0])
        truncated = not terminated and self._time >= self.length
        self._state = None if terminated or truncated else states
        return states[0].copy(), float(rewards[0]), terminated, truncated, {}

    def _next(self, state: Floats, action: Any) -> tuple[Floats, Floats, Flags]:
        """One step of the world with a checked action."""
        world = self.dynamics
        if isinstance(world, ContinuousMDP):
            pushes = np.asarray(action, dtype=np.float64).reshape(-1)
            if pushes.shape != (1,) or not np.isfinite(pushes[0]):
                raise InvalidInput(f"Action {action} is not one finite number, which this world asks for.")
            return world.step(state, pushes[None], self.np_random)
        if not 0 <= int(action) < world.n_actions:
            raise InvalidInput(f"Action {action} is not one of 0..{world.n_actions - 1}.")
        return world.step(state, np.array([int(action)]), self.np_random)


def register() -> tuple[str, ...]:
    """Makes `gymnasium.make("bondic/cartpole-v0")` and its like work; returns the names. Calling it twice is harmless."""
    makers: dict[str, Callable[..., World]] = {kind.name: kind for kind in (CartPole, InvertedPendulum, Glucose)}
    makers |= {"synthetic": SyntheticMDP.default, "tabular": _random_table, "continuous": ContinuousMDP.default}
    for name, make in makers.items():
        if f"bondic/{name}-v0" not in gymnasium.registry:
            gymnasium.register(f"bondic/{name}-v0", entry_point=_Maker(make))
    return tuple(f"bondic/{name}-v0" for name in makers)


def _random_table(*, seed: int = 0, **settings: Any) -> TabularMDP:
    return TabularMDP.random(np.random.default_rng(seed), **settings)


class _Maker:
    """Builds a registered environment; keyword arguments go to the world."""

    def __init__(self, make: Callable[..., World]) -> None:
        self.make = make

    def __call__(self, *, length: int | None = None, **settings: Any) -> GymEnvironment:
        return GymEnvironment(self.make(**settings), length)


class SevenForces(gymnasium.ActionWrapper[Any, Any, Any]):  # type: ignore[misc]
    """The seven actions of `InvertedPendulum` for an environment whose action is one force in [−3, 3]."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.action_space = gymnasium.spaces.Discrete(len(FORCES))

    def action(self, action: Any) -> Any:
        """The index as a force, in the precision of the wrapped environment."""
        return np.array([FORCES[int(action)]], dtype=self.env.action_space.dtype)


def mujoco_pendulum() -> Any:
    """MuJoCo's InvertedPendulum-v5 with seven actions and no limit on the length of an episode."""
    return SevenForces(gymnasium.make("InvertedPendulum-v5", max_episode_steps=-1))


def rollout_gym(
    env: Any, policy_probs: ActionProbs, n_episodes: int, length: int, *, rng: np.random.Generator
) -> Rollout:
    """Rows of episodes of a Gymnasium environment with finitely many actions, one step at a time.

    An episode is cut after `length` rows or where the environment truncates; its last next observation is real in both cases.
    """
    if n_episodes < 1 or length < 1:
        raise InvalidInput(f"A rollout needs a step to log, got {n_episodes} episodes of length {length}.")
    rows: list[tuple[Any, ...]] = []
    for episode in range(n_episodes):
        observation, _ = env.reset(seed=int(rng.integers(2**31)))
        for time in range(length):
            state = np.array(observation, dtype=np.float64)
            probs = check_probabilities(policy_probs(state[None]), 1, "state", int(env.action_space.n))[0]
            action = min(int(np.searchsorted(np.cumsum(probs), rng.random(), side="right")), len(probs) - 1)
            observation, reward, terminated, truncated, _ = env.step(action)
            cut = not terminated and (truncated or time == length - 1)
            following = np.array(observation, dtype=np.float64)
            rows.append((state, action, reward, following, terminated, cut, episode, time, probs[action]))
            if terminated or cut:
                break
    kinds = (np.float64, np.int64, np.float64, np.float64, np.bool_, np.bool_, np.int64, np.int64, np.float64)
    return Rollout(*(np.array(column, dtype=kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)))
