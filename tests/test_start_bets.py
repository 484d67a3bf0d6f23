"""Sampled starts (Lemma 35): the formula in 50 digits, coverage, never worse than Hoeffding, proposals, verification."""

import math
from dataclasses import replace

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
from bondic.core.bounded import Between
from bondic.core.errors import InvalidInput
from bondic.core.starts import SampledStart, StartBets, sampled_start, start_cost, start_error, used_starts
from bondic.core.terms import ValueRange, range_of
from bondic.search.sequential.starts import propose_bets
from builders import continuous

TABLE = bondic.Table()
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
    starts = bondic.InitialStates.from_log(log, population="iid")
    if kind == "sample":
        starts = bondic.InitialStates.sample(starts.observations)
    return bondic.make_problem(log, bondic.TablePolicy(POLICY), starts, gamma=0.8, reward_range=(0, 1))


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


def slow_twin(bets, limits, deviations, guess, probability):
    """Lemma 35 for the upper end in many digits, at one V: deviations from the guess R, and R itself."""
    count, width = len(deviations), mpf(limits.high) - mpf(limits.low)
    levels = [mp.log(1 / (mpf(share) * mpf(probability))) for share in bets.shares]
    found = [levels[0] / mpf(bets.hoeffding) + count * mpf(bets.hoeffding) * width**2 / 8]
    for rate, level in zip(map(mpf, bets.rates), levels[1:], strict=True):
        clip = mpf(limits.high) - mpf(bets.largest) / rate
        price = sum(g(-rate * (mpf(x) + guess - max(guess, clip))) for x in deviations)
        found.append((level + price) / rate)
    return min(found) / count


RATES = (0.1, 0.9, 3.0, 20.0)


UNIT, SIGNED, FAR = ValueRange(0.0, 1.0), ValueRange(-7.0, 3.0), ValueRange(1e6, 1e6 + 0.5)


@pytest.mark.parametrize(
    ("limits", "guess", "near", "end"),
    [
        (UNIT, None, 0.5, "upper"),
        (SIGNED, 0.3, 0.97, "upper"),
        (FAR, None, 0.97, "lower"),
        (SIGNED, None, 0.5, "lower"),
        (UNIT, 0.3, 0.97, "lower"),
        (FAR, 0.3, 0.5, "upper"),
    ],
)
def test_where_values_are_known_the_bound_is_the_formula_rounded_up(limits, guess, near, end):
    rng = np.random.default_rng(3)
    points, width = np.arange(40) % 3, limits.width
    values = limits.low + width * (near + 0.02 * rng.uniform(-1, 1, 3))
    skipped, c = (7, None) if guess is None else (0, limits.low + guess * width)
    bets = StartBets(skipped, c, 0.1 / width, tuple(rate / width for rate in RATES), (0.5, 0.2, 0.1, 0.1, 0.1))
    used = values[points[skipped:]]
    reference = float(values[points[:7]].mean()) if guess is None else c
    apart, mean = used - reference, float(used.mean())
    around = ValueRange(mean, mean)
    found = start_error(sample_of(points), bets, limits, around, end, 0.01, known(apart, apart)).upper
    exact = slow_twin(bets, limits, apart.tolist(), mpf(reference), 0.01)
    if end == "lower":
        exact = slow_twin(bets, ValueRange(-limits.high, -limits.low), (-apart).tolist(), -mpf(reference), 0.01)
    room = mpf(10) ** -11 * (1 + limits.largest)  # differences of values are taken in floats here
    assert exact - room <= mpf(found) <= exact * (1 + mpf(10) ** -9) + room


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_is_no_less_than_the_formula_at_any_value_function_that_is_left(seed):
    """Brute force: values, bounds of their differences and of their mean that hold; some bounds are none, some are sharp."""
    rng = np.random.default_rng(seed)
    limits, kinds, count = ValueRange(-1.0, 4.0), int(rng.integers(1, 6)), int(rng.integers(12, 60))
    points, skipped = rng.integers(0, kinds, count), int(rng.integers(1, 10))
    problem = sample_of(points)
    bets = StartBets(skipped, None, 0.02, tuple(np.sort(rng.uniform(0.05, 8.0, 4)).tolist()), (0.2,) * 5)
    for _ in range(25):
        values = limits.low + limits.width * rng.beta(*rng.uniform(0.2, 3.0, 2), kinds)
        used, guess = values[points[skipped:]], float(values[points[:skipped]].mean())
        apart, loose = used - guess, rng.choice([0.0, 0.1, 1.0, 50.0], used.size)
        slack = rng.choice([0.0, 0.2, 10.0], 2)
        value = ValueRange(max(used.mean() - slack[0], limits.low), min(used.mean() + slack[1], limits.high))
        room = known(apart - loose * rng.random(used.size), apart + loose * rng.random(used.size))
        for end, sign in (("upper", 1.0), ("lower", -1.0)):
            found = start_error(problem, bets, limits, value, end, 0.05, room).upper
            seen = ValueRange(*sorted((sign * limits.low, sign * limits.high)))
            assert (
                mpf(found) >= slow_twin(bets, seen, (sign * apart).tolist(), mpf(sign * guess), 0.05) - mpf(10) ** -12
            )


@pytest.mark.parametrize(
    ("count", "states", "kind"), [(20, 4000, "log"), (400, 1, "sample"), (5000, 3, "log"), (5000, 4000, "sample")]
)
def test_never_worse_than_hoeffding_at_a_quarter_of_the_probability(count, states, kind):
    """Whatever is known of q*: an interval [-inf, inf] of what the rows left is as good as none."""
    problem = sample_of(np.random.default_rng(0).integers(0, states, count))
    pilot = problem.select(0, 6)
    if kind == "sample":
        bets = propose_bets(problem, pilot, problem.rows.stop, 0.01)
    else:
        bets = replace(propose_bets(problem, pilot, problem.rows.stop, 0.01), skipped=5, center=None)
    limits = range_of(problem.terms)
    used = count - bets.skipped
    plain = SampledStart(np.full(used, 1 / used), limits.width, 1, True, 1).error(0.0025).upper
    nothing = known(-1e300, 1e300)
    for end in ("lower", "upper"):
        assert start_error(problem, bets, limits, limits, end, 0.01, nothing).upper <= plain * 1.03
        assert start_error(problem, bets, limits, limits, end, 0.01).upper <= plain * 1.03


def test_two_ends_share_the_probability_of_the_starts():
    problem, limits = sample_of(np.arange(60) % 3), range_of(walk(10).terms)
    bets = StartBets(5, None, 0.01, (0.5 / limits.width,), (0.5, 0.5))

    def cost(probability, ends):
        return start_cost(problem, bets, probability, ends, "upper", limits).upper

    assert cost(0.02, ("lower", "upper")) == cost(0.01, ("upper",)) > cost(0.02, ("upper",))


def test_starts_are_the_same_only_if_the_policy_answers_the_same():
    """Probabilities that are written down per episode may differ at one state: then the values at it do."""
    answers = np.tile(POLICY[0], (60, 1))
    same, limits = sample_of(np.zeros(60), answers), range_of(walk(10).terms)
    answers = answers.copy()
    answers[17] = [0.5, 0.5]
    other = sample_of(np.zeros(60), answers)
    bets = StartBets(5, None, 0.01, (0.5 / limits.width,), (0.5, 0.5))
    assert (
        start_error(other, bets, limits, limits, "upper", 0.1).upper
        > start_error(same, bets, limits, limits, "upper", 0.1).upper
    )


def test_what_cannot_be_bet_is_refused():
    fine = {"skipped": 0, "center": 0.0, "hoeffding": 0.1, "rates": (0.1,), "shares": (0.5, 0.5)}
    StartBets(**fine)
    for wrong in (
        {"skipped": -1}, {"center": None}, {"center": math.nan}, {"hoeffding": 0.0}, {"rates": ()}, {"rates": (math.inf,)},
        {"shares": (0.5, 0.6)}, {"shares": (1.0,)}, {"shares": (1.0, 0.0)},
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match="rates and shares > 0"):
            StartBets(**{**fine, **wrong})
    with pytest.raises(InvalidInput, match="cannot be left out"):
        used_starts(sample_of(np.zeros(60)), 60)


# --- coverage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "holds"), [(1.0, True), (0.5, False)])
@pytest.mark.parametrize("rare", [True, False])
def test_the_bound_holds_as_often_as_it_says_and_half_of_it_does_not(share, holds, rare):
    """Starts other than s_0 are worth B more. Rare ones saturate the bets, half of all starts Hoeffding's rate.

    Each of the two processes has half of delta = 0.2, and one of them decides. 6000 samples; at most 0.1 of them may miss, and
    0.12 has a chance of 1e-6 of being exceeded if the bound is right.
    """
    rng, count, delta, limits = np.random.default_rng(5), 400, 0.2, ValueRange(0.0, 1.0)
    bets = StartBets(4, None, math.sqrt(8 * math.log(2 / delta) / count) if not rare else 1e-9, (0.9,), (0.5, 0.5))
    chance = 0.7 * math.log(2 / delta) / (0.9 * count) if rare else 0.5
    samples, bounds = rng.binomial(count, chance, 6000), {}
    for number in np.unique(samples).tolist():
        points = np.zeros(count + 4)
        points[4 : 4 + number] = 2.0
        bounds[number] = start_error(sample_of(points), bets, limits, limits, "upper", delta).upper
    missed = np.mean([chance - number / count > share * bounds[number] for number in samples.tolist()])
    assert (missed <= 0.12) == holds


# --- proposals ---------------------------------------------------------------------------------------------------------


def test_later_starts_leave_no_trace_in_what_is_proposed():
    """The bets come from the rows before the certified ones, whatever comes after them."""
    first, second = walk(400), walk(400, others=0.4, seed=1)
    method = replace(TABLE, pilot=600)
    log = {name: np.concatenate([one[:1200], other[1200:]]) for name, one, other in _columns(first.log, second.log)}
    mixed = bondic.Transitions(**log)
    problem = bondic.make_problem(
        mixed,
        bondic.TablePolicy(POLICY),
        gamma=0.8,
        reward_range=(0, 1),
        population="iid",
        accept=["next-observations"],
    )
    one, other = (bondic.estimate_interval(each, method=method).proof.events.start for each in (first, problem))
    assert (one.skipped, one.hoeffding, one.rates, one.shares) == (
        other.skipped,
        other.hoeffding,
        other.rates,
        other.shares,
    )


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
    question = {"gamma": 0.8, "reward_range": (0, 1), "population": "iid", "accept": ["resets"]}
    problem = bondic.make_problem(log, bondic.TablePolicy(POLICY), **question)
    found = bondic.estimate_interval(problem, method=replace(TABLE, pilot=246))
    assert found.status is bondic.Status.TRIVIAL


def test_actions_drawn_at_the_starts_of_a_log_are_bounded_at_every_number_of_starts():
    """A monitor looks at them as they come. A bound for one number of them, the control, is crossed too often."""
    log, policy, _ = continuous(60)
    problem = bondic.make_problem(log, policy, gamma=0.5, reward_range=(-1.0, 1.0), initial_draws=1)
    found, rng, looks = sampled_start(problem, 2), np.random.default_rng(0), np.arange(1, 300)
    assert found is not None
    values = found.width * (rng.integers(0, 2, (3000, looks[-1])) - 0.5)
    means = np.abs(np.cumsum(values, axis=1)[:, looks - 1] / looks)

    def crossed(start):
        each = [replace(start, weights=np.full(count, 1 / count)).error(0.4).upper for count in looks.tolist()]
        return np.mean((means > each).any(axis=1))

    assert crossed(found) <= 0.4 < crossed(replace(found, count_fixed=True))
