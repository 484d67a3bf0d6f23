"""Sampled starts (Lemma 35): the formula in 50 digits, coverage, never worse than Hoeffding, proposals, verification."""

import math
from dataclasses import replace

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
from bondic.bounds.plan import StartBets
from bondic.bounds.start_bets import start_error, used_starts
from bondic.errors import InvalidInput, NumericalError
from bondic.methods.sequential import Sequential
from bondic.noise.start import initial_error
from bondic.rounding import Between
from bondic.search.sequential.starts import propose_bets
from bondic.terms import ValueRange, range_of

TABLE = Sequential(coordinates=False, choices=bondic.Choices(categorical=True))
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


def bets_of(problem):
    found = bondic.estimate_interval(problem, method=TABLE)
    return found.proof.table.start, found


def known(low, high):
    """What is known of V(x_j) - R, term by term."""
    return lambda terms, _: Between(np.broadcast_to(low, len(terms)) + 0.0, np.broadcast_to(high, len(terms)) + 0.0)


def sample_of(points, answers=None):
    """A problem whose starts are these states, in this order."""
    problem, points = walk(10), np.asarray(points, dtype=float)[:, None]
    weights = np.tile(POLICY[0], (len(points), 1)) if answers is None else answers
    cloud = replace(problem.initial, points=points, weights=weights, rows=np.arange(len(points)))
    return replace(problem, initial=cloud, initial_states=bondic.InitialStates.sample(points))


# --- the formula ---------------------------------------------------------------------------------------------------------


def g(y):
    return mpf(y) - mp.log(1 + mpf(y))


def slow_twin(bets, width, deviations, probability):
    """Lemma 35 in many digits, the worst end of every deviation."""
    count = len(deviations)
    found = [mp.log(2 / mpf(probability)) / mpf(bets.hoeffding) + count * mpf(bets.hoeffding) * mpf(width) ** 2 / 8]
    for rate in bets.rates:
        price = sum(max(g(-mpf(rate) * mpf(x)) for x in pair) for pair in deviations)
        found.append((mp.log(2 * len(bets.rates) / mpf(probability)) + price) / mpf(rate))
    return min(found) / count


@pytest.mark.parametrize("limits", [ValueRange(0.0, 1.0), ValueRange(-7.0, 3.0), ValueRange(1e6, 1e6 + 0.5)])
@pytest.mark.parametrize("guess", [None, 0.3])
def test_the_bound_is_the_formula_rounded_up(limits, guess):
    rng = np.random.default_rng(3)
    problem, width = sample_of(np.arange(40) % 3), limits.width
    skipped, c = (7, None) if guess is None else (0, limits.low + guess * width)
    count = 40 - skipped
    ends = np.sort(rng.uniform(-0.4, 0.4, (count, 2)) * width, axis=1)
    # starts 0, 1, 2 are 3, 2 and 2 of the 7 that are compared: the rest of each is unknown by so much of the range
    room = (
        np.array([[-1, 1]]) * width * (1 - np.array([3, 2, 2])[np.arange(skipped, 40) % 3, None] / 7)
        if guess is None
        else np.tile([[limits.low - c, limits.high - c]], (count, 1))
    )
    cut = np.stack([np.maximum(ends[:, 0], room[:, 0]), np.minimum(ends[:, 1], room[:, 1])], axis=1)
    for rates in ((0.9 / width,), (0.2 / width, 0.4 / width, 0.8 / width)):
        bets = StartBets(skipped, c, 0.1 / width, rates)
        found = start_error(problem, bets, limits, "upper", 0.01, known(ends[:, 0], ends[:, 1])).upper
        exact = slow_twin(bets, width, cut.tolist(), 0.01)
        lower = start_error(problem, bets, limits, "lower", 0.01, known(ends[:, 0], ends[:, 1])).upper
        mirrored = slow_twin(bets, width, (-cut).tolist(), 0.01)
        for bound, twin in ((found, exact), (lower, mirrored)):
            assert twin <= mpf(bound) <= twin * (1 + mpf(10) ** -9) + mpf(10) ** -12 * (1 + limits.largest)


@pytest.mark.parametrize("count", [20, 400, 5000])
@pytest.mark.parametrize("states", [1, 3, 4000])
@pytest.mark.parametrize("kind", ["log", "sample"])
def test_never_worse_than_hoeffding_at_half_the_probability(count, states, kind):
    """Whatever is known of q*: an interval [-inf, inf] of what the rows left is as good as none."""
    problem = sample_of(np.random.default_rng(0).integers(0, states, count))
    pilot = problem.select(0, 6)
    if kind == "sample":
        bets = propose_bets(problem, pilot, problem.rows.stop, 0.01)
    else:
        bets = replace(propose_bets(problem, pilot, problem.rows.stop, 0.01), skipped=5, guess=None)
    limits = range_of(problem.terms)
    used = count - bets.skipped
    plain = initial_error(limits.width, 0.005, np.full(used, 1 / used), draws=1, count_fixed=True, sides=1).upper
    nothing = known(-1e300, 1e300)
    for end in ("lower", "upper"):
        assert start_error(problem, bets, limits, end, 0.01, nothing).upper <= plain * 1.03
        assert start_error(problem, bets, limits, end, 0.01).upper <= plain * 1.03


def test_starts_that_are_all_equal_cost_the_logarithm_alone():
    """B log(2K/delta) / n_0 up to the largest bet: an unseen start of probability 1/n_0 cannot be excluded."""
    problem = sample_of(np.zeros(1000))
    bets, limits = propose_bets(problem, problem.select(0, 6), problem.rows.stop, 0.01), range_of(problem.terms)
    found = start_error(problem, bets, limits, "upper", 0.01).upper
    assert found == pytest.approx(limits.width * math.log(2 * len(bets.rates) / 0.01) / (0.99 * 900), rel=1e-6)


def test_what_is_known_of_the_values_is_what_is_paid_for():
    """Values within ± 2 % of each other: a tenth of Hoeffding's term."""
    problem = sample_of(np.random.default_rng(0).random(5000))
    bets, limits = propose_bets(problem, problem.select(0, 6), problem.rows.stop, 0.01), range_of(problem.terms)
    small = 0.02 * limits.width
    learned = start_error(problem, bets, limits, "lower", 0.01, known(-small, small)).upper
    assert learned < 0.1 * start_error(problem, bets, limits, "lower", 0.01).upper


def test_starts_are_the_same_only_if_the_policy_answers_the_same():
    """Probabilities that are written down per episode may differ at one state: then the values at it do."""
    answers = np.tile(POLICY[0], (60, 1))
    same, limits = sample_of(np.zeros(60), answers), range_of(walk(10).terms)
    answers = answers.copy()
    answers[17] = [0.5, 0.5]
    other = sample_of(np.zeros(60), answers)
    bets = StartBets(5, None, 0.01, (0.5 / limits.width,))
    assert start_error(other, bets, limits, "upper", 0.1).upper > start_error(same, bets, limits, "upper", 0.1).upper


def test_what_cannot_be_bet_is_refused():
    problem = sample_of(np.zeros(60))
    limits = range_of(problem.terms)
    with pytest.raises(NumericalError, match="too large"):
        start_error(problem, StartBets(5, None, 0.1, (1.0 / limits.width,)), limits, "upper", 0.1)
    for wrong in (
        (-1, 0.0, 0.1, (0.1,)),
        (0, None, 0.1, (0.1,)),
        (0, math.nan, 0.1, (0.1,)),
        (0, 0.0, 0.0, (0.1,)),
        (0, 0.0, 0.1, ()),
    ):
        with pytest.raises(InvalidInput, match="finite rates > 0"):
            StartBets(*wrong)
    with pytest.raises(InvalidInput, match="cannot be left out"):
        used_starts(problem, 60)


# --- coverage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "holds"), [(1.0, True), (0.5, False)])
@pytest.mark.parametrize("rare", [True, False])
def test_the_bound_holds_as_often_as_it_says_and_half_of_it_does_not(share, holds, rare):
    """Starts other than s_0 are worth B more. Rare ones saturate the bets, half of all starts Hoeffding's rate.

    One rate alone, so that its share of the probability is nearly all that is spent: delta/2 of each process. 6000 samples; at
    most delta of them may miss, and 1.25 delta has a chance below 1e-6 of being exceeded if the bound is right.
    """
    rng, count, delta, limits = np.random.default_rng(5), 400, 0.2, ValueRange(0.0, 1.0)
    bets = StartBets(4, None, math.sqrt(8 * math.log(2 / delta) / count) if not rare else 1e-9, (0.9,))
    chance = 0.7 * math.log(2 / delta) / (0.9 * count) if rare else 0.5
    samples, bounds = rng.binomial(count, chance, 6000), {}
    for number in np.unique(samples).tolist():
        points = np.zeros(count + 4)
        points[4 : 4 + number] = 2.0
        bounds[number] = start_error(sample_of(points), bets, limits, "upper", delta).upper
    missed = np.mean([chance - number / count > share * bounds[number] for number in samples.tolist()])
    assert (missed <= 1.25 * delta) == (holds or not rare)
    assert rare or (missed <= 0.06) == holds


# --- proposals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["log", "sample"])
def test_bets_come_from_the_starts_that_are_left_out(kind):
    problem = walk(kind=kind)
    start, found = bets_of(problem)
    early = np.searchsorted(np.arange(200) * 6, found.rows[0])
    assert start.skipped == (early if kind == "log" else 20)
    assert start.guess is None
    cost = found.terms()["upper"]["initial distribution"]
    used = 200 - start.skipped
    plain = range_of(problem.terms).width * math.sqrt(math.log(2 / 0.02) / (2 * used))
    assert cost < 0.6 * plain
    checked = bondic.verify(found.certificate, problem.log, bondic.TablePolicy(POLICY))
    assert (checked.low, checked.high) == (found.low, found.high)


def test_a_fixed_number_of_the_logs_starts_may_all_stand_in_the_pilot():
    """Then no start is left that nothing was learned from, and there is no answer: all of them again would spend alpha twice."""
    whole = walk()
    few = bondic.InitialStates.from_log(whole.log, count=30)
    asked = bondic.make_problem(whole.log, bondic.TablePolicy(POLICY), few, gamma=0.8, reward_range=(0, 1))
    found = bondic.estimate_interval(asked, method=TABLE)
    assert found.status.name == "TRIVIAL"
    assert "no episode begins after the pilot" in " ".join(found.choices.values())


def test_later_starts_leave_no_trace_in_what_is_proposed():
    """The bets come from the rows before the certified ones, whatever comes after them."""
    first, second = walk(400), walk(400, others=0.4, seed=1)
    method = replace(TABLE, pilot=600)
    log = {name: np.concatenate([one[:1200], other[1200:]]) for name, one, other in _columns(first.log, second.log)}
    mixed = bondic.Transitions(**log)
    problem = bondic.make_problem(
        mixed, bondic.TablePolicy(POLICY), gamma=0.8, reward_range=(0, 1), accept=["next-observations"]
    )
    one, other = (bondic.estimate_interval(each, method=method).proof.table.start for each in (first, problem))
    assert (one.skipped, one.hoeffding, one.rates) == (other.skipped, other.hoeffding, other.rates)


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
        assert found.terms()["upper"]["initial distribution"] > 0
        missed += not found.low <= truth <= found.high
    assert missed < 16
