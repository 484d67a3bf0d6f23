"""The slow twin against the reference values, and against itself where two routes lead to one number."""

import json
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

import naive

FOLDER = Path(__file__).parent / "reference"
NAMES = ["continuous-1", "continuous-2", "discrete-1", "discrete-2"]
FORMULA = 1e-12  # relative, as promised beside the reference values
OPTIMUM = 1e-6


def close(ours, theirs, tolerance=FORMULA, scale=1.0):
    return abs(float(ours) - theirs) <= tolerance * max(abs(theirs), scale)


class Case:
    """One reference problem with its points and kernels."""

    def __init__(self, name):
        self.data = d = json.loads((FOLDER / f"{name}.json").read_text())
        self.gamma = d["gamma"]
        self.logged = naive.logged_points(d["states"], d["actions"])
        if d["kind"] == "discrete":
            said = [[naive.slots(p) for p in d[name]] for name in ("next_probabilities", "initial_probabilities")]
        else:
            said = [[naive.draws(a) for a in d["next_actions"]], [naive.draws([a]) for a in d["initial_actions"]]]
        self.nexts = naive.next_points(d["next_states"], said[0], d["terminal"])
        self.initial = naive.initial_points(d["initial_states"], said[1])
        self.kernel_q, self.kernel_w = self.kernel(d["h_q"]), self.kernel(d["h_w"])
        self.omega = naive.omega_values(self.kernel_w, d["given"]["alpha"], self.logged, self.logged)
        self.omega_norm = naive.omega_norm(self.kernel_w, d["given"]["alpha"], self.logged)
        self.mu_norm_squared = naive.mu_norm_squared(
            self.kernel_q, self.omega, self.logged, self.nexts, self.initial, self.gamma
        )
        points = self.logged + [p for row in self.nexts for _, p in row] + [p for _, p in self.initial]
        self.q = naive.expansion(self.kernel_q, d["given"]["theta"], points)
        assert len(points) == len(d["given"]["theta"])
        self.rewards = d["rewards"]

    def kernel(self, h):
        def base(x, y):
            return naive.gaussian(x, y, h)

        return naive.on_product(base, naive.dirac) if self.data["kind"] == "discrete" else naive.on_joined(base)

    @cached_property
    def matrices(self):
        return naive.problem_matrices(
            self.kernel_w, self.kernel_q, self.logged, self.nexts, self.initial, self.rewards, self.gamma
        )


all_cases = cache(Case)


@pytest.fixture(params=NAMES)
def case(request):
    return all_cases(request.param)


def test_formulas(case):
    d, expected = case.data, case.data["expected"]
    n, (low, high) = len(case.logged), case.data["reward_range"]
    assert all(close(a, b) for a, b in zip(case.omega, expected["omega"], strict=True))
    assert close(case.omega_norm, expected["omega_norm"])
    assert close(case.mu_norm_squared, expected["mu_norm_squared"])

    residual = naive.residuals(case.q, case.logged, case.nexts, case.rewards, case.gamma)
    assert all(close(a, b) for a, b in zip(residual, expected["residuals"], strict=True))
    assert close(naive.kernel_bellman_loss(case.kernel_w, residual, case.logged), expected["kernel_bellman_loss"])
    start = naive.integral(case.q, case.initial)
    assert close(start, expected["initial_value_of_q"])
    assert close(naive.doubly_robust(start, case.omega, residual), expected["doubly_robust_at_q"])

    at_zero = naive.residuals(naive.zero, case.logged, case.nexts, case.rewards, case.gamma)
    estimate = naive.doubly_robust(0, case.omega, at_zero)
    assert float(estimate) == pytest.approx(
        float(np.mean([float(w) * r for w, r in zip(case.omega, case.rewards, strict=True)]))
    )
    for constant, bound in expected["dual"].items():
        eps = naive.epsilon(naive.noise_constant(constant, low, high, case.gamma), n, d["delta"])
        lower, upper = naive.dual_bounds(estimate, d["radius"], mp.sqrt(case.mu_norm_squared), eps * case.omega_norm)
        assert close(eps, bound["epsilon"])
        assert close(lower, bound["lower"])
        assert close(upper, bound["upper"])


def test_smallest_radius_and_loss(case):
    g, _, a = case.matrices
    for level in case.data["expected"]["optimal"].values():
        assert close(naive.smallest_radius(g, a, level["epsilon"]), level["r_min"], OPTIMUM)
        loss, _ = naive.smallest_loss(g, a, case.data["radius"])
        assert (loss > level["epsilon"]) == level["rejected"]


# ----------------------------------------------------------------------------------- finite problems, in full


def small_mdp(seed=3, states=3, actions=2):
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(states), size=(states, actions))
    rewards = rng.uniform(-1, 1, size=(states, actions))
    policy = rng.dirichlet(np.ones(actions), size=states)
    return (
        transitions,
        rewards,
        policy,
        rng.dirichlet(np.ones(states)),
        rng.uniform(0, 0.5, size=(states, actions)),
    )


def test_identity_5_with_true_q_on_a_log():
    """The three lines of (5) add up to J* for any q_hat and omega, with terminal rows and a horizon."""
    transitions, rewards, policy, initial, ends = small_mdp(7)
    horizon, rng = 3, np.random.default_rng(0)
    q = naive.tabular_q_horizon(transitions, rewards, policy, 0.8, horizon, ends)
    states, actions = rng.integers(3, size=12), rng.integers(2, size=12)
    times, next_states, terminal = (
        rng.integers(horizon, size=12),
        rng.integers(3, size=12),
        rng.random(12) < 0.3,
    )
    logged = naive.logged_points(states, actions, times)
    nexts = naive.next_points(next_states, [naive.slots(p) for p in policy[next_states]], terminal, times, horizon)
    start = naive.initial_points(range(3), [naive.slots(p) for p in policy], initial, time=0)
    noisy = rng.uniform(-1, 1, size=12)
    guess = rng.normal(size=(horizon, 3, 2))
    terms = naive.identity_terms(
        lambda p: mpf(guess[p.time, p.state, p.action]), lambda p: q[p.time][p.state][p.action],
        rng.normal(size=12), logged, nexts, start, noisy, 0.8,
    )  # fmt: skip
    assert (
        abs(sum(terms) - naive.tabular_value(q[0], initial, policy)) < mpf(10) ** -14
    )  # policy rows sum to one up to rounding


def test_misspecification_allowance_is_the_supremum():
    """|<f, mu_omega>| over |f| <= beta reaches the allowance when f may take any sign at any point."""
    omega, going_on = [1.5, -2.0, 0.5], [True, False, True]
    logged = naive.logged_points([[0.0], [1.0], [2.0]], [0, 0, 0])
    nexts = naive.next_points([[3.0], [4.0], [5.0]], [naive.slots([1.0])] * 3, [not g for g in going_on])
    measure = naive.signed_measure(omega, logged, nexts, naive.initial_points([[6.0]], [naive.slots([1.0])]), 0.9)
    assert (
        abs(sum(abs(c) for c, _ in measure) * mpf(0.2) - naive.misspecification_allowance(0.2, omega, 0.9, going_on))
        < 1e-40
    )
    kernel = naive.on_product(naive.dirac, naive.dirac)
    arguments = (kernel, omega, [1.0, -1.0, 3.0], logged, nexts, 0.9, 0.5, 0.25)
    balance = mp.sqrt((1 + mpf(0.9) ** 2) * (mpf(1.5) ** 2 + mpf(0.5) ** 2) + 4) / 3  # six points, all distinct
    margin = mpf(5) / 3 - balance / 2 - mpf(0.25)
    assert abs(naive.rejection_margin(*arguments) - margin) < 1e-40
    widening = naive.misspecification_allowance(0.2, omega, 0.9, going_on) - mpf(0.2)
    assert abs(naive.rejection_margin(*arguments, beta=0.2) - (margin - widening)) < 1e-40


# ---------------------------------------------------------------------------------------------------- kernels


def test_kernels():
    x, y, h = [0.5, -1.0], [2.0, 1.0], [1.5, 0.5]
    assert float(naive.gaussian(x, y, h)) == pytest.approx(np.exp(-(1 + 16) / 2))
    assert naive.gaussian(x, y, 2.0) == naive.gaussian(x, y, [2.0, 2.0])
    assert float(naive.laplace(x, y, h)) == pytest.approx(np.exp(-5))
    r = np.sqrt(17)
    assert float(naive.matern(x, y, h, 0.5)) == pytest.approx(np.exp(-r))
    assert float(naive.matern(x, y, h, 1.5)) == pytest.approx((1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r))
    assert float(naive.matern(x, y, h, 2.5)) == pytest.approx(
        (1 + np.sqrt(5) * r + 5 * r * r / 3) * np.exp(-np.sqrt(5) * r)
    )
    for nu in (0.5, 1.5, 2.5):  # the general Bessel form, which the short ones are cases of
        z = mp.sqrt(2 * nu) * mp.sqrt(17)
        assert abs(naive.matern(x, y, h, nu) - 2 ** (1 - mpf(nu)) / mp.gamma(nu) * z**nu * mp.besselk(nu, z)) < 1e-40
    assert naive.constant(x, y, 3) == 3
    assert (naive.dirac(x, x), naive.dirac(x, y), naive.dirac(2, 2), naive.dirac(2, 1)) == (1, 0, 1, 0)
