"""Episodes as they were recorded: gaps, glued episodes and short cuts, and what a result says about them."""

from __future__ import annotations

import numpy as np
import pytest

import bondic
from bondic.core.errors import InvalidInput
from bondic_lab.baselines.registry import make_baseline
from bondic_lab.worlds.tabular import TabularMDP
from builders import part

TRAJECTORY_METHODS = ("hcope", "tis", "pdis", "sntis", "snpdis", "is-bca", "dr", "tis-hoeffding", "pdis-hoeffding")


def method(name, **more):
    return make_baseline(name, **({"max_ratio": 2.0} if "hoeffding" in name else {}), **more)


def ask(mdp, log, **more):
    states = np.arange(mdp.initial_probs.size, dtype=float)[:, None]
    initial = bondic.InitialStates.exact(states, mdp.initial_probs)
    # what is recorded wrongly is left to the methods themselves here
    options = {"gamma": mdp.gamma, "reward_range": mdp.reward_range, "accept": None, **more}
    return bondic.make_problem(log, bondic.TablePolicy(mdp.target), initial, **options)


def words(result):
    return {assumption.name: assumption.text for assumption in result.assumptions}


def fork():
    """0 leads to 1; there action 1 leads to 2, which pays 1, action 0 to 3, which does not; then it ends."""
    transitions, rewards = np.zeros((4, 2, 4)), np.zeros((4, 2))
    transitions[0, :, 1] = transitions[1, 1, 2] = transitions[1, 0, 3] = 1.0
    transitions[2, :, 2] = transitions[3, :, 3] = 1.0
    rewards[2] = 1.0
    ending = np.zeros((4, 2))
    ending[2:] = 1.0
    target, behavior = np.tile([0.1, 0.9], (4, 1)), np.full((4, 2), 0.5)
    return TabularMDP(transitions, rewards, np.eye(4)[0], target, behavior, 0.9, (0.0, 1.0), termination=ending)


def walk(gamma=0.9, states=3):
    """Every step goes one state on, round a circle: a missing row shows wherever it is."""
    transitions = np.zeros((states, 2, states))
    for s in range(states):
        transitions[s, :, (s + 1) % states] = 1.0
    rng = np.random.default_rng(3)
    target, behavior = np.tile([0.3, 0.7], (states, 1)), np.full((states, 2), 0.5)
    return TabularMDP(transitions, rng.random((states, 2)), np.eye(states)[0], target, behavior, gamma, (0.0, 1.0))


# ------------------------------------------------------------------------------------------- few episodes that set T for all


def cut_log(rollout, lengths):
    """Episode e without the rows from lengths[e] on, its last row marked as truncated."""
    allowed = np.asarray(lengths)[rollout.episode_ids]
    keep = rollout.timesteps < allowed
    ends = (rollout.timesteps == allowed - 1) & ~rollout.terminations
    return part(rollout, keep, truncations=(rollout.truncations | ends)[keep])


@pytest.mark.parametrize("name", TRAJECTORY_METHODS)
def test_few_cut_episodes_that_set_the_length_for_all_are_named(name):
    mdp = walk()
    rollout = mdp.rollout(100, 20, np.random.default_rng(0))
    short = cut_log(rollout, [20] * 99 + [1])
    result = bondic.estimate_interval(ask(mdp, short), method=method(name))
    said = "T is 1 because 1 episode was cut early, out of 100; without it T would be 20"
    assert said in words(result)["recording"]
    assert said in result.choices["cut episodes"]
    assert "leave them out of the log" in result.choices["cut episodes"]
    kept = bondic.estimate_interval(ask(mdp, part(short, short.episode_ids < 99)), method=method(name))
    assert "cut episodes" not in kept.choices
    if "hoeffding" not in name:
        assert kept.length < result.length
    assert "cut episodes" not in bondic.estimate_interval(ask(mdp, short), method=method(name, steps=1)).choices


# -------------------------------------------------------------------------------------------------- estimates of J* itself


# ------------------------------------------------------------------------------------------------- gaps and glued episodes


@pytest.mark.parametrize("name", TRAJECTORY_METHODS)
def test_a_gap_is_refused_without_timesteps_too(name):
    """The missing row holds the only ratio that matters: the interval was finite-sample and missed 18 times in 20."""
    mdp = fork()
    rollout = mdp.rollout(300, 5, np.random.default_rng(0))
    problem = ask(mdp, part(rollout, rollout.timesteps != 1, drop=("timesteps",)))
    with pytest.raises(InvalidInput, match=r"Row 1 follows row 0 .* starts at .* led to .* pass `timesteps`"):
        bondic.estimate_interval(problem, method=method(name, steps=3))
    whole = ask(mdp, part(rollout, drop=("timesteps",)))
    result = bondic.estimate_interval(whole, method=method(name, steps=3))
    assert result.low <= mdp.value <= result.high
    numbered = bondic.estimate_interval(ask(mdp, part(rollout)), method=method(name, steps=3))
    assert (result.low, result.high) == (numbered.low, numbered.high)


def test_truncated_episodes_that_share_an_id_are_refused():
    """The circle has length 4, so that states join up; only the truncation shows that two episodes were glued."""
    mdp = walk(states=4)
    rollout = mdp.rollout(12, 4, np.random.default_rng(0))
    assert rollout.truncations.sum() == 12
    glued = part(rollout, drop=("timesteps",), episode_ids=rollout.episode_ids // 3)
    with pytest.raises(InvalidInput, match=r"Row 4 follows row 3 .* is truncated"):
        bondic.estimate_interval(ask(mdp, glued), method=method("hcope"))
    # the way out that the message names: with timesteps that run on the rows are one episode by statement
    stated = part(rollout, episode_ids=rollout.episode_ids // 3, timesteps=np.tile(np.arange(12), 4))
    assert (
        bondic.estimate_interval(ask(mdp, stated), method=method("pdis")).choices["episodes"].startswith("4 episodes")
    )
    short = part(rollout, np.arange(48) % 4 < 3, drop=("timesteps", "truncations"))
    untold = part(short, drop=("timesteps",), episode_ids=short.episode_ids // 3)
    with pytest.raises(InvalidInput, match=r"Row 3 follows row 2 .* led to"):
        bondic.estimate_interval(ask(mdp, untold), method=method("hcope"))
