"""The two-cone search against a general conic solver, on all rows and on some rows of a long log."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import bondic as b
import builders
import naive
from bondic.core.balls import Instruments
from bondic.core.columns import Cloud, RowRange
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.search import search, spectral
from bondic.search.basis import make_basis
from bondic.search.model import build_model
from bondic.tuning.defaults import Advanced
from bondic_lab.search.conic import solve_dual
from bondic_lab.worlds.synthetic import SyntheticMDP
from builders import as_log, everything

AGREEMENT = 1e-6
"""Spectral against conic optimum, relative to max( r |psi_0|, |optimum| )."""
CONIC_ACCURACY = 1e-8
"""How far below the true optimum Clarabel's reported one was seen to lie (tolerance 1e-10), same scale, with room."""

REGIMES = ("ordinary", "zero", "balanced", "rejected", "tiny", "huge", "degenerate", "wide")


# ------------------------------------------------------------------------------------------- 80 random problems


def kernels(continuous, *, features, rng):
    """(W, Q): features or landmarks for W, landmarks for Q."""
    value = b.Gaussian(1.5, on="point") if continuous else b.Gaussian(1.2) * Dirac()
    value = value + Constant(1.0)
    if not features:
        local = b.Gaussian(0.8, on="point") if continuous else b.Gaussian(0.8) * Dirac()
        return 0.7 * local + Constant(0.3), value
    seed, dimension, on = int(rng.integers(1000)), 3 if continuous else 2, "point" if continuous else "state"
    waves = RandomFeatures.gaussian(6, dimension, 0.8, seed=seed, on=on)
    return 0.5 * Constant(1.0) + 0.5 * (waves if continuous else waves * Dirac()), value


def model_of(problem, w_kernel, q_kernel, *, rank=25, q_rank=None):
    weights = make_basis(w_kernel, problem.layout, problem.whole().logged, rank=rank)
    values = make_basis(q_kernel, problem.layout, everything(problem), rank=q_rank or rank)
    return build_model(problem, weights, values, None)


def random_model(rng, regime):
    continuous, features = rng.random() < 0.4, rng.random() < 0.5
    n = int(rng.choice([1, 3, 10, 40, 120, 300]))
    problem = builders.noise_problem(rng, n, continuous=continuous)
    if regime == "degenerate":  # at most three different rows: A has rank three at most
        few = problem.select(0, min(3, n))
        pick = rng.integers(len(few), size=n)
        keep = [np.flatnonzero(few.whole().next.rows == i) for i in pick]
        after = np.concatenate(keep).astype(int)
        owners = np.repeat(np.arange(n), [len(k) for k in keep])
        rows = few.whole()
        cloud = Cloud(rows.next.points[after], rows.next.weights[after], owners)
        columns = {name: getattr(rows, name)[pick] for name in ("logged", "slots", "rewards", "continues")}
        stretch = RowRange(0, n)
        rows = replace(rows, next=cloud, log_rows=np.arange(n), rows=stretch, **columns)
        problem = replace(few, kept=(rows,), rows=stretch, count=n)
    # with two landmarks for Q some directions of W cost no balance at all: a part of g lies outside the rows of A
    return model_of(problem, *kernels(continuous, features=features, rng=rng), q_rank=int(rng.choice([2, 25])))


@cache
def random_case(seed):
    """(regime, model, radius, kappa)."""
    rng = np.random.default_rng(seed)
    regime = REGIMES[seed % len(REGIMES)]
    model = random_model(rng, regime)
    size, radius = float(np.linalg.norm(model.gradient)), 10.0 ** rng.uniform(-1, 1)
    kappa = size * 10.0 ** rng.uniform(-1.5, 0.3)
    if regime == "balanced":  # psi_0 in the range of A, balance expensive: the best |psi_0 + A w| is (almost) 0
        model = replace(model, start=-model.balance @ rng.standard_normal(model.balance.shape[1]))
        radius, kappa = 1e3 * radius, size * 10.0 ** rng.uniform(-1.5, -0.5)
    if regime == "zero":
        pull = np.linalg.norm(model.balance.T @ model.start) / np.linalg.norm(model.start)
        kappa = 1.01 * (size + radius * pull)
    spectrum = spectral.Spectrum.of(model)
    least = spectral.minimal_radius(spectrum, kappa)
    if regime == "rejected":
        kappa = 0.3 * size
        least = spectral.minimal_radius(spectrum, kappa)
        radius = 0.7 * least if math.isfinite(least) else radius
    else:
        if not math.isfinite(least):
            kappa = spectrum.rest + 0.5 * (size - spectrum.rest)
            least = spectral.minimal_radius(spectrum, kappa)
        radius = max(radius, 1.3 * least)
    if regime == "wide":
        radius *= 1e2
    scale = {"tiny": 1e-12, "huge": 1e12}.get(regime, 1.0)
    return regime, replace(model, gradient=scale * model.gradient), scale * radius, scale * kappa


def value_at(model, sign, radius, kappa, w):
    """The objective of (11), written out."""
    t, size = np.linalg.norm(model.start + model.balance @ w), np.linalg.norm(w)
    return float(sign * model.gradient @ w + radius * t + kappa * size)


def conic_optimum(model, sign, radius, kappa):
    """(w, optimum) of the conic solver, in units that make |psi_0|, |A| and r |psi_0| equal to 1.

    Without them its accuracy suffers long before that of the spectral method does."""
    length, slope = float(np.linalg.norm(model.start)), float(np.linalg.norm(model.balance, 2))
    unit, scale = length / slope, radius * length
    same = replace(
        model,
        gradient=model.gradient * unit / scale,
        balance=model.balance / slope,
        start=model.start / length,
    )
    found = solve_dual(same, sign=sign, radius=1.0, kappa=kappa * unit / scale)
    return found.point * unit, found.value * scale


@pytest.mark.parametrize("chunk", range(4))
def test_spectral_agrees_with_conic(chunk):
    """80 random problems, both signs: same verdict, same optimum, a true lower bound beside it."""
    for seed in range(20 * chunk, 20 * chunk + 20):
        regime, model, radius, kappa = random_case(seed)
        spectrum = spectral.Spectrum.of(model)
        rng = np.random.default_rng(seed)
        for sign in (1.0, -1.0):
            where = f"seed {seed}, {regime}, sign {sign:+.0f}"
            found = spectral.propose(spectrum, sign=sign, radius=radius, kappa=kappa)
            point, optimum = conic_optimum(model, sign, radius, kappa)
            if regime == "rejected":
                assert found.status == "unbounded: Q is rejected", where
                assert optimum == -math.inf, where
                assert not found.weights.any(), where
                continue
            scale = max(radius * float(np.linalg.norm(model.start)), abs(optimum))
            assert found.status in ("optimal", "zero is optimal"), where
            assert (found.status == "zero is optimal") == (not found.weights.any()), where
            if regime == "zero":
                assert found.status == "zero is optimal", where
            assert found.objective >= optimum - CONIC_ACCURACY * scale, where
            assert found.objective <= optimum + AGREEMENT * scale, where
            assert found.objective == pytest.approx(
                value_at(model, sign, radius, kappa, found.weights), abs=1e-9 * scale
            ), where
            assert -1e-9 * scale <= found.gap <= AGREEMENT * scale, where
            others = [point, np.zeros_like(point), *rng.standard_normal((3, point.size)) * np.abs(point).max()]
            for w in others:
                assert found.primal <= value_at(model, sign, radius, kappa, w) + 1e-9 * scale, where


# ----------------------------------------------------------------------------------- smallest loss and radius


@pytest.mark.parametrize("seed", range(6))
def test_ridge_path_agrees_with_conic(seed):
    """r_min and the smallest loss over Q against cone programs; their witnesses attain them."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, "ordinary")
    g, a = model.gradient, model.balance
    spectrum, size = spectral.Spectrum.of(model), float(np.linalg.norm(model.gradient))
    for share in (0.2, 0.7, 1.5):
        kappa = share * size
        mine, theirs = spectral.minimal_radius(spectrum, kappa), naive.smallest_radius(g, a, kappa)
        assert mine == pytest.approx(theirs, rel=1e-6, abs=1e-9)
        if 0 < mine < math.inf:
            w = spectral.witness(spectrum, kappa=kappa)
            assert (abs(g @ w) - kappa * np.linalg.norm(w)) / np.linalg.norm(a @ w) == pytest.approx(mine, rel=1e-6)
    for radius in (0.01, 0.3, 3.0):
        floor, theta = spectral.loss_floor(spectrum, radius)
        least, _ = naive.smallest_loss(g, a, radius)
        assert floor == pytest.approx(least, rel=1e-6, abs=1e-8 * size)
        assert np.linalg.norm(theta) <= radius * (1 + 1e-9)
        w = spectral.witness(spectrum, radius=radius)
        if floor > 1e-6 * size:
            assert (abs(g @ w) - radius * np.linalg.norm(a @ w)) / np.linalg.norm(w) == pytest.approx(floor, rel=1e-6)


# --- Searches that look at some rows of a long log: which rows, how many, and what that costs. Layers are made small here.

MDP = SyntheticMDP.default(0.8, seed=2, dimension=1)
KERNEL = b.Gaussian(1.0, on="state") * Dirac() + Constant(1.0)


@pytest.fixture
def short(monkeypatch):
    """A log of eight thousand rows is long."""
    monkeypatch.setattr("bondic.rows.rows.LONGEST_BLOCK", 512)
    monkeypatch.setattr(search, "MAX_ROWS", 2000)
    monkeypatch.setattr(search, "_READ", 6000)


@pytest.fixture(scope="module")
def data():
    return as_log(MDP.rollout(80, 100, np.random.default_rng(0)))


def question(log, policy=None):
    start = b.InitialStates.exact(MDP.initial_states, MDP.initial_probs)
    policy = b.CallablePolicy(MDP.target_probs) if policy is None else policy
    return b.make_problem(log, policy, start, gamma=MDP.gamma, reward_range=MDP.reward_range)


def method(**more):
    return b.Dual(instruments=Instruments(KERNEL), ball=b.Ball(KERNEL, 3.0), advanced=Advanced(rank=40), **more)


@pytest.mark.parametrize("gauge", ["half", "self-normalized"])
def test_a_long_log_costs_little_length(data, gauge, request):
    whole = b.estimate_interval(question(data), method=method(gauge=gauge))
    request.getfixturevalue("short")
    some = b.estimate_interval(question(data), method=method(gauge=gauge))
    assert "of 8000 rows" in some.choices["search upper"]
    assert some.rows == whole.rows  # certified on every row
    assert some.high - some.low <= 1.05 * (whole.high - whole.low)
    assert some.gap == (math.inf, math.inf)  # what no ω can beat on some rows says nothing about all of them
    checked = b.verify(some.certificate, data)
    assert (checked.low, checked.high) == (some.low, some.high)
