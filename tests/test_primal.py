"""The primal bound, weak and strong duality, and the bound of a finite class of instruments."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import bondic as b
import builders
from bondic.bounds.dual import dual_bound
from bondic.bounds.finite_class import finite_class_bound
from bondic.bounds.primal import primal_point
from bondic.bounds.weighing import weights_at_rows
from bondic.errors import InvalidInput, MissingExtra
from bondic.identity.residual import bellman_residual, function_values
from bondic.noise.finite_class import FiniteClass
from bondic.search import conic, spectral
from bondic.search.basis import make_basis
from bondic.search.conic import ConicSearch, solve_finite_class, solve_primal
from bondic.search.model import build_model
from bondic_lab.worlds.tabular import TabularMDP

EQUAL = 1e-6
"""Primal against dual, relative to r |mu_0|."""

SIGNS = {"upper": 1.0, "lower": -1.0}


def make_setting(rng, *, continuous=False, features=False, radius=4.0, share=0.5, away=0.0):
    """A log of 25 rows whose noise level is `share` of the loss of q = 0; exact means over actions."""
    problem = builders.noise_problem(rng, 25, continuous=continuous, away=away, spread=0.0)
    value = b.Gaussian(1.2, on="point") if continuous else b.Gaussian(1.2) * b.Dirac()
    weight = b.Gaussian(0.9, on="point") if continuous else b.Gaussian(0.9) * b.Dirac()
    if features:
        weight = 0.5 * b.Constant(1.0) + 0.5 * (b.RandomFeatures.gaussian(5, 2, 1.0, seed=1) * b.Dirac())
    ball = b.Ball(value + b.Constant(1.0), radius)
    setting = builders.setting_of(problem, ball, weight, b.PlugIn(1.0))
    loss = primal_point(setting, None).loss.mid
    wanted = (share * loss) ** 2 * len(problem) / (2 * math.log(20))
    return replace(setting, gauge=b.PlugIn(wanted))


def best_shift(setting, model, sign, *, inside=1.0):
    """The conic primal solution as a function; `inside` < 1 asks for room in both constraints."""
    epsilon = setting.epsilon().lower
    found = solve_primal(model, sign=sign, radius=inside * setting.ball.radius, kappa=inside * epsilon)
    return model.values.function(found.point)


def trivial_width(setting):
    model = builders.search_model(setting)
    return setting.ball.radius * float(np.linalg.norm(model.start))


CASES = [
    {"continuous": False, "features": False},
    {"continuous": False, "features": True},
    {"continuous": True, "features": False},
    {"continuous": False, "features": False, "share": 0.9, "radius": 40.0},
    {"continuous": True, "features": False, "share": 1.3, "radius": 1.0},
]


@pytest.mark.parametrize("case", CASES)
def test_primal_is_dual(case, rng):
    """sup over feasible q = inf over omega to 1e-6, both evaluated by the trusted core, where Slater holds."""
    setting = make_setting(rng, **case)
    model, scale = builders.search_model(setting), trivial_width(setting)
    spectrum = spectral.Spectrum.of(model)
    for end, sign in SIGNS.items():
        q = primal_point(setting, best_shift(setting, model, sign, inside=1 - 1e-8))
        assert q.feasible(setting.ball.radius, setting.epsilon().lower)
        found = spectral.propose(spectrum, sign=sign, radius=setting.ball.radius, kappa=setting.epsilon().upper)
        (terms,) = dual_bound(setting, model.function(found.weights) if found.weights.any() else None, (end,))
        assert terms.bound == pytest.approx(q.value.mid, abs=EQUAL * scale)


def feasible_functions(setting, model, rng):
    """Ends of the feasible set and mixtures of them: a convex set."""
    extremes = [
        solve_primal(model, sign=sign, radius=0.999 * setting.ball.radius, kappa=0.999 * setting.epsilon().lower).point
        for sign in (1.0, -1.0)
    ]
    mixes = [s * extremes[0] + (1 - s) * extremes[1] for s in rng.random(3)]
    small = [theta + 1e-4 * rng.standard_normal(theta.size) * np.abs(theta).max() for theta in mixes]
    return [model.values.function(theta) for theta in (*extremes, *mixes, *small)]


@pytest.mark.parametrize("case", CASES[:3])
def test_weak_duality(case, rng):
    """Every feasible q lies between F- and F+ of *every* omega, proved ends against proved values."""
    setting = make_setting(rng, **case)
    model = builders.search_model(setting)
    points = [primal_point(setting, shift) for shift in feasible_functions(setting, model, rng)]
    feasible = [q for q in points if q.feasible(setting.ball.radius, setting.epsilon().lower)]
    assert len(feasible) >= 6
    found = spectral.propose(
        spectral.Spectrum.of(model), sign=1.0, radius=setting.ball.radius, kappa=setting.epsilon().upper
    )
    best = found.weights / np.abs(found.weights).max()
    tries = [np.zeros_like(best), found.weights]
    tries += [size * (best + spread * rng.standard_normal(best.size)) for size in (0.1, 1, 10) for spread in (0, 1)]
    for w in tries:
        lower, upper = dual_bound(setting, model.function(w) if w.any() else None)
        for q in feasible:
            assert lower.bound <= q.value.lower
            assert q.value.upper <= upper.bound


def test_an_infeasible_function_may_lie_outside(rng):
    """The constraint matters: q in Q with a large loss beats F+."""
    setting = make_setting(rng)
    model = builders.search_model(setting)
    found = spectral.propose(
        spectral.Spectrum.of(model), sign=1.0, radius=setting.ball.radius, kappa=setting.epsilon().upper
    )
    (upper,) = dual_bound(setting, model.function(found.weights), ("upper",))
    greedy = 0.999 * setting.ball.radius * model.start / np.linalg.norm(model.start)
    q = primal_point(setting, model.values.function(greedy))
    assert q.distance.upper <= setting.ball.radius
    assert not q.feasible(setting.ball.radius, setting.epsilon().lower)
    assert q.value.lower > upper.bound


def test_a_primal_point_is_what_it_says(rng):
    """Value, distance and loss of q = center + shift, against dense sums."""
    problem = builders.noise_problem(rng, 25)
    kernel = b.Gaussian(1.2) * b.Dirac() + b.Constant(1.0)
    center = b.KernelFunction(kernel, problem.layout, problem.whole().logged[:2], rng.standard_normal((2, 3)))
    shift = b.KernelFunction(kernel, problem.layout, problem.whole().logged[5:8], rng.standard_normal((3, 3)))
    weight = b.Gaussian(0.9) * b.Dirac()
    setting = builders.setting_of(problem, b.Ball(kernel, 4.0, center), weight, b.PlugIn(1.0))
    q = primal_point(setting, shift)

    def value(points, slots):
        total = 0.0
        for f in (center, shift):
            x, i, c = builders.pairs_of(f.centers, f.weights)
            gram = builders.gaussian_matrix(points, x, 1.2) * (slots[:, None] == i) + 1.0
            total = total + gram @ c
        return total

    points, slots, c = builders.measure_of(problem, np.zeros(25))
    assert q.value.mid == pytest.approx(c @ value(points, slots), rel=1e-12)
    x, i, c = builders.pairs_of(shift.centers, shift.weights)
    norm = c @ (builders.gaussian_matrix(x, x, 1.2) * (i[:, None] == i) + 1.0) @ c
    assert q.distance.mid == pytest.approx(math.sqrt(norm), rel=1e-12)
    after = np.zeros(25)
    x, i, c = builders.pairs_of(problem.whole().next.points, problem.whole().next.weights)
    np.add.at(after, np.repeat(problem.whole().next.rows, 3), c * value(x, i))
    residual = value(problem.whole().logged, problem.whole().slots) - 0.9 * after - problem.whole().rewards
    gram = builders.gaussian_matrix(problem.whole().logged, problem.whole().logged, 0.9) * (
        problem.whole().slots[:, None] == problem.whole().slots
    )
    assert q.loss.mid == pytest.approx(math.sqrt(residual @ gram @ residual) / 25, rel=1e-12)
    assert not q.feasible(q.distance.lower, 1e9)
    assert not q.feasible(1e9, q.loss.lower)
    assert q.feasible(q.distance.upper, q.loss.upper)


def test_logged_points_alone_are_not_enough(rng):
    """The supremum needs next and initial points in its basis; without them it is too small, hence no bound."""
    setting = make_setting(rng, features=True, away=2.0)
    scale = trivial_width(setting)
    full, logged = builders.search_model(setting), builders.search_model(setting, setting.problem.whole().logged)
    epsilon, radius = setting.epsilon().upper, setting.ball.radius
    for sign in (1.0, -1.0):
        whole = solve_primal(full, sign=sign, radius=radius, kappa=epsilon).value
        part = solve_primal(logged, sign=sign, radius=radius, kappa=epsilon).value
        assert part < whole - 0.1 * scale
        found = spectral.propose(spectral.Spectrum.of(full), sign=sign, radius=radius, kappa=epsilon)
        assert found.objective == pytest.approx(whole, abs=EQUAL * scale)
    # with next points but not the initial ones it is still too small
    most = builders.search_model(
        setting, np.concatenate([setting.problem.whole().logged, setting.problem.whole().next.points])
    )
    assert solve_primal(most, sign=1.0, radius=radius, kappa=epsilon).value < (
        solve_primal(full, sign=1.0, radius=radius, kappa=epsilon).value - 1e-3 * scale
    )


def test_no_feasible_q_means_no_bottom(rng):
    """Slater fails completely: the primal is infeasible, the dual unbounded, and the test rejects."""
    setting = make_setting(rng, radius=0.05, share=0.2)
    model = builders.search_model(setting)
    epsilon = setting.epsilon().upper
    assert "Infeasible" in solve_primal(model, sign=1.0, radius=0.05, kappa=epsilon).status
    found = spectral.propose(spectral.Spectrum.of(model), sign=1.0, radius=0.05, kappa=epsilon)
    assert found.status.startswith("unbounded")
    method = b.Dual(instruments=setting.instruments, ball=setting.ball, gauge=setting.gauge)
    assert b.estimate_interval(setting.problem, method=method).status is b.Status.REJECTED


@pytest.mark.parametrize(
    ("side", "continuous", "centered"),
    [
        ("both", False, False),
        ("lower", False, False),
        ("upper", True, False),
        ("both", True, False),
        ("both", False, True),
    ],
)
def test_primal_method_is_dual_method(side, continuous, centered, rng):
    """Two searches, one interval, around 0 and around a center; the reported number of both is certified."""
    setting = make_setting(rng, continuous=continuous)
    problem, ball = setting.problem, setting.ball
    if centered:
        some = problem.whole().logged[:4]
        ball = b.Ball(
            ball.kernel, 5.0, b.KernelFunction(ball.kernel, problem.layout, some, rng.standard_normal((4, 3)))
        )
    method = b.Dual(instruments=setting.instruments, ball=ball, gauge=setting.gauge, side=side)
    dual, primal = (b.estimate_interval(problem, method=m) for m in (method, b.Primal(method)))
    scale = trivial_width(setting)
    assert primal.method == "primal"
    assert primal.status is dual.status is b.Status.INTERVAL
    assert (primal.low, primal.high) == pytest.approx((dual.low, dual.high), abs=EQUAL * scale)
    ends = {"both": (0, 1), "lower": (0,), "upper": (1,)}[side]
    for k in (0, 1):
        assert (primal.gap[k] <= 2 * EQUAL * scale) if k in ends else math.isnan(primal.gap[k])


def test_the_conic_search_alone_finds_the_bound(rng):
    """What it proposes reaches the spectral bound without the spectral proposal beside it."""
    setting = make_setting(rng, features=True)
    model, scale = builders.search_model(setting), trivial_width(setting)
    proposals = ConicSearch()(model, setting)
    assert len(proposals) == 2
    for (end, sign), omega in zip(SIGNS.items(), proposals, strict=True):
        (terms,) = dual_bound(setting, omega, (end,))
        best = spectral.propose(
            spectral.Spectrum.of(model), sign=sign, radius=setting.ball.radius, kappa=setting.epsilon().upper
        )
        assert sign * terms.bound == pytest.approx(best.objective, abs=EQUAL * scale)


def test_too_many_rows_are_refused(rng, monkeypatch):
    monkeypatch.setattr("bondic.methods.primal._MOST_ROWS", 20)
    setting = make_setting(rng)
    with pytest.raises(InvalidInput, match=r"25 rows are too many .* Dual\(\)"):
        b.estimate_interval(setting.problem, method=b.Primal())


def test_without_the_conic_library(rng, monkeypatch):
    monkeypatch.setattr(conic, "clarabel", None)
    setting = make_setting(rng)
    with pytest.raises(MissingExtra, match=r"pip install 'bondic\[conic\]'"):
        b.estimate_interval(setting.problem, method=b.Primal(b.Dual(instruments=setting.instruments)))


# ------------------------------------------------------------------------------------------------ finite class


def steps(s):
    """Three bumps and a constant: the members of a small class W."""
    return np.column_stack([np.ones(len(s)), s[:, 0] > 0, np.tanh(s[:, 1]), np.cos(s[:, 0])]).astype(float)


def finite_class(rng, n=80):
    problem = builders.noise_problem(rng, n)
    basis = make_basis(b.ExplicitFeatures(steps, 4.0, "steps"), problem.layout, problem.whole().logged, rank=4)
    members = tuple(basis.function(row) for row in np.eye(4))
    return problem, basis, members


def naive_finite_class(problem, ball_norm, radius, members, rates, weights, delta, width):
    """(F-, F+) from the formula of section 4, in plain sums."""
    n, p = len(problem), len(members)
    rows = np.array([weights_at_rows(problem.whole(), member)[0] for member in members])
    noise = 0.0
    for j in range(p):
        charge = rates[j] ** 2 * np.sum(width**2 * rows[j] ** 2) / 8
        noise += abs(weights[j]) * (math.log(2 * p / delta) + charge) / rates[j] / n
    omega = weights @ rows
    value = np.sum(omega * problem.whole().rewards) / n
    half = radius * ball_norm(omega) + noise
    return value - half, value + half


def test_finite_class_bound_is_its_formula(rng):
    problem, _, members = finite_class(rng)
    gauge = FiniteClass(np.array([0.02, 0.05, 0.1, 0.03]))
    weights = np.array([1.5, -0.7, 0.0, 2.0])

    def ball_norm(omega):
        x, i, c = builders.measure_of(problem, omega)
        gram = builders.gaussian_matrix(x, x, 1.2) * (i[:, None] == i) + 1.0
        return math.sqrt(c @ gram @ c)

    ball = b.Ball(b.Gaussian(1.2) * b.Dirac() + b.Constant(1.0), 3.0)
    lower, upper = finite_class_bound(problem.whole(), ball, members, gauge, weights, probability=0.05)
    width = 2 / (1 - 0.9)
    low, high = naive_finite_class(problem, ball_norm, 3.0, members, gauge.rates, weights, 0.05, width)
    assert lower.bound == pytest.approx(low, rel=1e-11)
    assert upper.bound == pytest.approx(high, rel=1e-11)
    assert lower.bound <= low
    assert upper.bound >= high
    with pytest.raises(InvalidInput, match="3 weights"):
        finite_class_bound(problem.whole(), ball, members, gauge, weights[:3], probability=0.05)


def test_finite_class_search(rng):
    """The conic optimum has the value of its formula, beats other weights, and is certified to the same number."""
    problem, basis, members = finite_class(rng)
    ball = b.Ball(b.Gaussian(1.2) * b.Dirac() + b.Constant(1.0), 3.0)
    gauge = FiniteClass.planned(80, probability=0.1, members=4, mean_square=400.0)
    values = np.array([weights_at_rows(problem.whole(), member)[0] for member in members])
    costs = 1e-2 * np.array([bound.upper for bound in gauge.bounds(values, np.full(80, 20.0), 0.1)])
    q_basis = make_basis(ball.kernel, problem.layout, builders.everything(problem), rank=500)
    model = build_model(problem, basis, q_basis, None)

    def objective(sign, w):
        t = np.linalg.norm(model.start + model.balance @ w)
        return sign * model.gradient @ w + 3.0 * t + costs @ np.abs(w)

    for sign in (1.0, -1.0):
        found = solve_finite_class(model, costs, sign=sign, radius=3.0)
        assert found.value == pytest.approx(objective(sign, found.point), rel=1e-7)
        assert found.value < objective(sign, np.zeros(4)) - 0.01
        for w in found.point + rng.standard_normal((20, 4)):
            assert objective(sign, w) >= found.value - 1e-7
    # dear members are left alone: the sum of absolute values is a lasso
    dear = solve_finite_class(model, costs + np.array([0, 1e3, 1e3, 1e3]), sign=1.0, radius=3.0).point
    assert np.abs(dear[1:]).max() < 1e-6


def test_finite_class_event(rng):
    """|sum omega_j Z| <= N_j for all j: on a problem that saturates it, 400 logs, and half of N_j must fail.

    False alarm: the number of misses exceeds its 99.9 % quantile under a true miss rate of 10 %."""
    mdp = TabularMDP.saturating()
    n, delta, seeds = 60, 0.1, 400
    misses = np.zeros(2, dtype=int)
    for _ in range(seeds):
        problem = builders.tabular_problem(mdp, builders.as_log(mdp.rollout(n, 1, rng)))
        truth = function_values(problem.whole(), builders.table_function(mdp.q_star, problem.layout))
        noise = bellman_residual(problem.whole(), truth)
        gauge = FiniteClass.planned(n, probability=delta, members=1, mean_square=100.0)
        (bound,) = gauge.bounds(np.ones((1, n)), np.full(n, 10.0), delta)
        misses += abs(noise.mean()) > bound.upper * np.array([1.0, 0.5])
    allowed = binom.ppf(0.999, seeds, delta)
    assert misses[0] <= allowed
    assert misses[1] > allowed


def test_finite_class_interval_contains_the_value(rng):
    """On a tabular MDP with q* in Q the certified interval holds J* (20 logs; it is conservative)."""
    mdp = TabularMDP.random(rng, n_states=3, n_actions=2, gamma=0.5)
    radius = float(np.linalg.norm(mdp.q_star))
    for _ in range(20):
        problem = builders.tabular_problem(mdp, builders.as_log(mdp.rollout(20, 10, rng)))
        members = tuple(
            builders.table_function(row.reshape(3, 2), problem.layout, builders.table_kernel()) for row in np.eye(6)
        )
        gauge = FiniteClass.planned(200, probability=0.1, members=6, mean_square=0.7)
        ball = b.Ball(builders.table_kernel(), radius)
        ratio = mdp.density_ratio(mdp.log_distribution(10)).ravel()
        lower, upper = finite_class_bound(problem.whole(), ball, members, gauge, ratio, probability=0.1)
        assert lower.bound <= mdp.value <= upper.bound
        assert upper.bound - lower.bound < 8.0
