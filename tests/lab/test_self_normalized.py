"""The self-normalized bound (12): its formula in 50 digits, its event at the worst time, and the searches that know its form."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import binom

import bondic as b
import core_cases
import naive
from bondic.core.balls import Instruments
from bondic.core.bounded import Enclosure
from bondic.core.dual.bound import Setting
from bondic.core.dual.noise import NoiseFacts, Weights
from bondic.core.dual.weighing import ProposedWeights, weigh
from bondic.core.errors import InvalidInput
from bondic.core.functions import FeatureFunction
from bondic.core.kernels.features import Linear, RandomFeatures
from bondic.core.kernels.leaves import ActionEmbedding, Constant, Dirac
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.sums.reference import REFERENCE
from bondic.engines.sums import STANDARD
from bondic.tuning.defaults import Advanced
from bondic_lab.noise import information
from bondic_lab.noise.information import Information
from bondic_lab.noise.self_normalized import SelfNormalized
from builders import synthetic
from conformance_noise import LAYOUT, TERMS, WAVES, points
from core_cases import make_case


def slow_log_det(matrix):
    """In 50 digits."""
    size = len(matrix)
    exact = mp.matrix(size, size)
    for i in range(size):
        for j in range(size):
            exact[i, j] = matrix[i][j] + (1 if i == j else 0)
    factor = mp.cholesky(exact)
    return 2 * sum(mp.log(factor[i, i]) for i in range(size))


def slow_bound(case, twin, omega_values, norm, ridge, delta):
    """(1/2n) sqrt( 2 log(1/delta) + log det(I + (B_i B_j k_ij) / tau) ) sqrt( sum B_i^2 omega_i^2 + tau |omega|^2 )."""
    n = len(case.logged)
    times = case.times or [0] * n
    widths = [naive.range_width(*case.reward_range, case.gamma, case.may_terminate, case.horizon, t) for t in times]
    largest = naive.range_width(*case.reward_range, case.gamma, case.may_terminate, case.horizon, 0)
    tau = mpf(ridge) * largest**2
    gram = [[widths[i] * widths[j] * twin(case.logged[i], case.logged[j]) / tau for j in range(n)] for i in range(n)]
    square = sum((w * o) ** 2 for w, o in zip(widths, omega_values, strict=True)) + tau * norm**2
    return mp.sqrt(2 * mp.log(1 / mpf(delta)) + slow_log_det(gram)) * mp.sqrt(square) / (2 * n)


CASES = {
    "plain": {},
    "never ends": {"may_terminate": False},
    "horizon": {"horizon": 4, "gamma": 1.0, "n": 12},
    "huge rewards": {"reward_range": (-3e12, 1e11)},
    "continuous": {"kind": "continuous"},
}


@pytest.fixture(params=CASES)
def case(request):
    return make_case(**CASES[request.param])


def setting_of(case, kernel, ridge):
    return Setting(
        case.problem, b.Ball(b.Gaussian(1.0), 1.0), Instruments(kernel), SelfNormalized(ridge), 0.1, None, 2, STANDARD
    )


@pytest.mark.parametrize("ridge", [1e-3, 0.5, 40.0])
def test_the_bound_is_its_formula_without_features(case, ridge):
    """Gaussian times equality of actions, time and a constant: from the log to the noise of an end point, by landmarks."""
    kernel, twin = core_cases.kernels(case, 0.8, 0.5)
    setting = setting_of(case, kernel, ridge)
    alpha = np.random.default_rng(2).normal(size=len(case.logged))
    omega = core_cases.kernel_function(case, kernel, alpha)
    (weighed,) = weigh(case.problem, setting.ball, [ProposedWeights(omega)], sums=STANDARD)
    ours = setting.gauge.bound(setting.weights(omega, weighed), setting.facts, 0.1)
    values = naive.omega_values(twin, alpha, case.logged, case.logged)
    exact = slow_bound(case, twin, values, naive.omega_norm(twin, alpha, case.logged), ridge, 0.1)
    assert mpf(ours.upper) >= exact
    assert mpf(ours.mid) <= exact * (1 + mpf(10) ** -5)


# --- log det ------------------------------------------------------------------------------------------------


def rows_of(states, slots, widths):
    return lambda: [(states, slots, widths)]


TABLES = {
    "table": Dirac(on="state") * Dirac(on="action"),
    "scaled": 0.3 * Dirac(on="observation"),
    "similar actions": Dirac(on="state") * ActionEmbedding([[1.0, 0.5], [0.0, 2.0], [-0.3, 0.1]]),
    "with a constant": 0.5 * Constant(1.0) + 0.5 * Dirac(on="state") * Dirac(on="action"),
    "a name and a number": Dirac(on="state") * b.Gaussian(1.0),
    "matern": b.Matern(1.0, nu=1.5) * Dirac(),
    "features of columns": Linear(9.0) * ActionEmbedding([[1.0, 0.5], [0.0, 2.0], [-0.3, 0.1]]) + Constant(2.0),
}
EXACT = ("table", "scaled", "features of columns")


@pytest.mark.parametrize("name", TABLES)
def test_log_det_is_that_of_the_kernel_matrix(name):
    rng = np.random.default_rng(4)
    count, layout = 60, Layout(1, False, 0, 3)
    states, slots = rng.integers(-2, 3, (count, 1)).astype(float), rng.integers(0, 3, count)
    states[states == 0] *= -1.0  # -0.0 and 0.0 are one state
    states[::3] += 0.0
    widths, kernel = rng.choice([0.5, 1.0, 2.0], count), TABLES[name]
    gram = np.zeros((count, count))
    for term in normal_form(kernel, layout):
        embedded = term.embedding[slots]
        gram += term.block(states, states) * (embedded @ embedded.T)
    charge = Enclosure(float(np.sum(widths**2 * np.diagonal(gram))) * (1 + 1e-14))
    found = information.read_information(kernel, layout, rows_of(states, slots, widths), count, lambda: charge)
    for ridge in (0.01, 1.0, 300.0):
        exact = slow_log_det((widths[:, None] * gram * widths / ridge).tolist())
        ours = mpf(found.log_det(ridge).upper)
        assert ours >= exact
        assert ours <= exact * (1 + 1e-9 if name in EXACT else 1.6) + 1e-9


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 7), st.integers(0, 2**32 - 1), st.floats(-6, 6), st.floats(-3, 3), st.sampled_from([0.0, 1e-9, 0.1])
)
def test_log_det_stays_a_bound(size, seed, magnitude, ridge, error):
    """Any V >= 0, known up to `error`: the exact one has at most the bound, for a matrix that is as far off as allowed."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, rng.integers(1, size + 1))) * 10.0**magnitude
    exact = root @ root.T
    off = rng.normal(size=(size, size))
    given_matrix = exact - error * (off + off.T) / np.linalg.norm(off + off.T) if size > 1 or error else exact
    slack = error + 1e-13 * float(np.sum(exact**2)) ** 0.5
    found = Information(given_matrix, slack, np.zeros(0), Enclosure(0.0))
    ridge = 10.0**ridge
    truth = slow_log_det([[mpf(x) / mpf(ridge) for x in row] for row in exact.tolist()])
    ours = found.log_det(ridge)
    assert mpf(ours.upper) >= truth - mpf(10) ** -12 * abs(truth)
    if ours.rad < 0.1:  # else the matrix is known too badly for a factor
        assert mpf(ours.lower) <= truth + mpf(10) ** -12 * abs(truth)
    assert found.log_det(2 * ridge).mid <= ours.upper * (1 + 1e-9) + 1e-9


# --- the event ----------------------------------------------------------------------------------------------


def boundary(ridge, delta, rows):
    """n N(1) for W = constants, n = 1, ..., rows, value range of width 2: a walk with steps of +-1."""
    out = np.zeros(rows)
    terms = replace(TERMS, reward_range=(0.0, 2.0))
    for n in range(1, rows + 1):
        some = [(np.zeros((n, 1)), np.zeros(n, dtype=np.int64), None)]
        facts = NoiseFacts(Constant(1.0), LAYOUT, terms, lambda some=some: some, n, n)
        out[n - 1] = n * SelfNormalized(ridge).bound(Weights(None, Enclosure(1.0), 4.0 * n), facts, delta).upper
    return out


def crossing(bounds):
    """The exact chance that a walk of coin flips is ever beyond its bound."""
    places = np.arange(-bounds.size, bounds.size + 1)
    alive = np.where(places == 0, 1.0, 0.0)
    for bound in bounds:
        step = np.zeros_like(alive)
        step[1:] += 0.5 * alive[:-1]
        step[:-1] += 0.5 * alive[1:]
        alive = np.where(np.abs(places) > bound, 0.0, step)
    return 1.0 - float(alive.sum())


def test_it_holds_at_the_worst_time_and_hardly_more():
    """Exact: a log that is stopped when the noise is largest fails with chance at most delta; nine tenths are not enough."""
    bounds = boundary(5.0, 0.1, 800)
    assert 0.06 < crossing(bounds) <= 0.1
    assert crossing(0.9 * bounds) > 0.1
    assert crossing(0.5 * bounds) > 0.5


def test_it_holds_for_rows_that_follow_the_noise_at_the_worst_time(rng):
    """5 features, x_i picked among 8 points so as to push the noise further, widths that differ, the worst omega and time.

    150 logs, false alarm 0.1 %. Half the radius fails, and so does the radius without its log determinant."""
    delta, runs, rows, ridge = 0.1, 150, 120, 5.0
    sites = points(8)
    phi = np.column_stack([FeatureFunction(WAVES, LAYOUT, row).values(sites)[0][:, 0] for row in np.eye(5)])
    misses = np.zeros(3, dtype=int)
    for _ in range(runs):
        form, total, worst = ridge * np.eye(5), np.zeros(5), np.zeros(3)
        for i in range(rows):
            inverse = np.linalg.inv(form)
            site = int(np.argmax(np.abs(phi @ inverse @ total))) if i % 3 else int(rng.integers(8))
            width = 1.0 if i % 2 else 0.5
            form += width**2 * np.outer(phi[site], phi[site])
            total += phi[site] * width * (rng.integers(2) - 0.5)
            size = 2.0 * math.sqrt(total @ np.linalg.inv(form) @ total)
            dets = np.linalg.slogdet(form / ridge)[1]
            allowed = math.sqrt(2 * math.log(1 / delta) + dets), math.sqrt(2 * math.log(1 / delta))
            worst = np.maximum(worst, size / np.array([allowed[0], 0.5 * allowed[0], allowed[1]]))
        misses += worst > 1.0
    limit = binom.ppf(0.999, runs, delta)
    assert misses[0] <= limit
    assert np.all(misses[1:] > limit)


# --- from a log to an interval --------------------------------------------------------------------------------


def question(rows=1500, **more):
    mdp, log, policy, initial = synthetic(rows, gamma=0.5)
    return mdp, log, policy, b.make_problem(log, policy, initial, gamma=0.5, reward_range=mdp.reward_range, **more)


FEATURES = 0.3 * Constant(1.0) + 0.7 * RandomFeatures.gaussian(8, 1, 0.7, seed=3) * Dirac()
BALL = b.Ball(b.Gaussian(1.0) * Dirac() + Constant(1.0), 5.0)


@pytest.mark.parametrize(
    "kernel", [FEATURES, 0.3 * Constant(1.0) + 0.7 * b.Gaussian(0.7) * Dirac()], ids=["features", "gaussian"]
)
def test_it_is_shorter_and_verified_by_the_reference(kernel):
    _, log, policy, problem = question()
    method = b.Dual(instruments=Instruments(kernel), ball=BALL)
    half = b.estimate_interval(problem, method=method)
    ours = b.estimate_interval(problem, method=replace(method, gauge="self-normalized"))
    assert ours.high - ours.low < 0.85 * (half.high - half.low)
    assert half.low < ours.low < ours.high < half.high
    found = b.verify(ours.certificate, log, policy, sums=REFERENCE)
    assert found.low == pytest.approx(ours.low, abs=1e-7)
    assert found.high == pytest.approx(ours.high, abs=1e-7)


# --- rho is fixed beforehand ------------------------------------------------------------------------------------


def test_rho_follows_from_the_plan_alone():
    """Not from how many rows came, nor from what stands in them."""
    method = b.Dual(gauge="self-normalized", planned_rows=1000, pilot=200, radius=5.0, advanced=Advanced(pairs=8))
    found = [b.estimate_interval(question(rows)[3], method=method) for rows in (900, 1500)]
    (rho,) = {result.proof.noise.ridge for result in found}
    assert rho == pytest.approx(0.05 * 1000 * found[0].proof.instruments.kernel.sup_diag)
    fixed = b.estimate_interval(question(900)[3], method=replace(method, planned_rows=None))
    assert fixed.proof.noise.ridge == pytest.approx(0.05 * 700 * fixed.proof.instruments.kernel.sup_diag)
    with pytest.raises(InvalidInput, match="pilot= as a whole number"):
        b.estimate_interval(question(900)[3], method=b.Dual(gauge=SelfNormalized(30.0)))
