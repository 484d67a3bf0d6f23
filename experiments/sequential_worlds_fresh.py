"""Worlds for `sequential_worlds.py` that no rule was made with: two of Gymnasium, other sticks, a heated room.

They were written after the radius of chosen balls was fixed. Each is a step, a policy, a behavior and starting states; J* comes
from 20 000 simulated episodes or more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import bondic
from bondic_lab.worlds.rollout import discounted_returns, simulate_steps

FloatArray = npt.NDArray[np.float64]
Stepped = tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]
Probabilities = Callable[[FloatArray], FloatArray]

STARTS, REPEATS = 64, 320


@dataclass(frozen=True)
class World:
    """Everything that a log and its question are made of."""

    step: Callable[[FloatArray, Any, np.random.Generator], Stepped]
    policy: Probabilities
    behavior: Probabilities
    draw: Callable[[int, np.random.Generator], FloatArray]  # starting states
    gamma: float
    terms: dict[str, Any]
    length: int = 100  # of an episode of the log


def log_of(world: World, rows: int, seed: int) -> Any:
    """The first rows of enough episodes."""
    rng = np.random.default_rng([seed, 11])
    made = simulate_steps(world.draw(max(40, rows // 4), rng), world.length, world.step, world.behavior, rng=rng)
    columns = (made.observations, made.actions, made.rewards, made.next_observations, made.terminations)
    return bondic.Transitions(*(column[:rows] for column in columns))


def question(world: World, rows: int, seed: int) -> tuple[Any, float]:
    """The problem with its J*."""
    starts = world.draw(STARTS, np.random.default_rng(123))
    length = math.ceil(math.log(1e-4) / math.log(world.gamma))
    returns = discounted_returns(
        np.repeat(starts, REPEATS, axis=0),
        length,
        world.step,
        world.policy,
        gamma=world.gamma,
        rng=np.random.default_rng(5),
    )
    policy, initial = bondic.CallablePolicy(world.policy), bondic.InitialStates.exact(starts)
    terms = {"gamma": world.gamma, **world.terms}
    problem = bondic.make_problem(log_of(world, rows, seed), policy, initial, accept=None, **terms)
    return problem, float(returns.mean())


def _mostly(best: npt.NDArray[Any], actions: int, random: float) -> FloatArray:
    """The best action, but a share of random ones."""
    return np.where(np.arange(actions) == best[:, None], 1 - random + random / actions, random / actions)


def _car_step(states: FloatArray, actions: Any, rng: np.random.Generator) -> Stepped:
    """Gymnasium's MountainCar; the step that ends costs nothing."""
    del rng
    speed = np.clip(states[:, 1] + (actions - 1) * 0.001 - 0.0025 * np.cos(3 * states[:, 0]), -0.07, 0.07)
    place = np.clip(states[:, 0] + speed, -1.2, 0.6)
    speed = np.where((place <= -1.2) & (speed < 0), 0.0, speed)
    ended = place >= 0.5
    return ended - 1.0, np.column_stack([place, speed]), ended


def _car(random: float, states: FloatArray) -> FloatArray:
    """Push the way it moves."""
    return _mostly(np.where(states[:, 1] >= 0, 2, 0), 3, random)


def _car_starts(count: int, rng: np.random.Generator) -> FloatArray:
    return np.column_stack([rng.uniform(-0.3, 0.45, count), rng.uniform(0.0, 0.05, count)])


def _slope(angles: FloatArray, torque: FloatArray) -> FloatArray:
    """d/dt of (θ1, θ2, dθ1, dθ2) of Gymnasium's Acrobot."""
    one, two, fast, faster = angles.T
    d1 = 0.25 + 1.25 + np.cos(two) + 2
    d2 = 0.25 + 0.5 * np.cos(two) + 1
    phi2 = 4.9 * np.cos(one + two - np.pi / 2)
    bent = 0.5 * np.sin(two)
    phi1 = -bent * faster**2 - 2 * bent * faster * fast + 14.7 * np.cos(one - np.pi / 2) + phi2
    second = (torque + d2 / d1 * phi1 - bent * fast**2 - phi2) / (1.25 - d2**2 / d1)
    return np.column_stack([fast, faster, -(d2 * second + phi1) / d1, second])


def _acrobot_step(states: FloatArray, actions: Any, rng: np.random.Generator) -> Stepped:
    """One step of Runge and Kutta; states are cosines, sines and speeds."""
    del rng
    angles = np.column_stack(
        [np.arctan2(states[:, 1], states[:, 0]), np.arctan2(states[:, 3], states[:, 2]), states[:, 4:]]
    )
    torque, h = actions - 1.0, 0.2
    k1 = _slope(angles, torque)
    k2 = _slope(angles + h / 2 * k1, torque)
    k3 = _slope(angles + h / 2 * k2, torque)
    k4 = _slope(angles + h * k3, torque)
    one, two, fast, faster = (angles + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)).T
    speeds = np.clip(fast, -4 * np.pi, 4 * np.pi), np.clip(faster, -9 * np.pi, 9 * np.pi)
    ended = -np.cos(one) - np.cos(one + two) > 1.0
    return ended - 1.0, np.column_stack([np.cos(one), np.sin(one), np.cos(two), np.sin(two), *speeds]), ended


def _acrobot(random: float, states: FloatArray) -> FloatArray:
    """Torque that adds energy."""
    return _mostly(np.where(states[:, 5] >= 0, 2, 0), 3, random)


def _acrobot_starts(count: int, rng: np.random.Generator) -> FloatArray:
    one, two = rng.uniform(-1.8, 1.8, (2, count))
    speeds = rng.uniform(-4.0, 4.0, (2, count))
    return np.column_stack([np.cos(one), np.sin(one), np.cos(two), np.sin(two), *speeds])


def _stick_step(noise: float, push: float, states: FloatArray, actions: Any, rng: np.random.Generator) -> Stepped:
    """An inverted stick in other units; it ends at an angle of 0.6, and the wind may push too."""
    angle, speed = states.T
    force = np.where(actions == 1, push, -push) + noise * rng.normal(size=len(angle))
    speed = 0.9 * speed + 0.4 * np.sin(angle) + force
    angle = angle + 0.2 * speed
    ended = np.abs(angle) > 0.6
    return 1.0 - ended, np.column_stack([angle, speed]), ended


def _stick(sharp: float, random: float, states: FloatArray) -> FloatArray:
    left = random / 2 + (1 - random) * (0.5 + 0.5 * np.tanh(sharp * (2 * states[:, 0] + states[:, 1])))
    return np.column_stack([left, 1 - left])


def _stick_starts(count: int, rng: np.random.Generator) -> FloatArray:
    return rng.uniform([-0.3, -0.3], [0.3, 0.3], (count, 2))


def _room_step(states: FloatArray, actions: Any, rng: np.random.Generator) -> Stepped:
    """Room, walls and outside: comfort is a reward of 1 within a band, heating costs; nothing ends."""
    room, wall, outside = states.T
    heat = np.array([0.0, 0.6, 1.5])[actions]
    after = np.column_stack(
        [
            room + 0.3 * (wall - room) + 0.1 * (outside - room) + heat + 0.1 * rng.normal(size=len(room)),
            wall + 0.15 * (room - wall) + 0.05 * (outside - wall),
            0.95 * outside + 0.4 * rng.normal(size=len(room)),
        ]
    )
    pleased = np.abs(after[:, 0] - 2.0) < 0.4
    return 0.8 * pleased + 0.1 * (2 - actions), after, np.zeros(len(room), dtype=bool)


def _room(random: float, states: FloatArray) -> FloatArray:
    return _mostly((states[:, 0] < 2.4).astype(int) + (states[:, 0] < 1.6), 3, random)


def _room_starts(count: int, rng: np.random.Generator) -> FloatArray:
    return rng.uniform([0, 0, -1], [3, 2, 1], (count, 3))


_UNIT, _COST = {"reward_range": (0.0, 1.0)}, {"reward_range": (-1.0, 0.0)}

WORLDS: dict[str, World] = {
    "mountain car": World(_car_step, partial(_car, 0.1), partial(_car, 0.6), _car_starts, 0.97, _COST),
    "acrobot": World(_acrobot_step, partial(_acrobot, 0.1), partial(_acrobot, 0.6), _acrobot_starts, 0.95, _COST),
    "other stick": World(
        partial(_stick_step, 0.0, 0.15),
        partial(_stick, 6.0, 0.02),
        partial(_stick, 2.0, 0.5),
        _stick_starts,
        0.95,
        _UNIT,
    ),
    "stick in the wind": World(
        partial(_stick_step, 0.15, 0.2),
        partial(_stick, 6.0, 0.1),
        partial(_stick, 2.0, 0.6),
        _stick_starts,
        0.95,
        _UNIT,
    ),
    "room": World(
        _room_step, partial(_room, 0.05), partial(_room, 0.7), _room_starts, 0.9, {**_UNIT, "may_terminate": False}
    ),
}
