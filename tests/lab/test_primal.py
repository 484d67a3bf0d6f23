"""The primal bound, weak and strong duality, and the bound of a finite class of instruments."""

import math
from dataclasses import replace

import numpy as np
import pytest

import bondic as b
import bondic_lab
import builders
from bondic.core.dual.bound import dual_bound
from bondic.core.errors import InvalidInput, MissingExtra
from bondic.core.functions import KernelFunction
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.search import spectral
from bondic_lab.bounds.primal import primal_point
from bondic_lab.noise.plug_in import PlugIn
from bondic_lab.search import conic
from bondic_lab.search.conic import ConicSearch, solve_primal

EQUAL = 1e-6
"""Primal against dual, relative to r |mu_0|."""

SIGNS = {"upper": 1.0, "lower": -1.0}


def make_setting(rng, *, continuous=False, features=False, radius=4.0, share=0.5, away=0.0):
    """A log of 25 rows whose noise level is `share` of the loss of q = 0; exact means over actions."""
    problem = builders.noise_problem(rng, 25, continuous=continuous, away=away, spread=0.0)
    value = b.Gaussian(1.2, on="point") if continuous else b.Gaussian(1.2) * Dirac()
    weight = b.Gaussian(0.9, on="point") if continuous else b.Gaussian(0.9) * Dirac()
    if features:
        weight = 0.5 * Constant(1.0) + 0.5 * (RandomFeatures.gaussian(5, 2, 1.0, seed=1) * Dirac())
    ball = b.Ball(value + Constant(1.0), radius)
    setting = builders.setting_of(problem, ball, weight, PlugIn(1.0))
    loss = primal_point(setting, None).loss.mid
    wanted = (share * loss) ** 2 * len(problem) / (2 * math.log(20))
    return replace(setting, gauge=PlugIn(wanted))


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
    kernel = b.Gaussian(1.2) * Dirac() + Constant(1.0)
    center = KernelFunction(kernel, problem.layout, problem.whole().logged[:2], rng.standard_normal((2, 3)))
    shift = KernelFunction(kernel, problem.layout, problem.whole().logged[5:8], rng.standard_normal((3, 3)))
    weight = b.Gaussian(0.9) * Dirac()
    setting = builders.setting_of(problem, b.Ball(kernel, 4.0, center), weight, PlugIn(1.0))
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
        ball = b.Ball(ball.kernel, 5.0, KernelFunction(ball.kernel, problem.layout, some, rng.standard_normal((4, 3))))
    method = b.Dual(instruments=setting.instruments, ball=ball, gauge=setting.gauge, side=side)
    dual, primal = (b.estimate_interval(problem, method=m) for m in (method, bondic_lab.Primal(method)))
    scale = trivial_width(setting)
    assert primal.method == "primal"
    assert primal.status is dual.status is b.Status.INTERVAL
    assert (primal.low, primal.high) == pytest.approx((dual.low, dual.high), abs=EQUAL * scale)
    ends = {"both": (0, 1), "lower": (0,), "upper": (1,)}[side]
    for k in (0, 1):
        assert (primal.gap[k] <= EQUAL * scale) if k in ends else math.isnan(primal.gap[k])


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
    monkeypatch.setattr("bondic_lab.methods.primal._MOST_ROWS", 20)
    setting = make_setting(rng)
    with pytest.raises(InvalidInput, match=r"25 rows are too many .* Dual\(\)"):
        b.estimate_interval(setting.problem, method=bondic_lab.Primal())


def test_without_the_conic_library(rng, monkeypatch):
    monkeypatch.setattr(conic, "clarabel", None)
    setting = make_setting(rng)
    with pytest.raises(MissingExtra, match=r"pip install 'bondic\[conic\]'"):
        b.estimate_interval(
            setting.problem, method=bondic_lab.Primal(b.Dual(instruments=setting.instruments, ball=setting.ball))
        )
