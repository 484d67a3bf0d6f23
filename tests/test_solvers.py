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
from bondic.core.kernels.normal_form import Layout
from bondic.search import spectral
from bondic.search.basis import make_basis
from bondic.search.model import SearchModel, build_model
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


def test_the_random_problems_reach_every_case():
    """The comparison would be empty if, say, w = 0 always won."""
    seen = {}
    for seed in range(80):
        regime, model, radius, kappa = random_case(seed)
        spectrum = spectral.Spectrum.of(model)
        found = spectral.propose(spectrum, sign=1.0, radius=radius, kappa=kappa)
        t = np.linalg.norm(model.start + model.balance @ found.weights) / np.linalg.norm(model.start)
        kind = "balanced" if found.status == "optimal" and t < 1e-6 else found.status
        seen.setdefault(kind, set()).add(regime)
        if found.status == "optimal" and spectrum.rest > 1e-3 * np.linalg.norm(model.gradient):
            seen.setdefault("part of g outside", set()).add(regime)
    assert len(seen["optimal"]) >= 5
    assert len(seen["part of g outside"]) >= 3
    assert len(seen["zero is optimal"]) >= 2
    assert seen["unbounded: Q is rejected"] == {"rejected"}
    assert "balanced" in seen["balanced"]
    assert "stalled" not in seen


# ------------------------------------------------------------------------------------------ one decomposition


def shared_cases(rng):
    """One log, three initial distributions."""
    log = builders.noise_log(rng, 60)
    starts = [b.InitialStates.exact(rng.standard_normal((k, 2))) for k in (1, 2, 5)]
    policy = builders.softmax_policy()
    problems = [b.make_problem(log, policy, start, gamma=0.9, reward_range=(-1, 1)) for start in starts]
    points = np.concatenate([everything(problem) for problem in problems])
    w_kernel, q_kernel = kernels(False, features=True, rng=rng)
    weights = make_basis(w_kernel, problems[0].layout, problems[0].whole().logged, rank=40)
    values = make_basis(q_kernel, problems[0].layout, points, rank=40)
    return [build_model(p, weights, values, None) for p in problems]


def test_one_decomposition_serves_all(rng):
    """Signs, noise levels, radii and initial distributions: the same optimum as from a decomposition of its own."""
    models = shared_cases(rng)
    shared = spectral.Spectrum.of(models[0])
    size = float(np.linalg.norm(models[0].gradient))
    objectives = []
    for model in models:
        here = shared.starting_from(model.start)
        for sign in (1.0, -1.0):
            for radius in (3.0, 50.0):
                for kappa in (0.2 * size, 0.6 * size):
                    own = spectral.propose(spectral.Spectrum.of(model), sign=sign, radius=radius, kappa=kappa)
                    found = spectral.propose(here, sign=sign, radius=radius, kappa=kappa)
                    assert found.status == own.status
                    if found.status.startswith("unbounded"):
                        continue
                    assert found.objective == pytest.approx(own.objective, rel=1e-10)
                    np.testing.assert_allclose(
                        found.weights, own.weights, rtol=0, atol=1e-6 * (1 + np.abs(own.weights).max())
                    )
                    objectives.append(found.objective)
    assert len(set(np.round(objectives, 6))) > 10


# --------------------------------------------------------------------------------------------- corner problems


def raw_model(balance, gradient, start):
    """Matrices without a log behind them."""
    basis = make_basis(Constant(1.0), Layout(1, False, 0, 1), np.zeros((1, 1)), rank=1)
    arrays = [np.asarray(x, dtype=float) for x in (start, balance, gradient)]
    return SearchModel(basis, basis, *arrays, 0.0, 0.0)


def test_nothing_to_balance_with():
    """A = 0: w only adds noise (0 is optimal) unless the rewards alone contradict every q."""
    spectrum = spectral.Spectrum.of(raw_model(np.zeros((3, 2)), [0.3, 0.4], [1.0, 0.0, 0.0]))
    assert spectral.propose(spectrum, sign=1.0, radius=2.0, kappa=0.6).objective == 2.0
    rejected = spectral.propose(spectrum, sign=1.0, radius=2.0, kappa=0.4)
    assert rejected.status.startswith("unbounded")
    assert spectral.minimal_radius(spectrum, 0.4) == math.inf
    assert spectral.minimal_radius(spectrum, 0.5) == 0.0


def test_nothing_to_estimate():
    """psi_0 = 0 and r = 0: the value is known, w = 0 says so, unless no q is feasible."""
    model = raw_model(np.eye(2), [0.3, 0.4], [0.0, 0.0])
    spectrum = spectral.Spectrum.of(model)
    assert spectral.propose(spectrum, sign=1.0, radius=1.0, kappa=0.1).objective == 0.0
    assert spectral.propose(spectrum, sign=1.0, radius=0.1, kappa=0.1).status.startswith("unbounded")
    start = spectral.Spectrum.of(raw_model(np.eye(2), [0.3, 0.4], [1.0, 1.0]))
    assert spectral.propose(start, sign=1.0, radius=0.0, kappa=0.6).objective == 0.0


def test_one_dimension_by_hand():
    """min_w g w + r |p - s w| + kappa |w| is piecewise linear: it is best at w = p / s or at w = 0."""
    for g, r, p, s, kappa in [(0.1, 1.0, 2.0, 0.5, 0.2), (-0.3, 1.0, 2.0, 0.5, 0.1), (0.4, 2.0, -1.0, 0.5, 0.7)]:
        spectrum = spectral.Spectrum.of(raw_model([[-s]], [g], [p]))
        found = spectral.propose(spectrum, sign=1.0, radius=r, kappa=kappa)
        corners = {0.0: r * abs(p), p / s: g * p / s + kappa * abs(p / s)}
        assert found.objective == pytest.approx(min(corners.values()), rel=1e-9)
        assert found.weights[0] == pytest.approx(min(corners, key=corners.get), abs=1e-9)


def test_no_noise_at_all():
    """kappa = 0: q is pinned where the log reaches; only psi_0's unreachable part is open."""
    model = raw_model([[0.5, 0.0], [0.0, 0.2], [0.0, 0.0]], [-0.5, -0.1], [1.0, 1.0, 1.0])
    found = spectral.propose(spectral.Spectrum.of(model), sign=1.0, radius=2.0, kappa=0.0)
    # q = theta has 0.5 theta_1 = 0.5 and 0.2 theta_2 = 0.1, so theta = (1, 0.5, +-sqrt(4 - 1.25))
    assert found.objective == pytest.approx(1.5 + math.sqrt(2.75), rel=1e-6)
    assert found.primal == pytest.approx(found.objective, rel=1e-6)
    assert found.primal <= found.objective


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


@pytest.mark.parametrize(("w_name", "q_name"), [("waves", "gaussian"), ("point", "point")])
def test_few_landmarks_project(w_name, q_name, rng):
    """With few landmarks |psi_0 + A w| is the norm of the projection of mu_omega: never more than |mu_omega|."""
    problem = problem_for(w_name, rng)
    (w_kernel, _), (q_kernel, dense) = KERNELS[w_name], KERNELS[q_name]
    weights = make_basis(w_kernel, problem.layout, problem.whole().logged, rank=10)
    values = make_basis(q_kernel, problem.layout, everything(problem), rank=6)
    model = build_model(problem, weights, values, None)
    assert 0 < model.hidden < 1
    lengths = []
    for w in rng.standard_normal((4, weights.dimension)):
        omega, _ = weights_at_rows(problem.whole(), model.function(w))
        points, slots, c = builders.measure_of(problem, omega)
        square = 0.0
        for part in values.parts:  # the projection, term by term
            embedded = part.term.embedding[slots]
            cross = part.term.block(part.landmarks, points) @ (c[:, None] * embedded)
            square += float(
                np.einsum("ip,ip->", cross, np.linalg.solve(part.term.block(part.landmarks, part.landmarks), cross))
            )
        length = np.linalg.norm(model.start + model.balance @ w) ** 2
        assert length == pytest.approx(square, rel=1e-7)
        lengths.append(length / (c @ dense(points, slots, points, slots) @ c))
    assert max(lengths) <= 1 + 1e-9
    assert min(lengths) < 0.99


def test_blocks_of_rows_add_up(rng, monkeypatch):
    """Accumulating block by block gives the same matrices, with several next draws per row."""
    problem = builders.noise_problem(rng, 40, continuous=True)
    w_kernel, q_kernel = kernels(True, features=True, rng=rng)
    whole = model_of(problem, w_kernel, q_kernel, rank=20)
    shares = []
    monkeypatch.setattr("bondic.search.model._BLOCK", 7)
    weights, values = whole.weights, whole.values
    parts = build_model(problem, weights, values, None, progress=shares.append)
    for name in ("balance", "gradient", "start"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=0, atol=1e-12)
    assert shares == [min(40, 7 * (k + 1)) / 40 for k in range(6)]
