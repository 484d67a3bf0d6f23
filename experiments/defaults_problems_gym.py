"""Environments of Gymnasium: three tables with exact values, and two carts that are rolled out from listed starts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from experiments.defaults_cells import Cell, FloatArray, OutcomeTable, Trial, table_trial, with_value_range

import bondic

ABSENT = "" if find_spec("gymnasium") else "gymnasium is not installed, cell not run"
TABLES = {
    # name: (id, settings, gamma, reward range, rows, longest episode)
    "FrozenLake": ("FrozenLake-v1", {"is_slippery": True}, 0.95, (0.0, 1.0), 20_000, 100),
    "CliffWalking": ("CliffWalking-v1", {}, 0.9, (-100.0, -1.0), 20_000, 200),
    "Taxi": ("Taxi-v4", {}, 0.9, (-10.0, 20.0), 50_000, 200),
}
LAST_STEP = 3000
"""Discounted by 0.99 to this power, whatever follows is below 1e-9."""


@cache
def gym_table(identifier: str, **settings: Any) -> tuple[OutcomeTable, FloatArray]:
    """env.unwrapped.P as arrays, with the distribution of the first state."""
    import gymnasium

    env = gymnasium.make(identifier, **settings).unwrapped
    size, slots = int(env.observation_space.n), int(env.action_space.n)
    most = max(len(env.P[s][a]) for s in range(size) for a in range(slots))
    probs, rewards = np.zeros((size, slots, most)), np.zeros((size, slots, most))
    following, ends = np.zeros((size, slots, most), dtype=np.int64), np.zeros((size, slots, most), dtype=bool)
    for s in range(size):
        for a in range(slots):
            for k, (probability, after, reward, over) in enumerate(env.P[s][a]):
                probs[s, a, k], following[s, a, k] = probability, int(after)
                rewards[s, a, k], ends[s, a, k] = reward, over
    start = np.asarray(env.initial_state_distrib, dtype=np.float64)
    return OutcomeTable(probs, following, rewards, ends), start / start.sum()


def table_cell(name: str, rng: np.random.Generator) -> Trial:
    """Behavior: half the best action, half any; target: nine tenths the best."""
    identifier, settings, gamma, reward_range, rows, longest = TABLES[name]
    table, start = gym_table(identifier, **settings)
    best = table.greedy(gamma)
    even = np.full(best.shape, 1.0 / best.shape[1])
    return table_trial(
        table,
        start,
        target=0.9 * best + 0.1 * even,
        behavior=lambda _: 0.5 * best + 0.5 * even,
        gamma=gamma,
        reward_range=reward_range,
        rows=rows,
        longest=longest,
        rng=rng,
    )


def gym_log(identifier: str, act: Callable[[FloatArray], Any], rows: int, seed: int) -> bondic.Transitions:
    """The environment's own steps, one episode after the other, cut where Gymnasium cuts them."""
    import gymnasium

    env = gymnasium.make(identifier)
    parts, episode, time = [], 0, 0
    state, _ = env.reset(seed=seed)
    for _ in range(rows):
        action = act(state)
        after, reward, ended, cut, _ = env.step(action)
        parts.append((state, action, reward, after, ended, cut and not ended, episode, time))
        state, time = after, time + 1
        if ended or cut:
            state, _ = env.reset()
            episode, time = episode + 1, 0
    columns = [np.array(part) for part in zip(*parts, strict=True)]
    return bondic.Transitions(*columns[:6], episode_ids=columns[6], timesteps=columns[7])


def returns_from(identifier: str, starts: FloatArray, act: Callable[[FloatArray], Any], gamma: float) -> FloatArray:
    """Σ γ^t r_t of a deterministic policy in a deterministic environment, from each of the starts."""
    import gymnasium

    env = gymnasium.make(identifier).unwrapped
    env.reset(seed=0)
    out = []
    for start in starts:
        env.state = np.array(start, dtype=np.float64)
        env.steps_beyond_terminated = None  # CartPole's memory of an earlier end
        state, total = start.astype(np.float32), 0.0
        for time in range(LAST_STEP):
            state, reward, ended, _, _ = env.step(act(state))
            total += gamma**time * float(reward)
            if ended:
                break
        out.append(total)
    return np.array(out)


def pump(state: FloatArray) -> FloatArray:
    """Mountain car: push with nine tenths of the force in the direction of motion."""
    return np.array([0.9 if state[1] >= 0 else -0.9], dtype=np.float32)


RULES = {"standing": (0.05, 0.1, 1.0, 0.4), "drifting": (0.0, 0.0, 0.0, 1.0)}
"""Cart-pole: push right where this times the state is positive. The first never falls, the second leaves the rail late."""


def push(rule: str, states: FloatArray) -> Any:
    return (np.asarray(states, dtype=np.float64) @ np.array(RULES[rule]) > 0).astype(np.int64)


CAR_STARTS = np.column_stack([np.linspace(-0.6, -0.4, 21), np.zeros(21)]).astype(np.float32).astype(np.float64)
POLE_STARTS = np.random.default_rng(0).uniform(-0.05, 0.05, (20, 4)).astype(np.float32).astype(np.float64)


@cache
def car_value() -> float:
    return float(returns_from("MountainCarContinuous-v0", CAR_STARTS, pump, 0.99).mean())


@cache
def pole_value(rule: str) -> float:
    return float(returns_from("CartPole-v1", POLE_STARTS, partial(push, rule), 0.99).mean())


def car_cell(rows: int, rng: np.random.Generator) -> Trial:
    """Behavior: the pump with normal noise of 0.5; d_0: 21 listed starts."""

    def act(state: FloatArray) -> FloatArray:
        return np.clip(pump(state) + 0.5 * rng.standard_normal(1), -1.0, 1.0).astype(np.float32)

    def target(states: FloatArray) -> FloatArray:
        return np.where(states[:, 1:] >= 0, 0.9, -0.9)

    return Trial(
        gym_log("MountainCarContinuous-v0", act, rows, int(rng.integers(2**31))),
        bondic.DeterministicPolicy(target),
        0.99,
        (-0.1, 100.0),
        car_value(),
        error=1e-4,  # states are rounded to 32 bits
        initial=bondic.InitialStates.exact(CAR_STARTS),
    )


def pole_cell(rule: str, rows: int, rng: np.random.Generator) -> Trial:
    """Behavior: half the rule, half any action; d_0: 20 listed starts."""

    def act(state: FloatArray) -> int:
        return int(push(rule, state)) if rng.random() < 0.5 else int(rng.integers(2))

    return Trial(
        gym_log("CartPole-v1", act, rows, int(rng.integers(2**31))),
        bondic.DeterministicPolicy(partial(push, rule), n_actions=2),
        0.99,
        (0.0, 1.0),
        pole_value(rule),
        error=1e-4,
        initial=bondic.InitialStates.exact(POLE_STARTS),
    )


def gym_cells() -> dict[str, Cell]:
    """Names to cells; the user of FrozenLake knows that values are probabilities, and so on."""
    cells: dict[str, Cell] = {}
    known = {"FrozenLake": (0.0, 1.0), "Taxi": (-100.0, 20.0)}
    for name, (_, _, gamma, rewards, rows, _) in TABLES.items():
        words = (
            f"Gymnasium's {name}, rewards in [{rewards[0]:g}, {rewards[1]:g}], γ = {gamma:g}, {rows} rows, states as whole "
            "numbers in one column; behavior half optimal, target nine tenths; value by a linear solve"
        )
        cell = Cell(words, partial(table_cell, name), missing=ABSENT)
        cells |= with_value_range(name, cell, known[name]) if name in known else {name: cell}
    for rows in (500, 1000, 2000):
        words = (
            f"Gymnasium's MountainCarContinuous, γ = 0.99, {rows} rows of a noisy energy pump; target: the pump without "
            "noise; value by rollouts from the 21 listed starts"
        )
        car = Cell(words, partial(car_cell, rows), missing=ABSENT)
        cells |= with_value_range(f"MountainCar {rows}", car, (-10.0, 100.0))
    for rule, rows in (("standing", 100), ("standing", 2000), ("drifting", 2000)):
        words = (
            f"Gymnasium's CartPole-v1, γ = 0.99, {rows} rows, half a linear rule and half random; target: the rule "
            f"({'it never falls' if rule == 'standing' else 'it leaves the rail late'}); value by rollouts from the 20 listed "
            "starts"
        )
        cells[f"CartPole {rows}, {rule}"] = Cell(words, partial(pole_cell, rule, rows), missing=ABSENT)
    return cells
