"""Wealth of bets on a mean, (22) and (40): against slow loops in 50 digits, and the properties behind the intervals."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bondic.core.bounded import certified_sum
from bondic.core.errors import NumericalError
from bondic.core.propensities.betting import (
    BettingProcess,
    LogProcess,
    plug_in_rates,
    this_log_end,
)
from bondic.core.propensities.bound import _affordable
from bondic.core.propensities.crossing import largest
from bondic.core.propensities.wealth import Stage, _Wealth, lower_end
from propensity_cases import slow_rates

mp.mp.dps = 50
REFERENCE = Path(__file__).parent / "reference"
START = (0.5, 0.25, 1.0)


def log_factors(one, candidate):
    return one.log_factors(candidate, slice(None))


def slow_wealth(processes, candidate):
    """max over n of sum_k share_k prod_{i <= n} (1 + v_i(J) (X_i - J)), product by product."""
    candidate, best = mp.mpf(candidate), mp.mpf(0)
    wealth = [mp.mpf(one.share) for one in processes]
    for i in range(len(processes[0].values)):
        for k, one in enumerate(processes):
            rate = min(mp.mpf(one.rates[i]), mp.mpf(one.risk) / (candidate - mp.mpf(one.floor)))
            wealth[k] *= 1 + rate * (mp.mpf(one.values[i]) - candidate)
        best = max(best, mp.fsum(wealth))
    return best


def on_this_log(values, centers, losses, rate, risk, share):
    found = LogProcess(rate, risk, share)
    found.bet(values, centers, losses)
    return found


def processes_on(values, probability=0.05, floor=0.0, planned=None):
    rates = plug_in_rates(values, planned or len(values), probability, START)
    return [BettingProcess(values, floor, m * rates, c, 0.5) for m, c in ((1.0, 0.5), (2.0, 0.9))]


def draws(seed, n=60):
    rng = np.random.default_rng(seed)
    ratio = rng.exponential(size=n) ** 2
    return ratio * (rng.random(n) < 0.6)


@pytest.mark.parametrize("seed", range(3))
def test_the_end_is_where_the_slow_wealth_reaches_its_level(seed):
    processes = processes_on(draws(seed))
    found = lower_end([processes], 0.0, 1.0, 0.05)
    assert 0 < found < 1
    assert slow_wealth(processes, found) >= 20  # certain: rounded to the safe side
    assert slow_wealth(processes, found + 1e-9) < 20


def test_an_end_is_beyond_the_range_where_every_value_in_it_is_rejected():
    processes = processes_on(3.0 + draws(1))
    assert slow_wealth(processes, 1.0) >= 20  # the largest value is rejected, too: none is left
    assert 1.0 < lower_end([processes], 0.0, 1.0, 0.05) < 1.0 + 1e-5
    assert lower_end([processes], -1e9, 1.0, 0.05) > 1.0
    sure = [on_this_log(np.full(80, 3.0), np.full(80, 0.5), np.full(80, 0.5), 0.5, 0.9, 1.0)]
    assert 1.0 < this_log_end(sure, 1.0, 0.05) < 1.0 + 1e-5
    processes = processes_on(np.full(60, 0.99))
    assert lower_end([processes], 0.0, 1.0, 0.05) < 1.0  # values below the top leave the top


@pytest.mark.parametrize("root", [-0.5, 1e-10, 0.2, 0.7, 1.0 - 1e-9, 1.5])
def test_the_search_ends_at_the_same_place_wherever_it_begins(root):
    def lead(x):
        return math.expm1(3.0 * (root - x))

    def end(guess):
        return largest(lead, lambda x: lead(x) >= 0.0, 0.0, 1.0, guess)

    plain = end(None)
    assert plain == 0.0 if root < 1e-9 else plain > 1.0 if root > 1.0 else plain == pytest.approx(root, abs=1e-12)
    for place, off in itertools.product((-7.0, 0.0, 0.3, root, 0.99, 40.0), (1e-9, 0.01, 1.0, 1e6)):
        found = end((place, off))
        assert found == pytest.approx(plain, abs=1e-12)
        assert found > 1.0 or lead(found) >= 0.0 or found == 0.0


@pytest.mark.parametrize("kind", ["light", "rare", "heavy", "one", "late"])
@pytest.mark.parametrize("count", [3, 40, 5000])
def test_a_search_with_several_candidates_a_pass_ends_where_one_by_one_does(kind, count):
    """Whatever the values are: interpolated sums only propose, and the crossing is the same."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        values = {
            "light": rng.exponential(size=count),
            "rare": (rng.random(count) < 0.05) * 20.0 * rng.random(count),
            "heavy": rng.pareto(1.1, size=count) * (rng.random(count) < 0.5),
            "one": np.where(np.arange(count) == count // 2, 1e4, 0.0),
            "late": np.where(np.arange(count) > 0.8 * count, 3.0, 0.2),
        }[kind]
        stage = Stage(processes_on(values))
        wealth = _Wealth((stage,), math.log(20) * (1 + 1e-15))

        def lead(place, wealth=wealth):
            return wealth.at(np.array([place])).at_node(0)

        slow = largest(lead, lambda place, lead=lead: lead(place) >= 1e-9, 0.0, 1.0)
        assert lower_end([stage], 0.0, 1.0, 0.05) == pytest.approx(
            slow, abs=1e-8 / max(float(stage[0].rates.sum()), 1e-3)
        )


def test_rates_are_the_rule_and_see_nothing_later():
    values = draws(1)
    rates = plug_in_rates(values, 60, 0.05, START)
    assert rates == pytest.approx(slow_rates(values, 60, 0.05, START), rel=1e-12)
    changed = values.copy()
    changed[30:] += 7.0
    assert np.array_equal(plug_in_rates(changed, 60, 0.05, START)[:31], rates[:31])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=8), st.floats(1e-6, 1e3), st.floats(1e-3, 10), st.floats(1e-3, 1e3)
)
def test_every_factor_decreases_in_the_candidate(values, rate, first, more):
    """Whatever the values are: so a rejected candidate rejects all below it."""
    one = BettingProcess(np.array(values), 0.0, np.full(len(values), rate), 0.9, 1.0)
    low, high = log_factors(one, first), log_factors(one, first + more)
    assert np.all(high <= low + 1e-12 * (1 + np.abs(low)))
    assert np.all(high >= math.log1p(-0.9) - 1e-9)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(0.01, 1)), min_size=2, max_size=6),
    st.floats(1e-3, 1e3),
    st.sampled_from([0.5, 0.9, 0.99]),
)
def test_the_mean_of_a_factor_is_at_most_one(law, rate, most):
    """A law of values with mean J: the bets are fair."""
    sizes, weights = np.array([x for x, _ in law]), np.array([w for _, w in law])
    weights = weights / weights.sum()
    mean = float(weights @ sizes)
    if mean <= 0:
        return
    one = BettingProcess(sizes, 0.0, np.full(sizes.size, rate), most, 1.0)
    assert float(weights @ np.exp(log_factors(one, mean))) <= 1 + 1e-9


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_ends_move_with_the_level_and_with_the_values(seed):
    values = draws(seed, 40)
    rates = plug_in_rates(values, 40, 0.05, START)
    one = [BettingProcess(values, 0.0, rates, 0.9, 1.0)]
    wide, narrow = lower_end([one], 0.0, 1.0, 0.01), lower_end([one], 0.0, 1.0, 0.2)
    assert wide <= narrow
    larger = [BettingProcess(values + 0.1, 0.0, rates, 0.9, 1.0)]
    assert lower_end([larger], 0.0, 1.0, 0.05) >= lower_end([one], 0.0, 1.0, 0.05) - 1e-12


def test_nothing_is_learned_from_values_at_their_floor():
    assert lower_end([processes_on(np.zeros(50))], 0.0, 1.0, 0.05) == 0.0


@pytest.mark.parametrize(
    "change",
    [{"risk": 1.0}, {"risk": 0.0}, {"share": 0.0}, {"rates": np.array([-1.0])}, {"values": np.array([math.inf])}],
)
def test_bets_that_could_ruin_are_refused(change):
    fields = {"values": np.ones(1), "floor": 0.0, "rates": np.ones(1), "risk": 0.9, "share": 1.0}
    with pytest.raises(NumericalError):
        lower_end([[BettingProcess(**(fields | change))]], 0.0, 1.0, 0.05)


def two_stages(first, later, share):
    """Bets on values 0 or 1 with a floor of 0; then a `share` of all goes on with rate 1.5, the rest with rate 0.5."""
    before = [
        BettingProcess(first, 0.0, np.full(first.size, 1.0), 0.9, 0.5),
        BettingProcess(first, 0.0, np.zeros(first.size), 0.9, 0.5),
    ]
    after = [
        BettingProcess(later, 0.0, np.full(later.size, rate), 0.9, part)
        for rate, part in ((1.5, share), (0.5, 1 - share))
    ]
    return before, after


def slow_two_stages(before, after, candidate):
    """The wealth at the end of both: that of the first is divided anew."""
    return mp.fsum(_at_the_end(before, candidate)) * mp.fsum(_at_the_end(after, candidate))


def _at_the_end(processes, candidate):
    for one in processes:
        wealth = mp.mpf(one.share)
        for value, rate in zip(one.values, one.rates, strict=True):
            wealth *= 1 + min(mp.mpf(rate), mp.mpf(one.risk) / mp.mpf(candidate)) * (mp.mpf(value) - mp.mpf(candidate))
        yield wealth


@pytest.mark.parametrize("looks_ahead", [False, True])
def test_wealth_that_is_divided_anew_by_what_was_seen_stays_fair(looks_ahead):
    """All 256 outcomes of eight fair coins. The control looks at the rows that it bets on, and is not fair."""
    mean = mp.mpf(0)
    for outcome in itertools.product([0.0, 1.0], repeat=8):
        first, later = np.array(outcome[:4]), np.array(outcome[4:])
        share = 0.9 if (later if looks_ahead else first).mean() > 0.5 else 0.1
        mean += slow_two_stages(*two_stages(first, later, share), 0.5) / 256
    assert (mean > 1.01) if looks_ahead else (mean <= 1 + mp.mpf(10) ** -12)


@pytest.mark.parametrize("seed", range(2))
def test_the_end_of_two_stages_is_where_their_slow_wealth_reaches_its_level(seed):
    values = np.minimum(draws(seed, 60), 1.0)
    before, after = two_stages(values[:20], values[20:], 0.3)
    found = lower_end([before, after], 0.0, 1.0, 0.05)
    assert 0 < found < 1

    def most(candidate):
        ends = [mp.fsum(_at_the_end([_cut(one, n) for one in before], candidate)) for n in range(21)]
        ends += [slow_two_stages(before, [_cut(one, n) for one in after], candidate) for n in range(41)]
        return max(ends)

    assert most(found) >= 20
    assert most(found + 1e-9) < 20


def _cut(one, count):
    return BettingProcess(one.values[:count], one.floor, one.rates[:count], one.risk, one.share)


def test_no_stage_begins_with_more_than_all():
    one, two = (BettingProcess(np.ones(3), 0.0, np.ones(3), 0.9, share) for share in (0.5, 0.6))
    for before, after in (([one], [two, two]), ([two, two], [one])):
        with pytest.raises(NumericalError, match="more than all"):
            lower_end([before, after], 0.0, 1.0, 0.05)


# --- values with means of their own: this log, (40) -------------------------------------------------------


def slow_this_log(values, centers, bets, mean):
    """sum_k p_k exp( sum log(1 + v_k (X_i - c_i)) - N log(1 + v_k (M - mean c)) )."""
    total, middle = mp.mpf(0), mp.fsum(map(mp.mpf, centers)) / len(centers)
    for rate, _, share in bets:
        exponent = mp.fsum(mp.log(1 + rate * (mp.mpf(x) - mp.mpf(c))) for x, c in zip(values, centers, strict=True))
        total += mp.mpf(share) * mp.exp(exponent - len(values) * mp.log(1 + rate * (mp.mpf(mean) - middle)))
    return total


@pytest.mark.parametrize("seed", range(2))
def test_the_end_of_this_log_is_where_the_slow_wealth_reaches_its_level(seed):
    values, centers = draws(seed, 80), np.linspace(0.2, 0.5, 80)
    bets = [(m * 0.2, c, 0.5) for m, c in ((1.0, 0.5), (2.0, 0.9))]
    found = this_log_end([on_this_log(values, centers, centers, *one) for one in bets], 1.0, 0.05)
    assert 0 < found < 1
    assert slow_this_log(values, centers, bets, found) >= 20
    assert slow_this_log(values, centers, bets, found + 1e-9) < 20


@pytest.mark.parametrize("number", [1, 2])
def test_reference_values_of_this_log(number):
    """Independent code in 50 digits; ends are not cut to the range there, so the first one is in closed form."""
    data = json.loads((REFERENCE / f"metrics-{number}.json").read_text(encoding="utf-8"))
    actions, rows = np.array(data["actions"]), np.arange(len(data["actions"]))
    ratios = np.array(data["policy"])[rows, actions] / np.array(data["propensities"])[rows, actions]
    values = ratios * np.array(data["rewards"])
    means = np.cumsum(values)[:-1] / rows[1:]
    centers = np.concatenate([[0.5], np.minimum(means, 1.0)])
    total = np.log1p(0.2 * (values - centers)).sum()
    one_rate = centers.mean() + np.expm1((total - np.log(20)) / values.size) / 0.2
    assert one_rate == pytest.approx(float(data["expected"]["this_log_one_rate"]["value"]), rel=1e-10)
    three = [on_this_log(values, centers, centers, rate, 0.9, 1 / 3) for rate in (0.05, 0.2, 0.5)]
    mixture = float(data["expected"]["this_log_mixture"]["value"])
    assert this_log_end(three, 1.0, 0.05) == pytest.approx(mixture, rel=1e-9)
    assert three[1].log_wealth(one_rate).mid == pytest.approx(np.log(20), abs=1e-9)


def test_portions_leave_no_trace(monkeypatch):
    """Rates, factors and sums are made some rows at a time: how many must not show in a single bit."""
    rng = np.random.default_rng(4)
    values = rng.exponential(size=1000) * 10.0 ** rng.integers(-3, 4, size=1000)

    def found():
        rates = plug_in_rates(values, 1000, 0.05, (0.5, 0.25, 1.0))
        process = BettingProcess(values, 0.0, rates, 0.75, 1.0)
        stage = Stage([process, replace(process, multiple=2.0, share=0.5)])
        sums = stage.log_sums(np.array([0.3, 0.4]))
        return (
            rates,
            sums,
            stage.certain(0.3, 700),
            certified_sum(log_factors(process, 0.3)),
            lower_end([[process]], 0.0, 9.0, 0.05),
        )

    whole = found()
    factors = log_factors(BettingProcess(values, 0.0, whole[0], 0.75, 1.0), 0.3)
    assert whole[1][0, 0] == pytest.approx(np.cumsum(factors), rel=1e-12)
    monkeypatch.setattr("bondic.core.bounded.PORTION", 7)
    for mine, other in zip(found(), whole, strict=True):
        assert np.array_equal(mine, other) if isinstance(mine, np.ndarray) else mine == other


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 3), st.sampled_from([0.5, 0.75, 0.95]), st.booleans())
def test_lowered_centers_keep_the_rate_and_no_bet_loses_more_than_its_risk(seed, log_rate, risk, far):
    """Theorem 40 for every value between the floor and above: (1 + v (X - c)) / (1 + v (m - c)) has a mean of at most 1."""
    rng, process = np.random.default_rng(seed), LogProcess(10.0**log_rate, risk, 1.0)
    losses = rng.exponential(size=20) * np.where(rng.random(20) < 0.2, 0.0, 1.0)
    centers = rng.normal(size=20) + (1e6 if far else 0.0)
    lowered, lost = _affordable(centers, losses, process)
    assert np.all(lowered <= centers)
    assert np.all(process.rate * lost <= risk)
    floors = [mp.mpf(center) - mp.mpf(loss) for center, loss in zip(centers, losses, strict=True)]
    for center, loss, floor in zip(lowered, lost, floors, strict=True):
        assert mp.mpf(center) - floor <= mp.mpf(loss)  # nothing can be lost that was not counted
        top, chance = floor + mp.mpf(rng.exponential()), mp.mpf(rng.random())
        mean = chance * top + (1 - chance) * floor
        factors = [(1 + process.rate * (x - mp.mpf(center))) for x in (top, floor)]
        allowed = (1 + process.rate * (mean - mp.mpf(center))) * (1 + mp.mpf(10) ** -40)
        assert chance * factors[0] + (1 - chance) * factors[1] <= allowed


def test_one_early_row_that_could_lose_more_does_not_make_the_end_long():
    """Values near the top of their range, and a first guess in its middle: its center is lowered, the rate of all stays."""
    values, guesses = np.full(400, 0.99), np.concatenate([[0.5], np.full(399, 0.99)])
    ends = []
    for rate in (1.5, 0.75 / 0.99 * 0.5):  # the control: half of the rate at which no center is lowered
        process = LogProcess(rate, 0.75, 1.0)
        process.bet(values, *_affordable(guesses, guesses, process))
        ends.append(this_log_end([process], 1.0, 0.05))
    assert ends[0] > 0.98
    assert ends[1] < ends[0]
