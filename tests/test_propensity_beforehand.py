"""Intervals from propensities: what must be known beforehand is, bit by bit, and what is relied on is checked or said."""

import math
from dataclasses import replace

import numpy as np
import pytest

import bondic
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.propensities.control import LinearControl
from bondic.core.propensities.control_fit import episode_control
from bondic.core.propensities.episode_values import per_decision_values, returns_with, whole_values
from bondic.methods import with_propensities
from bondic.methods.propensities import Propensities
from bondic.rendering import three
from bondic.rows.decisions import read_decisions
from propensity_cases import (
    BEHAVIOR,
    LARGEST,
    STATES,
    ThreeStates,
    TwoStates,
    all_walks,
    decisions,
    drawn_walks,
    interval,
    one_step,
    question,
    walk_log,
)

# --- a log that grows keeps the floats of its first rows --------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 17, 255, 257, 1000])
def test_predictions_do_not_tell_how_many_rows_follow(count):
    rng = np.random.default_rng(0)
    control = LinearControl(
        0, (10,), (-5.0, 5.0), (0.0, 1.0), np.zeros(7), np.ones(7), rng.normal(size=(1, 8, 5))
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
    for values in (lambda one: per_decision_values(one, 1.1)[0], lambda one: whole_values(one, 1.1)[0]):
        assert np.array_equal(values(short)[:-1], values(long)[:-1])
    assert per_decision_values(short, 1.1)[1] == per_decision_values(long, 1.1)[1]
    q = np.linspace(-0.3, 0.9, len(long.rows))
    ours, theirs = (returns_with(one, q[: len(one.rows)], 0.5 * q[: len(one.rows)]) for one in (short, long))
    assert np.array_equal(ours[:-1], theirs[:-1])


@pytest.mark.parametrize("every_action", [False, True])
def test_the_clip_of_a_control_variate_does_not_tell_how_long_later_episodes_are(every_action):
    short, long = growing(1, every_action=every_action), growing(90, every_action=every_action)
    border = (int(short.rows[short.episodes == 30][0]),)
    ours, theirs = episode_control(short, border), episode_control(long, border)
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


# --- statements that the log refutes, and what is said ------------------------------------------------------------------


def test_a_least_probability_that_the_log_refutes_is_refused():
    """0.2 was logged where the target takes 0.5: a ratio of 2.5, far below 1 / 0.25."""
    for value in ("population", "contexts"):
        with pytest.raises(InvalidInput, match="smaller probability than the stated least_behavior_prob"):
            interval(decisions(400), Propensities(value=value, least_behavior_prob=0.25))


def test_everything_that_is_relied_on_is_said():
    result = interval(decisions(400), Propensities(least_behavior_prob=float(BEHAVIOR.min())))
    said = {one.name: one.text for one in result.assumptions}
    assert "no action of the target policy with a probability below 0.2" in said["ratios"]
    assert ", ".join(map(str, result.proof.control.borders)) in said["length"]
    walks = question(drawn_walks(30), TwoStates(), reward_range=(-0.5, 2.0), gamma=0.8)
    result = bondic.estimate_interval(walks, method=Propensities())
    assert "did not influence one another while running" in {one.name: one.text for one in result.assumptions}["start"]


@pytest.mark.parametrize("value", ["population", "contexts"])
def test_the_logs_own_length_is_not_said_to_be_stated(value):
    own, told = (interval(decisions(400), Propensities(value=value, planned=planned)) for planned in (None, 500))
    (text, other) = (next(one.text for one in result.assumptions if one.name == "length") for result in (own, told))
    assert "400, was fixed beforehand: it is the log's own length" in text
    assert "500 decisions were planned" in other
    assert own.choices["planned"] == "400 decisions, the log's own length"
    assert "planned" not in told.choices


def test_a_number_of_episodes_is_not_fixed_by_a_number_of_rows():
    walks = question(drawn_walks(30), TwoStates(), reward_range=(-0.5, 2.0), gamma=0.8)
    own, told = (bondic.estimate_interval(walks, method=Propensities(planned=planned)) for planned in (None, 50))
    texts = [{one.name: one.text for one in result.assumptions}["length"] for result in (own, told)]
    assert "number of episodes, 30, was fixed beforehand" in texts[0]
    assert "fixed number of rows is not enough" in texts[0]
    assert "50 episodes were planned" in texts[1]
    assert "rows" not in texts[1]


def test_ratios_of_episodes_are_those_of_episodes():
    walks = question(drawn_walks(30), TwoStates(), reward_range=(-0.5, 2.0), gamma=0.8)
    result = bondic.estimate_interval(walks, method=Propensities())
    columns = read_decisions(walks, None, every_action=False)
    products = [math.prod(columns.ratios.values[columns.episodes == episode]) for episode in range(30)]
    assert (
        f"of whole episodes: largest {three(max(products))}, mean {three(sum(products) / 30)}"
        in result.choices["ratios"]
    )
    assert result.effective_sample_size == pytest.approx(sum(products) ** 2 / sum(one**2 for one in products))
    assert "30 episodes, the log's own length" in result.choices["planned"]


@pytest.mark.parametrize("method", [Propensities(), Propensities(largest_ratio=LARGEST)])
def test_what_was_fixed_beforehand_is_named_as_believed(method):
    log = decisions(400)
    believed = " ".join(bondic.verify(interval(log, method).certificate, log).unchecked)
    assert "planned number, 400" in believed
    assert ("blocks of predictions" in believed) == (method.largest_ratio is not None)


def test_doubly_robust_values_have_their_share_before_their_first_bet():
    """Else whoever stops before the first block, or goes on if it does not look good, bets with more than the wealth."""
    log = decisions(100)
    ends = [
        interval(log, Propensities(planned=10_000, side="upper", **more)).high
        for more in ({}, {"largest_ratio": LARGEST}, {"largest_ratio": LARGEST, "model": None})
    ]
    assert ends[0] < ends[1] < 1.0
    assert ends[2] == ends[0]


# --- certificates -----------------------------------------------------------------------------------------------------


def test_a_log_shorter_than_the_pilot_that_was_planned_verifies():
    log = decisions(100)
    result = interval(log, Propensities(largest_ratio=LARGEST, planned=10_000))
    assert result.proof.control is None
    bondic.verify(result.certificate, log, ThreeStates())


def test_a_policy_with_one_action_verifies():
    rng = np.random.default_rng(0)
    log = one_step(rng.normal(size=(60, 1)), np.zeros(60, np.int64), rng.random(60), behavior_action_probs=np.ones(60))
    only = bondic.CallablePolicy(lambda states: np.ones((len(states), 1)))
    for value in ("population", "contexts"):
        result = interval(log, Propensities(value=value, largest_ratio=1.0), policy=only)
        bondic.verify(result.certificate, log, only)


def test_rates_are_there_for_every_end():
    log = decisions(400)
    proof = interval(log, Propensities(value="contexts")).proof
    with pytest.raises(VerificationError, match="no rates"):
        replace(proof, rates={"lower": proof.rates["lower"]})


def test_a_control_variate_is_compared_column_by_column():
    """Beside a column of a billion the threshold of another one could be moved as one liked."""
    rng = np.random.default_rng(0)
    situation, action = rng.integers(0, 3, 600), rng.integers(0, 2, 600)
    states = np.column_stack([STATES[situation, 0], 1e9 + 1e6 * rng.normal(size=600)])
    log = one_step(states, action, 1e6 + rng.random(600), behavior_action_probs=np.full(600, 0.5))
    problem = question(log, reward_range=(1e6, 1e6 + 1))
    proof = bondic.estimate_interval(problem, method=Propensities(largest_ratio=1.8)).proof
    control = proof.control
    moved = control.coefficients.copy()
    moved[:, 1] += 0.01
    forged = [
        {"center": control.center + np.array([0.3, 0.0])},
        {"scale": control.scale * [1e-6, 1.0]},
        {"coefficients": moved},
        {"clip": (control.clip[0] - 0.01, control.clip[1])},
        {"expected": (control.expected[0], 2 * control.expected[1])},
    ]
    for change in forged:
        other = replace(proof, control=replace(control, **change))
        with pytest.raises(VerificationError, match="not the one that earlier rows give"):
            bondic.verify(bondic.Result.of(other, problem, method="propensities").certificate, log)
    bondic.verify(bondic.Result.of(proof, problem, method="propensities").certificate, log)


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
    for seed in range(200):
        log = lengths_log(seed)
        problem = bondic.make_problem(log, policy, gamma=0.5, reward_range=(0, 1))
        found = with_propensities.find(Propensities(), problem, lambda _: 400, 0.1)
        first = found.problem.rows.start
        assert log.timesteps[first] == 0
        assert first >= 400
        long += int(log.rewards[first] == 1)
    assert 60 <= long <= 140  # binomial with 200 and 1/2: outside with a chance of 1e-8


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
        found = with_propensities.find(Propensities(), problem, lambda _: long + 6, 0.1)
        chosen.append((found.problem.rows, found.why))
    assert chosen[0] == chosen[1]
    assert chosen[0][0].start == long + 12
    assert with_propensities.find(Propensities(), problem, lambda _: 0, 0.1) is None


def test_one_stated_state_without_episodes_is_answered():
    """Every row goes on at the one state that there is."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 500)
    log = bondic.Transitions(
        np.zeros((500, 1)), actions, (rng.random(500) < 0.3 + 0.4 * actions).astype(float), np.zeros((500, 1)),
        np.zeros(500, bool), behavior_action_probs=np.full(500, 0.5),
    )  # fmt: skip
    policy, start = bondic.TablePolicy(np.array([[0.2, 0.8]])), bondic.InitialStates.exact([[0.0]])
    problem = bondic.make_problem(log, policy, start, gamma=0, reward_range=(0, 1))
    found = bondic.estimate_interval(problem, method=Propensities())
    assert found.low < 0.62 < found.high
    assert bondic.verify(found.certificate, log, policy, replay=True).low == found.low
