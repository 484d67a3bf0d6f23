"""The glucose simulator against a public one and against an exact integrator; the decision process on top of it."""

from __future__ import annotations

import json
from math import tanh
from pathlib import Path

import numpy as np
import pytest
from conformance_worlds import DynamicsCase
from scipy.integrate import solve_ivp

from bondic_lab.worlds.glucose import Glucose, risk
from bondic_lab.worlds.glucose_model import LEFT, STATES, Patient, _people, advance

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "glucose.json").read_text())["trajectories"]
PEOPLE = ("adult#001", "adolescent#001", "child#001", "adolescent#002")
MINUTES = 600
AMOUNTS = [3, 4, 5, 9, 10, 11, 12]  # states 4, 5, 6, 10, 11, 12, 13
GLUCOSE = Glucose()

reference = pytest.mark.parametrize("case", REFERENCE, ids=lambda c: f"{c['patient']} {c['scenario']}")


def inputs(case: dict, basal: float) -> tuple[np.ndarray, np.ndarray]:
    """Insulin in U/min and announced grams, (1, 600) each, of a reference scenario."""
    insulin, meals = np.full((1, MINUTES), basal), np.zeros((1, MINUTES))
    for minute, grams in case["meals_g"].items():
        meals[0, int(minute)] = grams
    if case["scenario"] == "fasting":
        insulin[0, :200] *= 0.5
        insulin[0, 200:400] *= 1.5
    if case["scenario"] == "meals_and_bolus":
        insulin[0, [60, 300]] += 2.0
    return insulin, meals


def slow_glucose(name: str, insulin: np.ndarray, meals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The published equations, one minute at a time, by an order-8 integrator at 1e-12; at zero, amounts only rise."""
    p = _people()[name]
    x = np.array([p[f"x0_{i}"] for i in range(1, 14)])
    dbar, plate, readings = 0.0, 0.0, []
    for units, grams in zip(insulin, meals, strict=True):
        if grams > 0:
            dbar = dbar if plate > 0 else x[0] + x[1]
            plate += grams
        eaten = 1000 * min(5.0, plate)
        plate = max(0.0, plate - 5.0)
        dbar += eaten
        drug = units * 6000 / p["BW"]

        def slopes(_, y, eaten=eaten, dbar=dbar, drug=drug):
            x = y.tolist()  # plain floats: numpy's are slow one at a time
            qsto = x[0] + x[1]
            kgut = p["kmax"]
            if dbar > 0:
                up = tanh(5 / (2 * dbar * (1 - p["b"])) * (qsto - p["b"] * dbar))
                down = tanh(5 / (2 * dbar * p["d"]) * (qsto - p["d"] * dbar))
                kgut = p["kmin"] + (p["kmax"] - p["kmin"]) / 2 * (up - down + 2)
            appearance = p["f"] * p["kabs"] * x[2] / p["BW"]
            liver = p["kp1"] - p["kp2"] * x[3] - p["kp3"] * x[8]
            kidney = p["ke1"] * (x[3] - p["ke2"]) if x[3] > p["ke2"] else 0.0
            used = (p["Vm0"] + p["Vmx"] * x[6]) * x[4] / (p["Km0"] + x[4])
            insulin_now = x[5] / p["Vi"]
            rates = [
                -p["kmax"] * x[0] + eaten,
                p["kmax"] * x[0] - kgut * x[1],
                kgut * x[1] - p["kabs"] * x[2],
                max(liver, 0) + appearance - p["Fsnc"] - kidney - p["k1"] * x[3] + p["k2"] * x[4],
                -used + p["k1"] * x[3] - p["k2"] * x[4],
                -(p["m2"] + p["m4"]) * x[5] + p["m1"] * x[9] + p["ka1"] * x[10] + p["ka2"] * x[11],
                -p["p2u"] * x[6] + p["p2u"] * (insulin_now - p["Ib"]),
                -p["ki"] * (x[7] - insulin_now),
                -p["ki"] * (x[8] - x[7]),
                -(p["m1"] + p["m30"]) * x[9] + p["m2"] * x[5],
                drug - (p["ka1"] + p["kd"]) * x[10],
                p["kd"] * x[10] - p["ka2"] * x[11],
                -p["ksc"] * x[12] + p["ksc"] * x[3],
            ]
            return [0.0 if i in AMOUNTS and x[i] <= 0 and rate < 0 else rate for i, rate in enumerate(rates)]

        x = solve_ivp(slopes, (0.0, 1.0), x, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
        x[AMOUNTS] = np.maximum(x[AMOUNTS], 0.0)
        readings.append(x[12] / p["Vg"])
    return x, np.array(readings)


# --- the patient --------------------------------------------------------------------------------------


@reference
def test_agrees_with_the_public_simulator(case):
    """Its own error reaches 4e-5 mg/dL."""
    patient = Patient.load(case["patient"])
    assert patient.basal == pytest.approx(case["basal_U_per_min"], rel=1e-12)
    states, glucose = advance(patient, patient.rest(), *inputs(case, patient.basal))
    minutes, expected = np.array(case["glucose_mg_per_dl"]).T
    np.testing.assert_allclose(glucose[0, minutes.astype(int) - 1], expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(states[0, :STATES], case["final_state"], rtol=1e-6, atol=2e-4)


@pytest.mark.parametrize(
    "case", [c for c in REFERENCE if c["scenario"] != "fasting"], ids=lambda c: f"{c['patient']} {c['scenario']}"
)
def test_agrees_with_an_exact_integrator(case):
    """Seven hours with two meals; whole days agree as well, but the slow twin takes its time."""
    patient = Patient.load(case["patient"])
    insulin, meals = (column[:, :420] for column in inputs(case, patient.basal))
    states, glucose = advance(patient, patient.rest(), insulin, meals)
    slow_states, slow = slow_glucose(case["patient"], insulin[0], meals[0])
    np.testing.assert_allclose(glucose[0], slow, rtol=0, atol=1e-6)
    np.testing.assert_allclose(states[0, :STATES], slow_states, rtol=1e-8, atol=1e-6)


@pytest.mark.parametrize("name", PEOPLE)
def test_fasting_on_basal_insulin_is_a_rest_point(name):
    patient = Patient.load(name)
    states, glucose = advance(patient, patient.rest(), np.full((1, 1440), patient.basal), np.zeros((1, 1440)))
    np.testing.assert_allclose(states, patient.rest(), rtol=1e-8, atol=1e-6)
    assert np.ptp(glucose) < 1e-6


# --- the decision process -----------------------------------------------------------------------------


class TestGlucose(DynamicsCase):
    world = GLUCOSE

    def test_restarts_meet_meals_on_the_plate(self):
        log = self.log()
        assert log.observations.shape[1] == 17
        assert log.observations[:, LEFT].max() > 0.0


def test_risk_by_hand():
    for glucose in (20.0, 70.0, 112.5, 180.0, 600.0):
        f = 1.509 * (np.log(glucose) ** 1.084 - 5.381)
        assert risk(np.array([glucose]))[0] == pytest.approx(10 * f * f, rel=1e-14)
    assert risk(np.array([112.5]))[0] < 1e-3
    assert risk(np.array([20.0, 600.0])).tolist() == pytest.approx([100.0, 100.0], abs=0.2)
