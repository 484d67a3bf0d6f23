"""What the baselines claim, taken at its word: assumptions that are printed, bounds that hold at every step, rare levels."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy import stats

import bondic
from bondic.core.errors import InvalidInput
from bondic_lab.baselines.features import make_design, start_error
from bondic_lab.baselines.hcope import EmpiricalBernstein
from bondic_lab.baselines.importance import ImportanceSampling, rests_on_enough, weighted_sums
from bondic_lab.baselines.intervals import (
    RatioSums,
    bca_ends,
    bernstein_lower,
    hoeffding_lower,
    percentile_ends,
    student_ends,
)
from bondic_lab.baselines.lipschitz import Lipschitz
from bondic_lab.baselines.outcome import split_ends
from bondic_lab.baselines.registry import make_baseline
from bondic_lab.baselines.trajectories import trajectories
from bondic_lab.baselines.trajectory_dr import DoublyRobust
from bondic_lab.worlds.tabular import TabularMDP
from builders import as_log


def words(result):
    return {assumption.name: assumption.text for assumption in result.assumptions}


# ------------------------------------------------------------------------------------------------- what starts and rows are


@pytest.mark.parametrize("name", ["dm", "dr", "mis", "lstd", "drl", "coindice", "model", "duan-wang", "lipschitz"])
def test_what_the_initial_states_are_taken_for_is_printed(name):
    n = 60
    states = np.tile([0.0, 1.0], n // 2)[:, None]
    log = bondic.Transitions(
        states, np.zeros(n, dtype=int), states[:, 0], states, np.ones(n, dtype=bool), episode_ids=np.arange(n),
        behavior_action_probs=np.ones(n),
    )  # fmt: skip
    both = [[0.0], [1.0]]
    for starts, text in (
        (bondic.InitialStates.exact(both), "exactly the given list of 2 weighted states"),
        (
            bondic.InitialStates.sample(both * 10),
            "20 initial states are independent draws .* number was fixed beforehand",
        ),
        (bondic.InitialStates.from_log(log), "60 initial states are independent draws .* not fixed beforehand"),
    ):
        problem = bondic.make_problem(log, bondic.UniformPolicy(1), starts, gamma=0.5, reward_range=(0.0, 1.0))
        options = {"constant": 1.0} if name == "lipschitz" else {}
        result = bondic.estimate_interval(problem, method=make_baseline(name, **options))
        assert re.search(text, words(result)["start"])


def test_drawn_initial_actions_are_named():
    n = 60
    rng = np.random.default_rng(0)
    actions = rng.normal(size=(n, 1))
    log = bondic.Transitions(
        np.zeros((n, 1)), actions, np.tanh(actions[:, 0]), np.zeros((n, 1)), np.ones(n, dtype=bool)
    )
    policy = bondic.GaussianPolicy(lambda s: 0 * s, 1.0)
    problem = bondic.make_problem(
        log, policy, bondic.InitialStates.exact([[0.0]]), gamma=0.5, reward_range=(-1, 1), initial_draws=7, seed=5
    )
    result = bondic.estimate_interval(problem, method=make_baseline("lstd"))
    assert "7 actions were drawn at each from seed 5" in words(result)["start"]


@pytest.mark.parametrize("name", ["mis", "lstd", "drl", "coindice"])
def test_rows_as_units_are_explained_by_what_the_log_has(name):
    mdp = TabularMDP.random(np.random.default_rng(1), n_states=2, n_actions=2, gamma=0.9)
    rollout = mdp.rollout(20, 4, np.random.default_rng(0))
    initial = bondic.InitialStates.exact(np.arange(2.0)[:, None], mdp.initial_probs)

    def rows(log, **options):
        problem = bondic.make_problem(
            log, bondic.TablePolicy(mdp.target), initial, gamma=0.9, reward_range=mdp.reward_range
        )
        return words(bondic.estimate_interval(problem, method=make_baseline(name, **options)))

    columns = ("observations", "actions", "rewards", "next_observations", "terminations")
    alone = bondic.Transitions(**{column: getattr(rollout, column) for column in columns})
    assert "(the log names no episodes)" in rows(alone)["rows"]
    assert "although the log groups them into episodes" in rows(as_log(rollout), unit="rows")["rows"]
    if name == "coindice":  # its published setting, and what it does unless asked otherwise
        assert "although the log groups them into episodes" in rows(as_log(rollout))["rows"]
    else:
        assert "rows" not in rows(as_log(rollout))


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


def test_a_horizon_needs_no_statement_about_lengths():
    mdp = TabularMDP.random(np.random.default_rng(1), n_states=2, n_actions=2, gamma=0.9)
    log = as_log(mdp.rollout(20, 4, np.random.default_rng(0)))
    initial = bondic.InitialStates.exact(np.arange(2.0)[:, None], mdp.initial_probs)
    problem = bondic.make_problem(
        log, bondic.TablePolicy(mdp.target), initial, gamma=0.9, reward_range=mdp.reward_range, horizon=4
    )
    assert "length" not in words(bondic.estimate_interval(problem, method=ImportanceSampling(steps=4)))
    shorter = bondic.estimate_interval(problem, method=ImportanceSampling(steps=2))  # pays for steps 2 and 3
    assert "length" not in words(shorter)
    assert "up to step 2" in words(shorter)["recording"]


# ----------------------------------------------------------------------------------------------------------- bounds of X


def test_a_least_density_bounds_no_ratio():
    """pi <= 1 is what turns a least behavior probability into a bound of pi / beta; densities know no such limit."""
    n = 50
    rng = np.random.default_rng(0)
    states, actions = np.zeros((n, 1)), rng.normal(size=(n, 1))
    log = bondic.Transitions(
        states, actions, np.tanh(actions[:, 0]), states, np.ones(n, dtype=bool), episode_ids=np.arange(n),
        behavior_action_probs=stats.norm.pdf(actions[:, 0]),
    )  # fmt: skip
    peaked = bondic.GaussianPolicy(lambda s: 0 * s + 9.0, 0.01)  # a density of 40 where nothing was logged
    problem = bondic.make_problem(
        log, peaked, bondic.InitialStates.from_log(log), gamma=0.5, reward_range=(-1, 1), horizon=None
    )
    with pytest.raises(InvalidInput, match="densities"):
        bondic.estimate_interval(problem, method=ImportanceSampling("tis", "hoeffding", steps=1, min_propensity=1e-3))
    result = bondic.estimate_interval(problem, method=ImportanceSampling("tis", "hoeffding", steps=1, max_ratio=1e9))
    assert result.status.name == "TRIVIAL"


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


# ------------------------------------------------------------------------------------------------------ asymptotic ends


def test_quantiles_beyond_the_replicates_go_on_as_the_normal_law():
    """200 replicates end near 2.8 standard deviations; a level of 0.0005 needs 3.3, however many episodes there are."""
    again = stats.norm.ppf((np.arange(200) + 0.5) / 200)
    low, high = percentile_ends(again, split_ends(0.001, "both"))
    assert (low, high) == pytest.approx((-3.29, 3.29), abs=0.05)
    bca = bca_ends(0.0, again, np.linspace(-1, 1, 50), split_ends(0.001, "both"))
    assert bca == pytest.approx((low, high), abs=0.05)
    inside = percentile_ends(again, split_ends(0.1, "both"))
    assert inside == pytest.approx(tuple(np.quantile(again, [0.05, 0.95])))  # where they say enough nothing changes
    lopsided = percentile_ends(np.append(np.zeros(199), 50.0), split_ends(0.001, "both"))
    assert lopsided[1] >= 50.0  # never inside the extreme replicate
    assert lopsided[0] < 0.0


def test_doubly_robust_pays_for_sampled_starts_even_without_other_noise():
    """Nothing is random but the start: corrections are all 0, and what is left is the error of the sampled starts."""
    n = 80
    states = np.tile([0.0, 1.0], n // 2)[:, None]
    log = bondic.Transitions(
        states, np.zeros(n, dtype=int), states[:, 0], states, np.ones(n, dtype=bool), episode_ids=np.arange(n),
        behavior_action_probs=np.ones(n),
    )  # fmt: skip
    starts = bondic.InitialStates(np.repeat([[0.0], [1.0]], [5, 15], axis=0), np.full(20, 0.05), "sample")
    problem = bondic.make_problem(
        log, bondic.UniformPolicy(1), starts, gamma=0.5, reward_range=(0.0, 1.0), horizon=None
    )
    result = bondic.estimate_interval(problem, alpha=0.1, method=DoublyRobust())
    design = make_design(problem)
    error = start_error(problem, design, np.linalg.lstsq(design.logged, log.rewards, rcond=None)[0])
    assert error == pytest.approx(math.sqrt(0.25 * 0.75 / 19))
    assert result.length == pytest.approx(2 * stats.t.ppf(0.95, n - 1) * error, rel=1e-3)


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


@pytest.mark.parametrize("weighting", ["sntis", "snpdis"])
def test_ratios_stay_within_the_range_of_the_returns(weighting):
    """Rewards of 10 to 11: unknown steps counted as 0 left the value range, and the user was told that it is wrong."""
    mdp = matching(rewards=((10.9, 10.8), (10.95, 10.85)), reward_range=(10.0, 11.0))
    result = bondic.estimate_interval(matching_problem(mdp), method=ImportanceSampling(weighting))
    assert result.status.name != "REJECTED"
    assert result.low <= mdp.value <= result.high
    assert result.value_range.low <= result.estimate <= result.value_range.high


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


def test_unknown_last_steps_of_complete_episodes_go_on():
    """All episodes ended by themselves; the policy's own ones may be longer than any that was seen."""
    mdp = matching(termination=0.01)
    problem = matching_problem(mdp, episodes=30, steps=2000)
    assert not problem.log.truncations.any()
    result = bondic.estimate_interval(problem, method=ImportanceSampling("snpdis"))
    paths = trajectories(problem)
    known = rests_on_enough(weighted_sums(paths, "snpdis"))
    assert not known[-1]
    missing = 1 / (1 - mdp.gamma) - paths.discounts[known].sum()
    first = weighted_sums(paths, "snpdis").only(known)
    ends = student_ends(first.estimate(), first.influence(), split_ends(0.1, "both"))
    assert (result.low, result.high) == pytest.approx((ends[0], ends[1] + missing))


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


def test_effective_numbers_are_their_formula():
    weights = np.array([[1.0, 0.0, 1e200, 3.0], [1.0, 0.0, 1e200, 1.0], [1.0, 0.0, 0.0, 0.0]])
    sums = RatioSums(np.zeros((3, 4)), weights, np.arange(4.0))
    np.testing.assert_allclose(sums.effective(), [3.0, 0.0, 2.0, 16 / 10])
    assert rests_on_enough(sums).tolist() == [True, False, True, False]
    assert sums.estimate() == 1.0  # the guess for the ratio that has no weight
    assert sums.only(np.array([True, False, False, True])).denominators.shape == (3, 2)


# ------------------------------------------------------------------------------------------------- self-normalized noise


def test_the_self_normalized_event_holds_at_a_stopping_time_and_needs_its_determinant():
    """|Phi' eps| in the norm of Sigma^-1 against (B/2) sqrt( 2 log(1/p) + log det(Sigma / lambda) ), as `duan-wang` has it.

    eps = -+ B/2 is the law that its constant is made for; rows stop when the norm is largest among 10 looks. Without the
    determinant the same count is far too large (the control)."""
    rng = np.random.default_rng(2)
    width, p, ridge, logs, n, dimension = 3.0, 0.2, 1.0, 1500, 60, 4
    misses, bare = 0, 0
    for _ in range(logs):
        phi = np.eye(dimension)[rng.integers(dimension, size=n)]
        sums = np.cumsum(phi * rng.choice([-0.5 * width, 0.5 * width], size=n)[:, None], axis=0)
        counts = np.cumsum(phi, axis=0) + ridge
        looks = slice(n // 10 - 1, n, n // 10)
        norms = np.sum(sums[looks] ** 2 / counts[looks], axis=1)
        level = 2 * math.log(1 / p)
        misses += np.any(norms > (0.5 * width) ** 2 * (level + np.log(counts[looks] / ridge).sum(axis=1)))
        bare += np.any(norms > (0.5 * width) ** 2 * level)
    assert misses <= stats.binom.ppf(1 - 1e-6, logs, p)
    assert bare > stats.binom.ppf(1 - 1e-6, logs, p)
