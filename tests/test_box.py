"""Q as a box: total variation against exact rational sums, the inequality by brute force, the search against a conic solver."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import bondic as b
from bondic.core.balls import Box, constant_function, constant_value
from bondic.core.bounded import Enclosure
from bondic.core.dual.bound import dual_bound
from bondic.core.dual.weighing import ProposedWeights, weigh
from bondic.core.errors import NumericalError, VerificationError
from bondic.core.functions import KernelFunction
from bondic.core.kernels.leaves import Dirac
from bondic.core.kernels.normal_form import Layout
from bondic.core.sums.measure import Measure, Stream
from bondic.core.sums.reference import REFERENCE
from bondic.core.terms import ValueRange, range_at_all_times
from bondic.engines.sums import STANDARD
from bondic.search.table import TableSearch, table_kernel, table_search
from bondic.tuning.defaults import Choices
from builders import setting_of, tabular, world_problem


def exact_variation(points, weights):
    """sum over distinct (point, slot) of |sum of weights|, in rational numbers."""
    totals = {}
    for point, row in zip(points, weights, strict=True):
        for slot, weight in enumerate(row):
            key = (*(float(x) + 0.0 for x in point), slot)
            totals[key] = totals.get(key, Fraction(0)) + Fraction(float(weight))
    return sum(abs(total) for total in totals.values())


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), cuts=st.integers(1, 5), scale=st.sampled_from([1.0, 1e-8, 1e8]))
def test_total_variation_encloses_the_exact_sum(seed, cuts, scale):
    """Many equal points whose weights nearly cancel, in any number of batches."""
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 4, size=(60, 2)).astype(float)
    points[::7] *= -1.0  # -0.0 among them
    groups = scale * rng.normal(size=(2, 60, 3))
    groups[:, 30:] = -groups[:, :30] * (1 + 1e-15 * rng.normal(size=(2, 30, 3)))
    points[30:] = points[:30]
    ends = [0, *sorted(rng.integers(1, 60, size=cuts - 1)), 60]
    batches = [Measure(points[i:j], groups[:, i:j]) for i, j in itertools.pairwise(ends) if j > i]
    source = Stream(lambda task: map(task, batches), lambda: points, 60, 2, 3, 2)
    for found, weights in zip(REFERENCE.total_variations(source), groups, strict=True):
        exact = exact_variation(points, weights)
        assert abs(Fraction(found.mid) - exact) <= Fraction(found.rad)
        assert found.rad <= 1e-12 * np.abs(weights).sum()


def test_total_variation_charges_the_error_of_weights():
    (found,) = REFERENCE.total_variations(Measure(np.zeros((2, 1)), np.array([[[1.0], [-1.0]]]), 1e-6))
    assert found.mid == 0.0
    assert found.rad >= 2e-6


def box_setting(problem, share=0.5):
    limits = range_at_all_times(problem.terms)
    return setting_of(problem, Box.around(limits.low, limits.high, problem.layout), table_kernel(share))


@pytest.mark.filterwarnings("ignore::bondic.errors.ValidityWarning")  # few rows: actions that the log never took
@pytest.mark.parametrize("seed", range(3))
def test_the_bias_is_the_worst_function_of_the_box(seed):
    """F+ minus value and noise is the largest <q - center, mu> over all corners of the box, up to rounding."""
    rng = np.random.default_rng(seed)
    log = b.Transitions(
        rng.integers(0, 2, size=(9, 1)).astype(float), rng.integers(0, 2, 9), rng.random(9),
        rng.integers(0, 2, size=(9, 1)).astype(float), rng.random(9) < 0.3,
    )  # fmt: skip
    policy = b.TablePolicy(rng.dirichlet(np.ones(2), size=2))
    initial = b.InitialStates.exact([[0.0], [1.0]], [0.3, 0.7])
    problem = b.make_problem(log, policy, initial, gamma=0.7, reward_range=(0.0, 1.0))
    setting = box_setting(problem)
    omega = TableSearch.function(table_search(setting), rng.normal(size=table_search(setting)._gradient.size))
    (terms,) = dual_bound(setting, omega, ("upper",))
    weights = omega.values(problem.whole().logged)[0][np.arange(9), problem.whole().slots]
    mu = np.zeros(4)
    for s, p in zip((0, 1), (0.3, 0.7), strict=True):
        mu[2 * s : 2 * s + 2] += p * problem.initial.weights[s]
    for i in range(9):
        mu[2 * int(problem.whole().logged[i, 0]) + problem.whole().slots[i]] -= weights[i] / 9
    for point, row, probabilities in zip(
        problem.whole().next.points, problem.whole().next.rows, problem.whole().next.weights, strict=True
    ):
        mu[2 * int(point[0]) : 2 * int(point[0]) + 2] += 0.7 * weights[row] / 9 * probabilities
    corners = itertools.product((-1.0, 1.0), repeat=4)
    worst = max(setting.ball.radius * float(np.dot(corner, mu)) for corner in corners)
    assert terms["bias"].mid == pytest.approx(worst, rel=1e-12)
    assert terms["bias"].upper >= worst


def test_with_the_noise_of_the_log_both_ends_hold():
    """Identity (5) with the true q*: value - bias <= J* - noise <= value + bias for any omega."""
    for seed in range(2):
        mdp, problem = world_problem(tabular, 400, seed=seed)
        setting = box_setting(problem)
        q = mdp.q_star
        search = table_search(setting)
        for sign in (1.0, -1.0):
            omega = search.propose(sign=sign, radius=setting.ball.radius, kappa=0.01).omega
            lower, upper = dual_bound(setting, omega)
            rows = omega.values(problem.whole().logged)[0][np.arange(len(problem)), problem.whole().slots]
            here = q[problem.whole().logged[:, 0].astype(int), problem.whole().slots]
            there = np.zeros(len(problem))
            states = problem.whole().next.points[:, 0].astype(int)
            np.add.at(there, problem.whole().next.rows, (problem.whole().next.weights * q[states]).sum(axis=1))
            noise = float(np.mean(rows * (here - problem.gamma * there - problem.whole().rewards)))
            value, bias = upper.value.mid, upper["bias"].upper
            assert value - bias - 1e-9 <= mdp.value - noise <= value + bias + 1e-9
            assert lower["bias"].mid == upper["bias"].mid


def test_a_box_around_the_value_range_holds_it_and_a_smaller_one_does_not():
    layout = Layout(1, False, 0, 2)
    for low, high in [(0.0, 5.0), (-1.0 / 3, 1e-9), (1e8, 1e8 + 1.0), (-7.0, -7.0)]:
        box = Box.around(low, high, layout)
        assert box.assumes_nothing(ValueRange(low, high))
        assert box.radius <= (high - low) / 2 * (1 + 1e-12) + 1e-7 * abs(high)
        smaller = replace(box, radius=box.radius * (1 - 1e-9))
        assert box.radius < 1e-300 or abs(high) > 1e6 or not smaller.assumes_nothing(ValueRange(low, high))
    bent = KernelFunction(b.Gaussian(1.0) * Dirac(), layout, [[0.0]], [[1.0, 0.0]])
    assert not Box(3.0, bent).assumes_nothing(ValueRange(-1.0, 1.0))
    assert constant_value(constant_function(2.5, layout)) == 2.5
    assert constant_value(None) == 0.0


def conic_optimum(search, *, sign, radius, kappa):
    """min sign g.w + r |psi_0 + A w|_1 + kappa |w| by an interior-point solver."""
    a, g, psi = search._balance.toarray(), sign * search._gradient, search.model.start
    m, d = a.shape
    # variables: w (d), t (m) >= |psi + A w|, s >= |w|
    cost = np.concatenate([g, radius * np.ones(m), [kappa]])
    upper = np.hstack([a, -np.eye(m), np.zeros((m, 1))])
    lower = np.hstack([-a, -np.eye(m), np.zeros((m, 1))])
    cone = np.zeros((d + 1, d + m + 1))
    cone[0, -1], cone[1:, :d] = -1.0, -np.eye(d)
    matrix = sparse.csc_matrix(np.vstack([upper, lower, cone]))
    side = np.concatenate([-psi, psi, np.zeros(d + 1)])
    quiet = clarabel.DefaultSettings()
    quiet.verbose = False
    cones = [clarabel.NonnegativeConeT(2 * m), clarabel.SecondOrderConeT(d + 1)]
    zero = sparse.csc_matrix((d + m + 1, d + m + 1))
    return clarabel.DefaultSolver(zero, cost, matrix, side, cones, quiet).solve().obj_val


@pytest.mark.parametrize(("seed", "share"), [(0, 0.0), (1, 0.5), (2, 0.5)])
def test_the_search_reaches_the_conic_optimum(seed, share):
    _, problem = world_problem(tabular, 2000, seed=seed)
    setting = box_setting(problem, share)
    search, radius = table_search(setting), setting.ball.radius
    for sign, kappa in itertools.product((1.0, -1.0), (1e-3, 0.03)):
        w, value, primal = search.solve(sign=sign, radius=radius, kappa=kappa)
        best = conic_optimum(search, sign=sign, radius=radius, kappa=kappa)
        again = sign * search._gradient @ w + kappa * np.linalg.norm(w)
        assert value == pytest.approx(again + radius * np.abs(search.model.start + search._balance @ w).sum())
        assert best - 1e-6 <= value <= best + 2e-3 * radius
        assert primal <= best + 1e-6


def test_a_certificate_of_a_box_is_verified_and_a_smaller_box_is_called_an_assumption():
    mdp, log, policy, initial = tabular(3000, gamma=0.8)
    terms = {"gamma": 0.8, "reward_range": mdp.reward_range, "initial": initial}
    result = b.evaluate_policy(log, policy, method=b.Dual(choices=Choices(categorical=True)), **terms)
    assert {item.name: item.state for item in result.assumptions}["values"] == "checked"
    assert result.chosen == ()
    assert result.robustness is None
    checked = b.verify(result.certificate, log)
    assert (checked.low, checked.high) == pytest.approx((result.low, result.high), abs=1e-12)
    smaller = result.certificate.with_proof(replace(result.proof, ball=result.proof.ball.with_radius(0.01)))
    with pytest.raises(VerificationError):
        b.verify(smaller, log)


@pytest.mark.parametrize("batches", [0, 1])
def test_a_support_function_that_leaves_rows_out_is_not_believed(batches, monkeypatch):
    """Residuals are added up while the support function reads: rows that it skips must not count as zero."""

    class Hasty(Box):
        def sizes(self, source, layout, sums, progress=None):  # noqa: ARG002
            list(itertools.islice(source.batches(), batches))
            return [Enclosure(1.0)] * source.groups

    monkeypatch.setattr("bondic.rows.rows.LONGEST_BLOCK", 256)
    _, log, policy, start = tabular(600)
    problem = b.make_problem(log, policy, start, gamma=0.8, reward_range=(0, 1), accept=None)
    with pytest.raises(NumericalError, match=f"{256 * batches} of 600 rows"):
        weigh(problem, Hasty(1.0), [ProposedWeights(constant_function(1.0, problem.layout))], sums=STANDARD)
