"""Intervals from propensities: what must be known beforehand is, bit by bit, and what is relied on is checked or said."""

from dataclasses import replace

import numpy as np
import pytest

import bondic
from bondic.core.errors import InvalidInput
from bondic.core.propensities.control import LinearControl
from bondic.methods.propensities import Propensities
from bondic.plan.controls import linear_control
from bondic.rows.decisions import read_decisions
from bondic.rows.episodes import split_episodes
from propensity_cases import (
    LARGEST,
    STATES,
    ThreeStates,
    TwoStates,
    all_walks,
    decisions,
    interval,
    question,
    walk_log,
)

# --- a log that grows keeps the floats of its first rows --------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 17, 255, 257])
def test_predictions_do_not_tell_how_many_rows_follow(count):
    rng = np.random.default_rng(0)
    control = LinearControl(
        (10,), (-5.0, 5.0), (0.0, 1.0), np.zeros(7), np.ones(7), rng.normal(size=(1, 8, 5))
    )  # fmt: skip
    rows, states = np.arange(10, 2010), rng.normal(size=(2000, 7))
    assert np.array_equal(control.predict(rows[:count], states[:count]), control.predict(rows, states)[:count])


def growing(later, *, every_action=False):
    """Short walks, then one with `later` steps; γ, ranges and rewards whose last digits round."""
    paths = [path[:2] for path, _ in all_walks()][:40]
    log = walk_log([*paths, [(0, 0, 1.0, 0, False)] * later])
    problem = question(log, TwoStates(), reward_range=(-0.7, 2.1), gamma=0.83, value_range=(-3.9, 11.3))
    return read_decisions(problem, None, every_action=every_action)


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_values_of_episodes_do_not_tell_how_long_later_ones_are(end):
    short, long = growing(1).seen_from(end), growing(90).seen_from(end)
    for values in (lambda one: one.per_decision(1.1)[0], lambda one: one.whole(1.1)):
        assert np.array_equal(values(short)[:-1], values(long)[:-1])
    assert short.per_decision(1.1)[1] == long.per_decision(1.1)[1]
    q = np.linspace(-0.3, 0.9, len(long.rows))
    ours, theirs = (one.robust_values(q[: len(one.rows)], 0.5 * q[: len(one.rows)]) for one in (short, long))
    assert np.array_equal(ours[:-1], theirs[:-1])


@pytest.mark.parametrize("every_action", [False, True])
def test_the_clip_of_a_control_variate_does_not_tell_how_long_later_episodes_are(every_action):
    short, long = growing(1, every_action=every_action), growing(90, every_action=every_action)
    border = (int(short.rows[short.episodes == 30][0]),)
    ours, theirs = linear_control(short, border), linear_control(long, border)
    assert (ours.clip, ours.expected) == (theirs.clip, theirs.expected)
    assert np.array_equal(ours.coefficients, theirs.coefficients)


# --- rows that are no decisions of their own ---------------------------------------------------------------------------


def steps_log(times, ended):
    """Rows without episode ids whose timesteps say which steps they are."""
    rng, count = np.random.default_rng(0), len(times)
    return bondic.Transitions(
        STATES[rng.integers(0, 3, count)], rng.integers(0, 2, count), np.full(count, 1.0), STATES[rng.integers(0, 3, count)],
        np.full(count, ended), timesteps=np.array(times), behavior_action_probs=np.full(count, 0.5),
    )  # fmt: skip


def asked(log, method, start=None, **statements):
    start = bondic.InitialStates.exact(STATES) if start is None else start
    problem = bondic.make_problem(log, ThreeStates(), start, reward_range=(1.0, 2.0), accept=None, **statements)
    return bondic.estimate_interval(problem, method=method)


@pytest.mark.parametrize("ended", [True, False])
def test_last_steps_before_a_horizon_are_not_taken_for_first_ones(ended):
    """Every reward is 1, so is what such a row is worth; five of them are the least from the start on."""
    with pytest.raises(InvalidInput, match="row 0 carries timestep 4"):
        asked(steps_log([4] * 60, ended), Propensities(), gamma=1.0, horizon=5, may_terminate=ended)


def test_rows_of_a_long_episode_are_no_draws_of_the_initial_distribution():
    log = steps_log(range(60), ended=False)
    start = replace(bondic.InitialStates.sample(log.observations[:1], count_fixed=False), from_rows=True)
    with pytest.raises(InvalidInput, match=r"Row 0 goes on.*--one-step"):
        asked(log, Propensities(), start, gamma=0.0)
    assert asked(log, Propensities(value="contexts"), start, gamma=0.0).low < 2.0


# --- what is said -----------------------------------------------------------------------------------------------------


def test_doubly_robust_values_have_their_share_before_their_first_bet():
    """Else whoever stops before the first block, or goes on if it does not look good, bets with more than the wealth."""
    log = decisions(100)
    ends = [
        interval(log, Propensities(planned=10_000, side="upper", **more)).high
        for more in ({}, {"max_ratio": LARGEST}, {"max_ratio": LARGEST, "model": None})
    ]
    assert ends[0] < ends[1] < 1.0
    assert ends[2] == ends[0]


# --- which episodes the default certifies --------------------------------------------------------------------------------


def lengths_log(seed, rows=2000):
    """Episodes of 1 or 12 steps, alike likely; a reward of 1 in long ones alone; propensities of 1/2."""
    rng = np.random.default_rng(seed)
    lengths = rng.choice([1, 12], rows)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), rows)) + 1]
    ids, steps = np.repeat(np.arange(lengths.size), lengths), np.concatenate([np.arange(k) for k in lengths])
    last = steps == np.repeat(lengths, lengths) - 1
    return bondic.Transitions(
        steps[:, None].astype(float), rng.integers(0, 2, ids.size), np.repeat(lengths == 12, lengths).astype(float),
        steps[:, None] + 1.0, last, episode_ids=ids, timesteps=steps, behavior_action_probs=np.full(ids.size, 0.5),
    )  # fmt: skip


def test_the_first_certified_episode_is_no_longer_than_others():
    """The episode that the pilot's end falls into is a long one in 12 of 13 logs; the one after it in one of two."""
    policy = bondic.CallablePolicy(lambda s: np.full((len(s), 2), 0.5))
    long = 0
    for seed in range(100):
        log = lengths_log(seed)
        problem = bondic.make_problem(log, policy, gamma=0.5, reward_range=(0, 1))
        first = split_episodes(problem, 400)[1].rows.start
        assert log.timesteps[first] == 0
        assert first >= 400
        long += int(log.rewards[first] == 1)
    assert 22 <= long <= 78  # binomial with 100 and 1/2: outside with a chance of 1e-8


def test_the_episode_in_between_is_neither_looked_at_nor_certified():
    """Another method would certify its later rows: whatever happens in them, the choice is the same."""
    policy = bondic.CallablePolicy(lambda s: np.full((len(s), 2), [0.3, 0.7]))
    log = lengths_log(3)
    starts = np.flatnonzero(log.timesteps == 0)
    long = int(starts[np.flatnonzero((np.diff(starts) == 12) & (starts[:-1] > 300))[0]])
    chosen = []
    for action in (0, 1):
        actions = log.actions.copy()
        actions[long + 6 : long + 12] = action
        changed = replace(log, actions=actions)
        problem = bondic.make_problem(changed, policy, gamma=0.5, reward_range=(0, 1))
        found = bondic.estimate_interval(problem, method=bondic.Default(pilot=long + 6))
        chosen.append((found.method, found.rows, found.choices["method"]))
    assert chosen[0] == chosen[1]
    assert chosen[0][:2] == ("propensities", (long + 12, len(log)))
    assert split_episodes(problem, 0) is None
