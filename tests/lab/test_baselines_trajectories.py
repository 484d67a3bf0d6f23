"""Importance sampling: against loops over episodes, exact tables, and the limits that every estimator must have."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import bondic
from bondic.core.errors import InvalidInput
from bondic_lab.baselines.hcope import EmpiricalBernstein
from bondic_lab.baselines.importance import ImportanceSampling, positive_values, weighted_sums
from bondic_lab.baselines.intervals import (
    RatioSums,
    bca_ends,
    bernstein_lower,
    bootstrap_values,
    percentile_ends,
    student_ends,
)
from bondic_lab.baselines.outcome import split_ends
from bondic_lab.baselines.trajectories import trajectories
from bondic_lab.worlds.tabular import TabularMDP
from builders import as_log, part

WEIGHTINGS = ("tis", "pdis", "sntis", "snpdis")


def world(*, gamma=0.6, termination=0.3, seed=11, mix=None):
    """A small table; `mix` moves the target toward the behavior (1: equal to it)."""
    mdp = TabularMDP.random(
        np.random.default_rng(seed),
        n_states=3,
        n_actions=2,
        gamma=gamma,
        reward_range=(-1.0, 1.0),
        termination=termination,
    )
    if mix is None:
        return mdp
    return TabularMDP(
        mdp.transitions, mdp.rewards, mdp.initial_probs, (1 - mix) * mdp.target + mix * mdp.behavior, mdp.behavior,
        gamma, mdp.reward_range, mdp.termination,
    )  # fmt: skip


def question(mdp, log, **more):
    states = np.arange(mdp.initial_probs.size, dtype=float)[:, None]
    initial = bondic.InitialStates.exact(states, mdp.initial_probs)
    options = {"gamma": mdp.gamma, "reward_range": mdp.reward_range, **more}
    return bondic.make_problem(log, bondic.TablePolicy(mdp.target), initial, **options)


def sample(mdp, episodes=40, steps=5, seed=0, behavior="logging"):
    return as_log(mdp.rollout(episodes, steps, np.random.default_rng(seed), behavior=behavior))


def loop_estimate(mdp, log, weighting, steps):
    """The four estimators, one episode and one step at a time."""
    per_step = [[[], []] for _ in range(steps)]
    whole = [[], []]
    for episode in np.unique(log.episode_ids):
        rows = np.flatnonzero(log.episode_ids == episode)[:steps]
        weight, gain, t = 1.0, 0.0, 0
        for t in range(steps):
            reward = 0.0
            if t < len(rows):
                state, action = int(log.observations[rows[t], 0]), int(log.actions[rows[t]])
                weight *= mdp.target[state, action] / log.behavior_action_probs[rows[t]]
                reward = log.rewards[rows[t]]
            gain += mdp.gamma**t * reward
            per_step[t][0].append(weight * mdp.gamma**t * reward)
            per_step[t][1].append(weight)
        whole[0].append(weight * gain)
        whole[1].append(weight)
    if weighting == "tis":
        return np.mean(whole[0])
    if weighting == "sntis":
        return np.sum(whole[0]) / np.sum(whole[1])
    if weighting == "pdis":
        return sum(np.mean(top) for top, _ in per_step)
    return sum(np.sum(top) / np.sum(bottom) for top, bottom in per_step)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("steps", [None, 3])
def test_the_estimators_are_the_loops(weighting, steps):
    mdp = world()
    log = sample(mdp)
    paths = trajectories(question(mdp, log), steps=steps)
    assert paths.steps == (steps or 5)
    mine = weighted_sums(paths, weighting).estimate()
    assert mine == pytest.approx(loop_estimate(mdp, log, weighting, paths.steps), rel=1e-12)


# ------------------------------------------------------------------------------------------------ what was not recorded


def test_cut_episodes_pay_for_the_steps_that_are_missing():
    mdp = world(termination=0.0)
    log = sample(mdp, 200, 6)
    result = bondic.estimate_interval(question(mdp, log, may_terminate=False), method=ImportanceSampling("pdis"))
    paths = trajectories(question(mdp, log, may_terminate=False))
    low, high = mdp.gamma**6 * -1 / (1 - mdp.gamma), mdp.gamma**6 / (1 - mdp.gamma)
    assert (paths.tail.low, paths.tail.high) == pytest.approx((low, high))
    assert paths.tail.low <= low
    assert paths.tail.high >= high
    inner = student_ends(
        weighted_sums(paths, "pdis").estimate(), weighted_sums(paths, "pdis").influence(), split_ends(0.1, "both")
    )
    assert result.length == pytest.approx(inner[1] - inner[0] + high - low)


def test_lengths_that_were_only_seen_bound_nothing():
    """All episodes end by themselves and no limit is stated: the longest one seen must not enter a guarantee."""
    mdp = world(termination=0.9)
    log = sample(mdp, 4000, 400)
    assert not log.truncations.any()
    problem = question(mdp, log)
    refused(problem, "no bound", ImportanceSampling("tis", "hoeffding", max_ratio=4.0))
    open_ended, stated = trajectories(problem), trajectories(problem, steps=400)
    assert (open_ended.fixed, stated.fixed) == (False, True)
    assert open_ended.returns.high >= 1 / (1 - mdp.gamma)
    for weighting in ("tis", "pdis"):
        for end, sign in (("lower", 1.0), ("upper", -1.0)):
            (x, base), (y, other) = (positive_values(p, weighting, end) for p in (open_ended, stated))
            assert x.min() >= 0
            np.testing.assert_allclose(x, y, atol=1e-9)  # 0.6^400 is nothing: the closing term is the padded sum
            assert base == pytest.approx(other)
            assert abs(base + sign * x.mean() - mdp.value) < 4 * x.std() / math.sqrt(x.size)


# ------------------------------------------------------------------------------------------------------- the intervals


def test_bernstein_is_the_published_double_sum():
    """Thomas et al. write the variance as a double sum over pairs with one threshold per episode."""
    x = np.random.default_rng(1).exponential(size=30)
    c, p, n = 1.3, 0.05, 30
    y = np.minimum(x, c)
    pairs = sum((a / c - b / c) ** 2 for a in y for b in y)
    scale = 1.0 / (n / c)
    level = math.log(2 / p)
    wanted = scale * (sum(y / c) - 7 * n * level / (3 * (n - 1)) - math.sqrt(level / (n - 1) * pairs))
    assert bernstein_lower(x, c, p) == pytest.approx(wanted, rel=1e-12)


def test_bootstraps_match_scipy():
    values = np.random.default_rng(3).exponential(size=40)
    sums = RatioSums.mean(values)
    again = bootstrap_values(sums, np.random.default_rng(4), 20_000)
    for kind, mine in (
        ("percentile", percentile_ends(again, split_ends(0.1, "both"))),
        ("BCa", bca_ends(sums.estimate(), again, sums.leave_one_out(), split_ends(0.1, "both"))),
    ):
        other = stats.bootstrap(
            (values,), np.mean, n_resamples=20_000, confidence_level=0.9, method=kind, rng=np.random.default_rng(5)
        ).confidence_interval
        assert mine == pytest.approx((other.low, other.high), rel=0.02)


@pytest.mark.parametrize(
    "method",
    [
        EmpiricalBernstein("tis"),
        EmpiricalBernstein("pdis"),
        ImportanceSampling("tis", "hoeffding", max_ratio=1.7),
        ImportanceSampling("pdis", "hoeffding", max_ratio=1.7),
    ],
    ids=lambda m: f"{type(m).__name__}-{m.weighting}",
)
def test_finite_sample_intervals_cover(method):
    """100 logs at alpha = 0.2: 34 or more misses have probability below 1e-3 if the claim holds."""
    mdp = world(mix=0.75, termination=0.5)
    assert (mdp.target / mdp.behavior).max() < 1.7
    results = [
        bondic.estimate_interval(question(mdp, sample(mdp, 120, 4, seed=k)), alpha=0.2, method=method)
        for k in range(100)
    ]
    misses = sum(not r.low <= mdp.value <= r.high for r in results)
    assert misses < 34
    assert all(r.guarantee == "finite-sample" and r.certificate is None for r in results)
    assert np.mean([r.length for r in results]) < results[0].value_range.width


def test_thresholds_see_the_tuning_episodes_only():
    mdp = world()
    log = sample(mdp, 200)
    moved = np.where(log.episode_ids < 10, log.rewards, -0.9 * np.abs(log.rewards))
    other = part(log, rewards=moved)
    first, second = (
        bondic.estimate_interval(question(mdp, rows), method=EmpiricalBernstein()) for rows in (log, other)
    )
    for end in ("lower", "upper"):
        assert first.choices[f"threshold {end}"] == second.choices[f"threshold {end}"]
        assert "first 10 episodes" in first.choices[f"threshold {end}"]
    assert first.low != second.low


def test_the_lower_end_needs_no_overlap():
    """Where the behavior never goes weighted means are too small, and both ends stay on the safe side."""
    mdp = world(termination=0.5)
    blind = np.eye(2)[np.zeros(3, dtype=int)]
    log = as_log(mdp.rollout(400, 4, np.random.default_rng(0), behavior=blind))
    result = bondic.estimate_interval(question(mdp, log, accept=["unseen-actions"]), method=EmpiricalBernstein("pdis"))
    assert result.low <= mdp.value <= result.high


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_logs_without_any_weight_say_nothing(weighting):
    """All weights 0 give a spread of 0; that must not become an interval of length 0."""
    mdp = world()
    never = np.eye(2)[np.ones(3, dtype=int)]
    other = TabularMDP(
        mdp.transitions, mdp.rewards, mdp.initial_probs, np.eye(2)[np.zeros(3, dtype=int)], never, 0.6, (-1.0, 1.0), 0.3
    )
    for interval in ("t", "percentile", "bca"):
        result = bondic.estimate_interval(
            question(other, sample(other), accept=["unseen-actions"]), method=ImportanceSampling(weighting, interval)
        )
        assert result.status.name == "TRIVIAL"


# ------------------------------------------------------------------------------------------------- borders and messages


def refused(problem, text, method=None):
    with pytest.raises(InvalidInput, match=text):
        bondic.estimate_interval(problem, method=method or ImportanceSampling())


def test_what_is_missing_is_named():
    mdp = world()
    log = sample(mdp)
    refused(question(mdp, part(log, drop=("behavior_action_probs",))), "behavior='estimated'")
    refused(question(mdp, log), "max_ratio", ImportanceSampling("tis", "hoeffding"))
    refused(question(mdp, log), "above the stated bound", ImportanceSampling("tis", "hoeffding", max_ratio=1.01))
    refused(question(mdp, log), "were cut earlier", ImportanceSampling(steps=9))
    inner = int(np.flatnonzero(log.timesteps == 1)[0])
    refused(question(mdp, log).select(inner), "partly outside")
    refused(question(mdp, log).select(0, inner), "partly outside")
    border = int(np.flatnonzero(log.episode_ids == 20)[0])
    assert trajectories(question(mdp, log).select(border)).count == 20
    with pytest.raises(InvalidInput, match="ratio of means"):
        ImportanceSampling("sntis", "hoeffding")
