"""The interval from propensities again: row by row, product by product, in 50 digits."""

import math

import mpmath as mp
import numpy as np
import pytest

import bondic
from bondic.methods.propensities import Propensities
from propensity_cases import LARGEST, STATES, TARGET, decisions, interval, slow_rates


def predictions(control, i, state):
    """The stored coefficients of the block of row i, for both actions, within the clip."""
    block = sum(border <= i for border in control.borders) - 1
    z = [1.0, (state - control.center[0]) / control.scale[0]]
    raw = [math.fsum(z[k] * control.coefficients[block][k][a] for k in range(2)) for a in range(2)]
    return [min(max(one, control.clip[0]), control.clip[1]) for one in raw]


def slow_interval(log, method, alpha):
    """Both ends of single decisions with rewards in [0, 1], from the log and the stored control variate alone."""
    mp.mp.dps = 50
    result = interval(log, method, alpha=alpha)
    control, n = result.proof.control, len(log)
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
        first, ways = n if control is None else control.borders[0], [bets_on(free, floor, middle, 0, n, alpha / 2)]
        kept, shares = (0.0 if method.max_ratio is None else 0.5), [1.0]
        if control is not None:
            low, high = sorted(sign * one for one in control.clip)
            worst = low - method.max_ratio * (high - floor)
            start = (sign * control.expected[0], control.expected[1], 50.0)
            ways.append(bets_on(robust, worst, start, first, n, alpha / 2))
            shares = slow_shares([seen_before(free[:first], middle), start[:2]], [floor, worst], n - first, alpha / 2)
        ends.append(sign * slow_end(ways, first, kept, shares, floor, floor + 1, 2 / alpha))
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
