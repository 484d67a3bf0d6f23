"""Coordinates, matrices and the two-cone search against dense algebra and a general conic solver."""

import math
from dataclasses import replace
from functools import cache

import naive
import numpy as np
import pytest
import worlds

import bondic as b
from bondic.bellman.residual import bellman_residual, function_values
from bondic.bounds.dual import weights_at_rows
from bondic.solvers import spectral
from bondic.solvers.basis import make_basis
from bondic.solvers.conic import solve_dual, solve_primal
from bondic.solvers.model import build_model
from bondic.spaces.functions import ExpansionFunction, FeatureFunction

AGREEMENT = 1e-6
"""Spectral against conic optimum, relative to max( r |psi_0|, |optimum| )."""
CONIC_ACCURACY = 1e-8
"""How far below the true optimum Clarabel's reported one was seen to lie (tolerance 1e-10), same scale, with room."""

REGIMES = ("ordinary", "zero", "balanced", "rejected", "tiny", "huge", "degenerate", "wide")


# ------------------------------------------------------------------------------------------- 200 random problems


def kernels(continuous, *, features, rng):
    """(W, Q): features or landmarks for W, landmarks for Q."""
    value = b.Gaussian(1.5, on="point") if continuous else b.Gaussian(1.2) * b.Dirac()
    value = value + b.Constant(1.0)
    if not features:
        local = b.Gaussian(0.8, on="point") if continuous else b.Gaussian(0.8) * b.Dirac()
        return 0.7 * local + b.Constant(0.3), value
    seed, dimension, on = int(rng.integers(1000)), 3 if continuous else 2, "point" if continuous else "state"
    waves = b.RandomFeatures.gaussian(6, dimension, 0.8, seed=seed, on=on)
    return 0.5 * b.Constant(1.0) + 0.5 * (waves if continuous else waves * b.Dirac()), value


def model_of(problem, w_kernel, q_kernel, *, rank=25):
    everything = np.concatenate([problem.initial.points, problem.logged, problem.next.points])
    weights = make_basis(w_kernel, problem.layout, problem.logged, rank=rank)
    values = make_basis(q_kernel, problem.layout, everything, rank=rank)
    return build_model(problem, weights, values, function_values(problem, None))


def random_model(rng, regime):
    continuous, features = rng.random() < 0.4, rng.random() < 0.5
    n = int(rng.choice([1, 3, 10, 40, 120, 300]))
    problem = worlds.noise_problem(rng, n, continuous=continuous)
    if regime == "degenerate":  # at most three different rows: A has rank three at most
        few = problem.select(0, min(3, n))
        pick = rng.integers(len(few), size=n)
        keep = [np.flatnonzero(few.next.rows == i) for i in pick]
        after = np.concatenate(keep).astype(int)
        owners = np.repeat(np.arange(n), [len(k) for k in keep])
        cloud = replace(few.next, points=few.next.points[after], weights=few.next.weights[after], rows=owners)
        columns = {name: getattr(few, name)[pick] for name in ("logged", "slots", "rewards", "continues")}
        problem = replace(few, next=cloud, **columns)
    return model_of(problem, *kernels(continuous, features=features, rng=rng))


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
    elif not math.isfinite(least):
        kappa = 1.2 * size
    else:
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


@pytest.mark.parametrize("chunk", range(20))
def test_spectral_agrees_with_conic(chunk):
    """200 random problems, both signs: same verdict, same optimum, a true lower bound beside it."""
    for seed in range(10 * chunk, 10 * chunk + 10):
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


def test_the_random_problems_reach_every_case():
    """The comparison would be empty if, say, w = 0 always won."""
    seen = {}
    for seed in range(200):
        regime, model, radius, kappa = random_case(seed)
        spectrum = spectral.Spectrum.of(model)
        found = spectral.propose(spectrum, sign=1.0, radius=radius, kappa=kappa)
        t = np.linalg.norm(model.start + model.balance @ found.weights) / np.linalg.norm(model.start)
        kind = "balanced" if found.status == "optimal" and t < 1e-6 else found.status
        seen.setdefault(kind, set()).add(regime)
    assert len(seen["optimal"]) >= 5
    assert len(seen["zero is optimal"]) >= 2
    assert seen["unbounded: Q is rejected"] == {"rejected"}
    assert "balanced" in seen["balanced"]
    assert "stalled" not in seen
