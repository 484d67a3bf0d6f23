"""What the baselines claim, taken at its word: assumptions that are printed, bounds that hold at every step, rare levels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import bondic
from bondic.baselines.features import make_design, start_error
from bondic.baselines.hcope import EmpiricalBernstein
from bondic.baselines.importance import ImportanceSampling
from bondic.baselines.intervals import bca_ends, bernstein_lower, hoeffding_lower, percentile_ends
from bondic.baselines.lipschitz import Lipschitz
from bondic.baselines.outcome import split_ends
from bondic.baselines.trajectory_dr import DoublyRobust
from bondic.environments.tabular import TabularMDP
from bondic.errors import InvalidInput
from problems import as_log


def words(result):
    return {assumption.name: assumption.text for assumption in result.assumptions}


# ------------------------------------------------------------------------------------------- lengths that are only stated


def two_ways(episodes=400, seed=0):
    """Action 0 ends the episode, action 1 goes on for ever; a reward of 1 per step. The behaviour stops at once."""
    ends = np.random.default_rng(seed).random(episodes) < 2.0  # the behaviour chose 0 in every episode
    zeros = np.zeros((episodes, 1))
    log = bondic.Transitions(
        zeros, np.zeros(episodes, dtype=int), np.ones(episodes), zeros, ends,
        episode_ids=np.arange(episodes), timesteps=np.zeros(episodes, dtype=int),
        behavior_action_probs=np.full(episodes, 1 - 1e-4),
    )  # fmt: skip
    policy = bondic.TablePolicy(np.array([[0.5, 0.5]]))
    initial = bondic.InitialStates.exact([[0.0]])
    return bondic.make_problem(log, policy, initial, gamma=0.9, reward_range=(0.0, 1.0))


@pytest.mark.parametrize("method", [EmpiricalBernstein, ImportanceSampling])
def test_a_length_that_steps_states_is_printed_as_an_assumption(method):
    """All logged episodes have one step, and steps=1 says that none is longer. The policy's own episodes are: without
    the statement the interval would be wrong, so it has to stand among the assumptions."""
    problem = two_ways()
    stated = bondic.estimate_interval(problem, method=method(steps=1))
    truth = 1 / (1 - 0.9 * 0.5)
    assert stated.high < truth
    assert "longer than 1 steps" in words(stated)["length"]
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
    """pi <= 1 is what turns a least behaviour probability into a bound of pi / beta; densities know no such limit."""
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
        bondic.estimate_interval(
            problem, method=ImportanceSampling("tis", "hoeffding", steps=1, least_behavior_prob=1e-3)
        )
    result = bondic.estimate_interval(
        problem, method=ImportanceSampling("tis", "hoeffding", steps=1, largest_ratio=1e9)
    )
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


@pytest.mark.parametrize("weighting", ["sntis", "snpdis"])
def test_a_ratio_that_rests_on_one_episode_says_nothing(weighting):
    """One episode with weight: the ratio is its return and its linearised spread is 0, which is not certainty."""
    n = 30
    actions = np.zeros(n, dtype=int)
    actions[7] = 1
    zeros = np.zeros((n, 1))
    log = bondic.Transitions(
        zeros, actions, np.linspace(-1, 1, n), zeros, np.ones(n, dtype=bool), episode_ids=np.arange(n),
        behavior_action_probs=np.where(actions == 1, 0.05, 0.95),
    )  # fmt: skip
    policy = bondic.TablePolicy(np.array([[0.0, 1.0]]))
    problem = bondic.make_problem(log, policy, bondic.InitialStates.exact([[0.0]]), gamma=0.5, reward_range=(-1.0, 1.0))
    result = bondic.estimate_interval(problem, method=ImportanceSampling(weighting))
    assert result.status.name == "TRIVIAL"


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


# ------------------------------------------------------------------------------------------------- self-normalised noise


def test_the_self_normalised_event_holds_at_a_stopping_time_and_needs_its_determinant():
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
