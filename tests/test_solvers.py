"""Coordinates, matrices and the two-cone search against dense algebra and a general conic solver."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import bondic as b
import builders
import naive
from bondic.core.columns import Cloud, RowRange
from bondic.core.functions import ExpansionFunction, FeatureFunction
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import ActionEmbedding, Constant, Dirac, TimeMask
from bondic.search import spectral
from bondic.search.basis import make_basis
from bondic.search.model import build_model
from bondic_lab.identity.formulas import function_values
from bondic_lab.search.conic import solve_dual
from builders import everything, weights_at_rows

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


# ------------------------------------------------------------------------------------------ one decomposition


# --------------------------------------------------------------------------------------------- corner problems


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


# ------------------------------------------------------------------------------------- coordinates of functions


ACTIONS = np.array([[1.0, 0.0], [0.6, 0.8], [-0.5, 0.3]])
WAVES = np.random.default_rng(5).standard_normal((4, 2))


def waves(x, y):
    return np.mean(np.cos((x[:, None, :] - y[None, :, :]) @ WAVES.T), axis=2)


def dense_gaussian(x, i, y, j):
    """Gaussian on the state, Dirac on the action, plus a constant."""
    return builders.gaussian_matrix(x, y, 1.2) * (i[:, None] == j) + 0.4


def dense_embedded(x, i, y, j):
    """Gaussian times similarities of actions, plus a Gaussian that does not look at actions."""
    return builders.gaussian_matrix(x, y, 1.2) * (ACTIONS @ ACTIONS.T)[i][:, j] + 0.5 * builders.gaussian_matrix(
        x, y, 0.6
    )


def dense_waves(x, i, y, j):
    return 0.5 + 0.5 * waves(x, y) * (i[:, None] == j)


def dense_wave_product(x, i, y, j):
    """Product of two feature kernels, times an action embedding."""
    return 0.3 * waves(x, y) ** 2 * (ACTIONS @ ACTIONS.T)[i][:, j]


def dense_point(x, i, y, j):
    """Continuous actions are columns of the point."""
    del i, j
    return builders.gaussian_matrix(x, y, np.array([1.0, 1.5, 0.8])) + 1.0


def dense_time(x, i, y, j):
    """Gaussian on the observation, Dirac on time and action, zero from time 4 on."""
    alive = np.outer(x[:, 2] < 4, y[:, 2] < 4)
    same = (x[:, 2][:, None] == y[:, 2]) & (i[:, None] == j)
    return builders.gaussian_matrix(x[:, :2], y[:, :2], 1.2) * same * alive


ROUND = RandomFeatures(WAVES, on="state")
KERNELS = {
    "gaussian": (b.Gaussian(1.2) * Dirac() + Constant(0.4), dense_gaussian),
    "embedded": (b.Gaussian(1.2) * ActionEmbedding(ACTIONS) + 0.5 * b.Gaussian(0.6), dense_embedded),
    "waves": (0.5 * Constant(1.0) + 0.5 * (ROUND * Dirac()), dense_waves),
    "wave product": (0.3 * (ROUND * ROUND * ActionEmbedding(ACTIONS)), dense_wave_product),
    "point": (b.Gaussian([1.0, 1.5, 0.8], on="point") + Constant(1.0), dense_point),
    "time": (b.Gaussian(1.2) * Dirac(on="time") * Dirac() * TimeMask(4), dense_time),
}


def problem_for(name, rng, n=25):
    if name == "point":
        return builders.noise_problem(rng, n, continuous=True)
    if name != "time":
        return builders.noise_problem(rng, n)
    log = builders.noise_log(rng, n)
    clocks = {"episode_ids": np.arange(n) // 5, "timesteps": np.arange(n) % 5}
    ends = (np.arange(n) % 5 == 4) & log.terminations  # a termination ends its episode
    log = b.Transitions(log.observations, log.actions, log.rewards, log.next_observations, ends, **clocks)
    initial = b.InitialStates.exact(rng.standard_normal((3, 2)))
    return b.make_problem(
        log, builders.softmax_policy(), initial, gamma=1.0, reward_range=(-1, 1), horizon=4, accept=None
    )


@pytest.mark.parametrize("rank", [8, 500])
@pytest.mark.parametrize("name", KERNELS)
def test_functions_of_coordinates(name, rank, rng):
    """f with coordinates w: values f(x, a) = <f, k((x, a), .)> and norm |w|, against dense kernel algebra."""
    kernel, dense = KERNELS[name]
    problem = problem_for(name, rng)
    basis = make_basis(kernel, problem.layout, everything(problem), rank=rank)
    w = rng.standard_normal(basis.dimension)
    function = basis.function(w)
    assert isinstance(function, FeatureFunction if "wave" in name else ExpansionFunction)
    assert function.norm().mid == pytest.approx(np.linalg.norm(w), rel=1e-6)
    fresh = rng.standard_normal((6, problem.layout.dimension))
    if name == "time":
        fresh[:, 2] = np.arange(6)
    values, error = function.values(fresh)
    assert error < 1e-6
    points, slots, _ = builders.pairs_of(fresh, np.zeros((6, problem.layout.slots)))
    # Each basis function has coordinates e_k and value psi_k(x, a); together psi(x, a) . w
    columns = np.array([basis.function(row).values(fresh)[0].ravel() for row in np.eye(basis.dimension)]).T
    np.testing.assert_allclose(columns @ w, values.ravel(), rtol=0, atol=1e-7 * np.abs(w).sum())
    # psi(x, a) . psi(y, b) is the kernel: exactly with features, at points of the span with landmarks
    inside = everything(problem)[:10] if rank == 500 else basis.parts[0].landmarks
    if "wave" in name:
        inside = fresh
    own = np.array([basis.function(row).values(inside)[0].ravel() for row in np.eye(basis.dimension)]).T
    x, i, _ = builders.pairs_of(inside, np.zeros((len(inside), problem.layout.slots)))
    if rank == 500 or "wave" in name or len(basis.parts) == 1:
        np.testing.assert_allclose(own @ columns.T, dense(x, i, points, slots), rtol=0, atol=1e-5)
        np.testing.assert_allclose(own @ own.T, dense(x, i, x, i), rtol=0, atol=1e-5)


# -------------------------------------------------------------------------------------- matrices of the search


PAIRS = [("waves", "gaussian"), ("embedded", "wave product"), ("point", "point"), ("time", "time")]


@pytest.mark.parametrize(("w_name", "q_name"), PAIRS)
def test_matrices_against_dense_sums(w_name, q_name, rng):
    """For any w: g.w = -(1/n) sum omega_i R_i and |psi_0 + A w| = |mu_omega|, both written out."""
    (w_kernel, _), (q_kernel, dense) = KERNELS[w_name], KERNELS[q_name]
    problem = problem_for(w_name, rng)
    n = len(problem)
    assert (~problem.whole().continues).any()
    if w_name == "time":
        assert problem.dropped == 5
        assert problem.whole().next.points[:, 2].max() == 3  # nothing follows the last step
    weights = make_basis(w_kernel, problem.layout, problem.whole().logged, rank=500)
    values = make_basis(q_kernel, problem.layout, everything(problem), rank=500)
    center = make_basis(q_kernel, problem.layout, problem.whole().logged[:5], rank=3)
    center = center.function(rng.standard_normal(center.dimension))
    at_center = function_values(problem.whole(), center)
    model = build_model(problem, weights, values, center)
    residual = at_center.logged - problem.gamma * at_center.next - problem.whole().rewards
    mean = sum(p * v for p, v in zip(problem.initial_states.weights, at_center.initial, strict=True))
    assert model.offset == pytest.approx(mean, rel=1e-12)
    for w in [np.zeros(weights.dimension), *rng.standard_normal((3, weights.dimension))]:
        omega, _ = weights_at_rows(problem.whole(), model.function(w) if w.any() else None)
        assert model.gradient @ w == pytest.approx(-(omega @ residual) / n, rel=1e-6, abs=1e-9)
        points, slots, c = builders.measure_of(problem, omega)
        square = c @ dense(points, slots, points, slots) @ c
        assert np.linalg.norm(model.start + model.balance @ w) ** 2 == pytest.approx(square, rel=1e-6)
