"""End points and rejections at small problems against 50 digits: never inside the exact ones, hardly outside."""

from dataclasses import replace
from functools import cache, cached_property

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
import core_cases
import naive
from bondic.core.bounded import Enclosure
from bondic.core.claims import Rejection
from bondic.core.dual.bound import dual_bound, evaluate_witness
from bondic.core.dual.noise import Pinelis
from bondic.core.functions import Function
from bondic.engines.sums import EngineSums
from bondic_lab.noise.plug_in import PlugIn
from builders import setting_of, weights_at_rows
from core_cases import inside, kernel_function, make_case

DELTA, DELTA_0 = 0.08, 0.02

SETTINGS = {
    "discrete": {},
    "center": {"center": True, "seed": 1},
    "misspecified": {"beta": 0.3, "seed": 2},
    "never ends": {"may_terminate": False, "seed": 3},
    "gamma 0": {"gamma": 0.0, "seed": 4},
    "horizon": {"horizon": 4, "gamma": 1.0, "n": 11, "seed": 5, "center": True, "beta": 0.1},
    "continuous": {"kind": "continuous", "seed": 6, "beta": 0.05},
    "continuous horizon": {"kind": "continuous", "horizon": 3, "gamma": 0.5, "n": 9, "seed": 7, "center": True},
    "sampled starts": {"initial": "sample", "seed": 8},
    "sampled starts, continuous": {"initial": "sample", "kind": "continuous", "seed": 9},
    "offset 1e8": {"offset": 1e8, "seed": 10, "center": True},
    "huge rewards": {"reward_range": (-1e12, 2e12), "seed": 11},
    "tiny rewards": {"reward_range": (-1e-12, 2e-12), "seed": 12},
}


class Example:
    """A setting, an omega and everything that the twin needs to evaluate the same end points."""

    def __init__(self, *, center=False, beta=0.0, radius=2.5, constant="half", **options):
        self.case = case = make_case(**options)
        self.kernel_q, self.twin_q = core_cases.kernels(case, 1.4, 0.6)
        self.kernel_w, self.twin_w = core_cases.kernels(case, 0.8, 0.2)
        rng = np.random.default_rng(options.get("seed", 0) + 100)
        n = len(case.problem)
        scale = max(map(abs, case.reward_range))
        self.alpha = 2 * rng.normal(size=n)
        self.omega = kernel_function(case, self.kernel_w, self.alpha)
        self.radius, self.beta = radius * scale, beta * scale
        coefficients = scale * rng.normal(size=n)
        self.center = kernel_function(case, self.kernel_q, coefficients) if center else None
        self.center_twin = naive.expansion(self.twin_q, coefficients, case.logged) if center else naive.zero
        self.constant = constant
        sampled = not case.problem.answers.exact or case.problem.initial_states.kind == "sample"
        self.setting = setting_of(
            case.problem, bondic.Ball(self.kernel_q, self.radius, self.center, self.beta), self.kernel_w,
            Pinelis(constant), probability=DELTA, start=DELTA_0 if sampled else None,
        )  # fmt: skip
        self.rows = [float(w) for w in weights_at_rows(case.problem.whole(), self.omega)[0]]

    def epsilon(self):
        case = self.case
        c = naive.noise_constant(
            self.constant, *case.reward_range, case.gamma, self.twin_sup(), case.may_terminate, case.horizon
        )
        return naive.epsilon(c, len(case.logged), DELTA) * mp.sqrt(mpf(len(case.log)) / len(case.logged))

    @staticmethod
    def twin_sup():
        return 1 + mpf(0.2)

    def initial_term(self):
        case = self.case
        low, high = naive.value_range(*case.reward_range, case.gamma, case.may_terminate, case.horizon)
        states = case.problem.initial_states
        if states.kind == "sample":
            return naive.initial_term_sample(low, high, DELTA_0, len(states))
        if case.discrete:
            return mpf(0)
        return naive.initial_term_exact(low, high, DELTA_0, core_cases.normalized(states.weights), 2)

    @cached_property
    def terms(self):
        """The exact terms of (10) at the float weights of the rows."""
        case = self.case
        residual = naive.residuals(self.center_twin, case.logged, case.nexts, case.rewards, case.gamma)
        estimate = naive.doubly_robust(naive.integral(self.center_twin, case.initial), self.rows, residual)
        size = mp.sqrt(naive.mu_norm_squared(self.twin_q, self.rows, case.logged, case.nexts, case.initial, case.gamma))
        norm = naive.omega_norm(self.twin_w, self.alpha, case.logged)
        allowance = naive.misspecification_allowance(self.beta, self.rows, case.gamma, case.going_on)
        return estimate, size, norm, allowance


examples = cache(lambda name: Example(**SETTINGS[name]))


@pytest.fixture(params=SETTINGS)
def example(request):
    return examples(request.param)


def test_end_points(example):
    """Upper end >= exact F+, lower end <= exact F-, both within what is called rounding."""
    estimate, size, norm, allowance = example.terms
    noise = example.epsilon() * norm
    low, high = naive.dual_bounds(estimate, example.radius, size, noise, example.initial_term() + allowance)
    scale = abs(estimate) + (high - low)
    for engine in ("auto", "reference"):
        lower, upper = dual_bound(replace(example.setting, sums=EngineSums.named(engine)), example.omega)
        assert (lower.end, upper.end) == ("lower", "upper")
        assert mpf(upper.bound) >= high
        assert mpf(lower.bound) <= low
        # the formula's own outward steps (range, log, K_max) are not part of `rounding`
        assert mpf(upper.bound) - high <= 2 * mpf(upper.rounding) + mpf(10) ** -14 * scale
        assert low - mpf(lower.bound) <= 2 * mpf(lower.rounding) + mpf(10) ** -14 * scale
        assert upper.rounding <= 1e-11 * float(scale)


def test_terms_of_the_end_points(example):
    estimate, size, norm, allowance = example.terms
    (terms,) = dual_bound(example.setting, example.omega, ("upper",))
    assert inside(terms.value, estimate)
    assert inside(terms["|mu|"], size)
    assert inside(terms["bias"], size * mpf(example.radius))
    assert inside(terms["|omega|"], norm)
    assert mpf(terms["misspecification"].upper) >= allowance
    assert abs(mpf(terms["misspecification"].mid) - allowance) <= mpf(10) ** -14 * allowance
    assert mpf(terms["initial distribution"].upper) >= example.initial_term()
    assert (
        abs(mpf(terms["initial distribution"].mid) - example.initial_term()) <= mpf(10) ** -13 * example.initial_term()
    )
    noise = example.epsilon() * norm
    assert mpf(terms["noise"].upper) >= noise
    assert abs(mpf(terms["noise"].mid) - noise) <= mpf(10) ** -12 * noise
    rows, eta = weights_at_rows(example.case.problem.whole(), example.omega)
    facts = example.setting.facts
    # floats in place of the function: the noise pays eta times the mean width
    exact = naive.omega_values(example.twin_w, example.alpha, example.case.logged, example.case.logged)
    assert all(abs(mpf(float(a)) - b) <= mpf(eta) for a, b in zip(rows, exact, strict=True))
    assert terms["noise"].rad >= eta * facts.total_width / facts.count
    table = terms.table()
    assert table["end point"] == terms.bound
    assert table["rounding"] == terms.rounding


def test_zero_weights_give_the_start_alone(example):
    """omega = 0: E[q^] -+ (r_Q |mu_0| + initial + beta)."""
    start = naive.integral(example.center_twin, example.case.initial)
    size = mp.sqrt(naive.norm_squared(example.twin_q, example.case.initial))
    extra = example.initial_term() + mpf(example.beta)
    low, high = naive.dual_bounds(start, example.radius, size, 0, extra)
    for omega in (None, kernel_function(example.case, example.kernel_w, 0.0)):
        lower, upper = dual_bound(example.setting, omega)
        assert mpf(lower.bound) <= low
        assert high <= mpf(upper.bound)
        assert mpf(upper.bound - lower.bound) <= (high - low) * (1 + mpf(10) ** -6) + mpf(10) ** -6 * abs(high)
        assert upper["noise"].upper < 1e-300


# ---------------------------------------------------------------------------------------------------- properties


def ends(setting, omega):
    lower, upper = dual_bound(setting, omega)
    return lower.bound, upper.bound


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
@pytest.mark.parametrize("factor", [0.25, 1024.0])
def test_scaling_rewards_scales_the_interval_exactly(kind, factor):
    """A power of two moves nothing but exponents: not a single bit of the end points changes."""
    case = make_case(kind, seed=40)
    kernel_q, _ = core_cases.kernels(case, 1.4, 0.6)
    kernel_w, _ = core_cases.kernels(case, 0.8, 0.2)
    rng = np.random.default_rng(41)
    alpha, theta = rng.normal(size=len(case.problem)), rng.normal(size=len(case.problem))
    omega = kernel_function(case, kernel_w, alpha)
    found = []
    for scale in (1.0, factor):
        terms = replace(case.problem.terms, reward_range=tuple(scale * r for r in case.reward_range))
        rows = replace(case.problem.whole(), terms=terms, rewards=scale * case.problem.whole().rewards)
        problem = replace(case.problem, terms=terms, kept=(rows,))
        center = kernel_function(case, kernel_q, scale * theta)
        ball = bondic.Ball(kernel_q, 3.0 * scale, center, 0.125 * scale)
        setting = setting_of(problem, ball, kernel_w, probability=DELTA, start=DELTA_0)
        found.append(ends(setting, omega))
    assert found[1] == tuple(factor * end for end in found[0])


class Vague(Function):
    """omega = 1 everywhere with a norm that is known to lie in [1, 3] only."""

    is_zero = False

    def __init__(self, kernel, layout):
        self.kernel, self.layout = kernel, layout

    def values(self, points, sums=None):  # noqa: ARG002
        return np.ones((len(points), self.layout.slots)), 0.0

    def norm(self, sums=None):  # noqa: ARG002
        return Enclosure(2.0, 1.0)


def test_the_upper_end_of_the_norm_counts():
    """Noise, loss floor and minimal radius take the norm of omega at its largest."""
    example = Example(seed=52, radius=1e-3)
    vague = Vague(example.kernel_w, example.case.problem.layout)
    setting = replace(example.setting, gauge=PlugIn(1e-6))
    (upper,) = dual_bound(setting, vague, ("upper",))
    assert upper["noise"].upper >= 3 * setting.epsilon().lower
    assert upper.bound >= upper.value.lower + upper["bias"].lower + 3 * setting.epsilon().lower
    found = evaluate_witness(setting, vague)
    example.rows, example.alpha = [1.0] * len(example.rows), np.zeros(len(example.rows))
    _, moment, balance, _, _ = witness_terms(example)
    assert 0 < mpf(found.loss_floor) <= (moment - mpf(example.radius) * balance) / 3
    assert 0 < mpf(found.minimal_radius) <= (moment - 3 * mpf(setting.epsilon().lower)) / balance


# ----------------------------------------------------------------------------------------------------- rejection


def witness_terms(example):
    """|h|, |nu|, |omega| and the widening of the twin."""
    case = example.case
    residual = naive.residuals(example.center_twin, case.logged, case.nexts, case.rewards, case.gamma)
    moment = abs(naive.doubly_robust(0, example.rows, residual))
    measure = naive.signed_measure(example.rows, case.logged, case.nexts, [], case.gamma)
    balance = mp.sqrt(naive.norm_squared(example.twin_q, measure))
    norm = naive.omega_norm(example.twin_w, example.alpha, case.logged)
    widening = naive.misspecification_allowance(example.beta, example.rows, case.gamma, case.going_on) - example.beta
    return residual, moment, balance, norm, widening


@pytest.mark.parametrize("radius", [1e-3, 2.5])
@pytest.mark.parametrize("name", SETTINGS)
def test_witness_against_the_twin(name, radius):
    """Loss floor, p-value, lower bound of r_min and the verdict, all on the cautious side."""
    example = Example(**{**SETTINGS[name], "radius": radius})
    case, variance = example.case, 2e-3 * max(map(abs, example.case.reward_range)) ** 2
    setting = replace(example.setting, gauge=PlugIn(variance))
    found = evaluate_witness(setting, example.omega)
    _, moment, balance, norm, widening = witness_terms(example)
    n, total = len(case.logged), len(case.log)
    eps = naive.epsilon(variance, n, DELTA) * mp.sqrt(mpf(total) / n)
    floor = max(mpf(0), (moment - mpf(example.radius) * balance - widening) / norm)
    scale = (moment + mpf(example.radius) * balance) / norm
    assert mpf(found.loss_floor) <= floor
    assert floor - mpf(found.loss_floor) <= mpf(10) ** -9 * scale
    assert mpf(found.epsilon) >= eps
    level = naive.p_value(mpf(variance) * total / n, n, floor)
    assert mpf(found.p_value) >= level * (1 - mpf(10) ** -12) or level < mpf(10) ** -300
    assert mpf(found.p_value) <= level * (1 + mpf(10) ** -6) + mpf(10) ** -300
    smallest = max(mpf(0), (moment - eps * norm - widening) / balance)
    assert mpf(found.minimal_radius) <= smallest
    assert smallest - mpf(found.minimal_radius) <= mpf(10) ** -9 * (moment / balance)
    margin = naive.rejection_margin(
        example.twin_q, example.rows, naive.residuals(example.center_twin, case.logged, case.nexts, case.rewards, case.gamma),
        case.logged, case.nexts, case.gamma, example.radius, eps * norm, example.beta,
    )  # fmt: skip
    assert abs(margin) > mpf(10) ** -9 * moment  # far from a tie, so the verdict is not a matter of rounding
    assert found.rejected == (margin > 0)
    assert found.rejected == (mpf(found.minimal_radius) > mpf(example.radius))


@pytest.mark.parametrize(("radius", "verdict"), [(1e-3, True), (2.5, False)])
def test_both_verdicts_occur(radius, verdict):
    example = Example(radius=radius)
    found = evaluate_witness(replace(example.setting, gauge=PlugIn(1e-6)), example.omega)
    assert found.rejected == verdict


def test_no_witness_no_rejection():
    example = Example(seed=60)
    eps = example.setting.epsilon()
    for omega in (None, kernel_function(example.case, example.kernel_w, 0.0)):
        found = evaluate_witness(example.setting, omega)
        assert found == Rejection.none(eps)
        assert not found.rejected
        assert (found.p_value, found.loss_floor, found.minimal_radius) == (1.0, 0.0, 0.0)
        assert found.epsilon == eps.upper
