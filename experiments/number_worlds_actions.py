"""Continuous actions: a dose below a toxic limit, a price below 10, a torque beyond a dead zone, noisy steering."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from experiments.defaults_cells import FloatArray
from experiments.defaults_problems_worlds import CURVES, GAIN, SPREAD, steering_step
from experiments.number_worlds_base import Boxes, NumberWorld, chosen_world, column, episodes

import bondic

DEAD_ZONE = 0.3
HIGHEST_PRICE = 15.0


def limit(s: FloatArray) -> FloatArray:
    """Toxic from 0.1 mg per kg on."""
    return 0.1 * s[:, 0]


def dose() -> NumberWorld:
    """State: weight and severity. The chance of recovery rises with the dose up to the limit and falls to .1 there."""

    def chance(s: FloatArray, a: Any) -> FloatArray:
        share = a[:, 0] / limit(s)
        return np.where(share <= 1.0, 0.95 * share - 0.1 * s[:, 1], 0.1).clip(0.0, 1.0)

    return chosen_world(
        "dose below a toxic limit, γ 0",
        Boxes.grid([40.0, 120.0], [0.0, 1.0]),
        chance,
        lambda s: 0.95 * limit(s)[:, None],
        np.array([[weight, severity] for weight in np.linspace(45, 115, 8) for severity in (0.1, 0.3, 0.5)]),
        behave=lambda s, rng: rng.uniform(0.0, 1.5, (len(s), 1)) * limit(s)[:, None],
    )


def price() -> NumberWorld:
    """A customer pays the price or leaves; demand falls by 40 points at 10. Logged prices are 5 to 15, the policy's is 9.90."""

    def chance(s: FloatArray, a: Any) -> FloatArray:
        return 0.75 + 0.1 * s[:, 0] - 0.02 * (a[:, 0] - 5.0) - 0.4 * (a[:, 0] >= 10.0)

    return chosen_world(
        "price of 9.90, γ 0",
        Boxes.grid([0.0, 1.0]),
        chance,
        lambda s: np.full((len(s), 1), 9.9),
        column(np.linspace(0.0, 1.0, 21)),
        pay=lambda _, a: a[:, 0],
        most=HIGHEST_PRICE,
        behave=lambda s, rng: rng.uniform(5.0, HIGHEST_PRICE, (len(s), 1)),
    )


def torque(gamma: float) -> NumberWorld:
    """A torque against the angle's sign works beyond the dead zone ±.3, at once; the policy's is ±.33. Large angles last."""
    boxes = Boxes.grid([-1.0, -0.5, 0.0, 0.5, 1.0])

    def works(s: FloatArray, a: Any) -> Any:
        return (np.abs(a[:, 0]) > DEAD_ZONE) & (a[:, 0] * s[:, 0] < 0)

    def chance(s: FloatArray, a: Any) -> FloatArray:
        return np.where(works(s, a), 0.8, 0.3) - 0.2 * np.abs(s[:, 0])

    def moves(s: FloatArray, a: Any) -> FloatArray:
        large = np.where(works(s, a), 0.05, 0.75)[:, None]
        return np.asarray(large * np.array([0.5, 0, 0, 0.5]) + (1 - large) * np.array([0, 0.5, 0.5, 0]))

    return chosen_world(
        f"torque with a dead zone, γ {gamma:g}",
        boxes,
        chance,
        lambda s: -0.33 * np.where(s < 0, -1.0, 1.0),
        column(np.linspace(-0.95, 0.95, 20)),
        gamma=gamma,
        moves=moves if gamma else None,
        behave=lambda s, rng: rng.uniform(-1.0, 1.0, (len(s), 1)),
    )


def steering_sum(means: FloatArray, variance: float, gamma: float) -> FloatArray:
    """Σ γ^t E exp(-½ zᵀ A z), z = (s_t, a_t), from s_0 ~ N(mean, variance): as `steering_value`, for many means at once."""
    total, t = np.zeros(len(means)), 0
    direction = np.array([1.0, GAIN])
    while gamma**t > 1e-13:
        inner = np.eye(2) + (variance * np.outer(direction, direction) + np.diag([0.0, SPREAD**2])) @ CURVES
        curve = direction @ CURVES @ np.linalg.solve(inner, direction)
        total += gamma**t * np.exp(-0.5 * curve * means**2) / np.sqrt(np.linalg.det(inner))
        means, variance, t = 0.6 * means, 0.36 * variance + 0.09 * SPREAD**2 + 0.04, t + 1
    return total


def _steering_q(gamma: float, s: FloatArray, a: Any) -> FloatArray:
    now = np.exp(-0.5 * (s[:, 0] ** 2 + 0.3 * a[:, 0] ** 2))
    return np.asarray(now + gamma * steering_sum(0.9 * s[:, 0] + 0.3 * a[:, 0], 0.04, gamma))


def steering(gamma: float) -> NumberWorld:
    """s' = .9 s + .3 a + .2 ξ, policy a ~ N(−s, .1²), a reward of 1 with probability exp(−(s² + .3 a²)/2): Gaussian integrals."""
    return NumberWorld(
        name=f"linear-Gaussian steering, γ {gamma:g}",
        gamma=gamma,
        reward_range=(0.0, 1.0),
        value_range=None,
        terminates=False,
        make_log=episodes(
            lambda n, rng: rng.normal(0.0, 1.0, (n, 1)),
            lambda s, rng: -s + 0.5 * rng.standard_normal(s.shape),
            steering_step,
        ),
        policy=bondic.GaussianPolicy(lambda states: GAIN * states, SPREAD),
        initial=bondic.InitialStates.exact(column(np.linspace(-1.0, 1.0, 21))),
        q_star=partial(_steering_q, gamma),
        v_star=lambda s: steering_sum(s[:, 0], 0.0, gamma),
        step=steering_step,
    )


def action_worlds() -> list[NumberWorld]:
    return [dose(), price(), torque(0.0), torque(0.9), steering(0.9)]
