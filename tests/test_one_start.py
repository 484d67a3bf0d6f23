"""Starts that are nearly always one state (Corollary 35a): the formula in 50 digits, coverage, proposals, verification."""

import math
from dataclasses import replace

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
from bondic.bounds.one_start import one_start_error
from bondic.bounds.start_bets import used_starts
from bondic.bounds.table_plan import OneStart
from bondic.errors import InvalidInput, NumericalError
from bondic.methods.sequential import Sequential
from bondic.proofs.sequential import TABLE_INITIAL
from bondic.terms import ValueRange, range_of

TABLE = Sequential(table_share=1.0, choices=bondic.Choices(categorical=True))
POLICY = np.array([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]])


def walk(episodes=200, length=6, others=0.0, seed=0, kind="log"):
    """Three states, episodes from state 0, or with probability `others` from state 1 or 2."""
    rng = np.random.default_rng(seed)
    rows = episodes * length
    time = np.arange(rows) % length
    state, after = np.zeros(rows), rng.integers(0, 3, rows).astype(float)
    elsewhere = rng.random(episodes) < others
    state[time > 0] = after[np.flatnonzero(time > 0) - 1]
    state[time == 0] = np.where(elsewhere, rng.integers(1, 3, episodes), 0)
    action = rng.integers(0, 2, rows)
    log = bondic.Transitions(
        state[:, None], action, ((state + action) % 2).astype(float), after[:, None], np.zeros(rows, bool),
        truncations=time == length - 1, episode_ids=np.arange(rows) // length, timesteps=time,
    )  # fmt: skip
    starts = bondic.InitialStates.from_log(log)
    if kind == "sample":
        starts = bondic.InitialStates.sample(starts.observations)
    return bondic.make_problem(log, bondic.TablePolicy(POLICY), starts, gamma=0.8, reward_range=(0, 1))


def proposed(problem):
    return bondic.estimate_interval(problem, method=TABLE).proof.table.start


# --- the formula ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("limits", [ValueRange(0.0, 1.0), ValueRange(-7.0, 3.0), ValueRange(1e6, 1e6 + 0.5)])
def test_the_bound_is_the_formula_rounded_up(others, limits):
    problem = walk(others=others)
    count, rate = len(problem.initial_states), 0.9 / limits.width
    start = OneStart(0, np.array([0.0]), POLICY[0], rate)
    found = one_start_error(problem, start, limits, 0.01).upper
    different = sum(1 for state in problem.initial_states.observations[:, 0].tolist() if state != 0)
    bet = mpf(rate) * mpf(limits.width)
    exact = (mp.log(1 / mpf(0.01)) + different * (-bet - mp.log(1 - bet))) / (mpf(rate) * count)
    assert exact <= mpf(found) <= exact * (1 + mpf(10) ** -9) + mpf(10) ** -12 * (1 + limits.largest)


def test_starts_are_the_same_only_if_the_policy_answers_the_same():
    """Probabilities that are written down per episode may differ at one state: then the values at it do."""
    problem = walk(60)
    start, limits = OneStart(0, np.array([0.0]), POLICY[0], 0.5 / 5), range_of(problem.terms)
    weights = problem.initial.weights.copy()
    weights[7] = [0.5, 0.5]
    changed = replace(problem, initial=replace(problem.initial, weights=weights))
    assert one_start_error(changed, start, limits, 0.1).upper > one_start_error(problem, start, limits, 0.1).upper


def test_what_cannot_be_bet_is_refused():
    problem = walk(60)
    limits = range_of(problem.terms)
    with pytest.raises(NumericalError, match="too large"):
        one_start_error(problem, OneStart(0, np.array([0.0]), POLICY[0], 1.0 / limits.width), limits, 0.1)
    with pytest.raises(InvalidInput, match="columns of this log"):
        one_start_error(problem, OneStart(0, np.array([0.0, 1.0]), POLICY[0], 0.1), limits, 0.1)
    with pytest.raises(InvalidInput, match="not complete"):
        OneStart(0, np.array([np.nan]), POLICY[0], 0.1)
    with pytest.raises(InvalidInput, match="cannot be left out"):
        used_starts(problem, 60)


# --- coverage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "holds"), [(1.0, True), (0.5, False)])
def test_the_bound_holds_as_often_as_it_says_and_half_of_it_does_not(share, holds):
    """Every start but s_0 is worth B more, and comes with a probability that the bound just allows: J* - J_emp = B (p - n_1/n).

    6000 samples; at most 0.1 of them may miss, and 0.12 has a chance of 1e-6 of being exceeded if the bound is right.
    """
    rng, count, delta, bet = np.random.default_rng(5), 400, 0.1, 0.9
    problem, limits = walk(10), ValueRange(0.0, 1.0)
    start = OneStart(0, np.array([0.0]), POLICY[0], bet)
    chance = 0.7 * math.log(1 / delta) / (bet * count)
    samples = rng.binomial(count, chance, 6000)
    bounds = {}
    for number in np.unique(samples).tolist():
        points, weights = np.zeros((count, 1)), np.tile(POLICY[0], (count, 1))
        points[:number] = 2.0
        cloud = replace(problem.initial, points=points, weights=weights, rows=np.arange(count))
        sampled = replace(problem, initial=cloud, initial_states=bondic.InitialStates.sample(points))
        bounds[number] = one_start_error(sampled, start, limits, delta).upper
    missed = np.mean([chance - number / count > share * bounds[number] for number in samples.tolist()])
    assert (missed <= 0.12) == holds


# --- proposals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["log", "sample"])
def test_one_start_is_told_by_the_starts_that_are_left_out(kind):
    problem = walk(kind=kind)
    found = bondic.estimate_interval(problem, method=TABLE)
    start = found.proof.table.start
    early = np.searchsorted(np.arange(200) * 6, found.rows[0])
    assert start.skipped == (early if kind == "log" else 20)
    assert start.state.tolist() == [0.0]
    assert start.answers.tolist() == POLICY[0].tolist()
    cost = found.terms()["upper"]["initial distribution"]
    plain = replace(found.proof, table=replace(found.proof.table, start=None))
    hoeffding = {claim.end: claim for claim in plain.claims(problem.select(*found.rows)).ends}["upper"]
    assert cost < 0.5 * hoeffding["initial distribution"].mid
    checked = bondic.verify(found.certificate, problem.log, bondic.TablePolicy(POLICY))
    assert (checked.low, checked.high) == (found.low, found.high)


def test_other_starts_are_paid_as_before():
    assert proposed(walk(others=0.6)) is None
    assert proposed(walk(20, length=60)) is None  # too few are left out to tell
    whole = walk()
    few = bondic.InitialStates.from_log(whole.log, count=30)  # a fixed number of them may all stand in the pilot
    asked = bondic.make_problem(whole.log, bondic.TablePolicy(POLICY), few, gamma=0.8, reward_range=(0, 1))
    assert proposed(asked) is None


def test_later_starts_leave_no_trace_in_what_is_proposed():
    """The start and its bet come from the rows before the certified ones, whatever comes after them."""
    first, second = walk(400), walk(400, others=0.4, seed=1)
    method = replace(TABLE, pilot=600)
    log = {name: np.concatenate([one[:1200], other[1200:]]) for name, one, other in _columns(first.log, second.log)}
    mixed = bondic.Transitions(**log)
    problem = bondic.make_problem(
        mixed, bondic.TablePolicy(POLICY), gamma=0.8, reward_range=(0, 1), accept=["next-observations"]
    )
    one, other = (bondic.estimate_interval(each, method=method).proof.table.start for each in (first, problem))
    assert (one.skipped, one.rate, one.state.tolist()) == (other.skipped, other.rate, other.state.tolist())


def _columns(first, second):
    pairs = zip(first.columns().items(), second.columns().values(), strict=True)
    return [(name, one, other) for (name, one), other in pairs if one is not None]


def test_no_start_after_the_pilot_is_no_answer():
    """Falling back on the starts of the pilot would spend their part of alpha twice."""
    episodes = np.concatenate([np.repeat(np.arange(40), 6), np.full(960, 40)])
    whole = walk(200).log
    columns = {name: column for name, column in whole.columns().items() if column is not None}
    columns |= {"episode_ids": episodes, "timesteps": np.concatenate([np.arange(240) % 6, np.arange(960)])}
    columns["truncations"] = np.append(np.diff(episodes) > 0, True)
    columns["next_observations"] = np.append(columns["observations"][1:], [[0.0]], axis=0)
    log = bondic.Transitions(**columns)
    problem = bondic.make_problem(log, bondic.TablePolicy(POLICY), gamma=0.8, reward_range=(0, 1), accept=["resets"])
    found = bondic.estimate_interval(problem, method=replace(TABLE, pilot=246))
    assert found.status is bondic.Status.TRIVIAL
    assert "no episode begins after the pilot" in found.choices["Q"]


@pytest.mark.parametrize("kind", ["log", "sample"])
def test_intervals_contain_the_value(kind):
    """With the few other starts that there are, over 40 logs at alpha = 0.2: 16 misses have a chance below 1 in 1000."""
    reward = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    values = np.linalg.solve(np.eye(3) - 0.8 / 3, (POLICY * reward).sum(axis=1))
    truth = 0.95 * values[0] + 0.025 * (values[1] + values[2])
    missed = 0
    for seed in range(40):
        found = bondic.estimate_interval(walk(120, others=0.05, seed=seed, kind=kind), alpha=0.2, method=TABLE)
        assert found.proof.budget[TABLE_INITIAL] > 0
        missed += not found.low <= truth <= found.high
    assert missed < 16
