"""Chains: two halves, a corridor with a far reward, a long memory, and smooth worlds as controls."""

from __future__ import annotations

from typing import Any

import numpy as np
from experiments.defaults_cells import FloatArray
from experiments.defaults_problems_worlds import chain_table
from experiments.number_worlds_base import (
    Boxes,
    NumberWorld,
    always,
    column,
    discrete_world,
    episodes,
    uniform_actions,
)
from experiments.number_worlds_jumps import place
from scipy.special import ndtr

import bondic

SEGMENTS = 20
MEMORY, NOISE, PUSH = 0.98, 0.2, np.array([-0.03, 0.03])
TAIL = 1e-13
PLACES = 50


def two_halves(gamma: float) -> NumberWorld:
    """Each half of the line is nearly absorbing; rewards .2 and .8. The value jumps at .5, and starts lie closely above."""
    edges = [0.0, 0.5, 1.0]
    upper = place(edges)

    def moves(s: FloatArray, a: Any) -> FloatArray:
        leave = 0.005 + 0.01 * a
        right = np.where(upper(s[:, 0]) == 1, 1 - leave, leave)
        return np.column_stack([1 - right, right])

    return discrete_world(
        f"two halves, γ {gamma:g}",
        Boxes.grid(edges),
        lambda s, a: 0.2 + 0.6 * upper(s[:, 0]) + 0.0 * a,
        always(0.8, 0.2),
        column(np.linspace(0.505, 0.6, 20)),
        gamma=gamma,
        moves=moves,
    )


def corridor(gamma: float) -> NumberWorld:
    """Twenty segments of the line; right goes on with probability .9. A reward of 1 in the last 5 %, where it ends."""
    edges = np.linspace(0.0, 1.0, SEGMENTS + 1)
    segment, last = place(edges), SEGMENTS - 1

    def moves(s: FloatArray, a: Any) -> FloatArray:
        here = segment(s[:, 0])
        one = np.eye(SEGMENTS)
        right = 0.9 * one[np.minimum(here + 1, last)] + 0.1 * one[here]
        on = np.where(a[:, None] == 1, right, one[np.maximum(here - 1, 0)])
        return np.asarray(on * (here < last)[:, None])

    return discrete_world(
        f"corridor with a far reward, γ {gamma:g}",
        Boxes.grid(edges),
        lambda s, a: (segment(s[:, 0]) == last) + 0.0 * a,
        always(0.05, 0.95),
        column(np.linspace(0.005, 0.095, 10)),
        gamma=gamma,
        moves=moves,
        terminates=True,
        value_range=(0.0, 1.0),
        behave=lambda s, rng: (rng.random(len(s)) < 0.6).astype(np.int64),
    )


def long_memory(gamma: float) -> NumberWorld:
    """s' = .98 s ± .03 + .2 ξ, a chance of .8 above 0 and .2 below; the policy always pushes up.

    v*(s) = .2/(1 − γ) + .6 Σ γ^t P(s_t > 0), and s_t is normal: Φ of mean over standard deviation.
    """
    count = int(np.ceil(np.log(TAIL) / np.log(gamma)))
    powers = MEMORY ** np.arange(count)
    pushes = PUSH[1] * (1 - powers) / (1 - MEMORY)
    sds = NOISE * np.sqrt(np.cumsum(powers**2))  # of s_{t+1}

    def chance(s: FloatArray) -> FloatArray:
        return np.where(s[:, 0] > 0, 0.8, 0.2)

    def step(s: FloatArray, a: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        rewards = (rng.random(len(s)) < chance(s)).astype(np.float64)
        after = MEMORY * s + PUSH[a][:, None] + NOISE * rng.standard_normal(s.shape)
        return rewards, after, np.zeros(len(s), dtype=bool)

    def q_star(s: FloatArray, a: Any) -> FloatArray:
        means, later = MEMORY * s[:, 0] + PUSH[a], np.zeros(len(s))
        for t in range(count):
            later += gamma**t * ndtr((powers[t] * means + pushes[t]) / sds[t])
        return np.asarray(chance(s) + gamma * (0.2 / (1 - gamma) + 0.6 * later))

    return NumberWorld(
        name=f"long memory, γ {gamma:g}",
        gamma=gamma,
        reward_range=(0.0, 1.0),
        value_range=None,
        terminates=False,
        make_log=episodes(lambda n, rng: rng.standard_normal((n, 1)), uniform_actions(2), step, 100),
        policy=bondic.CallablePolicy(always(0.0, 1.0)),
        initial=bondic.InitialStates.exact(column(np.linspace(0.01, 0.2, 20))),
        q_star=q_star,
        v_star=lambda s: q_star(s, np.ones(len(s), dtype=np.int64)),
        step=step,
    )


def _near(centers: FloatArray, shifts: FloatArray, width: float) -> Any:
    """φ_j ∝ exp(−‖s + shift_a − center_j‖² / width)."""

    def moves(s: FloatArray, a: Any) -> FloatArray:
        squares = np.sum((s[:, None] + shifts[a][:, None] - centers) ** 2, axis=2)
        weights = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / width)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    return moves


def sine(gamma: float) -> NumberWorld:
    """One number, chance .5 + .4 sin(2πs) − .1 a cos(2πs); the next state is near s, action 1 goes up."""
    low = np.array([[0.0], [0.25], [0.5]])

    def right(s: FloatArray) -> FloatArray:
        share = 0.5 + 0.4 * np.cos(np.pi * s[:, 0])
        return np.column_stack([1 - share, share])

    return discrete_world(
        f"smooth 1-d, γ {gamma:g}",
        Boxes(low, low + 0.5),
        lambda s, a: 0.5 + 0.4 * np.sin(2 * np.pi * s[:, 0]) - 0.1 * a * np.cos(2 * np.pi * s[:, 0]),
        right,
        column(np.linspace(0.1, 0.4, 20)),
        gamma=gamma,
        moves=_near(low + 0.25, np.array([[-0.1], [0.1]]), 0.1) if gamma else None,
        order=16,
    )


def smooth(gamma: float) -> NumberWorld:
    """Three numbers, three actions, everything smooth: chances, policy, and which of five overlapping boxes comes next."""
    low = 0.4 * np.array([[0, 0, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0], [0.5, 0.5, 0.5]])
    towards = np.array([[1.0, 0.0, 0.3], [-0.5, 1.0, 0.0], [0.0, -0.7, 1.0]])

    def chance(s: FloatArray, a: Any) -> FloatArray:
        waves = 0.2 * np.sin(3 * s[:, 0] + a) + 0.15 * np.cos(4 * s[:, 1]) * s[:, 2]
        return 0.5 + waves + 0.1 * np.sum(towards[a] * (s - 0.5), axis=1)

    def policy(s: FloatArray) -> FloatArray:
        scores = np.exp(4.0 * (s - 0.5) @ towards.T)
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    return discrete_world(
        f"smooth 3-d, γ {gamma:g}",
        Boxes(low, low + 0.6),
        chance,
        policy,
        np.random.default_rng(1).random((50, 3)),
        gamma=gamma,
        moves=_near(low + 0.3, 0.2 * towards, 0.3) if gamma else None,
        behave=uniform_actions(3),
        order=10,
    )


def chain() -> NumberWorld:
    """The line of 50 places of `defaults_problems_worlds`, as numbers place / 50; a linear solve."""
    gamma, table = 0.9, chain_table(PLACES)
    q = table.q_values(np.tile([0.2, 0.8], (PLACES, 1)), gamma)

    def number(s: FloatArray) -> FloatArray:
        return np.rint(s * PLACES)

    def q_star(s: FloatArray, a: Any) -> FloatArray:
        return np.asarray(q[number(s)[:, 0].astype(np.int64), a])

    def step(s: FloatArray, a: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        rewards, after, ends = table.step(number(s), a, rng)
        return rewards, after / PLACES, ends

    return NumberWorld(
        name=f"chain, γ {gamma:g}",
        gamma=gamma,
        reward_range=(0.0, 1.0),
        value_range=None,
        terminates=False,
        make_log=episodes(lambda n, rng: rng.integers(PLACES, size=(n, 1)) / PLACES, uniform_actions(2), step),
        policy=bondic.CallablePolicy(always(0.2, 0.8)),
        initial=bondic.InitialStates.exact(column(np.arange(5, 12) / PLACES)),
        q_star=q_star,
        v_star=lambda s: q_star(s, 0) * 0.2 + q_star(s, 1) * 0.8,
        step=step,
    )


def chain_worlds() -> list[NumberWorld]:
    return [
        two_halves(0.9),
        corridor(0.95),
        long_memory(0.9),
        *(sine(gamma) for gamma in (0.0, 0.5, 0.9)),
        *(smooth(gamma) for gamma in (0.0, 0.5, 0.9)),
    ]
