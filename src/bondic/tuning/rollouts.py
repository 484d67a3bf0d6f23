"""Simulations under the policy: states with the discounted returns from there on, and states that lead astray."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bondic.rows import Batch, Rows
from bondic.search.sequential.simulator import Simulator
from bondic.terms import ValueRange
from bondic.tuning.visits import any_action, policy_action

FloatArray = npt.NDArray[np.float64]
Later = Callable[[FloatArray, FloatArray], FloatArray]
"""What follows the end of a simulation, from its last states (N, d) and rewards (N,)."""

_LEFT = 0.01
"""Share of the value that lies beyond the end of a simulation."""
_TAIL = 10
_STRAY = 4
"""Most steps that lead away from states of the log."""


def horizon_of(gamma: float) -> int:
    """Steps after which 1 % of the discounted weight is left; at most 1000."""
    return min(max(math.ceil(math.log(_LEFT) / math.log(gamma)), 2), 1000) if 0 < gamma < 1 else 2


def as_before(gamma: float, limits: ValueRange) -> Later:
    """Rewards go on as they were in the last steps."""

    def later(states: FloatArray, rewards: FloatArray) -> FloatArray:
        del states
        return np.clip(rewards / max(1 - gamma, 1e-12), limits.low, limits.high)

    return later


def simulated_returns(
    pilot: Rows,
    simulator: Simulator,
    begin: FloatArray,
    length: int,
    later: Later,
    limits: ValueRange,
    rng: np.random.Generator,
    targets: tuple[int, ...] = (0,),
) -> tuple[FloatArray, FloatArray]:
    """States at the target steps of simulations that are still alive, with sum_k gamma^k r_k + gamma^rest later."""
    states, kept, rewards, going = begin, [], [], []
    for step in range(length):
        if step in targets:
            kept.append(states)
        states, alive, reward = simulator.step(*policy_action(pilot, states, rng), rng)
        rewards.append(reward)
        going.append(alive)
    value = later(states, np.mean(rewards[-_TAIL:], axis=0))
    returns = []
    for reward, alive in zip(reversed(rewards), reversed(going), strict=True):
        value = reward + pilot.gamma * alive * value
        returns.append(np.clip(value, limits.low, limits.high))
    returns.reverse()
    live = np.ones(len(begin), dtype=bool)
    found: list[tuple[FloatArray, FloatArray]] = []
    for step in range(length):
        if step in targets:
            found.append((kept[len(found)][live], returns[step][live]))
        live = live & (going[step] > 0.5)
    points, values = zip(*found, strict=True)
    return np.concatenate(points), np.concatenate(values)


def strayed(
    pilot: Rows, rows: Batch, simulator: Simulator, known: FloatArray, count: int, rng: np.random.Generator
) -> FloatArray:
    """About so many states that are 1 to 4 steps away from known ones, each with an action of any kind or of the policy."""
    out: list[FloatArray] = [known[:0]]
    states = known[rng.integers(0, len(known), -(-count // _STRAY))]
    for _ in range(_STRAY):
        any_points, any_slots = any_action(pilot, rows, states, rng)
        points, slots = policy_action(pilot, states, rng)
        own = rng.random(len(states)) < 0.5
        points, slots = np.where(own[:, None], points, any_points), np.where(own, slots, any_slots)
        states, alive, _ = simulator.step(points, slots, rng)
        states = states[alive > 0.5]
        if not len(states):
            break
        out.append(states)
    return np.concatenate(out)
