"""Proposals of the sequential interval: made from earlier rows alone, balanced, and good enough for short intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bondic
from bondic.core.balls import Provenance
from bondic.core.claims import ErrorBudget, ends_of
from bondic.core.errors import InvalidInput, TunedOnCertifiedRows
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.sequential.proof import SequentialProof
from bondic.core.starts import sampled_start
from bondic.engines.sums import STANDARD
from bondic.methods.sequential import Sequential
from bondic.methods.setting import tuning_problem
from bondic.policies.protocol import CallableSampler
from bondic.rows.asked import asked_of
from bondic.search.sequential.blocks import CUTS, block_ends
from bondic.search.sequential.plan import Shape, costs_of, make_plan, predicted_length
from builders import part, wobbling_sampler

PILOT = 0.1


def budget_of(problem, alpha=0.1, side="both"):
    ends = ends_of(side)
    shares = {"vector": 0.2} | dict.fromkeys(ends, 0.8 / len(ends))
    if sampled_start(problem, len(ends_of(side))) is not None:
        shares = {**{name: 0.8 * share for name, share in shares.items()}, "initial": 0.2}
    return ErrorBudget.split(alpha, shares)


def plan_of(problem, ball, *, pilot=PILOT, side="both", seen=30, landmarks=40):
    rows = tuning_problem(problem, int(pilot * len(problem.rows)))
    shape = Shape(len(problem.rows), seen=seen, landmarks=landmarks)
    return make_plan(problem, rows, ball, budget_of(problem, side=side), ends_of(side), shape)


def interval(problem, ball, *, pilot=0.05, alpha=0.1):
    """Ends of the evaluated plan, and the plan."""
    start = int(pilot * len(problem.rows))
    budget = budget_of(problem, alpha)
    plan = make_plan(
        problem, tuning_problem(problem, start), ball, budget, ("lower", "upper"), Shape(len(problem.rows))
    )
    certified = problem.select(problem.rows.start + start)
    proof = SequentialProof(asked_of(certified), budget, "both", ball, plan)
    found = proof.evaluate(certified, STANDARD)
    assert not found.empty
    low, high = (next(claim.bound for claim in found.claims if claim.end == end) for end in ("lower", "upper"))
    return low, high, plan


# ------------------------------------------------------------------------------------------------ problems


def numbers_log(n, seed, *, continuous=False, length=20, ending=0.5):
    """States of two dimensions that move; episodes of `length` rows, some of which terminate."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=(n, 2))
    a = rng.normal(size=(n, 1)) if continuous else rng.integers(2, size=n)
    push = a if continuous else a[:, None] - 0.5
    following = 0.7 * s + 0.3 * push + 0.1 * rng.normal(size=(n, 2))
    times = np.arange(n) % length
    last, ended = times == length - 1, rng.random(n) < ending
    return bondic.Transitions(
        s, a, np.tanh(s[:, 0]), following, last & ended, last & ~ended, np.arange(n) // length, times
    )


def numbers_problem(log, *, continuous=False, starts="exact", **statements):
    policy = wobbling_sampler() if continuous else bondic.SoftmaxPolicy(lambda s: s[:, :1] * np.arange(2))
    given = np.random.default_rng(9).normal(size=(60, 2))
    initial = {
        "exact": lambda: bondic.InitialStates.exact(given[:4]),
        "sample": lambda: bondic.InitialStates.sample(given),
        "log": lambda: bondic.InitialStates.from_log(log),
        "open": lambda: bondic.InitialStates.sample(given, count_fixed=False),
    }[starts]()
    more = {"draws": 2, "initial_draws": 3} if continuous else {}
    terms = {"gamma": 0.8, "reward_range": (-1.0, 1.0), "accept": None, **more, **statements}
    return bondic.make_problem(log, policy, initial, **terms)


def changed_after(log, row, seed=7):
    """Other states, actions, rewards, next states and ends from `row` on."""
    other, rng = numbers_log(len(log), seed, continuous=not log.discrete_actions), np.random.default_rng(seed)
    later = np.arange(len(log)) >= row
    mixed = {
        name: np.where(
            later if getattr(log, name).ndim == 1 else later[:, None], getattr(other, name), getattr(log, name)
        )
        for name in ("observations", "actions", "rewards", "next_observations")
    }
    last = log.terminations | log.truncations
    ends = np.where(later, last & (rng.random(len(log)) < 0.5), log.terminations)
    return part(log, **mixed, terminations=ends, truncations=last & ~ends)


KERNEL = bondic.Gaussian(1.0, on="state") * Dirac() + Constant(1.0)
SETTINGS = {
    "exact starts": (False, {}),
    "starts from the log": (False, {"starts": "log"}),
    "a sample of starts": (False, {"starts": "sample"}),
    "a sample of open size": (False, {"starts": "open"}),
    "horizon": (False, {"horizon": 15}),
    "continuous actions": (True, {}),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_no_proposal_sees_its_own_rows(name):
    continuous, options = SETTINGS[name]
    log = numbers_log(600, 1, continuous=continuous)
    kernel = bondic.Gaussian(1.0, on="point") if continuous else KERNEL
    ball = bondic.Ball(kernel, 5.0)
    plan = plan_of(numbers_problem(log, continuous=continuous, **options), ball)
    begins = [60, *(block.stop for block in plan.blocks)]
    for row in (begins[0], begins[3], begins[3] + 17, begins[-2]):
        other = plan_of(numbers_problem(changed_after(log, row), continuous=continuous, **options), ball)
        assert np.array_equal(plan.basis.points[: plan.seen], other.basis.points[: other.seen])
        seen = (slice(plan.seen), slice(plan.seen))
        assert np.array_equal(plan.basis.matrix[seen], other.basis.matrix[seen])
        for begin, mine, theirs in zip(begins[:-1], plan.blocks, other.blocks, strict=True):
            assert mine.stop == theirs.stop
            _compare(mine, theirs, begin, row)


def _compare(mine, theirs, begin, row):
    """Bit for bit the same where nothing but rows before `row` may enter; and not the same later, or the test sees nothing."""
    same = np.array_equal(mine.model.coefficients, theirs.model.coefficients)
    assert same == (begin <= row)
    if begin > row:
        return
    for name in ("whitening", "guess", "rate", "usual", "margin"):
        assert np.array_equal(getattr(mine, name), getattr(theirs, name)), name
    for end, weighting in mine.weightings.items():
        other = theirs.weightings[end]
        assert weighting.rate == other.rate
        assert np.array_equal(weighting.starts, other.starts)
        early = weighting.starts <= row
        assert np.array_equal(weighting.directions[early], other.directions[early])
        assert early.all() or not np.array_equal(weighting.directions[-1], other.directions[-1])


# --------------------------------------------------------------------------------------------------- parts


def test_blocks_follow_the_planned_rows_not_the_log():
    planned = block_ends(50, 0, 1000, 1000)
    assert planned == [70, 100, 150, 200, 300, 400, 600, 800, 1000]
    assert block_ends(50, 0, 1000, 450) == [70, 100, 150, 200, 300, 400, 600]
    assert block_ends(50, 0, 1000, 1300)[-3:] == [1000, 1200, 1400]
    long = block_ends(5000, 0, 1_000_000, 1_000_000)
    assert all(later <= 2.5 * earlier for earlier, later in zip([5000, *long], long, strict=False))
    assert {int(cut * 1_000_000) for cut in CUTS} <= set(long)
    with pytest.raises(InvalidInput, match="ascending order"):
        Shape(100, cuts=(0.5, 0.2))


# -------------------------------------------------------------------------------------------------- lengths


class SmoothWorld:
    """The synthetic problem of section 9: s' = .8 s + .5 a + .2 noise, q* a sum of 20 Gaussians of norm 1, no reward noise."""

    gamma, bandwidth = 0.95, 1.5

    def __init__(self):
        rng = np.random.default_rng(0)
        self.centers = rng.normal(size=(20, 2)) * (1, 0.8)
        weights = rng.normal(size=20)
        apart = np.sum((self.centers[:, None] - self.centers) ** 2, axis=2)
        self.weights = weights / np.sqrt(weights @ np.exp(-apart / (2 * self.bandwidth**2)) @ weights)

    def mean(self, state, spread):
        """E q*(s, a) for s ~ N(state, spread) and a from the target policy."""
        slope, noise = -0.6, 0.05
        cover = np.array([[spread, slope * spread], [slope * spread, slope**2 * spread + noise]])
        cover += self.bandwidth**2 * np.eye(2)
        away = np.stack([state, slope * state], -1)[:, None] - self.centers
        inside = np.einsum("nki,ij,nkj->nk", away, np.linalg.inv(cover), away)
        return np.exp(-0.5 * inside) @ self.weights / np.sqrt(np.linalg.det(cover / self.bandwidth**2))

    def problem(self, n, seed):
        rng = np.random.default_rng([seed, 77])
        state, rows = 0.5 * rng.normal(size=n // 50), []
        for _ in range(50):
            action = -0.6 * state + np.sqrt(0.5) * rng.normal(size=state.size)
            later = 0.8 * state + 0.5 * action + 0.2 * rng.normal(size=state.size)
            rows.append((state, action, later))
            state = later
        s, a, following = (np.array(column).T.ravel() for column in zip(*rows, strict=True))
        away = np.sum((np.column_stack([s, a])[:, None] - self.centers) ** 2, axis=2)
        q = np.exp(-away / (2 * self.bandwidth**2)) @ self.weights
        rewards = q - self.gamma * self.mean(0.8 * s + 0.5 * a, 0.04)
        log = bondic.Transitions(
            s[:, None], a[:, None], rewards, following[:, None], np.zeros(n, bool), np.arange(n) % 50 == 49
        )
        policy = CallableSampler(lambda x, rng: -0.6 * x + np.sqrt(0.05) * rng.standard_normal((len(x), 1)))
        nodes, shares = np.polynomial.hermite_e.hermegauss(12)
        starts = bondic.InitialStates.exact(0.5 * nodes[:, None], shares / shares.sum())
        return bondic.make_problem(
            log,
            policy,
            starts,
            gamma=self.gamma,
            reward_range=(-0.9, 0.4),
            value_range=(-14.0, 4.8),
            initial_draws=4000,
        )


def test_a_short_interval_where_the_dual_says_nothing():
    world = SmoothWorld()
    problem, ball = world.problem(5000, 1), bondic.Ball(bondic.Gaussian(1.5, on="point"), 10.0)
    low, high, plan = interval(problem, ball)
    assert low <= world.mean(np.zeros(1), 0.25)[0] <= high
    assert high - low <= 1.2
    assert plan.start is not None
    pilot = tuning_problem(problem, 250)
    costs = costs_of(budget_of(problem), ("lower", "upper"))
    lengths = [predicted_length(pilot, ball.with_radius(radius), 5000, costs) for radius in (3.0, 10.0, 100.0)]
    assert 0.4 * (high - low) <= lengths[1] <= 2.5 * (high - low)
    assert lengths == sorted(lengths)


def test_a_class_that_saw_later_rows_is_refused():
    """The dual bound may choose Q with all rows; here weights are made with Q."""
    problem = numbers_problem(numbers_log(400, 14, ending=0.0))
    looked = bondic.Ball(KERNEL, 5.0, provenance=Provenance("tuned", (0, 400), problem.log_hash))
    with pytest.raises(TunedOnCertifiedRows, match="choose it on earlier rows"):
        Sequential(ball=looked, pilot=100).run(problem, 0.1, None)
    early = replace(looked, provenance=Provenance("tuned", (0, 100), problem.log_hash))
    assert Sequential(ball=early, pilot=100).run(problem, 0.1, None).rows == (100, 400)
