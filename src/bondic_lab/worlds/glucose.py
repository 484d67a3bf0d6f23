"""Insulin for a person with Type-1 diabetes: one decision every 15 minutes, meals at random, a noisy sensor.

    r = −min(risk(g), 100) / 100 ∈ [−1, 0],   risk(g) = 10 f(g)²,   f(g) = 1.509 ((ln g)^1.084 − 5.381)

(Kovatchev et al. 1997), with g the sensor's reading at the end of the quarter of an hour, kept in [20, 600] mg/dL; the risk
is about 100 at both ends and 0 at 112.5. The patient follows `glucose_model`; an action is a multiple of basal insulin.

The state holds all that the future depends on: the thirteen patient states, D of the last meal, what is left on the plate,
and the time of day as a point on the circle. All are divided by fixed scales, so that fasting amounts are 1. The sensor's
error enters the reward only; it is independent from step to step, so the process is Markov.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from bondic.core.errors import InvalidInput
from bondic_lab.worlds.dynamics import Dynamics
from bondic_lab.worlds.glucose_model import DBAR, LEFT, STATES, WIDTH, Patient, advance
from bondic_lab.worlds.rollout import Flags, Floats, Integers

DAY = 1440  # minutes
LOWEST, HIGHEST = 20.0, 600.0  # mg/dL that the sensor can show
WORST_RISK = 100.0


@dataclass(frozen=True)
class Meal:
    """With `probability`, grams ~ uniform[low, high], begun at a random minute of the decision at `time` (minutes)."""

    time: int
    probability: float
    low: float
    high: float


MEALS = (
    Meal(7 * 60, 0.95, 30.0, 60.0),
    Meal(12 * 60, 0.95, 45.0, 85.0),
    Meal(16 * 60, 0.5, 10.0, 25.0),
    Meal(19 * 60, 0.95, 50.0, 90.0),
)


def risk(glucose: Floats) -> Floats:
    """10 (1.509 ((ln g)^1.084 − 5.381))² for g > 1 mg/dL."""
    return np.asarray(10.0 * (1.509 * (np.log(glucose) ** 1.084 - 5.381)) ** 2)


@dataclass(frozen=True, eq=False)
class Glucose(Dynamics):
    """Actions are the multiples of basal insulin in `levels`, held for `minutes`; no episode ever ends by itself.

    Sensor error: N(0, `sensor_sd`²) mg/dL, independent. A start: fasting amounts, with glucose (x4, x5, x13) and insulin
    (x6, x8 … x12) multiplied by independent uniform factors from [0.7, 1.5] and [0.8, 1.2], at a random decision time of the day.
    """

    name: ClassVar[str] = "glucose"
    reward_range: ClassVar[tuple[float, float]] = (-1.0, 0.0)
    may_terminate: ClassVar[bool] = False
    gamma: float = 0.95
    horizon: int = 50
    patient: Patient = field(default_factory=Patient.load)
    minutes: int = 15
    levels: tuple[float, ...] = (0.0, 1.0, 2.0, 5.0, 10.0)
    meals: tuple[Meal, ...] = MEALS
    sensor_sd: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.minutes < 1 or DAY % self.minutes:
            raise InvalidInput(
                f"`minutes` is {self.minutes}: decisions fall on the same times every day; pass a divisor of 1440."
            )
        if not self.levels or min(self.levels) < 0.0 or not np.all(np.isfinite(self.levels)):
            raise InvalidInput(
                f"`levels` are multiples of basal insulin, finite and >= 0, at least one, not {self.levels}."
            )
        if not (math.isfinite(self.sensor_sd) and self.sensor_sd >= 0.0):
            raise InvalidInput(
                f"`sensor_sd` is {self.sensor_sd}: a standard deviation in mg/dL, finite and >= 0, is needed."
            )
        times = [meal.time for meal in self.meals]
        if len(set(times)) < len(times):
            raise InvalidInput(
                "Two `meals` share a decision; a decision starts one meal at most. Give them different times."
            )
        for meal in self.meals:
            _check_meal(meal, self.minutes)

    @property
    def n_actions(self) -> int:
        return len(self.levels)

    @cached_property
    def scales(self) -> Floats:
        """Fasting amounts are 1; 50 g in the stomach or on the plate are 1; x7 is measured in units of Ib."""
        scales = np.ones(WIDTH)
        scales[:STATES] = self.patient.fasting
        scales[[0, 1, DBAR]], scales[2], scales[LEFT] = 5e4, 5e3, 50.0
        scales[6] = self.patient.fasting[7]  # x8 rests at Ib, x7 at 0
        scales.setflags(write=False)
        return scales

    @property
    def state_box(self) -> tuple[Floats, Floats]:
        high = np.full(WIDTH + 2, 100.0)
        low = np.zeros(WIDTH + 2)
        low[6] = -2.0  # plasma insulin is >= 0, so x7 >= −Ib
        low[WIDTH:], high[WIDTH:] = -1.0, 1.0
        return low, high

    def starts(self, n: int, rng: np.random.Generator) -> Floats:
        states = self.patient.rest(n)
        states[:, [3, 4, 12]] *= rng.uniform(0.7, 1.5, (n, 1))
        states[:, [5, 7, 8, 9, 10, 11]] *= rng.uniform(0.8, 1.2, (n, 1))
        return self.encode(states, self.minutes * rng.integers(DAY // self.minutes, size=n))

    def step(self, states: Floats, actions: Integers, rng: np.random.Generator) -> tuple[Floats, Floats, Flags]:
        n = len(states)
        patients, clock = self.decode(states)
        plates = self._plates(clock, rng.random((n, 3)))
        insulin = np.broadcast_to((self.patient.basal * np.asarray(self.levels)[actions])[:, None], plates.shape)
        after, traces = advance(self.patient, patients, insulin, plates)
        reading = np.clip(traces[:, -1] + self.sensor_sd * rng.standard_normal(n), LOWEST, HIGHEST)
        rewards = -np.minimum(risk(reading), WORST_RISK) / WORST_RISK
        return rewards, self.encode(after, (clock + self.minutes) % DAY), np.zeros(n, dtype=np.bool_)

    def glucose(self, states: Floats) -> Floats:
        """x13 / Vg in mg/dL, without the sensor's error: (n, 17) to (n,)."""
        return np.asarray(states[:, STATES - 1] * self.scales[STATES - 1] / self.patient.volume)

    def encode(self, patients: Floats, clock: Integers) -> Floats:
        """Patient states (n, 15) and minutes of the day (n,) to states (n, 17)."""
        angle = 2.0 * np.pi * clock[:, None] / DAY
        return np.concatenate([patients / self.scales, np.sin(angle), np.cos(angle)], axis=1)

    def decode(self, states: Floats) -> tuple[Floats, Integers]:
        """The inverse of `encode`; the minute is rounded, hence exact."""
        angle = np.arctan2(states[:, WIDTH], states[:, WIDTH + 1])
        clock = np.rint(angle * DAY / (2.0 * np.pi)).astype(np.int64) % DAY
        return states[:, :WIDTH] * self.scales, clock

    def _plates(self, clock: Integers, uniforms: Floats) -> Floats:
        """Grams announced in each minute (n, minutes); `uniforms` (n, 3) say whether, how much and when."""
        plates = np.zeros((len(clock), self.minutes))
        for meal in self.meals:
            rows = np.flatnonzero((clock == meal.time) & (uniforms[:, 0] < meal.probability))
            grams = meal.low + (meal.high - meal.low) * uniforms[rows, 1]
            plates[rows, (uniforms[rows, 2] * self.minutes).astype(np.int64)] = grams
        return plates


def _check_meal(meal: Meal, minutes: int) -> None:
    if not (0 <= meal.time < DAY and meal.time % minutes == 0):
        raise InvalidInput(f"A meal at minute {meal.time} is at no decision; pass a multiple of {minutes} below {DAY}.")
    if not (0.0 <= meal.probability <= 1.0 and 0.0 <= meal.low <= meal.high < math.inf):
        raise InvalidInput(f"{meal}: a probability in [0, 1] and grams with 0 <= low <= high are needed.")
