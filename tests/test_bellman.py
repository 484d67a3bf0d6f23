"""Residuals, losses, discrepancies and values at small problems: the exact number lies in every enclosure."""

from functools import cache

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
import core_cases
import naive
from bondic.core.bounded import U
from bondic.core.errors import InvalidInput
from bondic.core.functions import (
    ExpansionFunction,
    FeatureFunction,
    KernelFunction,
    TermExpansion,
)
from bondic.core.identity import bellman_residual, residual_error
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import ActionEmbedding, Constant, Dirac
from bondic.core.kernels.normal_form import Layout
from bondic.policies.protocol import RowProbabilities
from bondic_lab.identity.formulas import (
    function_values,
    initial_value,
    signed_measure,
)
from builders import weights_at_rows
from core_cases import inside, kernel_function, make_case

SETTINGS = {
    "discrete": {},
    "never ends": {"may_terminate": False, "seed": 1},
    "gamma 0": {"gamma": 0.0, "seed": 2},
    "horizon": {"horizon": 4, "gamma": 1.0, "n": 10, "seed": 3},
    "continuous": {"kind": "continuous", "seed": 4},
    "continuous horizon": {"kind": "continuous", "horizon": 3, "gamma": 0.7, "n": 9, "seed": 5},
    "offset 1e8": {"offset": 1e8, "seed": 6},
    "large rewards": {"reward_range": (-1e12, 2e12), "seed": 7},
    "sampled starts": {"initial": "sample", "seed": 8},
    "one row": {"n": 1, "may_terminate": False, "seed": 9, "skip_merge": True},
}


@cache
def build(name):
    options = dict(SETTINGS[name])
    if options.pop("skip_merge", False):
        options["n"] = 3
        case = make_case(**options)
        return one_row(case)
    return make_case(**options)


def one_row(case):
    """The first row alone, selected from a longer problem."""
    case.problem = case.problem.select(0, 1)
    case.logged, case.nexts, case.rewards = case.logged[:1], case.nexts[:1], case.rewards[:1]
    case.going_on = case.going_on[:1]
    return case


@pytest.fixture(params=SETTINGS)
def case(request):
    return build(request.param)


def q_function(case, kernel, twin, seed=0):
    """A function on logged, next and initial points, in both forms."""
    rng = np.random.default_rng(seed)
    problem = case.problem
    clouds = [problem.whole().logged, problem.whole().next.points, problem.initial.points]
    points = np.concatenate(clouds)
    weights = rng.normal(size=(len(points), problem.layout.slots))
    weights *= rng.random(weights.shape) < 12 / weights.size  # a dozen centers are enough for the slow twin
    ours = KernelFunction(kernel, problem.layout, points, weights)
    has_time = problem.layout.has_time
    width = problem.layout.observation_dim
    centers, theta = [], []
    for z, row in zip(points, weights, strict=True):
        time = int(z[width]) if has_time else None
        for slot in np.flatnonzero(row).tolist():
            value = row[slot]
            action = slot if problem.layout.discrete else list(z[width + int(has_time) :])
            centers.append(naive.at(list(z[:width]), action, time))
            theta.append(float(value))
    return ours, naive.expansion(twin, theta, centers)


def test_function_values_and_residuals(case):
    """Every value of q, every mean over the policy and every residual within the declared error."""
    kernel, twin = core_cases.kernels(case, 1.3, 0.5)
    ours, exact = q_function(case, kernel, twin)
    values = function_values(case.problem.whole(), ours)
    for got, point in zip(values.logged, case.logged, strict=True):
        assert abs(mpf(float(got)) - exact(point)) <= mpf(values.error)
    for got, row in zip(values.next, case.nexts, strict=True):
        assert abs(mpf(float(got)) - naive.integral(exact, row)) <= mpf(values.error)
    assert np.array_equal(np.asarray(case.going_on), case.problem.whole().continues)
    assert np.all(values.next[~case.problem.whole().continues] == 0.0)
    residual = bellman_residual(case.problem.whole(), values)
    error = residual_error(case.problem.whole(), values)
    expected = naive.residuals(exact, case.logged, case.nexts, case.rewards, case.gamma)
    assert all(abs(mpf(float(a)) - b) <= mpf(error) for a, b in zip(residual, expected, strict=True))
    start = naive.integral(exact, case.initial)
    assert inside(initial_value(case.problem, values), start)
    assert error <= 1e-11 * (1 + np.abs(residual).max())  # and it is of use


# --------------------------------------------------------------------------------------- functions of points


def test_kernel_function_values_and_norm(case):
    kernel, twin = core_cases.kernels(case, 0.8, 2.0)
    alpha = np.random.default_rng(8).normal(size=len(case.problem))
    omega = kernel_function(case, kernel, alpha)
    rows, error = weights_at_rows(case.problem.whole(), omega)
    exact = naive.omega_values(twin, alpha, case.logged, case.logged)
    assert all(abs(mpf(float(a)) - b) <= mpf(error) for a, b in zip(rows, exact, strict=True))
    assert inside(omega.norm(), naive.omega_norm(twin, alpha, case.logged))
    assert not omega.is_zero
    assert kernel_function(case, kernel, 0 * alpha).is_zero


FREQUENCIES = np.random.default_rng(0).normal(size=(4, 2))


@pytest.mark.parametrize("slots", [1, 3])
def test_feature_function_values_and_norm(slots, rng):
    """f(z, a) = sum_p phi(z) W_p E_ap in coordinates; |f| = |w| up to rounding, always rounded up."""
    layout = Layout(2, False, 0, slots)
    similar = np.array([[1.0, 0.5], [0.0, 2.0], [-0.3, 0.1]])[:slots]
    kernel = 0.7 * RandomFeatures(FREQUENCIES) * ActionEmbedding(similar) + Constant(2.0)
    w = rng.normal(size=8 * 2 + 1)
    function = FeatureFunction(kernel, layout, w)
    points = rng.normal(size=(5, 2))
    values, error = function.values(points)
    assert values.shape == (5, slots)
    for z, row in zip(points, values, strict=True):
        phi = naive.random_features(z, FREQUENCIES)
        for a in range(slots):
            exact = mp.sqrt(2) * mpf(w[16])
            for m in range(8):
                for p in range(2):
                    exact += mp.sqrt(mpf(0.7)) * phi[m] * mpf(w[2 * m + p]) * mpf(similar[a, p])
            assert abs(mpf(float(row[a])) - exact) <= mpf(error)
    assert error < 1e-13
    norm = mp.sqrt(sum((mpf(v) ** 2 for v in w.tolist()), mpf(0)))
    assert inside(function.norm(), norm)
    assert not function.is_zero
    with pytest.raises(InvalidInput, match="17 features"):
        FeatureFunction(kernel, layout, w[:-1])


def test_expansion_function_values_and_norm(rng):
    """One expansion per term; the norm is at most the root of the sum of squares, here with 2 slots."""
    layout = Layout(2, False, 0, 2)
    kernel = bondic.Gaussian(0.9) * Dirac() + 3.0 * Constant(1.0)
    first = TermExpansion(rng.normal(size=(4, 2)), rng.normal(size=(4, 2)))
    second = TermExpansion(np.zeros((1, 2)), np.array([[0.7]]))
    function = ExpansionFunction(kernel, layout, (first, second))
    points = rng.normal(size=(5, 2))
    values, error = function.values(points)
    for z, row in zip(points, values, strict=True):
        for a in range(2):
            exact = 3 * mpf(0.7)
            for c, w in zip(first.centers, first.weights, strict=True):
                exact += mpf(w[a]) * naive.gaussian(z, c, 0.9)
            assert abs(mpf(float(row[a])) - exact) <= mpf(error)
    square = 3 * mpf(0.7) ** 2
    for a in range(2):
        for i in range(4):
            for j in range(4):
                gram = naive.gaussian(first.centers[i], first.centers[j], 0.9)
                square += mpf(first.weights[i, a]) * mpf(first.weights[j, a]) * gram
    assert inside(function.norm(), mp.sqrt(square))
    assert not function.is_zero
    with pytest.raises(InvalidInput, match="2 terms"):
        ExpansionFunction(kernel, layout, (first,))
    with pytest.raises(InvalidInput, match="do not fit"):
        ExpansionFunction(kernel, layout, (second, first))


def test_normalisation_is_part_of_the_error():
    """Probabilities off by 1e-7 in their sum: the policy is the normalized row, in values and in measures."""
    rng = np.random.default_rng(1)
    states, probs = rng.normal(size=(5, 2)), rng.dirichlet(np.ones(3), 5)
    rough = probs * (1 + 1e-7 * rng.uniform(-1, 1, size=(5, 1)))
    log = bondic.Transitions(states, [0, 1, 2, 1, 0], np.zeros(5), states + 1, np.zeros(5, bool))
    begins = bondic.InitialStates.exact(states[:2], np.array([0.25, 0.75]) * (1 - 3e-7))
    problem = bondic.make_problem(log, RowProbabilities(rough, rough[:2]), begins, gamma=0.9, reward_range=(0, 1))
    assert np.abs(problem.whole().next.weights.sum(axis=1) - 1).max() <= 4 * U
    measure = signed_measure(problem.whole(), np.ones(5))
    start = [mpf(1) / 4 * p for p in core_cases.normalized(rough[0])]
    for got, exact in zip(measure.weights[0, -2], start, strict=True):
        assert abs(mpf(float(got)) - exact) <= mpf(measure.error) * exact
