"""Places where an error bound was once not a bound, or a number of another space was taken: each stays closed."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
from bondic.core.balls import Instruments
from bondic.core.bounded import Enclosure, U
from bondic.core.claims import ErrorBudget
from bondic.core.dual.bound import dual_bound, evaluate_witness
from bondic.core.dual.noise import FixedLambda, Pinelis
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.functions import KernelFunction
from bondic.core.kernels.features import ExplicitFeatures, Linear
from bondic.core.kernels.leaves import Constant
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.tuning.defaults import Advanced
from bondic_lab.noise.plug_in import PlugIn
from builders import setting_of
from core_cases import plain_facts
from forms import evaluate, quadratic_form

LINE = Layout(1, False, 0, 1)
ORIGIN = np.zeros((1, 1))
engines = pytest.mark.parametrize("engine", ["auto", "pairs", "reference"])


# ----------------------------------------------------------------------------------- the norm of the right space


def coin_problem(rng, n=60):
    """One state, reward 0 or 1, gamma = 1/2: J* = 1."""
    zeros = np.zeros((n, 1))
    log = bondic.Transitions(zeros, np.zeros(n, int), rng.integers(0, 2, n).astype(float), zeros, np.zeros(n, bool))
    policy, start = bondic.UniformPolicy(1), bondic.InitialStates.exact([[0.0]])
    return log, bondic.make_problem(log, policy, start, gamma=0.5, reward_range=(0, 1), may_terminate=False)


def test_omega_of_another_space_is_refused(rng):
    """The same function has a small norm in the space of a large kernel: that norm must not enter eps |omega|."""
    _, problem = coin_problem(rng)
    kernel = Constant(1.0)
    foreign = KernelFunction(1e12 * kernel, problem.layout, ORIGIN, np.array([[2e-12]]))
    own = KernelFunction(Constant(1.0), problem.layout, ORIGIN, np.array([[2.0]]))
    setting = setting_of(problem, bondic.Ball(kernel, 2.0), kernel)
    for call in (dual_bound, evaluate_witness):
        with pytest.raises(InvalidInput, match="space of"):
            call(setting, foreign)
        call(setting, own)
    with pytest.raises(InvalidInput, match="space of"):
        bondic.estimate_interval(
            problem,
            method=bondic.Dual(
                instruments=Instruments(kernel), ball=bondic.Ball(kernel, 2.0), advanced=Advanced(candidates=(foreign,))
            ),
        )


def test_a_certificate_with_a_foreign_omega_does_not_verify(rng):
    log, problem = coin_problem(rng)
    kernel = Constant(1.0)
    own = KernelFunction(kernel, problem.layout, ORIGIN, np.array([[2.0]]))
    method = bondic.Dual(
        instruments=Instruments(kernel),
        ball=bondic.Ball(kernel, 9.0),
        advanced=Advanced(candidates=(own,)),
        gauge=PlugIn(1e-4),
    )
    result = bondic.estimate_interval(problem, method=method)
    certificate = result.certificate
    assert bondic.verify(certificate, log)
    smaller = replace(result.proof, instruments=Instruments(0.5 * kernel))
    with pytest.raises(VerificationError, match="space of"):
        bondic.verify(certificate.with_proof(smaller), log)


# ------------------------------------------------------------------------------------------------- initial states


def test_an_open_size_is_for_uniform_samples_only():
    """The bound for every size counts states; with other weights, or an exact list, that count means nothing."""
    states = np.arange(4.0)[:, None]
    lopsided = np.array([0.97, 0.01, 0.01, 0.01])
    for kind, weights in (("exact", np.full(4, 0.25)), ("sample", lopsided)):
        with pytest.raises(InvalidInput, match=r"count_fixed|equal weights"):
            bondic.InitialStates(states, weights, kind, count_fixed=False)
    assert not bondic.InitialStates.sample(states, count_fixed=False).count_fixed


# ------------------------------------------------------------------------------------------------ stated suprema


def test_a_supremum_broken_beyond_rounding_is_refused():
    x = np.array([[math.sqrt(1 + 5e-10)]])
    with pytest.raises(InvalidInput, match="supremum"):
        Linear(supremum=1.0).max_abs(x, x)
    with pytest.raises(InvalidInput, match="supremum"):
        ExplicitFeatures(lambda z: z, 1.0, "identity").features(x)
    unit = np.array([[0.6, 0.8], [0.28, 0.96]])  # norm 1 up to rounding
    assert Linear(supremum=1.0).max_abs(unit, unit) >= 1.0


# --------------------------------------------------------------------------------------------- many terms, dust


@engines
def test_subnormal_weights(engine):
    """Products of subnormal numbers lose everything but an absolute error."""
    y = np.ones((300, 1))
    values, error = evaluate(
        normal_form(bondic.Gaussian(1.0), LINE), ORIGIN, y, np.full((300, 1), 5e-324), engine=engine
    )
    exact = 300 * mpf(5e-324) * mp.exp(mpf(-0.5))
    assert abs(mpf(float(values[0, 0])) - exact) <= mpf(error)


@engines
@pytest.mark.parametrize("factor", [1.0, 1e12, 1e300])
def test_a_large_factor_after_an_underflow(engine, factor):
    """The factor multiplies sums that may have underflowed: their absolute error grows with it."""
    terms = normal_form(factor * bondic.Gaussian(1.0), LINE)
    for weight in (1e-320, 1.4e-162):
        values, error = evaluate(terms, ORIGIN, np.ones((1, 1)), np.full((1, 1), weight), engine=engine)
        exact = mpf(factor) * mpf(weight) * mp.exp(mpf(-0.5))
        assert abs(mpf(float(values[0, 0])) - exact) <= mpf(error)
        square = quadratic_form(terms, ORIGIN, np.full((1, 1), weight), engine=engine)
        assert abs(mpf(square.mid) - mpf(factor) * mpf(weight) ** 2) <= mpf(square.rad)


def test_division_by_a_subnormal_number():
    """|a/b| rad(b) may vanish before it is divided by b."""
    quotient = Enclosure(5e-324) / Enclosure(1e-315, 0.4e-315)
    exact = Fraction(5e-324) / (Fraction(1e-315) - Fraction(0.4e-315))
    assert abs(exact - Fraction(quotient.mid)) <= Fraction(quotient.rad)


@pytest.mark.parametrize("bandwidth", [1e-310, 1e-160, 1e160, 1.7e308])
def test_bandwidths_at_the_edge_of_the_floats_are_refused(bandwidth):
    """1/h would overflow or lose digits: k(x, x) came out as 0."""
    for build in (bondic.Gaussian, bondic.Laplace, bondic.Matern):
        with pytest.raises(InvalidInput, match="bandwidth"):
            build(bandwidth)


@pytest.mark.parametrize("factors", [1, 4, 7, 12])
@pytest.mark.parametrize("dimension", [3, 5, 40])
def test_error_of_a_product_does_not_cancel(factors, dimension):
    """prod(K + e) - prod(K) in floats loses what is below the last digit of prod(K)."""
    kernel = bondic.Gaussian(1.0)
    for _ in range(factors - 1):
        kernel = kernel * bondic.Gaussian(1.0)
    (term,) = normal_form(kernel, Layout(dimension, False, 0, 1))
    x = np.zeros((1, dimension))
    own = Fraction(term.factors[0][0].value_error(x, x))
    needed = (1 + own) ** factors - 1 + factors * Fraction(U)
    assert needed <= Fraction(term.bounds(x, x)[1]) <= 3 * needed


# ------------------------------------------------------------------------------------------------------ p-values


@pytest.mark.parametrize("gauge", [Pinelis(), FixedLambda(5.0), PlugIn(1.0)])
@pytest.mark.parametrize("observed", [50.0, 1e10, 1e160, 1e200])
def test_p_values_are_never_zero_and_never_overflow(gauge, observed):
    assert 0 < gauge.p_value(plain_facts(100), observed) < 1e-300


def test_not_a_hair_more_than_alpha():
    with pytest.raises(InvalidInput):
        ErrorBudget(0.1, {"noise": math.nextafter(0.1, 1.0)})
    assert ErrorBudget(0.1, {"noise": 0.1})["noise"] == 0.1


# ---------------------------------------------------------------------------------------------- engines


@pytest.mark.parametrize("far", [1e6, 1e120, 1e150])
def test_a_far_point_among_many(far, rng):
    """An outlier with little weight: no warning, and the enclosure still meets that of the definition."""
    points = np.linspace(0.0, 1.0, 1500)[:, None]
    weights = rng.normal(size=(1500, 1))
    points[7], weights[7] = far, 1e-16
    terms = normal_form(bondic.Gaussian(1.0), LINE)
    fast, slow = quadratic_form(terms, points, weights), quadratic_form(terms, points, weights, engine="reference")
    assert abs(fast.mid - slow.mid) <= fast.rad + slow.rad
