"""The whole pipeline: options of the method, horizons, time, continuous actions, limits; every result is verified."""

import math
from itertools import pairwise

import numpy as np
import pytest

import bondic as b
import builders
from bondic.core.balls import Instruments
from bondic.core.dual.noise import FixedLambda
from bondic.core.functions import FeatureFunction
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac, TimeMask
from bondic.tuning.defaults import Advanced, Choices
from bondic_lab.identity.formulas import function_values
from bondic_lab.worlds.tabular import TabularMDP

QUICK = {"choices": Choices(weight_bandwidth=1.0), "advanced": Advanced(pairs=16, constant_share=0.5)}


def checked(problem, log, method=None, *, alpha=0.1, policy=None):
    """Estimate, then re-check the certificate with the trusted core alone: the same interval to the last digits."""
    result = b.estimate_interval(problem, alpha=alpha, method=method)
    verified = b.verify(result.certificate, log, policy)
    slack = sum(end.rounding for end in (result.lower, result.upper) if end is not None)
    assert verified.low == pytest.approx(result.low, abs=2 * slack + 1e-300)
    assert verified.high == pytest.approx(result.high, abs=2 * slack + 1e-300)
    assert verified.status == result.status.name
    assert verified.alpha == alpha
    return result


class Table:
    """A tabular MDP with its log, its problem and a Q that holds q*."""

    def __init__(self, seed=0, *, rows=600, initial=None, mdp=None, **statements):
        rng = np.random.default_rng(seed)
        self.mdp = mdp or TabularMDP.random(rng, n_states=4, n_actions=2, gamma=0.5, reward_noise=0.1)
        self.log = builders.as_log(self.mdp.rollout(rows // 10, 10, rng))
        self.policy = b.TablePolicy(self.mdp.target)
        if initial is None:
            self.problem = builders.tabular_problem(self.mdp, self.log, **statements)
        else:
            options = {"gamma": self.mdp.gamma, "reward_range": self.mdp.reward_range, **statements}
            self.problem = b.make_problem(self.log, self.policy, initial(rng, self.mdp), **options)

    def method(self, factor=1.2, **options):
        radius = factor * float(np.linalg.norm(self.mdp.q_star))
        ball = options.pop("ball", b.Ball(builders.table_kernel(), radius))
        instruments = Instruments(0.3 * Constant(1.0) + 0.7 * builders.table_kernel())
        return b.Dual(instruments=instruments, ball=ball, **options)

    def run(self, *, alpha=0.1, factor=1.2, **options):
        return checked(self.problem, self.log, self.method(factor, **options), alpha=alpha, policy=self.policy)


def sampled_starts(rng, mdp, count=2000):
    return b.InitialStates.sample(rng.choice(4, (count, 1), p=mdp.initial_probs).astype(float))


@pytest.fixture(scope="module")
def table():
    return Table()


@pytest.fixture(scope="module")
def plain(table):
    return table.run()


def test_the_interval_holds_the_value_and_says_something(table, plain):
    assert plain.status is b.Status.INTERVAL
    assert plain.low <= table.mdp.value <= plain.high
    assert plain.low <= plain.estimate <= plain.high
    assert plain.length < 0.8 * plain.value_range.width
    assert plain.guarantee == "finite-sample"
    assert max(plain.gap) < 1e-6
    assert table.mdp.value in plain.interval


# ---------------------------------------------------------------------------------------------------- error level


@pytest.mark.parametrize(("initial", "default"), [(sampled_starts, False), (None, True)])
def test_smaller_alpha_contains_larger(initial, default):
    world = Table(1, initial=initial, rows=400)
    method = b.Dual(radius="paper", **QUICK) if default else world.method()
    levels = (0.5, 0.1, 0.01) if default else (0.5, 0.2, 0.1, 0.01, 1e-12)
    results = [checked(world.problem, world.log, method, alpha=alpha) for alpha in levels]
    for inner, outer in pairwise(results):
        assert outer.low <= inner.low
        assert outer.high >= inner.high
    assert default or results[0].length < 0.8 * results[-1].length


# ------------------------------------------------------------------------------------------------------- one side


def test_one_side_at_full_alpha(table, plain):
    """The noise bound covers both signs at once, so one side is the same end; the other is the value range's."""
    low, high = table.run(side="lower"), table.run(side="upper")
    assert low.low == plain.low
    assert low.high == low.value_range.high
    assert low.upper is None
    assert high.high == plain.high
    assert high.low == high.value_range.low
    assert high.lower is None
    assert math.isnan(low.gap[1])
    assert math.isnan(high.gap[0])
    assert "at least" in low.summary()
    assert "at most" in high.summary()


# ---------------------------------------------------------------------------------------------- misspecification


def weights(problem, result, end):
    """omega at the certified rows, read back from the certificate."""
    function = result.proof.omegas[end]
    return function.values(problem.whole().logged)[0][np.arange(len(problem)), problem.whole().slots]


# ---------------------------------------------------------------------------------------------------- the search


def test_progress_is_reported(table):
    seen = []
    b.estimate_interval(table.problem, method=table.method(), progress=lambda stage, share: seen.append((stage, share)))
    assert seen[0] == ("tuning", 0.0)
    assert {"tuning", "search", "certify"} <= {stage for stage, _ in seen}
    assert all(0 <= share <= 1 for _, share in seen)


# -------------------------------------------------------------------------------------------------- finite horizon


@pytest.mark.parametrize(("horizon", "gamma"), [(1, 0.7), (3, 1.0)])
def test_finite_horizon(horizon, gamma):
    """J*_H of the tabular recursion, gamma = 1 included; rows beyond the horizon are dropped and counted."""
    rng = np.random.default_rng(horizon)
    mdp = TabularMDP.random(rng, n_states=3, n_actions=2, gamma=gamma, reward_noise=0.1, termination=0.3)
    log = builders.as_log(mdp.rollout(400, 5, rng))
    problem = builders.tabular_problem(mdp, log, horizon=horizon)
    truth = mdp.finite_horizon(horizon)[:horizon]
    kernel = builders.table_kernel()  # "state" includes time
    q_star = builders.table_function(truth, problem.layout)
    assert function_values(problem.whole(), q_star).initial @ mdp.initial_probs == pytest.approx(
        mdp.finite_value(horizon)
    )
    instruments = Instruments(0.3 * Constant(1.0) + 0.7 * kernel)
    ball = b.Ball(kernel * TimeMask(horizon), 1.2 * float(np.linalg.norm(truth)))
    found = checked(problem, log, b.Dual(instruments=instruments, ball=ball), policy=b.TablePolicy(mdp.target))
    assert found.low <= mdp.finite_value(horizon) <= found.high
    assert found.status is b.Status.INTERVAL
    assert found.length < 0.8 * found.value_range.width
    steps = sum(gamma**t for t in range(horizon))
    assert found.value_range.high == pytest.approx(max(1.0, steps), rel=1e-12)
    assert problem.dropped == int(np.sum(log.timesteps >= horizon)) > 0
    assert f"{problem.dropped} rows beyond it were dropped" in next(
        a.text for a in found.assumptions if a.name == "process"
    )
    assert isinstance(found.proof.noise, FixedLambda)  # one width per time
    # nothing follows the last step, so a kernel that does not know the horizon gives the same interval
    unmasked = checked(problem, log, b.Dual(instruments=instruments, ball=b.Ball(kernel, ball.radius)))
    assert (unmasked.low, unmasked.high) == pytest.approx((found.low, found.high), abs=1e-9)
    around = b.Ball(kernel, 1e-9, q_star)
    exact = checked(problem, log, b.Dual(instruments=instruments, ball=around))
    assert exact.lower.bound == pytest.approx(mdp.finite_value(horizon), abs=1e-6)
    assert exact.upper.bound == pytest.approx(mdp.finite_value(horizon), abs=1e-6)


def test_time_varying_policy():
    """pi_0 at the start, another policy afterwards: J = sum d_0 pi_0 q' with q' of the later policy."""
    rng = np.random.default_rng(6)
    mdp = TabularMDP.random(rng, n_states=3, n_actions=2, gamma=0.5)
    first = rng.dirichlet(np.ones(2), 3)
    value = float(np.sum(mdp.initial_probs[:, None] * first * mdp.q_star))
    assert abs(value - mdp.value) > 0.01

    def probs(states, times):
        index = states[:, 0].astype(int)
        return np.where(times[:, None] == 0, first[index], mdp.target[index])

    log = builders.as_log(mdp.rollout(200, 5, rng))
    policy = b.CallablePolicy(probs, time_dependent=True)
    initial = b.InitialStates.exact(np.arange(3.0)[:, None], mdp.initial_probs)
    problem = b.make_problem(log, policy, initial, gamma=0.5, reward_range=(0, 1), time_varying=True)
    table = np.broadcast_to(mdp.q_star, (6, 3, 2))
    instruments = Instruments(0.3 * Constant(1.0) + 0.7 * (Dirac(on="observation") * Dirac()))
    small = b.Ball(builders.table_kernel(), 1e-9, builders.table_function(table, problem.layout))
    exact = checked(problem, log, b.Dual(instruments=instruments, ball=small), policy=policy)
    assert exact.lower.bound == pytest.approx(value, abs=1e-6)
    assert exact.upper.bound == pytest.approx(value, abs=1e-6)
    kernel = Dirac(on="observation") * Dirac()  # q' does not depend on time here
    ball = b.Ball(kernel, 1.2 * float(np.linalg.norm(mdp.q_star)))
    found = checked(problem, log, b.Dual(instruments=instruments, ball=ball), policy=policy)
    assert found.status is b.Status.INTERVAL
    assert found.low <= value <= found.high


# ---------------------------------------------------------------------------------------------- continuous actions


class Wave:
    """q*(s, a) = cos(s + a), a ~ N(-s/2, 0.3^2), s' = 0.8 s +- 0.5: the reward follows from (2), J* is a formula."""

    gamma, spread, starts = 0.4, 0.3, np.array([[-0.5], [0.2], [1.0]])

    def mean(self, states):
        return -0.5 * states

    def state_value(self, states):
        return np.cos(states + self.mean(states)) * math.exp(-(self.spread**2) / 2)

    @property
    def value(self):
        return float(self.state_value(self.starts).mean())

    @property
    def reward_range(self):
        return -1 - self.gamma, 1 + self.gamma

    @property
    def policy(self):
        return b.GaussianPolicy(self.mean, self.spread)

    def problem(self, log, policy=None, **statements):
        terms = {"gamma": self.gamma, "reward_range": self.reward_range, **statements}
        return b.make_problem(log, policy or self.policy, b.InitialStates.exact(self.starts), **terms)

    def log(self, rng, n):
        s, a = rng.uniform(-2, 2, (n, 1)), rng.uniform(-2, 2, (n, 1))
        expected = 0.5 * sum(self.state_value(0.8 * s + jump) for jump in (-0.5, 0.5))
        after = 0.8 * s + rng.choice([-0.5, 0.5], (n, 1))
        return b.Transitions(s, a, (np.cos(s + a) - self.gamma * expected)[:, 0], after, np.zeros(n, dtype=bool))


def test_continuous_actions_end_to_end(rng):
    """Draws of next actions are part of the noise, draws of initial actions are paid for; J* is inside."""
    wave = Wave()
    log = wave.log(rng, 1500)
    problem = wave.problem(log, seed=3)
    circle = RandomFeatures([[1.0, 1.0]], on="point")  # cos(s + a) and sin(s + a): q* has norm 1
    weights = 0.5 * Constant(1.0) + 0.5 * RandomFeatures.gaussian(16, 2, 1.0, seed=0, on="point")
    method = b.Dual(instruments=Instruments(weights), ball=b.Ball(circle, 1.0))
    found = checked(problem, log, method, policy=wave.policy)
    assert found.low <= wave.value <= found.high
    assert found.status is b.Status.INTERVAL
    assert found.upper["initial distribution"].mid > 0
    assert set(found.budget.parts) == {"noise", "initial"}
    assert found.seeds["policy draws"] == 3
    assert problem.next_draws == 5
    q_star = FeatureFunction(circle, problem.layout, np.array([1.0, 0.0]))
    exact = checked(problem, log, b.Dual(instruments=Instruments(weights), ball=b.Ball(circle, 0.0, q_star)))
    assert exact.lower.bound <= wave.value <= exact.upper.bound
    assert exact.upper.bound - exact.lower.bound < 0.4  # what the drawn initial actions cost
    assert b.estimate_interval(wave.problem(log, seed=4), method=method).interval != found.interval
