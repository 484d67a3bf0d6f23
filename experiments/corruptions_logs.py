"""Good logs, and the ways in which they go bad on the way to a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic_lab.worlds.cartpole import CartPole
from bondic_lab.worlds.rollout import simulate_steps
from bondic_lab.worlds.synthetic import SyntheticMDP
from bondic_lab.worlds.tabular import TabularMDP

Columns = dict[str, npt.NDArray[Any]]
Fault = Callable[[Columns, np.random.Generator], Columns | None]
_COLUMNS = (
    "observations", "actions", "rewards", "next_observations", "terminations", "truncations", "episode_ids", "timesteps",
)  # fmt: skip
_SIDE = 5
_HOLES = (7, 11, 18, 23)
_GOAL = 24


def _columns(rollout: object) -> Columns:
    return {name: np.array(getattr(rollout, name)) for name in _COLUMNS}


def cart_pole(rng: np.random.Generator) -> Columns:
    """Continuous states and starts, deterministic steps; a careless policy, cut after 25 steps."""
    world = CartPole()
    even = np.full(world.n_actions, 1.0 / world.n_actions)
    rollout = simulate_steps(
        world.starts(150, rng), 25, world.step, lambda states: np.tile(even, (len(states), 1)), rng=rng
    )
    return _columns(rollout)


def few_starts(rng: np.random.Generator) -> Columns:
    """Continuous states that start at a few points; every episode is cut after 20 steps."""
    return _columns(SyntheticMDP.default(0.8, seed=1).rollout(60, 20, rng))


def table(rng: np.random.Generator) -> Columns:
    """A few states, random starts, episodes cut after 20 steps."""
    return _columns(TabularMDP.random(np.random.default_rng(11), gamma=0.8).rollout(80, 20, rng))


def _grid_step(
    states: npt.NDArray[np.float64], actions: npt.NDArray[np.int64], rng: np.random.Generator
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """A slippery grid of 5 x 5: one step in three goes astray; holes and the goal end the episode."""
    turned = (actions + rng.integers(-1, 2, size=actions.size)) % 4
    row, column = divmod(states[:, 0].astype(np.int64), _SIDE)
    row = np.clip(row + np.array([0, 1, 0, -1])[turned], 0, _SIDE - 1)
    column = np.clip(column + np.array([-1, 0, 1, 0])[turned], 0, _SIDE - 1)
    after = row * _SIDE + column
    ended = np.isin(after, (*_HOLES, _GOAL))
    return (after == _GOAL).astype(float), after[:, None].astype(float), ended


def _grid(starts: npt.NDArray[np.float64], rng: np.random.Generator, length: int = 25) -> Columns:
    even = np.full(4, 0.25)
    return _columns(simulate_steps(starts, length, _grid_step, lambda states: np.tile(even, (len(states), 1)), rng=rng))


def grid(rng: np.random.Generator) -> Columns:
    """A slippery grid with random starts, cut after 25 steps."""
    safe = np.setdiff1d(np.arange(_SIDE * _SIDE), (*_HOLES, _GOAL))
    return _grid(rng.choice(safe, size=(400, 1)).astype(float), rng)


def one_start(rng: np.random.Generator) -> Columns:
    """The same grid, all episodes from the same corner."""
    return _grid(np.zeros((400, 1)), rng)


def one_step(rng: np.random.Generator) -> Columns:
    """Decisions that end at once."""
    log = grid(rng)
    return log | {
        "terminations": np.ones(log["rewards"].size, dtype=bool),
        "truncations": np.zeros(log["rewards"].size, dtype=bool),
        "episode_ids": np.arange(log["rewards"].size),
        "timesteps": np.zeros(log["rewards"].size, dtype=np.int64),
    }


def settled(rng: np.random.Generator) -> Columns:
    """A policy that has settled down on a path without chance: many episodes are equal, and none is a copy."""
    path = np.array([0, 1, 2, 3, 4, 9, 14, 19])
    lengths = rng.choice([3, 8], size=100, p=[0.1, 0.9])
    states = np.concatenate([path[:length] for length in lengths])
    ends = np.zeros(states.size, dtype=bool)
    ends[np.cumsum(lengths) - 1] = True
    following = np.concatenate([np.append(path[1:length], _GOAL) for length in lengths])
    return {
        "observations": states[:, None].astype(float),
        "actions": np.where(ends, 1, 2),
        "rewards": ends.astype(float),
        "next_observations": following[:, None].astype(float),
        "terminations": ends,
        "truncations": np.zeros(states.size, dtype=bool),
        "episode_ids": np.repeat(np.arange(lengths.size), lengths),
        "timesteps": np.concatenate([np.arange(length) for length in lengths]),
    }


def without_keys(log: Columns) -> Columns:
    return {name: column for name, column in log.items() if name not in ("episode_ids", "timesteps")}


GOOD: dict[str, Callable[[np.random.Generator], Columns]] = {
    "cart-pole": cart_pole,
    "few starts": few_starts,
    "table": table,
    "grid": grid,
}
HONEST = {
    **GOOD,
    "one start": one_start,
    "one step": one_step,
    "settled policy": settled,
    "table without keys": lambda rng: without_keys(table(rng)),
    "grid without keys": lambda rng: without_keys(grid(rng)),
}
"""Logs without a fault: nothing may be said about them."""


def _inner(log: Columns) -> npt.NDArray[np.int64]:
    """Rows that are followed by another row of their episode."""
    ids = log["episode_ids"]
    return np.flatnonzero(np.append(ids[1:] == ids[:-1], False))


def _kept(log: Columns, keep: npt.NDArray[np.bool_]) -> Columns:
    return {name: column[keep] for name, column in log.items()}


def shuffled_next(log: Columns, rng: np.random.Generator) -> Columns:
    """One row in ten has the next observation of another row."""
    rows = rng.choice(_inner(log), size=len(log["rewards"]) // 10, replace=False)
    log["next_observations"][rows] = log["next_observations"][rng.permutation(rows)]
    return log


def stale_next(log: Columns, _: np.random.Generator) -> Columns:
    """next_observations is a second copy of observations."""
    return log | {"next_observations": log["observations"].copy()}


def autoreset(log: Columns, _: np.random.Generator) -> Columns | None:
    """Truncated rows carry the first observation of the next episode."""
    ends = np.flatnonzero(log["truncations"])
    ends = ends[ends + 1 < len(log["rewards"])]
    if ends.size < 10:
        return None
    log["next_observations"][ends] = log["observations"][ends + 1]
    return log


def reset_rows(log: Columns, _: np.random.Generator) -> Columns:
    """Every episode but the first begins with a row in which the environment resets: action ignored, reward 0."""
    starts = np.flatnonzero(np.diff(log["episode_ids"], prepend=-1) != 0)[1:]
    more = {name: column[starts].copy() for name, column in log.items()}
    more["observations"] = log["next_observations"][starts - 1]
    more["next_observations"] = log["observations"][starts]
    more["rewards"], more["timesteps"] = np.zeros(starts.size), np.zeros(starts.size, dtype=np.int64)
    more["terminations"], more["truncations"] = np.zeros((2, starts.size), dtype=bool)
    log["timesteps"] = log["timesteps"] + (log["episode_ids"] > 0)
    return {name: np.insert(column, starts, more[name], axis=0) for name, column in log.items()}


def lost_rows(log: Columns, rng: np.random.Generator) -> Columns:
    """Three rows inside episodes are gone."""
    keep = np.ones(len(log["rewards"]), dtype=bool)
    ids, inner = log["episode_ids"], _inner(log)
    middle = inner[(inner > 0) & (ids[np.maximum(inner - 1, 0)] == ids[inner])]
    keep[rng.choice(middle, size=3, replace=False)] = False
    return _kept(log, keep)


def lost_rows_without_times(log: Columns, rng: np.random.Generator) -> Columns:
    """One row in fifty is gone, and there are no timesteps."""
    keep = np.ones(len(log["rewards"]), dtype=bool)
    keep[rng.choice(_inner(log)[1:], size=len(log["rewards"]) // 50, replace=False)] = False
    out = _kept(log, keep)
    del out["timesteps"]
    return out


def lost_episodes(log: Columns, rng: np.random.Generator) -> Columns:
    """The fifth of the episodes with the lowest returns is gone."""
    ids = log["episode_ids"]
    returns = np.bincount(ids, weights=log["rewards"]) + 1e-9 * rng.random(int(ids.max()) + 1)
    return _kept(log, returns[ids] > np.quantile(returns, 0.2))


def limit_as_end(log: Columns, _: np.random.Generator) -> Columns:
    """Truncations are written as terminations."""
    cut = log["truncations"]
    return log | {"terminations": log["terminations"] | cut, "truncations": np.zeros_like(cut)}


def pasted(log: Columns, _: np.random.Generator) -> Columns:
    """The whole log twice, with new episode numbers."""
    out = {name: np.concatenate([column, column]) for name, column in log.items()}
    out["episode_ids"][len(log["rewards"]) :] += int(log["episode_ids"].max()) + 1
    return out


def pasted_part(log: Columns, rng: np.random.Generator) -> Columns:
    """A third of the episodes comes again at the end, with new numbers."""
    count = int(log["episode_ids"].max()) + 1
    first = int(rng.integers(0, count - count // 3))
    part = _kept(log, (log["episode_ids"] >= first) & (log["episode_ids"] < first + count // 3))
    part["episode_ids"] = part["episode_ids"] - first + count
    return {name: np.concatenate([column, part[name]]) for name, column in log.items()}


def pasted_without_keys(log: Columns, rng: np.random.Generator) -> Columns:
    """The whole log twice, without episode ids and timesteps."""
    return without_keys(pasted(log, rng))


def filled_next(log: Columns, rng: np.random.Generator) -> Columns | None:
    """Seven next observations of ten are the observations, and nothing says which row follows which."""
    if not _continuous(log):
        return None
    filled = rng.random(len(log["rewards"])) < 0.7
    log["next_observations"][filled] = log["observations"][filled]
    return without_keys(log)


def _continuous(log: Columns) -> bool:
    return bool((log["observations"] % 1 != 0).any())


FAULTS: dict[str, tuple[Fault, str]] = {
    "next observations of other rows": (shuffled_next, "next-observations"),
    "observations written as next observations": (stale_next, "next-observations"),
    "start of the next episode as next observation": (autoreset, "resets"),
    "rows of a resetting environment": (reset_rows, "reset-rows"),
    "three rows lost": (lost_rows, "gaps"),
    "rows lost, no timesteps": (lost_rows_without_times, "next-observations"),
    "worst episodes lost": (lost_episodes, "missing-episodes"),
    "time limit as termination": (limit_as_end, "time-limit"),
    "log pasted twice": (pasted, "copies"),
    "a third pasted again": (pasted_part, "copies"),
    "pasted twice, no keys": (pasted_without_keys, "copies"),
    "observations written as most next observations, no keys": (filled_next, "next-observations"),
}
"""What went wrong, and the kind of finding that has to come of it."""
