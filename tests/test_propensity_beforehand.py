"""Intervals from propensities: what must be known beforehand is, bit by bit; and both ends once more, row by row in 50 digits."""

import math
from dataclasses import replace

import mpmath as mp
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
    TARGET,
    ThreeStates,
    TwoStates,
    all_walks,
    decisions,
    interval,
    question,
    slow_rates,
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
    short, long = growing(1).from_end(end), growing(90).from_end(end)
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


# --- what is said -----------------------------------------------------------------------------------------------------


def test_doubly_robust_values_have_their_share_before_their_first_bet():
    """Else whoever stops before the first block, or goes on if it does not look good, bets with more than the wealth."""
    log = decisions(100)
    ends = [
        interval(log, Propensities(planned_rows=10_000, side="upper", **more), population="iid").high
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


# --- The interval from propensities again: row by row, product by product, in 50 digits.


def predictions(control, i, state):
    """The stored coefficients of the block of row i, for both actions, within the clip."""
    block = sum(border <= i for border in control.borders) - 1
    z = [1.0, (state - control.center[0]) / control.scale[0]]
    raw = [math.fsum(z[k] * control.coefficients[block][k][a] for k in range(2)) for a in range(2)]
    return [min(max(one, control.clip[0]), control.clip[1]) for one in raw]


def slow_interval(log, method, alpha):
    """Both ends of single decisions with rewards in [0, 1], from the log and the stored control variate alone."""
    mp.mp.dps = 50
    result = interval(log, method, alpha=alpha, population="iid")
    control, n, delta = result.proof.control, len(log), result.proof.budget["lower"]
    assert delta == result.proof.budget["upper"] == pytest.approx((alpha - 0.001) / 2)
    places = np.searchsorted(STATES[:, 0], log.observations[:, 0])
    ends = []
    for sign, floor in ((1, 0), (-1, -1)):
        free, robust = [], []
        for i in range(n):
            ratio = mp.mpf(float(TARGET[places[i], log.actions[i]])) / mp.mpf(float(log.behavior_action_probs[i]))
            reward = sign * mp.mpf(float(log.rewards[i]))
            free.append(floor + ratio * (reward - floor))
            if control is None or i < control.borders[0]:
                continue
            q = [sign * one for one in predictions(control, i, log.observations[i, 0])]
            mean = mp.fsum(mp.mpf(float(TARGET[places[i], a])) * mp.mpf(q[a]) for a in range(2))
            robust.append(mean + ratio * (reward - mp.mpf(q[log.actions[i]])))
        middle = (0.5 * (floor + floor + 1), 0.25, 1.0)
        first, ways = n if control is None else control.borders[0], [bets_on(free, floor, middle, 0, n, delta)]
        kept, shares = (0.0 if method.max_ratio is None else 0.5), [1.0]
        if control is not None:
            low, high = sorted(sign * one for one in control.clip)
            worst = low - method.max_ratio * (high - floor)
            start = (sign * control.expected[0], control.expected[1], 50.0)
            ways.append(bets_on(robust, worst, start, first, n, delta))
            shares = slow_shares([seen_before(free[:first], middle), start[:2]], [floor, worst], n - first, delta)
        ends.append(sign * slow_end(ways, first, kept, shares, floor, floor + 1, 1 / delta))
    return result, sorted(map(float, ends))


def bets_on(values, floor, start, first, n, probability):
    """(values with 0 bets before them, rates, floor, share of the wealth at risk) for both multiples."""
    rates = slow_rates([float(value) for value in values], n - first, probability, start)
    padded = [mp.mpf(floor)] * first + values
    return [(padded, [0.0] * first + [m * rate for rate in rates], floor, c) for m, c in ((1, 0.75), (2, 0.95))]


def seen_before(values, start):
    """Mean and variance of the values, with those they begin with."""
    mean = (start[0] + math.fsum(map(float, values))) / (1 + len(values))
    return mean, (start[1] + math.fsum((float(one) - mean) ** 2 for one in values)) / (1 + len(values))


def slow_shares(moments, floors, count, probability):
    """Of the wealth at the first block: a tenth in equal parts, the rest as 1 / length^2."""
    lengths = []
    for (mean, variance), floor in zip(moments, floors, strict=True):
        rate = min(math.sqrt(2 * math.log(1 / probability) / (count * variance)), 0.95 / (mean - floor))
        lengths.append(math.log(1 / probability) / (count * rate) + rate * variance / 2)
    total = sum(1 / length**2 for length in lengths)
    return [0.1 / len(lengths) + 0.9 / length**2 / total for length in lengths]


def slow_end(ways, first, kept, shares, least, most, needed):
    """Bets on the first way with all wealth but `kept`; at row `first` everything is divided by `shares`."""

    def wealth(candidate):
        cash, best = mp.mpf(kept), mp.mpf(0)
        stakes = [[(1 - cash) / 2 if way is ways[0] else mp.mpf(0)] * 2 for way in ways]
        for i in range(len(ways[0][0][0])):
            if i == first:
                total = cash + mp.fsum(map(mp.fsum, stakes))
                cash, stakes = mp.mpf(0), [[total * share / 2] * 2 for share in shares]
            for way, mine in zip(ways, stakes, strict=True):
                for k, (values, rates, floor, share) in enumerate(way):
                    rate = min(mp.mpf(rates[i]), mp.mpf(share) / (candidate - floor))
                    mine[k] *= 1 + rate * (values[i] - candidate)
            best = max(best, cash + mp.fsum(map(mp.fsum, stakes)))
        return best

    low, high = mp.mpf(least), mp.mpf(most)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if wealth(middle) >= needed else (low, middle)
    return low


@pytest.mark.parametrize(
    "method", [Propensities(), Propensities(max_ratio=LARGEST), Propensities(max_ratio=LARGEST, pilot=150)]
)
def test_ends_are_those_of_a_slow_loop_in_fifty_digits(method):
    result, (low, high) = slow_interval(decisions(150, seed=8), method, 0.1)
    assert result.status is bondic.Status.INTERVAL
    assert low - 1e-9 <= result.low <= low + 1e-11  # rounded outward, and by no more than that
    assert high - 1e-11 <= result.high <= high + 1e-9
