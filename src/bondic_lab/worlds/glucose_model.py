"""Glucose and insulin of one person with Type-1 diabetes: thirteen equations, minutes, one minute at a time.

With d the carbohydrate eaten (mg/min), u = insulin (U/min) · 6000 / BW, q = x1 + x2 (stomach), D the stomach's content
when the meal began plus what was eaten since (mg), I = x6 / Vi:

    x1' = −kmax x1 + d              x2' = kmax x1 − kgut x2         x3' = kgut x2 − kabs x3
    kgut = kmin + (kmax − kmin)/2 · (tanh(5 (q − b D) / (2 D (1 − b))) − tanh(5 (q − d D) / (2 D d)) + 2);  kmax if D = 0
    x4' = max(kp1 − kp2 x4 − kp3 x9, 0) + f kabs x3 / BW − Fsnc − ke1 max(x4 − ke2, 0) − k1 x4 + k2 x5
    x5' = −(Vm0 + Vmx x7) x5 / (Km0 + x5) + k1 x4 − k2 x5
    x6' = −(m2 + m4) x6 + m1 x10 + ka1 x11 + ka2 x12                x10' = −(m1 + m30) x10 + m2 x6
    x7' = −p2u x7 + p2u (I − Ib)    x8' = −ki (x8 − I)              x9' = −ki (x9 − x8)
    x11' = u − (ka1 + kd) x11       x12' = kd x11 − ka2 x12         x13' = −ksc x13 + ksc x4

(Dalla Man, Rizza, Cobelli 2007.) Glucose is x13 / Vg in mg/dL. States 4, 5, 6, 10, 11, 12, 13 are amounts: at zero
they may only rise. d, u and D jump at whole minutes, so no step of the integrator crosses one.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from importlib.resources import files

import numba
import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.errors import did_you_mean

FloatArray = npt.NDArray[np.float64]

STATES = 13
DBAR, LEFT = 13, 14  # after the patient's states: D (mg), and grams of the meal not yet eaten
WIDTH = 15
EATING_RATE = 5.0  # g/min
# fmt: off
NAMES = (
    "BW", "kabs", "kmax", "kmin", "b", "d", "Vg", "Vi", "Ib", "Vmx", "Km0", "k2", "k1", "p2u", "m1", "m2", "m4", "m30",
    "ki", "kp1", "kp2", "kp3", "f", "ke1", "ke2", "Fsnc", "Vm0", "kd", "ksc", "ka1", "ka2",
)
# fmt: on
"""The order in which the compiled code reads the parameters."""
VG = NAMES.index("Vg")

TOLERANCE = 1e-11  # of one integration step, relative to 1 + |x_i|; small enough for kinks to be stepped around
FIRST_STEP = 0.25  # minutes; every minute starts afresh, so that a restart repeats the same arithmetic
MIN_STEP = 1e-3  # minutes; reached only where an amount hits zero and its slope jumps

# Dormand and Prince (1980), order 5 with an embedded order 4: stages, and the difference of the two results.
_A = np.array(
    [
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [1 / 5, 0.0, 0.0, 0.0, 0.0, 0.0],
        [3 / 40, 9 / 40, 0.0, 0.0, 0.0, 0.0],
        [44 / 45, -56 / 15, 32 / 9, 0.0, 0.0, 0.0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0.0, 0.0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0.0],
        [35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
)
_E = np.array([71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])


@dataclass(frozen=True, eq=False)
class Patient:
    """One person's parameters, in the order of `NAMES`, and the fasting state that basal insulin holds."""

    name: str
    parameters: FloatArray  # (31,)
    fasting: FloatArray  # (13,)
    basal: float  # U/min

    @classmethod
    def load(cls, name: str = "adult#001") -> Patient:
        """One of the people that ship with the library; their numbers are those of simglucose 0.2.11 (public)."""
        people = _people()
        if name not in people:
            near = did_you_mean(name, people)
            raise InvalidInput(f"There is no patient {name!r}.{near} The library ships {', '.join(sorted(people))}.")
        values = people[name]
        parameters = np.array([values[key] for key in NAMES])
        fasting = np.array([values[f"x0_{i}"] for i in range(1, STATES + 1)])
        for array in (parameters, fasting):
            array.setflags(write=False)
        return cls(name, parameters, fasting, values["u2ss"] * values["BW"] / 6000.0)

    @property
    def volume(self) -> float:
        """Vg in dL/kg: glucose is x13 / Vg."""
        return float(self.parameters[VG])

    def rest(self, n: int = 1) -> FloatArray:
        """n copies of the fasting state with an empty stomach: (n, 15)."""
        return np.tile(np.concatenate([self.fasting, [0.0, 0.0]]), (n, 1))


def _people() -> dict[str, dict[str, float]]:
    text = files("bondic_lab.worlds").joinpath("data", "patients.json").read_text(encoding="utf-8")
    return dict(json.loads(text)["parameters"])


def advance(
    patient: Patient, states: FloatArray, insulin: FloatArray, meals: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """States (n, 15), insulin (U/min) and announced meals (g), both (n, minutes), to states and glucose (n, minutes).

    A meal is eaten at 5 g/min from its minute on. It begins a new D unless some of the last one is still on the plate.
    """
    after = np.array(states, dtype=np.float64)
    glucose = np.empty(insulin.shape)
    _advance(after, patient.parameters, np.ascontiguousarray(insulin), np.ascontiguousarray(meals), glucose)
    return after, glucose


@numba.njit(nogil=True, cache=True)
def _advance(states, p, insulin, meals, glucose):  # type: ignore[no-untyped-def]
    work = np.empty((9, STATES))
    for row in range(states.shape[0]):
        x = states[row]
        for minute in range(insulin.shape[1]):
            meal = meals[row, minute]
            if meal > 0.0:
                if x[LEFT] <= 0.0:
                    x[DBAR] = x[0] + x[1]
                x[LEFT] += meal
            eaten = 1000.0 * min(EATING_RATE, x[LEFT])
            x[LEFT] = max(x[LEFT] - EATING_RATE, 0.0)
            x[DBAR] += eaten
            _minute(x, p, eaten, insulin[row, minute] * 6000.0 / p[0], work)
            glucose[row, minute] = x[12] / p[VG]


@numba.njit(nogil=True, cache=True)
def _minute(x, p, eaten, u, work):  # type: ignore[no-untyped-def]
    """x(t) to x(t + 1) in place; steps are chosen by the difference of orders 5 and 4."""
    k, y = work[:7], work[7]
    time, step = 0.0, FIRST_STEP
    _slopes(x, x[DBAR], p, eaten, u, k[0])
    while time < 1.0:
        last = time + step >= 1.0 - 1e-12
        h = 1.0 - time if last else step
        for stage in range(1, 7):
            for i in range(STATES):
                total = 0.0
                for j in range(stage):
                    total += _A[stage, j] * k[j, i]
                y[i] = x[i] + h * total
            _slopes(y, x[DBAR], p, eaten, u, k[stage])
        worst = 1e-10
        for i in range(STATES):
            gap = 0.0
            for j in range(7):
                gap += _E[j] * k[j, i]
            worst = max(worst, abs(h * gap) / (TOLERANCE * (1.0 + abs(x[i]))))
        if worst <= 1.0 or h <= MIN_STEP:
            time = 1.0 if last else time + h
            below = False
            for i in range(STATES):
                x[i] = y[i]
                k[0, i] = k[6, i]
                if x[i] < 0.0 and _amount(i):
                    x[i] = 0.0
                    below = True
            if below:
                _slopes(x, x[DBAR], p, eaten, u, k[0])
        step = max(h * min(4.0, max(0.2, 0.9 * worst**-0.2)), MIN_STEP)


@numba.njit(nogil=True, cache=True, inline="always")
def _amount(i):  # type: ignore[no-untyped-def]
    return 3 <= i <= 5 or i >= 9


@numba.njit(nogil=True, cache=True)
def _slopes(x, dbar, p, eaten, u, out):  # type: ignore[no-untyped-def]
    """The right-hand sides of the module's opening, with the symbols used there."""
    weight, kabs, kmax, kmin, b, d = p[0], p[1], p[2], p[3], p[4], p[5]
    vi, ib, vmx, km0, k2, k1, p2u = p[7], p[8], p[9], p[10], p[11], p[12], p[13]
    m1, m2, m4, m30, ki, kp1, kp2, kp3 = p[14], p[15], p[16], p[17], p[18], p[19], p[20], p[21]
    f, ke1, ke2, fsnc, vm0, kd, ksc, ka1, ka2 = p[22], p[23], p[24], p[25], p[26], p[27], p[28], p[29], p[30]
    kgut = kmax
    if dbar > 0.0:
        stomach = x[0] + x[1]
        rise = math.tanh(2.5 * (stomach - b * dbar) / (dbar * (1.0 - b)))
        fall = math.tanh(2.5 * (stomach - d * dbar) / (dbar * d))
        kgut = kmin + 0.5 * (kmax - kmin) * (rise - fall + 2.0)
    plasma = x[5] / vi
    out[0] = eaten - kmax * x[0]
    out[1] = kmax * x[0] - kgut * x[1]
    out[2] = kgut * x[1] - kabs * x[2]
    production = max(kp1 - kp2 * x[3] - kp3 * x[8], 0.0)
    excretion = ke1 * max(x[3] - ke2, 0.0)
    out[3] = production + f * kabs * x[2] / weight - fsnc - excretion - k1 * x[3] + k2 * x[4]
    out[4] = -(vm0 + vmx * x[6]) * x[4] / (km0 + x[4]) + k1 * x[3] - k2 * x[4]
    out[5] = -(m2 + m4) * x[5] + m1 * x[9] + ka1 * x[10] + ka2 * x[11]
    out[6] = p2u * (plasma - ib - x[6])
    out[7] = -ki * (x[7] - plasma)
    out[8] = -ki * (x[8] - x[7])
    out[9] = -(m1 + m30) * x[9] + m2 * x[5]
    out[10] = u - (ka1 + kd) * x[10]
    out[11] = kd * x[10] - ka2 * x[11]
    out[12] = ksc * (x[3] - x[12])
    for i in range(STATES):
        if x[i] <= 0.0 and out[i] < 0.0 and _amount(i):
            out[i] = 0.0
