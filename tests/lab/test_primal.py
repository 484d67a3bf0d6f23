"""The primal bound, weak and strong duality, and the bound of a finite class of instruments."""

import math
from dataclasses import replace

import numpy as np
import pytest

import bondic as b
import bondic_lab
import builders
from bondic.core.dual.bound import dual_bound
from bondic.core.functions import KernelFunction
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.search import spectral
from bondic_lab.bounds.primal import primal_point
from bondic_lab.noise.plug_in import PlugIn
from bondic_lab.search.conic import solve_primal

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
