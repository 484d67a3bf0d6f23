"""The log D_n = (s_i, a_i, r_i, s'_i), theory section 1, of an environment with finitely many actions or a ∈ R^k.

Two row orders, both valid under the data assumption: episode by episode (the episodes never see one
another), and one interleaved stream in time order for the adaptive behavior, whose action at row i looks at
every earlier reward.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bondic.core.errors import InvalidInput

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

ActionProbs = Callable[[Floats], Floats]
"""States (n, d) to action probabilities (n, n_actions)."""

Outcomes = Callable[[Floats, np.random.Generator], tuple[Floats, Floats, Flags]]
"""States (n, d) to one draw *per action*: rewards (n, K), next states (n, K, d), terminations (n, K).

The action is chosen without looking at these draws, so the chosen column is a draw of (r, s') given (s, a).
"""

Step = Callable[[Floats, Any, np.random.Generator], tuple[Floats, Floats, Flags]]
"""States (n, d) and actions, (n,) or (n, k), to rewards (n,), next states (n, d), terminations (n,): the action is known."""

ActionDraws = Callable[[Floats, np.random.Generator], tuple[NDArray[Any], Floats]]
"""States (n, d) to actions that were drawn there, (n,) or (n, k), and their probabilities or densities (n,)."""

Turn = Callable[[Floats], tuple[NDArray[Any], Floats, Floats, Floats, Flags]]
"""States to actions, their probabilities, rewards, next states, terminations."""

EXPLORE_AFTER_LOSS = 0.9  # far apart on purpose: a method that assumes independent rows should notice
EXPLORE_AFTER_GAIN = 0.1


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, read-only: a result that is kept must not be changed by whoever looks at it."""
    array.setflags(write=False)
    return array


def freeze_fields(item: Any, *, integers: tuple[str, ...] = ()) -> None:
    """Every array of a frozen dataclass as a read-only array of its own: floats, or whole numbers where named."""
    for field in fields(item):
        value = getattr(item, field.name)
        if isinstance(value, np.ndarray):
            kind = np.int64 if field.name in integers else np.float64
            object.__setattr__(item, field.name, freeze(value.astype(kind)))


@dataclass(frozen=True, eq=False)
class Rollout:
    """Rows (s_i, a_i, r_i, s'_i), i = 1..n, in an order that is a valid order of time.

    A truncated row is not terminal: its next observation is real. A terminated row ends its episode.
    """

    observations: Floats  # (n, d)
    actions: NDArray[Any]  # (n,) whole numbers, or (n, k) floats
    rewards: Floats  # (n,)
    next_observations: Floats  # (n, d)
    terminations: Flags  # (n,)
    truncations: Flags  # (n,)
    episode_ids: Integers  # (n,)
    timesteps: Integers  # (n,)
    behavior_action_probs: Floats  # (n,), of the logged action, given everything before the row; a density if a ∈ R^k

    def __post_init__(self) -> None:
        for column in vars(self).values():
            freeze(column)


def exploration_rate(last_reward: float, mean_reward: float) -> float:
    """ε_i = 0.9 if r_{i−1} < (r_1 + … + r_{i−1}) / (i − 1), else 0.1: the share of uniform actions."""
    return EXPLORE_AFTER_LOSS if last_reward < mean_reward else EXPLORE_AFTER_GAIN


class _RewardMemory:
    """Running mean of all rewards of the stream, and the latest one; before the first reward both are 0."""

    def __init__(self) -> None:
        self.last = self.total = 0.0
        self.count = 0

    def rate(self) -> float:
        return exploration_rate(self.last, self.total / max(self.count, 1))

    def add(self, reward: float) -> None:
        self.last = reward
        self.total += reward
        self.count += 1


def _choose(probs: Floats, uniforms: Floats) -> tuple[Integers, Floats]:
    """a_i = #{k < K − 1 : u_i ≥ p_i0 + … + p_ik} (inverse distribution function), and its probability."""
    cumulative = np.cumsum(probs, axis=1)[:, :-1]
    actions = np.asarray(np.sum(uniforms[:, None] >= cumulative, axis=1), dtype=np.int64)
    return actions, probs[np.arange(len(actions)), actions]


def _choose_adaptively(
    probs: Floats, uniforms: Floats, rewards: Floats, memory: _RewardMemory
) -> tuple[Integers, Floats]:
    """a_i ~ (1 − ε_i) p_i + ε_i / K with ε_i from all rewards before row i, so row by row."""
    n_rows, n_actions = probs.shape
    actions = np.zeros(n_rows, dtype=np.int64)
    chosen_probs = np.zeros(n_rows)
    # Plain floats: this loop cannot be vectorized, and numpy scalars are ten times slower.
    for row, (base, outcome, uniform) in enumerate(
        zip(probs.tolist(), rewards.tolist(), uniforms.tolist(), strict=True)
    ):
        rate = memory.rate()
        action, below = 0, 0.0
        for action in range(n_actions):
            share = (1.0 - rate) * base[action] + rate / n_actions
            below += share
            if uniform < below:
                break
        actions[row], chosen_probs[row] = action, share
        memory.add(outcome[action])
    return actions, chosen_probs


def chosen(outcomes: tuple[Floats, Floats, Flags], actions: Integers) -> tuple[Floats, Floats, Flags]:
    """The column of each row's action from one draw per action: rewards (n,), next states (n, d), terminations (n,)."""
    rewards, next_states, ended = outcomes
    taken = (np.arange(len(actions)), actions)
    return rewards[taken], next_states[taken], ended[taken]


def simulate(
    starts: Floats,
    length: int,
    outcomes: Outcomes,
    action_probs: ActionProbs,
    *,
    adaptive: bool,
    rng: np.random.Generator,
) -> Rollout:
    """(r_i, s'_i) ~ P(· | s_i, a_i), one episode per row of `starts` (n_episodes, d), ≤ `length` steps each.

    Rows come episode by episode, or, if `adaptive`, in time order: all episodes' step 0, then all step 1, …
    """
    memory = _RewardMemory()

    def turn(states: Floats) -> tuple[Integers, Floats, Floats, Floats, Flags]:
        rewards, next_states, ended = outcomes(states, rng)
        probs, uniforms = action_probs(states), rng.random(len(states))
        if adaptive:
            actions, chosen_probs = _choose_adaptively(probs, uniforms, rewards, memory)
        else:
            actions, chosen_probs = _choose(probs, uniforms)
        return actions, chosen_probs, *chosen((rewards, next_states, ended), actions)

    return _log(starts, length, turn, by_episode=not adaptive)


def simulate_steps(
    starts: Floats, length: int, step: Step, action_probs: ActionProbs, *, rng: np.random.Generator
) -> Rollout:
    """As `simulate`, for dynamics too costly to be tried with every action; rows come episode by episode."""

    def draw(states: Floats, generator: np.random.Generator) -> tuple[Integers, Floats]:
        return _choose(action_probs(states), generator.random(len(states)))

    return simulate_draws(starts, length, step, draw, rng=rng)


def simulate_draws(starts: Floats, length: int, step: Step, draw: ActionDraws, *, rng: np.random.Generator) -> Rollout:
    """As `simulate_steps`, for any way to draw actions."""

    def turn(states: Floats) -> tuple[NDArray[Any], Floats, Floats, Floats, Flags]:
        actions, chances = draw(states, rng)
        return actions, chances, *step(states, actions, rng)

    return _log(starts, length, turn, by_episode=True)


def discounted_returns(
    starts: Floats, length: int, step: Step, action_probs: ActionProbs, *, gamma: float, rng: np.random.Generator
) -> Floats:
    """Σ_{t < length} γ^t r_t per row of `starts`: the same draws as `simulate_steps`, no row is kept."""
    returns, states, ids = np.zeros(len(starts)), starts, np.arange(len(starts))
    for time in range(length):
        actions, _ = _choose(action_probs(states), rng.random(len(states)))
        rewards, next_states, ended = step(states, actions, rng)
        returns[ids] += gamma**time * rewards
        states, ids = next_states[~ended], ids[~ended]
        if not len(ids):
            break
    return returns


def _log(starts: Floats, length: int, turn: Turn, *, by_episode: bool) -> Rollout:
    """Turns until every episode has ended or has `length` rows; those that have not ended are cut there."""
    if length < 1 or len(starts) < 1:
        raise InvalidInput(f"A rollout needs a step to log, got {len(starts)} episodes of length {length}.")
    states, ids = starts, np.arange(len(starts), dtype=np.int64)
    steps = []
    for time in range(length):
        actions, chosen_probs, rewards, next_states, over = turn(states)
        cut = ~over if time == length - 1 else np.zeros_like(over)
        times = np.full(len(ids), time, dtype=np.int64)
        steps.append((states, actions, rewards, next_states, over, cut, ids, times, chosen_probs))
        states, ids = next_states[~over], ids[~over]
        if not len(ids):
            break
    columns = [np.concatenate(parts) for parts in zip(*steps, strict=True)]
    if by_episode:
        order = np.lexsort((columns[7], columns[6]))
        columns = [column[order] for column in columns]
    return Rollout(*columns)


class FiniteWorld(ABC):
    """A world that draws an outcome for every one of its finitely many actions: how it is stepped and logged."""

    @property
    @abstractmethod
    def policies(self) -> tuple[Any, Any]:
        """β and π, as `action_probs` takes them."""

    @abstractmethod
    def action_probs(self, policy: Any) -> ActionProbs:
        """A policy of this world as a function of states."""

    @abstractmethod
    def starts(self, n: int, rng: np.random.Generator) -> Floats:
        """s_0 ~ d_0, n independent draws: (n, d)."""

    @abstractmethod
    def outcomes(self, states: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Flags]:
        """One draw of (r, s', terminated) per state and action: `Outcomes`."""

    def step(self, states: Floats, actions: Integers, rng: np.random.Generator) -> tuple[Floats, Floats, Flags]:
        """One draw of rewards (n,), next states (n, d) and terminations (n,), given states (n, d) and actions (n,)."""
        return chosen(self.outcomes(states, rng), actions)

    def rollout(self, n_episodes: int, length: int, rng: np.random.Generator, *, behavior: Any = "logging") -> Rollout:
        """(r_i, s'_i) ~ P(· | s_i, a_i), s_0 ~ d_0; a_i from "logging" (β), "target" (π), "adaptive", or a given policy.

        Rows come episode by episode, except "adaptive" (around β): one stream in time order (see `simulate`).
        """
        named = isinstance(behavior, str)
        logging, target = self.policies
        known = {"logging": logging, "target": target, "adaptive": logging}
        if named and behavior not in known:
            raise InvalidInput(f"Unknown behavior {behavior!r}; use one of {sorted(known)} or a policy of your own.")
        probs = self.action_probs(known[behavior] if named else behavior)
        adaptive = named and behavior == "adaptive"
        return simulate(self.starts(n_episodes, rng), length, self.outcomes, probs, adaptive=adaptive, rng=rng)
