"""The glucose simulator against a public one and against an exact integrator; the decision process on top of it."""

from __future__ import annotations

import json
from math import tanh
from pathlib import Path

import numpy as np
import pytest
from conformance_worlds import DynamicsCase
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from bondic.core.errors import InvalidInput
from bondic_lab.worlds.glucose import DAY, MEALS, Glucose, Meal, risk
from bondic_lab.worlds.glucose_model import DBAR, LEFT, NAMES, STATES, WIDTH, Patient, _people, advance

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
def test_a_wrong_parameter_would_be_seen(name):
    """The comparison above has power: one per cent in any constant moves glucose by far more than 1e-4."""
    patient = Patient.load(name)
    cases = [c for c in REFERENCE if c["patient"] == name and c["scenario"] != "fasting"]
    given_inputs = [inputs(case, patient.basal) for case in cases]
    traces = [advance(patient, patient.rest(), *given_input)[1] for given_input in given_inputs]
    for index, key in enumerate(NAMES):
        changed = patient.parameters.copy()
        changed[index] *= 1.01
        other = Patient(name, changed, patient.fasting, patient.basal)
        moved = [advance(other, patient.rest(), *given_input)[1] for given_input in given_inputs]
        assert max(np.abs(a - b).max() for a, b in zip(moved, traces, strict=True)) > 1e-3, key


@pytest.mark.parametrize("name", PEOPLE)
def test_fasting_on_basal_insulin_is_a_rest_point(name):
    patient = Patient.load(name)
    states, glucose = advance(patient, patient.rest(), np.full((1, 1440), patient.basal), np.zeros((1, 1440)))
    np.testing.assert_allclose(states, patient.rest(), rtol=1e-8, atol=1e-6)
    assert np.ptp(glucose) < 1e-6


@given(
    name=st.sampled_from(PEOPLE),
    seed=st.integers(0, 2**32 - 1),
    factor=st.floats(0.0, 1000.0),
    grams=st.floats(0.0, 300.0),
)
@settings(max_examples=40)
def test_amounts_stay_finite_and_never_negative(name, seed, factor, grams):
    """Also where insulin drives glucose to zero, and where there is no insulin at all."""
    patient, rng = Patient.load(name), np.random.default_rng(seed)
    insulin = patient.basal * factor * rng.random((3, 400))
    meals = np.where(rng.random((3, 400)) < 0.02, grams, 0.0)
    states, glucose = advance(patient, patient.rest(3), insulin, meals)
    assert np.isfinite(states).all()
    assert (glucose >= 0.0).all()
    assert (states[:, AMOUNTS] >= 0.0).all()
    assert (states[:, [0, 1, 2, DBAR, LEFT]] >= -1e-9).all()
    assert (states[:, 6] >= -patient.fasting[7] * (1 + 1e-9)).all()  # x7 >= −Ib


def test_an_amount_at_zero_can_rise_again():
    patient = Patient.load("child#001")
    low, glucose = advance(patient, patient.rest(), np.full((1, 900), 0.2), np.zeros((1, 900)))
    assert glucose[0, -1] < 1e-3
    _, later = advance(patient, low, np.zeros((1, 2000)), np.zeros((1, 2000)))
    assert later[0, -1] > 100.0


@pytest.mark.parametrize("name", ["child#001", "adolescent#002"])
def test_agrees_with_an_exact_integrator_where_glucose_runs_out(name):
    """x4 reaches zero, stays there, and comes back with a meal."""
    patient = Patient.load(name)
    insulin, meals = np.full((1, 240), 60 * patient.basal), np.zeros((1, 240))
    insulin[0, 200:] = 0.0
    meals[0, [150, 210]] = 60.0
    _, glucose = advance(patient, patient.rest(), insulin, meals)
    empty, _ = advance(patient, patient.rest(), insulin[:, :150], meals[:, :150])
    _, slow = slow_glucose(name, insulin[0], meals[0])
    assert empty[0, 3] == 0.0
    np.testing.assert_allclose(glucose[0], slow, rtol=0, atol=1e-6)


def test_carbohydrate_is_conserved():
    """Eaten = in stomach and gut + absorbed, the latter by integrating kabs x3 over the minutes (trapezoids)."""
    patient = Patient.load()
    states, gut = patient.rest(), [0.0]
    for minute in range(400):
        meal = np.full((1, 1), 60.0 if minute == 10 else 0.0)
        states, _ = advance(patient, states, np.full((1, 1), patient.basal), meal)
        gut.append(states[0, 2])
    absorbed = patient.parameters[1] * np.trapezoid(gut)
    assert states[0, LEFT] == 0.0
    assert states[0, DBAR] == 60_000.0
    assert absorbed + states[0, :3].sum() == pytest.approx(60_000.0, rel=1e-4)


def test_a_meal_takes_its_time():
    patient = Patient.load()
    meals = np.zeros((1, 4))
    meals[0, 0] = 17.0
    plate = [advance(patient, patient.rest(), np.zeros((1, m)), meals[:, :m])[0][0, LEFT] for m in (1, 2, 3, 4)]
    assert plate == [12.0, 7.0, 2.0, 0.0]


def test_a_second_helping_belongs_to_the_meal_and_a_new_meal_starts_from_the_stomach():
    patient = Patient.load()
    meals = np.zeros((1, 40))
    meals[0, [0, 2]] = 20.0  # eight minutes of eating
    states, _ = advance(patient, patient.rest(), np.zeros((1, 40)), meals)
    assert states[0, DBAR] == 40_000.0
    again = np.full((1, 1), 10.0)
    after, _ = advance(patient, states, np.zeros((1, 1)), again)
    assert after[0, DBAR] == pytest.approx(states[0, :2].sum() + 5000.0)


def test_the_last_crumb_keeps_the_meal_open():
    patient = Patient.load()
    meals = np.zeros((1, 10))
    meals[0, :2] = 5.5, 20.0  # half a gram is left when more is served
    states, _ = advance(patient, patient.rest(), np.zeros((1, 10)), meals)
    assert states[0, DBAR] == 25_500.0


def test_minutes_can_be_taken_one_by_one_or_together():
    """Bit for bit: the integrator remembers nothing from one minute to the next."""
    patient = Patient.load("adolescent#002")
    case = REFERENCE[-1]
    insulin, meals = inputs(case, patient.basal)
    together, trace = advance(patient, patient.rest(), insulin, meals)
    states, readings = patient.rest(), []
    for minute in range(MINUTES):
        states, reading = advance(patient, states, insulin[:, [minute]], meals[:, [minute]])
        readings.append(reading[0, 0])
    assert np.array_equal(states, together)
    assert np.array_equal(readings, trace[0])


def test_rows_do_not_touch_one_another_and_the_input_is_left_alone():
    patient = Patient.load()
    states = GLUCOSE.decode(GLUCOSE.starts(5, np.random.default_rng(0)))[0]
    before = states.copy()
    insulin, meals = patient.basal * np.arange(5.0)[:, None] * np.ones((5, 30)), np.zeros((5, 30))
    meals[:, 3] = 30.0
    all_at_once, _ = advance(patient, states, insulin, meals)
    for row in range(5):
        alone, _ = advance(patient, states[[row]], insulin[[row]], meals[[row]])
        assert np.array_equal(alone[0], all_at_once[row])
    assert np.array_equal(states, before)


def test_unknown_patient():
    with pytest.raises(InvalidInput, match=r"adult#001"):
        Patient.load("adult#999")


# --- the decision process -----------------------------------------------------------------------------


def uniform(states: np.ndarray) -> np.ndarray:
    return np.full((len(states), 5), 0.2)


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


def test_rewards_stay_in_the_range_and_use_it(rng):
    log = GLUCOSE.rollout(uniform, 60, rng=rng)
    assert GLUCOSE.reward_range == (-1.0, 0.0)
    assert log.rewards.min() >= -1.0
    assert log.rewards.max() <= 0.0
    drowned = GLUCOSE.rollout(lambda s: np.eye(5)[np.full(len(s), 4)], 10, 100, rng=rng)
    assert drowned.rewards.min() == -1.0
    assert log.rewards.max() > -0.01


def test_reward_is_the_risk_of_the_next_state_without_sensor_error(rng):
    quiet = Glucose(sensor_sd=0.0)
    log = quiet.rollout(uniform, 20, rng=rng)
    readings = np.clip(quiet.glucose(log.next_observations), 20.0, 600.0)
    np.testing.assert_allclose(log.rewards, -np.minimum(risk(readings), 100.0) / 100.0, rtol=0, atol=1e-12)


def test_every_part_of_the_state_matters():
    """Dropping any coordinate would leave a process that is not Markov."""
    rng = np.random.default_rng(1)
    states = GLUCOSE.starts(1, rng)
    base, _ = GLUCOSE.decode(states)
    base[0, :3], base[0, DBAR], base[0, LEFT] = (9e3, 2e4, 2e3), 4e4, 12.0

    def future(patients: np.ndarray, minute: int) -> np.ndarray:
        s = GLUCOSE.encode(patients, np.array([minute]))
        noise = np.random.default_rng(0)
        path = []
        for _ in range(20):
            _, s, _ = GLUCOSE.step(s, np.array([1]), noise)
            path.append(GLUCOSE.glucose(s)[0])
        return np.array(path)

    before = future(base, 300)
    for coordinate in range(WIDTH):
        moved = base.copy()
        moved[0, coordinate] += 0.2 * GLUCOSE.scales[coordinate]
        assert np.abs(future(moved, 300) - before).max() > 0.01, coordinate
    assert np.abs(future(base, 600) - before).max() > 0.01


@given(minute=st.integers(0, DAY - 1))
def test_clock_survives_the_circle(minute):
    patients, clock = GLUCOSE.decode(GLUCOSE.encode(GLUCOSE.patient.rest(), np.array([minute])))
    assert clock[0] == minute
    np.testing.assert_allclose(patients, GLUCOSE.patient.rest(), rtol=1e-15)


def test_fasting_amounts_are_one_in_the_state():
    state = GLUCOSE.encode(GLUCOSE.patient.rest(), np.array([0]))[0]
    assert state[[3, 4, 5, 7, 8, 9, 10, 11, 12]].tolist() == [1.0] * 9
    assert state[[0, 1, 2, 6, DBAR, LEFT]].tolist() == [0.0] * 6


def test_meals_come_when_and_as_stated():
    rng = np.random.default_rng(0)
    n = 20_000
    for meal in MEALS:
        plates = GLUCOSE._plates(np.full(n, meal.time), rng.random((n, 3)))
        sizes = plates.max(axis=1)
        assert np.count_nonzero(plates, axis=1).max() == 1
        eaten = sizes[sizes > 0]
        spread = 4 * np.sqrt(meal.probability * (1 - meal.probability) / n)
        assert abs(len(eaten) / n - meal.probability) <= spread
        assert meal.low <= eaten.min() < meal.low + 1
        assert meal.high - 1 < eaten.max() <= meal.high
        starts = np.bincount(plates.argmax(axis=1)[sizes > 0], minlength=15)
        assert (np.abs(starts - len(eaten) / 15) <= 5 * np.sqrt(len(eaten) / 15)).all()
    assert GLUCOSE._plates(np.array([0, 420 + 15, 1425]), np.zeros((3, 3))).max() == 0.0


def test_more_insulin_means_less_glucose(rng):
    states = GLUCOSE.starts(50, rng)
    levels = []
    for action in range(5):
        current, noise = states, np.random.default_rng(0)
        for _ in range(8):
            _, current, _ = GLUCOSE.step(current, np.full(50, action), noise)
        levels.append(GLUCOSE.glucose(current))
    assert (np.diff(levels, axis=0) < 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minutes": 7}, "divisor"),
        ({"levels": (1.0, -1.0)}, "levels"),
        ({"sensor_sd": -1.0}, "sensor_sd"),
        ({"meals": (Meal(10, 0.5, 1.0, 2.0),)}, "no decision"),
        ({"meals": (Meal(15, 1.5, 1.0, 2.0),)}, "probability"),
        ({"meals": (Meal(15, 0.5, 1.0, 2.0), Meal(15, 0.5, 1.0, 2.0))}, "share"),
    ],
)
def test_refused_settings(changes, message):
    with pytest.raises(InvalidInput, match=message):
        Glucose(**changes)
