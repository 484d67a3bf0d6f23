"""What the baselines claim, taken at its word: assumptions that are printed, bounds that hold at every step, rare levels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bondic
from bondic_lab.baselines.hcope import EmpiricalBernstein
from bondic_lab.baselines.importance import ImportanceSampling
from bondic_lab.baselines.intervals import (
    bernstein_lower,
    hoeffding_lower,
)
from bondic_lab.baselines.lipschitz import Lipschitz, upper_end
from bondic_lab.worlds.tabular import TabularMDP
from builders import as_log


def words(result):
    return {assumption.name: assumption.text for assumption in result.assumptions}


# ------------------------------------------------------------------------------------------- lengths that are only stated


def two_ways(episodes=400, seed=0):
    """Action 0 ends the episode, action 1 goes on for ever; a reward of 1 per step. The behavior stops at once."""
    ends = np.random.default_rng(seed).random(episodes) < 2.0  # the behavior chose 0 in every episode
    zeros = np.zeros((episodes, 1))
    log = bondic.Transitions(
        zeros, np.zeros(episodes, dtype=int), np.ones(episodes), zeros, ends,
        episode_ids=np.arange(episodes), timesteps=np.zeros(episodes, dtype=int),
        behavior_action_probs=np.full(episodes, 1 - 1e-4),
    )  # fmt: skip
    policy = bondic.TablePolicy(np.array([[0.5, 0.5]]))
    initial = bondic.InitialStates.exact([[0.0]])
    return bondic.make_problem(log, policy, initial, gamma=0.9, reward_range=(0.0, 1.0), accept=["unseen-actions"])


@pytest.mark.parametrize("method", [EmpiricalBernstein, ImportanceSampling])
def test_a_length_that_steps_states_is_printed_as_an_assumption(method):
    """All logged episodes have one step, and steps=1 says that none is longer. The policy's own episodes are: without
    the statement the interval would be wrong, so it has to stand among the assumptions."""
    problem = two_ways()
    stated = bondic.estimate_interval(problem, method=method(steps=1))
    truth = 1 / (1 - 0.9 * 0.5)
    assert stated.high < truth
    assert "longer than 1 step," in words(stated)["length"]
    if method is EmpiricalBernstein:
        open_ended = bondic.estimate_interval(problem, method=method())
        assert open_ended.low <= truth <= open_ended.high
        assert "length" not in words(open_ended)


# ----------------------------------------------------------------------------------------------------------- bounds of X


@pytest.mark.parametrize("law", ["rare", "half"])
def test_one_sided_bounds_of_means_hold_and_are_not_slack_by_a_side(law):
    """P( bound > E X ) <= p for Hoeffding and the empirical Bernstein bound, X in [0, 1], cut at 1 or at 0.4.

    With the level of a bound that is half as wide the same count is exceeded for Hoeffding (the control)."""
    rng = np.random.default_rng(3)
    p, n, logs = 0.2, 40, 4000
    q = 0.03 if law == "rare" else 0.5
    draws = (rng.random((logs, n)) < q).astype(float)
    most = stats.binom.ppf(1 - 1e-6, logs, p)
    for bound in (
        lambda x: hoeffding_lower(x, 1.0, p),
        lambda x: bernstein_lower(x, 1.0, p),
        lambda x: bernstein_lower(x, 0.4, p),
    ):
        assert sum(bound(x) > q for x in draws) <= most
    if law == "half":
        tight = sum(x.mean() - 0.5 * (x.mean() - hoeffding_lower(x, 1.0, p)) > q for x in draws)
        assert tight > stats.binom.ppf(0.5, logs, p)


# ---------------------------------------------------------------------------------------------- values at later times


def test_lipschitz_ends_hold_when_values_shrink_towards_the_horizon():
    """Rewards of 1 to 2 for three steps: q at time 1 may be 2, below every value at time 0. The ends must know."""
    place = np.zeros((3, 1))
    log = bondic.Transitions(
        place, np.zeros(3, dtype=int), np.ones(3), place, np.zeros(3, dtype=bool), np.array([False, False, True]),
        np.zeros(3, dtype=int), np.arange(3),
    )  # fmt: skip
    policy, initial = bondic.UniformPolicy(1), bondic.InitialStates.exact([[0.0]])
    for sign in (1.0, -1.0):
        problem = bondic.make_problem(
            bondic.Transitions(
                place, log.actions, sign * log.rewards, place, log.terminations, log.truncations, log.episode_ids,
                log.timesteps,
            ),
            policy, initial, gamma=1.0, horizon=3, may_terminate=False,
            reward_range=(1.0, 2.0) if sign > 0 else (-2.0, -1.0),
        )  # fmt: skip
        result = bondic.estimate_interval(problem, method=Lipschitz(10.0))
        assert result.low <= sign * 3.0 <= result.high
        assert result.status.name != "REJECTED"
        seen_first = bondic.estimate_interval(problem.select(0, 1), method=Lipschitz(10.0))
        assert seen_first.low <= sign * 3.0 <= seen_first.high


# ------------------------------------------------------------------------------------------------ ratios without weight


def matching(*, rewards=((0.9, 0.8), (0.95, 0.85)), reward_range=(0.0, 1.0), termination=0.0):
    """A deterministic target and fair coins: half of the weighted episodes drop out at every step."""
    return TabularMDP(
        np.full((2, 2, 2), 0.5), np.array(rewards), np.array([0.5, 0.5]), np.eye(2), np.full((2, 2), 0.5), 0.95,
        reward_range, termination=np.full((2, 2), termination),
    )  # fmt: skip


def matching_problem(mdp, seed=0, episodes=100, steps=60):
    log = as_log(mdp.rollout(episodes, steps, np.random.default_rng(seed)))
    initial = bondic.InitialStates.exact([[0.0], [1.0]], mdp.initial_probs)
    return bondic.make_problem(
        log, bondic.TablePolicy(mdp.target), initial, gamma=mdp.gamma, reward_range=mdp.reward_range,
        may_terminate=bool(mdp.termination.any()),
    )  # fmt: skip


@pytest.mark.parametrize("interval", ["t", "percentile", "bca"])
def test_steps_without_weight_are_not_known_to_pay_nothing(interval):
    """After some 6 of 60 steps no episode follows the policy; counted as 0 with certainty the interval missed always."""
    mdp = matching()
    method = ImportanceSampling("snpdis", interval, replicates=200)
    results = [bondic.estimate_interval(matching_problem(mdp, seed), alpha=0.1, method=method) for seed in range(20)]
    misses = sum(not r.low <= mdp.value <= r.high for r in results)
    assert misses <= stats.binom.ppf(1 - 1e-4, 20, 0.1)
    assert all("of 60 steps rest on fewer than 2" in r.choices["weights"] for r in results)
    assert all(r.length < r.value_range.width for r in results)  # the first steps are known


def test_ends_of_snpdis_are_the_sum_over_known_steps_and_ranges():
    """The slow twin: one ratio per step while 2 effective episodes are left, the step's range afterwards."""
    mdp = matching(rewards=((0.9, -0.3), (0.95, 0.4)), reward_range=(-0.5, 1.0))
    problem = matching_problem(mdp, seed=3)
    log = problem.log
    known, psi, theta, low, high = 0, np.zeros(100), 0.0, 0.0, 0.0
    for t in range(60):
        rho, reward = np.zeros(100), np.zeros(100)
        for e in range(100):
            rows = np.flatnonzero(log.episode_ids == e)
            taken = mdp.target[log.observations[rows, 0].astype(int), log.actions[rows]]
            rho[e], reward[e] = np.prod(taken[: t + 1] / 0.5), log.rewards[rows[t]]
        size = mdp.gamma**t
        if rho.sum() ** 2 >= 2 * np.sum(rho**2) and rho.any():
            known += 1
            ratio = np.sum(rho * reward) / rho.sum()
            theta += size * ratio
            psi += size * rho * (reward - ratio) / rho.mean()
        else:
            low, high = low - 0.5 * size, high + size
    half = stats.t.ppf(0.95, 99) * psi.std(ddof=1) / 10
    tail = mdp.gamma**60 / (1 - mdp.gamma)
    wanted = (theta - half + low - 0.5 * tail, theta + half + high + tail)
    result = bondic.estimate_interval(problem, alpha=0.1, method=ImportanceSampling("snpdis"))
    assert (result.low, result.high) == pytest.approx(wanted, rel=1e-9)
    assert f"{60 - known} of 60 steps" in result.choices["weights"]
    assert 3 <= known <= 10


@pytest.mark.parametrize("rare", [0.0, 0.001], ids=["all", "nearly all"])
@pytest.mark.parametrize("weighting", ["sntis", "snpdis"])
def test_one_episode_with_all_the_weight_says_nothing(weighting, rare):
    """The ratio is the return of that episode and its linearized spread is 0, which is not certainty.

    With nearly all of it no weight is 0, as with every softmax policy: counting weights that are not 0 would notice nothing."""
    n, taken = 30, rare or 0.05
    actions = np.zeros(n, dtype=int)
    actions[7] = 1
    zeros = np.zeros((n, 1))
    log = bondic.Transitions(
        zeros, actions, np.linspace(-1, 1, n), zeros, np.ones(n, dtype=bool), episode_ids=np.arange(n),
        behavior_action_probs=np.where(actions == 1, taken, 1 - taken),
    )  # fmt: skip
    policy = bondic.TablePolicy(np.array([[rare, 1 - rare]]))
    problem = bondic.make_problem(log, policy, bondic.InitialStates.exact([[0.0]]), gamma=0.5, reward_range=(-1.0, 1.0))
    for interval in ("t", "percentile", "bca"):
        result = bondic.estimate_interval(problem, method=ImportanceSampling(weighting, interval))
        assert result.status.name == "TRIVIAL"
        assert "fewer than 2 effective episodes" in result.choices["weights"]


# --- Lipschitz value iteration on a deterministic line whose q* is known.

GAMMA = 0.7


def step(s, a):
    """Toward 0 (action 0) or half way to 1 (action 1); the reward is the place."""
    return np.where(a == 0, 0.5 * s, 0.5 * s + 0.5)


def line(n, seed=0, **more):
    """The policy always takes action 1: v*(s) = sum gamma^t s_t with s_t = 1 - (1 - s) 2^-t."""
    rng = np.random.default_rng(seed)
    s, a = rng.random(n), rng.integers(2, size=n)
    log = bondic.Transitions(s[:, None], a, s, step(s, a)[:, None], np.zeros(n, dtype=bool))
    policy = bondic.CallablePolicy(lambda x: np.tile([0.0, 1.0], (len(x), 1)))
    initial = bondic.InitialStates.exact([[0.2], [0.9]], [0.25, 0.75])
    return bondic.make_problem(log, policy, initial, gamma=GAMMA, reward_range=(0.0, 1.0), **more)


def v_star(s):
    return 1 / (1 - GAMMA) - (1 - s) / (1 - GAMMA / 2)


TRUTH = 0.25 * v_star(0.2) + 0.75 * v_star(0.9)
SLOPE = 1 / (1 - GAMMA / 2)  # of q* in s, both actions: 1 + gamma SLOPE / 2 = SLOPE


def test_the_truth_lies_inside_and_the_interval_shrinks():
    lengths = []
    for n in (10, 100, 1000):
        result = bondic.estimate_interval(line(n), method=Lipschitz(SLOPE))
        assert result.low <= TRUTH <= result.high
        assert result.guarantee == "finite-sample"
        lengths.append(result.length)
    assert lengths[2] < 0.2 * lengths[1] < 0.2 * lengths[0]


def test_against_plain_loops():
    problem = line(12)
    n, top = len(problem), 1 / (1 - GAMMA)
    for sign in (1.0, -1.0):
        limit = top if sign > 0 else 0.0
        u = [limit] * n

        def bound(x, slot, u=u, limit=limit):
            values = [
                u[j] + SLOPE * abs(x - problem.whole().logged[j, 0])
                for j in range(n)
                if problem.whole().slots[j] == slot
            ]
            return min([limit, *values])

        for _ in range(200):
            new = [
                sign * problem.whole().rewards[i] + GAMMA * bound(problem.whole().next.points[i, 0], 1)
                for i in range(n)
            ]
            u[:] = [min(a, b) for a, b in zip(u, new, strict=True)]
        wanted = sign * (0.25 * bound(0.2, 1) + 0.75 * bound(0.9, 1))
        assert upper_end(problem, SLOPE, 400, sign=sign) == pytest.approx(wanted, abs=1e-6)
