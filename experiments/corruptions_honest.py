"""Logs without a fault that look like ones with it: rewards that grow because the behavior learns, states that come back.

A point in the plane is driven to the origin. How well the behavior drives changes along the log: slowly, as an agent that
learns, or at once, where the log of a good policy follows that of a bad one. Some of these worlds have no chance in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Columns = dict[str, npt.NDArray[Any]]
Floats = npt.NDArray[np.float64]
_MOVES = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
_EPISODES, _LENGTH = 150, 25

REWARDS: dict[str, Callable[[Floats], Floats]] = {
    "squared distance": lambda states: -(states**2).sum(axis=1),
    "exponential": lambda states: np.exp(-4 * np.sqrt((states**2).sum(axis=1))),
    "only at the goal": lambda states: ((states**2).sum(axis=1) < 0.05).astype(float) * 100,
    "a penalty, or a prize": lambda states: np.where((states**2).sum(axis=1) < 0.05, 100.0, -1.0),
}


def slowly(progress: float) -> float:
    return progress


def at_once(progress: float) -> float:
    return 0.95 if progress >= 0.5 else 0.0


def driven(
    rng: np.random.Generator,
    reward: Callable[[Floats], Floats],
    skill: Callable[[float], float],
    *,
    noise: float = 0.02,
    starts: Floats | None = None,
    paid_noise: float = 0.0,
) -> Columns:
    """Episodes one after the other; with probability `skill` the move that brings the point nearest to the goal."""
    state = rng.uniform(-1, 1, (_EPISODES, 2)) if starts is None else starts[rng.integers(len(starts), size=_EPISODES)]
    skills, episodes = np.array([skill(k / _EPISODES) for k in range(_EPISODES)]), np.arange(_EPISODES)
    steps = []
    for _ in range(_LENGTH):
        reached = np.clip(state[:, None] + 0.15 * _MOVES, -1, 1)  # (episodes, actions, 2)
        best = np.argmin((reached**2).sum(axis=2), axis=1)
        action = np.where(rng.random(_EPISODES) < skills, best, rng.integers(4, size=_EPISODES))
        after = np.clip(reached[episodes, action] + noise * rng.normal(size=(_EPISODES, 2)), -1, 1)
        steps.append((state, action, after))
        state = after
    states, actions, following = (np.stack(column, axis=1) for column in zip(*steps, strict=True))
    n = _EPISODES * _LENGTH
    time, following = np.arange(n) % _LENGTH, following.reshape(n, 2)
    return {
        "observations": states.reshape(n, 2), "actions": actions.reshape(n), "next_observations": following,
        "rewards": reward(following) + paid_noise * rng.normal(size=n), "terminations": np.zeros(n, dtype=bool),
        "truncations": time == _LENGTH - 1, "episode_ids": np.arange(n) // _LENGTH, "timesteps": time,
    }  # fmt: skip


def waiting(rng: np.random.Generator, *, keys: bool) -> Columns:
    """A state that is measured every eighth step on average, and stays what it was in between."""
    n, length = 3000, 30
    time = np.arange(n) % length
    measured = (rng.random(n) < 0.125) | (time == 0)
    place = np.maximum.accumulate(np.where(measured, np.arange(n), 0))
    states = rng.normal(size=(n, 2))[place]
    following = np.concatenate([states[1:], states[-1:]])
    last = time == length - 1
    following[last] = states[last] + np.where(rng.random(last.sum()) < 0.125, 1.0, 0.0)[:, None] * rng.normal(size=2)
    columns = {
        "observations": states, "actions": rng.integers(3, size=n), "rewards": following[:, 0] + rng.normal(size=n),
        "next_observations": following, "terminations": np.zeros(n, dtype=bool), "truncations": last,
    }  # fmt: skip
    return columns | ({"episode_ids": np.arange(n) // length, "timesteps": time} if keys else {})


def patients(rng: np.random.Generator) -> Columns:
    """Contexts that do not change: every episode has one state."""
    log = waiting(rng, keys=True)
    states = np.repeat(rng.normal(size=(100, 3)), 30, axis=0)
    return log | {"observations": states, "next_observations": states, "rewards": rng.normal(size=3000)}


def fine_grid(rng: np.random.Generator) -> Columns:
    """A table whose states are fractions, and a behavior that hardly ever does anything else than the best."""
    log = driven(rng, REWARDS["squared distance"], lambda _: 0.9, noise=0.0)
    for name in ("observations", "next_observations"):
        log[name] = np.round(log[name] * 10) / 10
    starts = np.flatnonzero(log["timesteps"] == 0)
    log["next_observations"][:-1] = np.where(
        np.isin(np.arange(1, len(log["rewards"])), starts)[:, None],
        log["next_observations"][:-1],
        log["observations"][1:],
    )
    return log


def heavy_tails(rng: np.random.Generator) -> Columns:
    """One-step decisions whose rewards span many powers of ten, and a behavior that learns which action earns most."""
    n = 4000
    states = rng.normal(size=(n, 4))
    greedy = rng.random(n) < np.arange(n) / n
    actions = np.where(greedy, 2, rng.integers(3, size=n))
    rewards = np.exp(1.5 * states[:, 0] + 2.0 * actions + 1.5 * rng.normal(size=n))
    return {
        "observations": states, "actions": actions, "rewards": rewards, "next_observations": np.zeros((n, 4)),
        "terminations": np.ones(n, dtype=bool),
    }  # fmt: skip


_FIXED = np.array([[0.71, -0.63]])
_FEW = np.array([[0.71, -0.63], [-0.52, 0.33], [0.12, 0.94], [-0.87, -0.41], [0.44, 0.58]])

HARD: dict[str, Callable[[np.random.Generator], Columns]] = {
    **{f"learns, {name}": lambda rng, r=r: driven(rng, r, slowly) for name, r in REWARDS.items()},
    **{f"good after bad, {name}": lambda rng, r=r: driven(rng, r, at_once) for name, r in REWARDS.items()},
    "learns, no chance in the world": lambda rng: driven(rng, REWARDS["squared distance"], slowly, noise=0.0),
    "learns, one start, no chance": lambda rng: driven(rng, REWARDS["exponential"], slowly, noise=0.0, starts=_FIXED),
    "few starts, no chance but rewards": lambda rng: driven(
        rng, REWARDS["exponential"], lambda _: 1.0, noise=0.0, starts=_FEW, paid_noise=0.1
    ),
    "measured now and then": lambda rng: waiting(rng, keys=True),
    "measured now and then, no keys": lambda rng: waiting(rng, keys=False),
    "states that never change": patients,
    "table of fractions": fine_grid,
    "heavy tails": heavy_tails,
}
CHANGING = {name for name in HARD if name.startswith(("learns", "good after bad", "heavy"))}
"""Those in which the behavior changes."""
