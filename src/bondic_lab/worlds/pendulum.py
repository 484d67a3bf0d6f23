"""A heavy pole on a cart on a rail, pushed with one of seven forces: MuJoCo's inverted pendulum without MuJoCo.

State (x, θ, x', θ'), force F = 100 a N, cart M, pole m with its center at distance l and inertia J about it, lean φ = θ + θ_0:

    (M + m) x'' + m l cos φ θ'' = F − x' + m l θ'² sin φ
    m l cos φ x'' + (J + m l²) θ'' = m g l sin φ − θ'

Cart and pole are the capsules of MuJoCo's model at 1000 kg/m³; the pole's end is 1 mm off at 0.6 m, hence θ_0; both joints
have damping 1. A decision is two classical Runge–Kutta steps of 0.02 s, as there. The reward is 1 while the pole stands and 0
at the step that ends the episode: |θ| > 0.2, or |x| > 1. The latter is this module's own choice: MuJoCo has a soft stop at
the end of the rail. A start is uniform in [−0.01, 0.01]⁴.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numba
import numpy as np

from bondic_lab.worlds.dynamics import Dynamics
from bondic_lab.worlds.rollout import Flags, Floats, Integers

FORCES = (-1.0, -0.3, -0.2, 0.0, 0.2, 0.3, 1.0)
GEAR, DAMPING, GRAVITY, DENSITY = 100.0, 1.0, 9.81, 1000.0
TIME_STEP, SUBSTEPS = 0.02, 2
FARTHEST, STEEPEST = 1.0, 0.2
BOX = np.array([2.0, 0.6, 20.0, 20.0])  # 100 N on 15 kg over 2 m or 0.4 rad gives a speed below 10 (m/s, rad/s)


def _capsule(radius: float, length: float) -> tuple[float, float]:
    """Mass of a cylinder with two half balls, and its inertia about the center, across the axis."""
    cylinder = DENSITY * math.pi * radius**2 * length
    balls = DENSITY * 4.0 / 3.0 * math.pi * radius**3
    inertia = cylinder * (3.0 * radius**2 + length**2) / 12.0
    inertia += balls * (0.4 * radius**2 + 0.25 * length**2 + 0.375 * length * radius)
    return cylinder + balls, inertia


POLE_LENGTH = math.hypot(0.001, 0.6)
LEAN = math.atan2(0.001, 0.6)  # θ_0
CART_MASS = _capsule(0.1, 0.2)[0]
POLE_MASS, POLE_INERTIA = _capsule(0.049, POLE_LENGTH)
ARM = 0.5 * POLE_LENGTH


@dataclass(frozen=True)
class InvertedPendulum(Dynamics):
    """Seven actions, the forces 100 · (−1, −0.3, −0.2, 0, 0.2, 0.3, 1) N; rewards in [0, 1]."""

    name: ClassVar[str] = "pendulum"
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    may_terminate: ClassVar[bool] = True
    gamma: float = 0.95
    horizon: int = 50

    @property
    def n_actions(self) -> int:
        return len(FORCES)

    @property
    def state_box(self) -> tuple[Floats, Floats]:
        return -BOX, BOX.copy()

    def starts(self, n: int, rng: np.random.Generator) -> Floats:
        return rng.uniform(-0.01, 0.01, (n, 4))

    def step(self, states: Floats, actions: Integers, rng: np.random.Generator) -> tuple[Floats, Floats, Flags]:
        del rng  # nothing is random after the start
        after, ended = np.array(states), np.empty(len(states), dtype=np.bool_)
        _two_steps(after, GEAR * np.asarray(FORCES)[actions], ended)
        return np.where(ended, 0.0, 1.0), after, ended


@numba.njit(nogil=True, cache=True)
def _accelerations(angle, speed, turning, force):  # type: ignore[no-untyped-def]
    """The two equations of the module's opening, solved for x'' and θ''."""
    sine, cosine = math.sin(angle + LEAN), math.cos(angle + LEAN)
    couple = POLE_MASS * ARM * cosine
    total, inertia = CART_MASS + POLE_MASS, POLE_INERTIA + POLE_MASS * ARM**2
    on_cart = force - DAMPING * speed + POLE_MASS * ARM * turning**2 * sine
    on_pole = POLE_MASS * GRAVITY * ARM * sine - DAMPING * turning
    determinant = total * inertia - couple**2
    return (inertia * on_cart - couple * on_pole) / determinant, (total * on_pole - couple * on_cart) / determinant


@numba.njit(nogil=True, cache=True)
def _two_steps(states, forces, ended):  # type: ignore[no-untyped-def]
    h = TIME_STEP
    for row in range(states.shape[0]):
        x, a, v, w = states[row]
        force = forces[row]
        for _ in range(SUBSTEPS):
            v1, w1 = _accelerations(a, v, w, force)
            v2, w2 = _accelerations(a + h / 2 * w, v + h / 2 * v1, w + h / 2 * w1, force)
            v3, w3 = _accelerations(a + h / 2 * (w + h / 2 * w1), v + h / 2 * v2, w + h / 2 * w2, force)
            v4, w4 = _accelerations(a + h * (w + h / 2 * w2), v + h * v3, w + h * w3, force)
            x += h * (v + h / 6 * (v1 + v2 + v3))
            a += h * (w + h / 6 * (w1 + w2 + w3))
            v += h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
            w += h / 6 * (w1 + 2 * w2 + 2 * w3 + w4)
        states[row, 0], states[row, 1], states[row, 2], states[row, 3] = x, a, v, w
        ended[row] = abs(a) > STEEPEST or abs(x) > FARTHEST
