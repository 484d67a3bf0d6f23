"""A pole on a cart, pushed left or right (Barto, Sutton, Anderson 1983), with the constants of Gymnasium's CartPole-v1.

State (x, x', θ, θ'), force F = ∓10 N, M = 1.1 kg in all, pole m = 0.1 kg with half-length l = 0.5 m, g = 9.8:

    t   = (F + m l θ'² sin θ) / M
    θ'' = (g sin θ − t cos θ) / (l (4/3 − m cos² θ / M))
    x'' = t − m l θ'' cos θ / M

One Euler step of 0.02 s. The reward is 1 for every step, the one that ends the episode included; it ends when
|x| > 2.4 or |θ| > 12°. A start is uniform in [−0.05, 0.05]⁴.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numba
import numpy as np

from bondic_lab.worlds.dynamics import Dynamics
from bondic_lab.worlds.rollout import Flags, Floats, Integers

GRAVITY, TOTAL_MASS, POLE_MASS, HALF_LENGTH, FORCE, TIME_STEP = 9.8, 1.1, 0.1, 0.5, 10.0, 0.02
FARTHEST = 2.4
STEEPEST = 12 * 2 * math.pi / 360
FASTEST = 20.0  # a push of 10 N over 4.8 m or 24° gives a speed below 12 (m/s, rad/s)


@dataclass(frozen=True)
class CartPole(Dynamics):
    """Two actions: push left (0), push right (1). Rewards are 1, so J* ∈ [1, 1/(1 − γ)]."""

    name: ClassVar[str] = "cartpole"
    reward_range: ClassVar[tuple[float, float]] = (1.0, 1.0)
    may_terminate: ClassVar[bool] = True
    gamma: float = 0.95
    horizon: int = 100

    @property
    def n_actions(self) -> int:
        return 2

    @property
    def state_box(self) -> tuple[Floats, Floats]:
        high = np.array([2 * FARTHEST, FASTEST, 2 * STEEPEST, FASTEST])
        return -high, high

    def starts(self, n: int, rng: np.random.Generator) -> Floats:
        return rng.uniform(-0.05, 0.05, (n, 4))

    def step(self, states: Floats, actions: Integers, rng: np.random.Generator) -> tuple[Floats, Floats, Flags]:
        del rng  # nothing is random after the start
        after, ended = np.empty_like(states), np.empty(len(states), dtype=np.bool_)
        _euler(np.ascontiguousarray(states), actions, after, ended)
        return np.ones(len(states)), after, ended


@numba.njit(nogil=True, cache=True)
def _euler(states, actions, after, ended):  # type: ignore[no-untyped-def]
    for row in range(states.shape[0]):
        x, speed, angle, turning = states[row]
        force = FORCE if actions[row] == 1 else -FORCE
        cosine, sine = math.cos(angle), math.sin(angle)
        push = (force + POLE_MASS * HALF_LENGTH * turning**2 * sine) / TOTAL_MASS
        turn = GRAVITY * sine - cosine * push
        turn /= HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cosine**2 / TOTAL_MASS)
        acceleration = push - POLE_MASS * HALF_LENGTH * turn * cosine / TOTAL_MASS
        after[row, 0] = x + TIME_STEP * speed
        after[row, 1] = speed + TIME_STEP * acceleration
        after[row, 2] = angle + TIME_STEP * turning
        after[row, 3] = turning + TIME_STEP * turn
        ended[row] = abs(after[row, 0]) > FARTHEST or abs(after[row, 2]) > STEEPEST
