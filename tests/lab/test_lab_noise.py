"""Noise bounds of the lab: the laws of every one, and the formula of each in 50 digits."""

import math
import subprocess
import sys

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
import bondic_lab
import core_cases
import naive
from bondic.core.dual.noise import FixedLambda, Pinelis, diagonal
from bondic.core.errors import InvalidInput
from bondic.core.terms import row_widths
from bondic.tuning.defaults import Advanced
from bondic_lab.noise.finite_class import FiniteClass
from bondic_lab.noise.plug_in import PlugIn
from bondic_lab.noise.self_normalized import SelfNormalized
from builders import synthetic
from conformance_noise import LAYOUT, ROWS, WAVES, NoiseCase, facts_about, weights_of
from core_cases import make_case
from test_concentration import CASES, facts_of, upper_and_close


class TestPlugIn(NoiseCase):
    """With the constant that Hoeffding's lemma would give."""

    def make(self, kernel, rows, probability):
        del rows, probability
        return PlugIn(0.25 * kernel.sup_diag)


class TestFixedLambda(NoiseCase):
    def make(self, kernel, rows, probability):
        return FixedLambda.planned(rows, probability=probability, sup_diag=kernel.sup_diag, mean_square_width=1.0)


class TestFiniteClass(NoiseCase):
    def make(self, kernel, rows, probability):
        return FiniteClass.planned(kernel, LAYOUT, rows, probability=probability, mean_square_width=1.0)

    def for_problem(self, kernel):
        del kernel
        return "finite"


class TestSelfNormalized(NoiseCase):
    def make(self, kernel, rows, probability):
        del kernel, probability
        return SelfNormalized(rows / 4)


# --- fixed lambda ---------------------------------------------------------------------------------------


@pytest.fixture(params=CASES)
def case(request):
    return make_case(**CASES[request.param])


@pytest.mark.parametrize("rate", [1e-3, 0.4, 30.0])
def test_fixed_lambda(case, rate):
    """Widths per row, the diagonal per row, any lambda."""
    kernel, twin = core_cases.kernels(case, 0.8, 0.5)
    facts = facts_of(case, kernel)
    times = case.times or [0] * len(case.logged)
    widths = [naive.range_width(*case.reward_range, case.gamma, case.may_terminate, case.horizon, t) for t in times]
    diagonals = [twin(p, p) for p in case.logged]
    (rows,) = case.problem.logged_rows()
    for ours, exact in zip(row_widths(case.problem.terms, rows[2], len(times)), widths, strict=True):
        assert mpf(float(ours)) >= exact
    assert mpf(facts.total_width) >= sum(widths)
    for ours, exact in zip(diagonal(kernel, case.problem.layout, *rows[:2]), diagonals, strict=True):
        assert exact <= mpf(float(ours)) <= exact + mpf(10) ** -13
    scaled = rate / max(map(abs, case.reward_range))
    exact = naive.eps_fixed_lambda(scaled, 0.05, widths, diagonals)
    upper_and_close(FixedLambda(scaled).epsilon(facts, 0.05), exact, 1e-12)
    observed = float(exact)
    total = sum((b * b * k for b, k in zip(widths, diagonals, strict=True)), mpf(0))
    level = 2 * mp.exp(-(mpf(scaled) * len(widths) * mpf(observed) - mpf(scaled) ** 2 * total / 8))
    ours = mpf(FixedLambda(scaled).p_value(facts, observed))
    assert min(mpf(1), level) <= ours
    assert ours <= level * (1 + mpf(10) ** -6)


def test_fixed_lambda_at_its_best_is_the_default_gauge():
    case = make_case(may_terminate=False)
    facts = facts_of(case, bondic.Gaussian(1.0))
    gauge = FixedLambda.planned(facts.count, probability=0.1, sup_diag=1.0, mean_square_width=facts.largest_width**2)
    exact = naive.best_lambda(0.1, facts.count, facts.largest_width)
    assert gauge.rate == pytest.approx(float(exact), rel=1e-13)
    half = Pinelis().epsilon(facts, 0.1)
    assert gauge.epsilon(facts, 0.1).mid == pytest.approx(half.mid, rel=1e-12)
    assert FixedLambda.planned(5, probability=0.1, sup_diag=1.0, mean_square_width=0.0).rate == 1.0
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidInput):
            FixedLambda(bad)
    with pytest.raises(InvalidInput):
        FixedLambda.planned(0, probability=0.1, sup_diag=1.0, mean_square_width=1.0)


# --- the union bound ------------------------------------------------------------------------------------


def test_finite_class_is_its_formula():
    """(1/n) sum_j |w_j| ( log(2 p / delta) + lambda_j^2 C_j / 8 ) / lambda_j in 50 digits."""
    w, rates = np.array([0.5, -1.0, 0.0, 0.3, 2.0]), np.array([0.02, 0.5, 1.0, 3.0, 40.0])
    phi = [weights_of(WAVES, row)[1] for row in np.eye(5)]
    ours = FiniteClass(rates).bound(weights_of(WAVES, w)[0], facts_about(WAVES), 0.05)
    exact = mpf(0)
    for weight, rate, values in zip(w.tolist(), rates.tolist(), phi, strict=True):
        charge = sum((mpf(float(v)) ** 2 for v in values), mpf(0))
        exact += abs(mpf(weight)) * (mp.log(10 / mpf(0.05)) + mpf(rate) ** 2 * charge / 8) / mpf(rate) / ROWS
    assert exact <= mpf(ours.upper)
    assert abs(mpf(ours.mid) - exact) <= 1e-12 * exact


# --- certificates that name them ------------------------------------------------------------------------


def test_a_fresh_process_finds_them_by_name(tmp_path):
    """`bondic verify` imports the module that registers the noise bound of a certificate, and no other."""
    mdp, log, policy, initial = synthetic(120, gamma=0.3)
    problem = bondic.make_problem(log, policy, initial, gamma=mdp.gamma, reward_range=mdp.reward_range)
    method = bondic.Dual(radius=5.0, planned_rows=120, advanced=Advanced(pairs=4))
    result = bondic.estimate_interval(problem, method=method)
    assert isinstance(result.proof.noise, FixedLambda)
    text, _ = bondic.save_certificate(result.certificate, tmp_path / "c")
    np.savez(tmp_path / "log.npz", **{name: column for name, column in log.columns().items() if column is not None})
    words = [sys.executable, "-m", "bondic", "verify", str(text), str(tmp_path / "log.npz")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert "lambda = " in done.stdout


# --- The bound of Feng et al. (2020) keeps the laws of every noise bound.


class TestVStatistic(NoiseCase):
    control = 0.2

    def make(self, kernel, rows, probability):
        del kernel, rows, probability
        return bondic_lab.VStatistic("range")
