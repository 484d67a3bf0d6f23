"""Value ranges, noise radii, initial terms and the division of alpha against their 50-digit twins; laws of noise bounds."""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import binom

import bondic
import naive
from bondic.core.bounded import Enclosure
from bondic.core.claims import ErrorBudget, check_alpha
from bondic.core.dual.noise import NoiseBound, NoiseFacts, Pinelis
from bondic.core.errors import InvalidInput
from bondic.core.kernels.leaves import Constant
from bondic.core.registry import register
from bondic.core.starts import SampledStart
from bondic.core.terms import Terms, row_widths, value_range
from conformance_noise import NoiseCase
from core_cases import make_case

GAMMAS = [0.0, 1e-17, 0.3, 0.95, 0.999, 1 - 2.0**-30]
RANGES = [(-1.0, 2.0), (0.0, 0.0), (1.0, 1.0), (-3.0, -1.0), (0.0, 1e12), (0.1, 0.3), (-1e-12, 0.0)]


def check_outward(ours, exact, tolerance=1e-13):
    """Both ends at least as wide as the exact ones, and hardly wider."""
    low, high = exact
    scale = max(abs(low), abs(high), mpf(10) ** -300)
    assert mpf(ours.low) <= low
    assert high <= mpf(ours.high)
    assert low - mpf(ours.low) <= tolerance * scale
    assert mpf(ours.high) - high <= tolerance * scale
    assert mpf(ours.width) >= high - low
    assert mpf(ours.width) - (high - low) <= 2 * tolerance * scale


# -------------------------------------------------------------------------------------------------- value ranges


@pytest.mark.parametrize("may_terminate", [True, False])
def test_infinite_horizon_ranges(may_terminate):
    for gamma, rewards in itertools.product(GAMMAS, RANGES):
        exact = naive.value_range(*rewards, gamma, may_terminate)
        check_outward(value_range(gamma, rewards, may_terminate=may_terminate), exact)


@pytest.mark.parametrize(
    ("rewards", "gamma", "may_terminate"),
    [(rewards, (0.0, 0.5, 0.97, 1.0)[k % 4], k % 3 > 0) for k, rewards in enumerate([*RANGES, *RANGES[::-1]])],
)
def test_ranges_per_time(rewards, gamma, may_terminate):
    horizon = 7
    for time in range(horizon + 2):
        exact = naive.value_range(*rewards, gamma, may_terminate, horizon, time)
        ours = value_range(gamma, rewards, may_terminate=may_terminate, horizon=horizon, time=time)
        check_outward(ours, exact)
    times = np.array([6, 0, 3, 3])
    widths = row_widths(Terms(gamma, rewards, may_terminate, horizon), times, 4)
    for width, time in zip(widths, times, strict=True):
        exact = naive.range_width(*rewards, gamma, may_terminate, horizon, int(time))
        assert exact <= mpf(float(width)) <= exact + mpf(10) ** -12 * max(map(abs, (*rewards, 1e-300))) * 8


@pytest.mark.parametrize(
    ("rewards", "gamma", "may_terminate"),
    [
        ((-1.0, 2.0), 0.9, True),
        ((0.5, 1.0), 1.0, True),
        ((-3.0, -1.0), 0.5, False),
        ((-1.0, 2.0), 1e-20, False),
        ((-3.0, -1.0), 1.0, True),
        ((0.5, 1.0), 0.0, True),
    ],
)
def test_times_far_before_the_horizon_share_a_width_that_still_bounds_theirs(rewards, gamma, may_terminate):
    horizon = 1000
    times = np.random.default_rng(1).permutation(np.r_[0:40, 100, 300:320, 590:620, 930:1000, 930:1000, 1000, 1003])
    statements = {"may_terminate": may_terminate, "horizon": horizon}
    terms = Terms(gamma, rewards, may_terminate, horizon)
    widths = row_widths(terms, times, times.size)
    slow = np.array([value_range(gamma, rewards, time=int(time), **statements).width for time in times])
    assert np.all(widths <= slow * (1 + 1e-15))
    largest = value_range(gamma, rewards, **statements).width
    assert np.all(widths <= largest)
    scale = max(map(abs, rewards)) * (horizon if gamma == 1 else 1 / (1 - gamma))
    for time, width in zip(times[::7], widths[::7], strict=True):
        exact = naive.range_width(*rewards, gamma, may_terminate, horizon, int(time))
        assert exact <= mpf(float(width)) <= exact + mpf(10) ** -13 * scale
    # the width of a row depends on its own time alone, not on the times of other rows
    assert [row_widths(terms, np.array([time]), 1)[0] for time in times] == widths.tolist()


def test_a_horizon_may_be_far_longer_than_any_log():
    terms = Terms(0.9, (0.0, 1.0), True, 10**15)
    times = np.arange(3000)
    widths = row_widths(terms, times, times.size)
    assert np.unique(widths) == pytest.approx([10.0], rel=1e-12)
    never = row_widths(Terms(1.0, (0.0, 1.0), False, 10**15), times[:3], 3)
    assert never == pytest.approx(10**15 - times[:3], rel=1e-15)


def test_widths_bound_the_residuals_of_the_true_function():
    """|R q*| <= B_i on a tabular problem with the extreme rewards, at every time of a horizon."""
    rng = np.random.default_rng(0)
    transitions, policy = rng.dirichlet(np.ones(3), (3, 2)), rng.dirichlet(np.ones(2), 3)
    rewards, horizon, gamma = rng.choice([-1.0, 2.0], (3, 2)), 5, 0.9
    table = naive.tabular_q_horizon(transitions, rewards, policy, gamma, horizon)
    widths = row_widths(Terms(gamma, (-1.0, 2.0), False, horizon), np.arange(horizon), horizon)
    for t in range(horizon):
        for s in range(3):
            for a in range(2):
                for u in range(3):
                    following = sum(mpf(policy[u, b]) * table[t + 1][u][b] for b in range(2))
                    residual = table[t][s][a] - mpf(gamma) * following - mpf(rewards[s, a])
                    assert abs(residual) <= mpf(widths[t])


# -------------------------------------------------------------------------------------------------------- gauges


def facts_of(case, kernel):
    problem = case.problem
    rows, counts = problem.logged_rows, (len(problem), len(problem.rows))
    return NoiseFacts(kernel, problem.layout, problem.terms, rows, *counts, problem.time_counts)


CASES = {
    "plain": {},
    "never ends": {"may_terminate": False},
    "gamma 0": {"gamma": 0.0},
    "horizon": {"horizon": 4, "gamma": 1.0, "n": 12},
    "huge rewards": {"reward_range": (-3e12, 1e11)},
    "continuous": {"kind": "continuous"},
}


@pytest.fixture(params=CASES)
def case(request):
    return make_case(**CASES[request.param])


def twin_constant(case, constant, k_max):
    return naive.noise_constant(constant, *case.reward_range, case.gamma, k_max, case.may_terminate, case.horizon)


def upper_and_close(enclosure, exact, tolerance=1e-13):
    """The upper end is a bound and the middle is right."""
    assert mpf(enclosure.upper) >= exact
    assert abs(mpf(enclosure.mid) - exact) <= tolerance * abs(exact)


@pytest.mark.parametrize(("constant", "probability"), [("half", 0.1), ("range", 1e-9), ("paper", 0.9), ("half", 1e-9)])
def test_pinelis(case, constant, probability):
    """(9), with N rows of which n carry weight: sqrt(2 c log(2/delta) N) / n."""
    kernel = 0.3 * Constant(1.0) + bondic.Gaussian(1.0)
    facts = facts_of(case, kernel)
    c = twin_constant(case, constant, 1 + mpf(0.3))
    n, count = len(case.logged), len(case.log)
    exact = naive.epsilon(c, n, probability) * mp.sqrt(mpf(count) / n)
    upper_and_close(Pinelis(constant).epsilon(facts, probability), exact)
    assert (count > n) == (case.horizon is not None)


@pytest.mark.parametrize(("constant", "observed"), [("half", 0.7), ("range", 3.0), ("paper", 0.1), ("half", 1e-6)])
def test_p_value_of_pinelis(case, constant, observed):
    facts = facts_of(case, bondic.Gaussian(1.0))
    scale = max(map(abs, case.reward_range))
    c = twin_constant(case, constant, 1)
    n, count = len(case.logged), len(case.log)
    exact = naive.p_value(c * mpf(count) / n, n, observed * scale)
    ours = Pinelis(constant).p_value(facts, observed * scale)
    assert mpf(ours) >= exact
    assert mpf(ours) <= exact * (1 + mpf(10) ** -8)


# ------------------------------------------------------------------------------------------------- initial terms


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("draws", [1, 7])
def test_initial_error_with_a_fixed_count(draws, sides):
    weights = np.array([0.5, 0.25, 0.125, 0.125])
    low, high = -1.5, 2.5
    delta = 0.02 * sides / 2  # log(sides / delta) is then that of the twin at 0.02
    ours = SampledStart(weights, high - low, draws, True, sides).error(delta)
    upper_and_close(ours, naive.initial_term_exact(low, high, 0.02, weights, draws))
    uniform = SampledStart(np.full(64, 1 / 64), high - low, 1, True, sides).error(delta)
    upper_and_close(uniform, naive.initial_term_sample(low, high, 0.02, 64))


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("count", [1, 3, 100, 10_000])
def test_initial_error_for_any_size(count, sides):
    """min_j (log(sides j (j+1) / delta) / lambda_j + lambda_j B^2 n_0 / 8) / n_0 with the same fixed lambdas."""
    width, delta = 3.0, 0.05
    candidates = []
    for j in range(1, 25):
        level = mp.log(mpf(sides * j * (j + 1)) / mpf(delta))
        rate = mp.sqrt(8 * level / mpf(4) ** (j - 1)) / width
        candidates.append((level / rate + rate * width**2 * count / 8) / count)
    ours = SampledStart(np.full(count, 1 / count), width, 1, False, sides).error(delta)
    upper_and_close(ours, min(candidates), 1e-12)
    fixed = SampledStart(np.full(count, 1 / count), width, 1, True, sides).error(delta)
    assert fixed.mid < ours.mid < 4 * fixed.mid


@pytest.mark.parametrize("chance", [0.5, 0.1, 0.9])
@pytest.mark.parametrize("count", [1, 5, 40])
def test_initial_error_covers_bernoulli_values(count, chance):
    """Values 0 and 1: the binomial law says exactly how often the bound fails."""
    heads = np.arange(count + 1)
    law = binom.pmf(heads, count, chance)
    for delta in (0.5, 0.1, 0.01):
        two = SampledStart(np.full(count, 1 / count), 1.0, 1, True, 2).error(delta).upper
        one = SampledStart(np.full(count, 1 / count), 1.0, 1, True, 1).error(delta).upper
        assert law[np.abs(heads / count - chance) > two].sum() <= delta
        assert law[heads / count - chance > one].sum() <= delta
        assert law[chance - heads / count > one].sum() <= delta


def test_any_size_form_survives_stopping_at_the_worst_moment(rng):
    """Whoever stops at the worst size out of 600 still fails with chance at most delta; the fixed form does not.

    2000 runs; a true rate of delta would exceed delta + 4 standard errors with probability below 1e-4.
    """
    sizes, delta, runs = 600, 0.2, 2000
    values = rng.integers(0, 2, size=(runs, sizes))
    means = values.cumsum(axis=1) / np.arange(1, sizes + 1)
    off = np.abs(means - 0.5)
    checked = np.unique(np.geomspace(1, sizes, 120).astype(int))
    tables = {}
    for fixed in (True, False):
        bounds = [SampledStart(np.full(k, 1 / k), 1.0, 1, fixed, 2).error(delta).upper for k in checked]
        tables[fixed] = (off[:, checked - 1] > np.array(bounds)).any(axis=1).mean()
    assert tables[False] <= delta + 4 * math.sqrt(delta * (1 - delta) / runs)
    assert tables[True] > delta + 4 * math.sqrt(delta * (1 - delta) / runs)  # the negative control


# -------------------------------------------------------------------------------------------------------- budget


@given(
    st.floats(1e-9, 0.9),
    st.dictionaries(st.sampled_from(["noise", "initial", "a", "b"]), st.floats(0.01, 9), min_size=1),
)
def test_parts_never_exceed_alpha(alpha, shares):
    budget = ErrorBudget.split(alpha, shares)
    total = sum(map(Fraction, budget.parts.values()))
    assert Fraction(alpha) * (1 - Fraction(1, 10**12)) <= total <= Fraction(alpha)
    whole = sum(shares.values())
    for name, share in shares.items():
        assert budget[name] == pytest.approx(alpha * share / whole, rel=1e-12)
    assert budget.get("nothing") is None


def test_overspending_is_refused():
    with pytest.raises(InvalidInput, match="spend more"):
        ErrorBudget(0.1, {"a": 0.06, "b": 0.05})
    with pytest.raises(InvalidInput):
        ErrorBudget(0.1, {"a": 0.2, "b": -0.15})
    for bad in (0.0, 1.0, -0.1, 1.5, math.nan, True, "0.1"):
        with pytest.raises(InvalidInput, match="alpha"):
            check_alpha(bad)
    check_alpha(0.5)


# --- The noise bound (9) and one of a user keep the same laws.


class TestHalf(NoiseCase):
    def make(self, kernel, rows, probability):
        del kernel, rows, probability
        return Pinelis()


class TestPaper(NoiseCase):
    control = 0.12

    def make(self, kernel, rows, probability):
        del kernel, rows, probability
        return Pinelis("paper")


@register("noise", "test-chebyshev")
@dataclass(frozen=True)
class Chebyshev(NoiseBound):
    """E |S_n|^2 <= n K_max B^2 / 4, so |S_n| / n exceeds eps with chance at most K_max B^2 / (4 n eps^2)."""

    guarantee = "finite-sample"

    def epsilon(self, facts, probability):
        scale = Enclosure(facts.sup_diag, 1e-14 * facts.sup_diag).sqrt() * facts.largest_width * 0.5
        return scale * math.sqrt(1 / (facts.count * probability))

    def p_value(self, facts, epsilon):
        scale = facts.sup_diag * facts.largest_width**2 * (1 + 1e-9)
        return min(1.0, scale / (4 * facts.count * epsilon**2)) if epsilon > 0 else 1.0

    def describe(self):
        return "Chebyshev's inequality in the space of W; n was fixed beforehand"


class TestChebyshev(NoiseCase):
    control = 0.2

    def make(self, kernel, rows, probability):
        del kernel, rows, probability
        return Chebyshev()
