"""Neural search: its sums agree with the trusted core, its proposals are valid, reproducible and close to the optimum."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import numpy as np
import pytest

import bondic
import bondic as b
from bondic.core.balls import Instruments
from bondic.core.dual.bound import Setting, dual_bound
from bondic.core.functions import FeatureFunction, KernelFunction
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import ActionEmbedding, Constant, Dirac
from bondic.engines.sums import STANDARD
from bondic.errors import MissingExtra
from bondic.search import spectral
from bondic.tuning.defaults import Advanced
from bondic_lab.baselines.fqe import FittedQ
from bondic_lab.baselines.neural_fqe import NeuralFittedQ
from bondic_lab.noise.plug_in import PlugIn
from bondic_lab.search import row_batches
from bondic_lab.search.neural import NeuralSearch
from bondic_lab.search.row_batches import Centers, RowSums
from bondic_lab.worlds.synthetic import SyntheticMDP
from builders import as_log, exact_problem, noise_problem, search_model, synthetic_kernel, synthetic_problem

GAUSSIAN = 0.5 * Constant(1.0) + 0.5 * b.Gaussian(0.5) * Dirac()
FEATURES = 0.5 * Constant(1.0) + 0.5 * RandomFeatures.gaussian(32, 1, 0.5, seed=0) * Dirac()


@cache
def synthetic(rows=120, gamma=0.8, **more):
    """(MDP, problem) with known q*; `rows` in episodes of 10."""
    mdp = SyntheticMDP.default(gamma, seed=1, **more)
    return mdp, synthetic_problem(mdp, mdp.rollout(rows // 10, 10, np.random.default_rng(4)))


def setting_of(problem, value_kernel, weight_kernel, *, radius=8.0, variance=1e-2, misspecification=0.0):
    """A setting with a small eps, so that omega = 0 is far from optimal."""
    start = None if problem.answers.exact else 0.02
    ball = b.Ball(value_kernel, radius, misspecification=misspecification)
    return Setting(problem, ball, Instruments(weight_kernel), PlugIn(variance), 0.1, start, 2, STANDARD)


def synthetic_setting(weight_kernel=GAUSSIAN, rows=120, **more):
    mdp, problem = synthetic(rows)
    return setting_of(problem, synthetic_kernel(mdp), weight_kernel, radius=3 * mdp.q_norm, **more)


@cache
def synthetic_model(weight_kernel=GAUSSIAN, rows=120):
    """It depends on neither eps nor the radius."""
    return search_model(synthetic_setting(weight_kernel, rows))


def noise_setting(kind, n=40, **more):
    """Rows without a law, terminal ones among them: 2-d states, 3 actions or 1-d actions with two draws each."""
    continuous = kind.startswith("continuous")
    problem = noise_problem(np.random.default_rng(7), n, continuous=continuous)
    if continuous:
        value, local = b.Gaussian(1.0, on="point") + Constant(1.0), b.Laplace(1.5, on="point")
        features = RandomFeatures.gaussian(16, 3, 1.0, seed=1, on="point")
    else:
        mixed = ActionEmbedding(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]))
        value, local = b.Matern(1.2, 1.5) * mixed + Constant(0.5), b.Gaussian(1.0) * mixed
        features = RandomFeatures.gaussian(16, 2, 1.0, seed=1) * Dirac()
    kernel = features if kind.endswith("features") else local
    return setting_of(problem, value, 0.3 * Constant(1.0) + 0.7 * kernel, **more)


KINDS = ["discrete", "discrete features", "continuous", "continuous features"]


def sums_of(batch, v):
    """(g.omega, <mu_0, mu_omega - mu_0>, |mu_omega - mu_0|^2, mean |omega| (1 + gamma c)) as the batch sees them."""
    omega = batch.features @ v
    b_rows = omega.size
    return np.array(
        [
            -batch.residual @ omega / b_rows,
            batch.start @ omega / b_rows,
            omega @ batch.pairs @ omega,
            batch.factors @ np.abs(omega) / b_rows,
        ]
    )


def coefficients(centers, alpha):
    return centers.table.T @ alpha if centers.explicit else alpha


# ------------------------------------------------------------------------------------------------ sums over rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("held", [40, 9], ids=["all rows held", "few rows held"])
def test_sums_over_all_rows_are_those_of_the_trusted_core(kind, held, rng, monkeypatch):
    monkeypatch.setattr(row_batches, "_TILE", 16)  # several tiles, the last one incomplete
    setting = noise_setting(kind, misspecification=0.1)
    centers = Centers.of(search_model(setting), setting, np.arange(1, 40, 2))
    data = RowSums(setting, centers, np.arange(held))
    alpha = rng.normal(size=20)
    function = centers.function(alpha)
    assert isinstance(function, FeatureFunction if "features" in kind else KernelFunction)
    (terms,) = dual_bound(setting, function, ("upper",))
    linear, move, square, mass = sums_of(data.batch(np.arange(40)), coefficients(centers, alpha))
    assert linear == pytest.approx(terms.value.mid, rel=1e-10)
    assert data.start_square + 2 * move + square == pytest.approx(terms["|mu|"].mid ** 2, rel=1e-10)
    assert 0.1 * (1 + mass) == pytest.approx(terms["misspecification"].mid, rel=1e-10)
    assert centers.gram(alpha[:, None])[0, 0] == pytest.approx(terms["|omega|"].mid ** 2, rel=1e-10)


# ------------------------------------------------------------------------------------------------------ the search


def closed(setting, functions, model):
    """Share of the way from omega = 0 to the optimum, per end; the optimum is known to 1e-6 by its gap."""
    shares = {}
    decomposition = spectral.Spectrum.of(model)
    for end, sign in (("upper", 1.0), ("lower", -1.0)):
        found = spectral.propose(decomposition, sign=sign, radius=setting.ball.radius, kappa=setting.epsilon().upper)
        zero, *others = (dual_bound(setting, omega, (end,))[0] for omega in (None, *functions))
        best = min(others, key=lambda terms: sign * terms.bound)
        side_terms = best["initial distribution"].mid + best["misspecification"].mid
        attained = sign * (best.bound - model.offset) - side_terms
        at_zero = sign * (zero.bound - model.offset) - zero["initial distribution"].mid - zero["misspecification"].mid
        assert found.status == "optimal"
        assert found.gap <= 1e-6 * at_zero
        assert attained >= found.primal - 1e-9 * at_zero, "better than the optimum: some bound is wrong"
        shares[end] = (at_zero - attained) / (at_zero - found.primal)
    return shares


@pytest.mark.torch
@pytest.mark.parametrize("kernel", [GAUSSIAN, FEATURES], ids=["kernel", "features"])
def test_it_comes_close_to_the_optimum(kernel):
    setting, model = synthetic_setting(kernel), synthetic_model(kernel)
    functions = NeuralSearch(steps=12)(model, setting)
    assert len(functions) == 2
    assert all(isinstance(f, FeatureFunction if kernel is FEATURES else KernelFunction) for f in functions)
    shares = closed(setting, functions, model)
    assert min(shares.values()) >= 0.999


@pytest.mark.torch
def test_a_certificate_that_uses_it_verifies():
    """Three landmarks leave the spectral search blind, so the neural weights win; no torch is needed to verify."""
    mdp, problem = synthetic()
    rollout = mdp.rollout(12, 10, np.random.default_rng(4))
    setting = synthetic_setting()
    plain = b.Dual(instruments=setting.instruments, ball=setting.ball, gauge=setting.gauge, advanced=Advanced(rank=3))
    method = b.Dual(
        instruments=setting.instruments, ball=setting.ball, gauge=setting.gauge, advanced=Advanced(rank=3),
        solver=NeuralSearch(steps=200, learning_rate=0.02, refit=False),
    )  # fmt: skip
    without, result = (b.estimate_interval(problem, method=m) for m in (plain, method))
    assert without.low < result.low < result.high < without.high
    assert all(isinstance(omega, KernelFunction) for omega in result.proof.omegas.values())
    checked = b.verify(result.certificate, as_log(rollout), b.CallablePolicy(mdp.target_probs))
    assert checked.low == pytest.approx(result.low, rel=1e-9)
    assert checked.high == pytest.approx(result.high, rel=1e-9)
    assert checked.low <= mdp.value <= checked.high


# -------------------------------------------------------------------------------------------------------- refusals


def test_without_torch_the_way_out_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"The neural search needs .*`torch`.*bondic\[torch\]"):
        NeuralSearch()


# --- Neural fitted Q evaluation: exact values of tables, bootstrap weights, seeds, limits of what it accepts.

SMALL = {"hidden": (16,), "replicates": 4, "updates": 12, "steps": 5, "batch": 64}


def interval(problem, alpha=0.1, **options):
    return bondic.estimate_interval(problem, alpha=alpha, method=NeuralFittedQ(**{**SMALL, **options}))


# ------------------------------------------------------------------------------------------------- without torch


def test_without_torch_the_extra_is_named():
    """In a fresh interpreter in which torch cannot be imported: the registry loads, the method says what is missing."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import bondic\n"
        "from bondic.errors import MissingExtra\n"
        "try:\n    import bondic_lab; bondic_lab.make_baseline('dm-neural')\n"
        "except MissingExtra as problem:\n    print(problem)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "bondic[torch]" in told
    assert "Neural fitted Q evaluation" in told
    assert issubclass(MissingExtra, ImportError)


# ---------------------------------------------------------------------------------------------------- with torch


@pytest.mark.torch
def test_the_estimate_is_the_exact_value_of_a_log_that_is_its_own_expectation():
    """Every empirical mean is an expectation, so that the exact fixed point of the regressions is q*."""
    mdp, problem = exact_problem()
    result = interval(problem, unit="rows", hidden=(16,), updates=25, steps=20, replicates=8, batch=256)
    assert result.estimate == pytest.approx(mdp.value, abs=2e-3)  # of a value range of width 6.7
    table = bondic.estimate_interval(problem, method=FittedQ(unit="rows"))
    assert result.length == pytest.approx(table.length, rel=0.6)  # a standard deviation of 8 numbers
    assert result.low < mdp.value < result.high
