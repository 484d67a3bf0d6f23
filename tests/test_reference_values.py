"""The reference problems through the library: formulas to 1e-12, optima to 1e-6, rejections alike.

The numbers in `reference/` come from code that shares nothing with this library (see the README there).
"""

import json
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pytest

import bondic
from bondic.core.balls import Instruments
from bondic.core.dual.bound import Setting, dual_bound, evaluate_witness
from bondic.core.dual.noise import Pinelis
from bondic.core.functions import KernelFunction
from bondic.core.identity import bellman_residual, residual_error
from bondic.core.kernels.leaves import Dirac
from bondic.core.terms import Terms
from bondic.engines.sums import STANDARD, EngineSums
from bondic.policies.answers import StoredAnswers
from bondic.policies.protocol import RowProbabilities
from bondic.rows.make import make_rows
from bondic.search import spectral
from bondic.search.basis import make_basis
from bondic.search.model import build_model
from bondic_lab.identity.formulas import discrepancy, doubly_robust_value, function_values, initial_value
from bondic_lab.identity.loss import residual_loss, slot_weights
from bondic_lab.noise.plug_in import PlugIn
from builders import weights_at_rows

FOLDER = Path(__file__).parent / "reference"
NAMES = ["continuous-1", "continuous-2", "discrete-1", "discrete-2"]
FORMULA, OPTIMUM = 1e-12, 1e-6
LEVELS = ["tiny_noise", "small_noise", "paper"]


class Reference:
    """One file as a problem of the library."""

    def __init__(self, name):
        self.data = d = json.loads((FOLDER / f"{name}.json").read_text())
        self.expected = d["expected"]
        self.discrete = d["kind"] == "discrete"
        log = bondic.Transitions(d["states"], np.array(d["actions"]), d["rewards"], d["next_states"], d["terminal"])
        initial = bondic.InitialStates.exact(d["initial_states"])
        if self.discrete:
            policy = RowProbabilities(d["next_probabilities"], d["initial_probabilities"])
            self.problem = bondic.make_problem(log, policy, initial, gamma=d["gamma"], reward_range=d["reward_range"])
            self.kernel_q, self.kernel_w = (bondic.Gaussian(d[h]) * Dirac() for h in ("h_q", "h_w"))
        else:
            following = np.array(d["next_actions"], dtype=float)[~np.array(d["terminal"])]
            first = np.array(d["initial_actions"], dtype=float).reshape(len(d["initial_states"]), 1, -1)
            answers = StoredAnswers(following, first, discrete=False, exact=True)
            statement = Terms(d["gamma"], tuple(d["reward_range"]))
            self.problem = make_rows(log, answers, initial, statement)
            self.kernel_q, self.kernel_w = (bondic.Gaussian(d[h], on="point") for h in ("h_q", "h_w"))

    @cached_property
    def omega(self):
        weights = slot_weights(self.problem.whole(), np.array(self.data["given"]["alpha"]))
        return KernelFunction(self.kernel_w, self.problem.layout, self.problem.whole().logged, weights)

    @cached_property
    def q(self):
        """Expansion on logged, then next, then initial points; one weight per action where actions are discrete."""
        p, theta = self.problem, np.array(self.data["given"]["theta"])
        n, slots, following = len(p), p.layout.slots, p.whole().next.points.shape[0]
        rest = theta[n:].reshape(-1, slots)
        assert rest.shape[0] == following + p.initial.points.shape[0]
        points = np.concatenate([p.whole().logged, p.whole().next.points, p.initial.points])
        return KernelFunction(
            self.kernel_q, p.layout, points, np.concatenate([slot_weights(p.whole(), theta[:n]), rest])
        )

    def setting(self, gauge):
        d = self.data
        ball = bondic.Ball(self.kernel_q, d["radius"])
        return Setting(self.problem, ball, Instruments(self.kernel_w), gauge, d["delta"], None, 2, STANDARD)

    @cached_property
    def model(self):
        p = self.problem
        points = np.concatenate([p.whole().logged, p.whole().next.points, p.initial.points])
        weights, values = (make_basis(k, p.layout, points, rank=500) for k in (self.kernel_w, self.kernel_q))
        return build_model(p, weights, values, None)

    @cached_property
    def spectrum(self):
        return spectral.Spectrum.of(self.model)


references = cache(Reference)


@pytest.fixture(params=NAMES)
def reference(request):
    return references(request.param)


def close(ours, theirs, tolerance=FORMULA):
    return np.all(np.abs(np.asarray(ours) - np.asarray(theirs)) <= tolerance * np.abs(np.asarray(theirs)))


def test_weights_and_their_norm(reference):
    rows, _ = weights_at_rows(reference.problem.whole(), reference.omega)
    assert close(rows, reference.expected["omega"])
    assert close(reference.omega.norm().mid, reference.expected["omega_norm"])


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_discrepancy(reference, engine):
    rows, _ = weights_at_rows(reference.problem.whole(), reference.omega)
    size = discrepancy(reference.problem.whole(), reference.kernel_q, rows, sums=EngineSums.named(engine))
    assert close(size.mid**2, reference.expected["mu_norm_squared"])


def test_residuals(reference):
    """Relative to the values that make up a residual: one of them nearly cancels."""
    values = function_values(reference.problem.whole(), reference.q)
    residual = bellman_residual(reference.problem.whole(), values)
    expected = np.array(reference.expected["residuals"])
    scale = np.abs(values.logged) + np.abs(values.next) + np.abs(reference.problem.whole().rewards)
    assert np.all(np.abs(residual - expected) <= FORMULA * scale)
    assert np.all(np.abs(residual - expected) <= 2 * residual_error(reference.problem.whole(), values) + 1e-15)
    assert close(residual, expected, 1e-12)


def test_loss_and_values(reference):
    values = function_values(reference.problem.whole(), reference.q)
    residual = bellman_residual(reference.problem.whole(), values)
    loss = residual_loss(
        reference.problem.whole(), reference.kernel_w, residual, residual_error(reference.problem.whole(), values)
    )
    assert close(loss.mid, reference.expected["kernel_bellman_loss"])
    assert close(initial_value(reference.problem, values).mid, reference.expected["initial_value_of_q"])
    rows, _ = weights_at_rows(reference.problem.whole(), reference.omega)
    assert close(
        doubly_robust_value(reference.problem.whole(), values, rows).mid, reference.expected["doubly_robust_at_q"]
    )


@pytest.mark.parametrize("constant", ["paper", "range"])
def test_dual_bounds(reference, constant):
    """End points are outside the reference numbers, by rounding only."""
    expected = reference.expected["dual"][constant]
    setting = reference.setting(Pinelis(constant))
    assert close(setting.epsilon().mid, expected["epsilon"])
    lower, upper = dual_bound(setting, reference.omega)
    assert close(lower.bound, expected["lower"])
    assert close(upper.bound, expected["upper"])
    shift = 1e-15 * abs(expected["upper"])  # the reference numbers are rounded to floats themselves
    assert lower.bound <= expected["lower"] + shift
    assert upper.bound >= expected["upper"] - shift


@pytest.mark.parametrize("level", LEVELS)
def test_optima_and_rejections(reference, level):
    """The spectral method at a given epsilon: the best bounds, r_min and whether Q is rejected."""
    optimum = reference.expected["optimal"][level]
    radius, eps = reference.data["radius"], optimum["epsilon"]
    found = spectral.minimal_radius(reference.spectrum, eps)
    assert found == pytest.approx(optimum["r_min"], rel=OPTIMUM, abs=OPTIMUM)
    assert (found > radius) == optimum["rejected"]
    up = spectral.propose(reference.spectrum, sign=1.0, radius=radius, kappa=eps)
    down = spectral.propose(reference.spectrum, sign=-1.0, radius=radius, kappa=eps)
    if optimum["rejected"]:
        assert optimum["upper"] is None
        assert "rejected" in up.status
        assert "rejected" in down.status
        return
    assert up.objective == pytest.approx(optimum["upper"], rel=OPTIMUM)
    assert -down.objective == pytest.approx(optimum["lower"], rel=OPTIMUM)
    assert max(up.gap, down.gap) <= OPTIMUM * (1 + abs(optimum["upper"]))


@pytest.mark.parametrize("level", LEVELS)
def test_proposals_certified(reference, level):
    """The proposed omega put through the trusted core attains the optimum, never beyond it."""
    optimum = reference.expected["optimal"][level]
    eps, radius = optimum["epsilon"], reference.data["radius"]
    n, delta = len(reference.problem), reference.data["delta"]
    gauge = PlugIn(eps**2 * n / (2 * np.log(2 / delta)))
    setting = reference.setting(gauge)
    assert setting.epsilon().mid == pytest.approx(eps, rel=1e-12)
    if optimum["rejected"]:
        witness = reference.model.function(spectral.witness(reference.spectrum, radius=radius))
        found = evaluate_witness(setting, witness)
        assert found.rejected
        assert found.p_value < delta
        assert found.loss_floor > eps
        least = reference.model.function(spectral.witness(reference.spectrum, kappa=eps))
        assert evaluate_witness(setting, least).minimal_radius == pytest.approx(optimum["r_min"], rel=1e-5)
        return
    for sign, end, best in ((1.0, "upper", optimum["upper"]), (-1.0, "lower", optimum["lower"])):
        proposal = spectral.propose(reference.spectrum, sign=sign, radius=radius, kappa=eps)
        omega = reference.model.function(proposal.weights) if np.any(proposal.weights) else None
        (terms,) = dual_bound(setting, omega, (end,))
        assert terms.bound == pytest.approx(best, rel=5e-6)
        assert sign * (terms.bound - best) >= -OPTIMUM * abs(best)


def test_both_verdicts_occur():
    verdicts = [references(name).expected["optimal"][level]["rejected"] for name in NAMES for level in LEVELS]
    assert any(verdicts)
    assert not all(verdicts)
