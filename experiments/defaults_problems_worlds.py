"""Worlds of textbooks with exact values: corridors with a far goal, coded chains, drift, constant rewards, noisy control."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
from experiments.defaults_cells import Cell, FloatArray, OutcomeTable, Recorder, Trial, table_trial
from scipy import stats

import bondic

PLACES, GOAL_GAMMA = 10, 0.95
COSTS = (1e-9, 1e-6, 1e-3)
FIRST = 0.3
"""Share of the log in which the behavior turns back before the goal: a pilot of the first fifth never sees it."""
DRIFTS, DRIFT_NOISE, DRIFT_MIDDLE = (0.0, 0.06), 0.1, 3.0


def corridor(cost: float) -> OutcomeTable:
    """Right goes on with probability 0.9, else nothing happens; left goes back. The last place's right is the goal."""
    probs, rewards = np.zeros((PLACES, 2, 2)), np.full((PLACES, 2, 2), -cost)
    following, ends = np.zeros((PLACES, 2, 2), dtype=np.int64), np.zeros((PLACES, 2, 2), dtype=bool)
    for s in range(PLACES):
        probs[s, 0, 0], following[s, 0] = 1.0, max(s - 1, 0)
        probs[s, 1], following[s, 1] = (0.9, 0.1), (min(s + 1, PLACES - 1), s)
    ends[-1, 1, 0], rewards[-1, 1, 0] = True, 1.0
    return OutcomeTable(probs, following, rewards, ends)


def corridor_cell(cost: float, rng: np.random.Generator, rows: int = 5000) -> Trial:
    late = np.tile([0.35, 0.65], (PLACES, 1))
    early = late.copy()
    early[-1] = 1.0, 0.0
    return table_trial(
        corridor(cost),
        np.eye(PLACES)[0],
        target=np.tile([0.05, 0.95], (PLACES, 1)),
        behavior=lambda share: early if share < FIRST else late,
        gamma=GOAL_GAMMA,
        reward_range=(-cost, 1.0),
        rows=rows,
        longest=50,
        rng=rng,
    )


STRIDE, BLUR, RIGHT = 0.1, 0.03, 0.9  # step length, half width of its noise, the target's share of steps to the right


def stroll(cost: float, states: FloatArray, actions: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """s' = max(0, s ± 0.1 + U[-0.03, 0.03]); the goal is s' >= 1."""
    after = states + np.where(actions == 1, STRIDE, -STRIDE)[:, None] + rng.uniform(-BLUR, BLUR, states.shape)
    ends = after[:, 0] >= 1.0
    return np.where(ends, 1.0, -cost), np.maximum(after, 0.0), ends


@cache
def stroll_values(cells: int) -> tuple[FloatArray, FloatArray]:
    """E Σ γ^t 1[goal at t] and E Σ γ^t 1[no goal at t] at s = i / cells, as piecewise linear functions of s.

    The last node is the limit from the left of 1. Means over [s ± 0.1 - 0.03, s ± 0.1 + 0.03] are sums of trapezoids.
    """
    reach, half = round(STRIDE * cells), round(BLUR * cells)
    chain, goal = np.zeros((cells + 1, cells + 1)), np.zeros(cells + 1)
    for share, move in ((RIGHT, reach), (1.0 - RIGHT, -reach)):
        weight = share / (2 * half)
        for node in range(cells + 1):
            first, last = node + move - half, node + move + half
            chain[node, 0] += weight * max(0, min(last, 0) - first)  # what would be left of 0
            goal[node] += weight * max(0, last - max(first, cells))
            low, high = max(first, 0), min(last, cells)
            if high > low:
                chain[node, low : high + 1] += weight
                chain[node, [low, high]] -= weight / 2
    system = np.eye(cells + 1) - GOAL_GAMMA * chain
    return np.linalg.solve(system, goal), np.linalg.solve(system, chain.sum(axis=1))


def stroll_value(cost: float, cells: int = 1000) -> float:
    """J* of ten starts 0, 0.01, ..., 0.09."""
    goals, steps = stroll_values(cells)
    starts = np.arange(10) * cells // 100
    return float(np.mean(goals[starts] - cost * steps[starts]))


def stroll_cell(cost: float, rng: np.random.Generator, rows: int = 3000) -> Trial:
    recorder = Recorder(lambda n, r: r.uniform(0.0, 0.1, (n, 1)), 50)

    def act(states: FloatArray, share: float, r: np.random.Generator) -> Any:
        right = r.random(len(states)) < 0.65
        return (right & ((share >= FIRST) | (states[:, 0] < 0.85))).astype(np.int64)

    fine, coarse = stroll_value(cost), stroll_value(cost, 500)
    return Trial(
        recorder.log(act, partial(stroll, cost), rows=rows, streams=20, rng=rng),
        bondic.CallablePolicy(lambda states: np.tile([1.0 - RIGHT, RIGHT], (len(states), 1))),
        GOAL_GAMMA,
        (-cost, 1.0),
        fine,
        error=abs(fine - coarse),
        initial=bondic.InitialStates.exact(np.arange(10)[:, None] / 100),
    )


def chain_table(size: int) -> OutcomeTable:
    """A line with a smooth reward: left or right with probability 0.8, else nothing happens."""
    places = np.arange(size)
    probs = np.broadcast_to([0.8, 0.2], (size, 2, 2))
    following = np.stack([np.stack([np.clip(places + d, 0, size - 1), places], axis=1) for d in (-1, 1)], axis=1)
    rewards = np.broadcast_to(0.5 + 0.5 * np.sin(2 * np.pi * places / size)[:, None, None], (size, 2, 2))
    return OutcomeTable(probs, following, rewards, np.zeros((size, 2, 2), dtype=bool))


def coded_cell(size: int, rows: int, rng: np.random.Generator) -> Trial:
    """State numbers mean nothing: they were given out in random order. The start lies before the best part of the line."""
    codes = rng.permutation(size)
    return table_trial(
        chain_table(size).renamed(codes),
        np.eye(size)[codes[size // 6]],
        target=np.tile([0.2, 0.8], (size, 1)),
        behavior=lambda _: np.full((size, 2), 0.5),
        gamma=0.9,
        reward_range=(0.0, 1.0),
        rows=rows,
        longest=50,
        rng=rng,
    )


def drift_value(share: float, gamma: float, start: float = 0.0) -> float:
    """Σ γ^t E Φ(s_t - m): s_t is normal given how often action 1 was taken, and that number is binomial."""
    total, t = 0.0, 0
    while gamma**t > 1e-13:
        counts = np.arange(t + 1)
        means = start + DRIFTS[0] * (t - counts) + DRIFTS[1] * counts - DRIFT_MIDDLE
        chances = stats.norm.cdf(means / np.sqrt(1.0 + DRIFT_NOISE**2 * t))
        total += gamma**t * float(stats.binom.pmf(counts, t, share) @ chances)
        t += 1
    return total


def drift_step(states: FloatArray, actions: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """s' = s + drift of the action + noise, for ever; r = Φ(s - 3)."""
    after = states + np.array(DRIFTS)[actions][:, None] + DRIFT_NOISE * rng.standard_normal(states.shape)
    return stats.norm.cdf(states[:, 0] - DRIFT_MIDDLE), after, np.zeros(len(states), dtype=bool)


@cache
def _drift_value(share: float) -> float:
    return drift_value(share, 0.99)


def drift_cell(share: float, rows: int, rng: np.random.Generator) -> Trial:
    recorder = Recorder(lambda n, _: np.zeros((n, 1)), 100)

    def act(states: FloatArray, _: float, r: np.random.Generator) -> Any:
        return (r.random(len(states)) < 0.5).astype(np.int64)

    return Trial(
        recorder.log(act, drift_step, rows=rows, streams=5, rng=rng),
        bondic.CallablePolicy(lambda states: np.tile([1.0 - share, share], (len(states), 1))),
        0.99,
        (0.0, 1.0),
        _drift_value(share),
        initial=bondic.InitialStates.exact(np.zeros((1, 1))),
    )


def constant_cell(gamma: float, rng: np.random.Generator, rows: int = 1000) -> Trial:
    """s' = 0.95 s + noise, r = 0.7 always: q* = 0.7 / (1 - γ) everywhere."""
    recorder = Recorder(lambda n, r: r.standard_normal((n, 1)), 100)

    def step(states: FloatArray, actions: Any, r: np.random.Generator) -> tuple[Any, Any, Any]:
        after = 0.95 * states + 0.3 * r.standard_normal(states.shape) + 0.1 * (2 * actions[:, None] - 1)
        return np.full(len(states), 0.7), after, np.zeros(len(states), dtype=bool)

    def act(states: FloatArray, _: float, r: np.random.Generator) -> Any:
        return r.integers(2, size=len(states))

    return Trial(
        recorder.log(act, step, rows=rows, streams=5, rng=rng),
        bondic.CallablePolicy(lambda states: np.tile([0.2, 0.8], (len(states), 1))),
        gamma,
        (0.0, 1.0),
        0.7 / (1.0 - gamma),
        initial=bondic.InitialStates.exact(np.array([[-0.5], [0.0], [0.5]])),
    )


GAIN, SPREAD = -1.0, 0.1  # of the target: a ~ N(-s, 0.1²)
CURVES = np.diag([1.0, 0.3])


def steering_value(starts: FloatArray, gamma: float) -> float:
    """Σ γ^t E exp(-½ zᵀ A z), z = (s_t, a_t) normal: |I + V A|^(-1/2) exp(-½ mᵀ A (I + V A)⁻¹ m)."""
    total = 0.0
    for start in starts:
        mean, variance, t = float(start), 0.0, 0
        while gamma**t > 1e-13:
            m = np.array([mean, GAIN * mean])
            v = variance * np.array([[1.0, GAIN], [GAIN, GAIN**2]]) + np.diag([0.0, SPREAD**2])
            inner = np.eye(2) + v @ CURVES
            power = float(np.exp(-0.5 * m @ CURVES @ np.linalg.solve(inner, m)))
            total += gamma**t * power / float(np.sqrt(np.linalg.det(inner)))
            mean, variance, t = 0.6 * mean, 0.36 * variance + 0.09 * SPREAD**2 + 0.04, t + 1
    return total / len(starts)


def steering_step(states: FloatArray, actions: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """s' = 0.9 s + 0.3 a + 0.2 ξ; r is 1 with probability exp(-(s² + 0.3 a²) / 2), else 0."""
    chance = np.exp(-0.5 * (states[:, 0] ** 2 + 0.3 * actions[:, 0] ** 2))
    rewards = (rng.random(len(states)) < chance).astype(np.float64)
    after = 0.9 * states + 0.3 * actions + 0.2 * rng.standard_normal(states.shape)
    return rewards, after, np.zeros(len(states), dtype=bool)


def steering_cell(rows: int, rng: np.random.Generator) -> Trial:
    starts = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    recorder = Recorder(lambda n, r: r.normal(0.0, 1.0, (n, 1)), 50)

    def act(states: FloatArray, _: float, r: np.random.Generator) -> Any:
        return -states + 0.5 * r.standard_normal(states.shape)

    return Trial(
        recorder.log(act, steering_step, rows=rows, streams=5, rng=rng),
        bondic.GaussianPolicy(lambda states: -states, SPREAD),
        0.98,
        (0.0, 1.0),
        steering_value(starts, 0.98),
        initial=bondic.InitialStates.exact(starts[:, None]),
    )


def world_cells() -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    seen = "in the first 30 % of the log the behavior turns back before the goal"
    for cost in COSTS:
        words = f"{PLACES} numbered places, goal 1, cost {cost:g} per step, γ = 0.95, 5000 rows; {seen}; linear solve"
        cells[f"corridor of places, cost {cost:g}"] = Cell(words, partial(corridor_cell, cost))
    for cost in COSTS:
        words = (
            f"a line [0, 1] with steps of 0.1 ± 0.03, goal 1, cost {cost:g} per step, γ = 0.95, 3000 rows; {seen}; integral "
            "equation on 1000 nodes"
        )
        cells[f"corridor on a line, cost {cost:g}"] = Cell(words, partial(stroll_cell, cost))
    for size, rows in ((50, 5000), (50, 20_000), (50, 50_000), (200, 20_000)):
        words = f"a line of {size} places with a smooth reward, numbered in random order, γ = 0.9, {rows} rows; linear solve"
        cells[f"coded states {size}, {rows}"] = Cell(words, partial(coded_cell, size, rows))
    for share, rows in ((0.5, 1000), (0.9, 1000), (0.9, 5000)):
        words = (
            f"a random walk that drifts for ever, reward Φ(s - 3), γ = 0.99, {rows} rows in episodes of 100 from 0; behavior "
            f"takes the step with drift half of the time, target {share:g}; sum of binomial mixtures"
        )
        cells[f"drift {share:g}, {rows}"] = Cell(words, partial(drift_cell, share, rows))
    for gamma in (0.9, 0.99, 0.999):
        words = f"reward 0.7 at every step of a walk, range [0, 1], γ = {gamma:g}, 1000 rows"
        cells[f"constant reward, {gamma:g}"] = Cell(words, partial(constant_cell, gamma))
    for rows in (500, 2000):
        words = (
            f"s' = 0.9 s + 0.3 a + noise, continuous actions, reward 1 with probability exp(-(s² + 0.3 a²)/2), γ = 0.98, {rows} "
            "rows; Gaussian integrals"
        )
        cells[f"noisy steering, {rows}"] = Cell(words, partial(steering_cell, rows))
    return cells
