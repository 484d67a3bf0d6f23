"""Wealth, 1 at the start, of somebody who bets that a mean is larger: the population value from propensities (section 13).

Values X_1, X_2, ... with E[X_i | past] <= J and X_i >= a, a known beforehand. Rates v_i >= 0 come from the past. For 0 < c < 1

    W_n(J) = prod_i ( 1 + v_i(J) (X_i - J) ),     v_i(J) = min( v_i, c / (J - a)_+ ),                          (22)

is a supermartingale that starts at 1: the mean of a factor is at most 1, and no factor is below 1 - c. So it ever reaches
1/delta with probability at most delta (Ville). It decreases in J whatever the values are, and so does a mixture of such
processes with fixed weights: all J below the largest one at which the wealth once reached 1/delta are rejected together. At some
time all of the wealth may be divided anew, by what was seen before: the product of both mixtures, which decreases as well.

For values with means m_i >= a of their own, centers c_i and rates v_i >= 0 from the past,

    prod_i exp( log(1 + v_i (X_i - c_i)) + v_i (c_i - m_i) )   is a supermartingale: the mean of a factor is (1 + u) e^-u <= 1,

u = v_i (m_i - c_i). It is the Lemma of section 9. A number V with sum_i v_i (m_i - a) <= V (J - a) makes it a lower end of J:
for the mean of n contexts (21) V = n max_i v_i, for stated starts (21a) what `noise.strata` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from bondic.core.betting import tail_term
from bondic.core.bounded import Enclosure, U, certified_sum, next_down
from bondic.core.errors import NumericalError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LARGEST_SHARE = 0.99
"""No bet may risk more than this share of the wealth."""
_HUGE = 1e140
_STEPS = 40
_BEYOND = 1e-6
"""Of the range: how far beyond it the end is put where every value in it is rejected, so that no rounding brings it back."""
_MOST_TIMES = 4096
"""A wealth that is looked at fewer times reaches its level less often: on the safe side, and faster for long logs."""


def plug_in_rates(
    values: FloatArray, planned: int, probability: float, start: tuple[float, float, float]
) -> FloatArray:
    """sqrt( 2 log(1/delta) / (N s_i^2) ), s_i^2 the variance of the values before the i-th: nothing in it is from later.

    N values are planned. `start` are a mean, a variance > 0 and the number of values that they count for. It is the rate that
    would be best for a known variance and many values; a bad one makes an end longer, never wrong.
    """
    mean, variance, weight = start
    values = moderate(values)
    before = weight + np.arange(values.size)
    means = (weight * mean + _before(values)) / before
    spread = (weight * variance + _before((values - means) ** 2)) / before
    return np.asarray(np.sqrt(2.0 * math.log(1.0 / probability) / (max(planned, 1) * spread)))


def moderate(values: FloatArray) -> FloatArray:
    """Cut where squares would overflow: for rates and guesses, which may be any numbers."""
    return np.clip(values, -_HUGE, _HUGE)


def _before(values: FloatArray) -> FloatArray:
    """Sums of all earlier values."""
    return np.concatenate([np.zeros(1), np.cumsum(values)[:-1]])


@dataclass(frozen=True, eq=False)
class Gambler:
    """One process of a mixture: values from below, and the bets on them."""

    values: FloatArray  # (n,) X_i, rounded down
    floor: float  # a: no value can be below it, whatever happens
    rates: FloatArray  # (n,) v_i >= 0, from earlier values alone
    most: float  # c: the largest share of the wealth that one value can take
    share: float  # of the wealth at the start; those of a mixture sum to 1 at most

    def __post_init__(self) -> None:
        if not (0 < self.most <= LARGEST_SHARE and self.share > 0 and np.all(self.rates >= 0)):
            raise NumericalError("A bet could lose everything, or is none.")
        if not (np.all(np.isfinite(self.values)) and np.all(np.isfinite(self.rates))):
            raise NumericalError("A value or a rate of a bet is not finite.")

    def growth(self, candidate: float) -> FloatArray:
        """log of every factor of (22), rounded down. The two differences and the rate are good to a few U, relatively."""
        gap = candidate - self.floor
        rates = (
            np.minimum(self.rates, self.most / gap) if gap > 0 else self.rates
        )  # below the floor nothing can be lost
        bets = rates * (self.values - candidate)
        # values below the floor could only come from rounding; the bet is then cut where the floor would have left it
        logs = np.log1p(np.maximum(bets - 8 * U * np.abs(bets), -self.most * (1 + 8 * U)))
        return np.asarray(logs - 8 * U * np.abs(logs))


def lower_end(
    gamblers: Sequence[Gambler], least: float, most: float, probability: float, before: Sequence[Gambler] = ()
) -> float:
    """The largest J in [least, most] that is known to be rejected, with everything below it; `least` if there is none.

    Beyond `most` where that is rejected as well: no value is left then, and what was assumed is contradicted.
    `before` are bets on earlier values: what they end with is divided by the shares of `gamblers`, which go on with it.
    """
    stages = [stage for stage in (before, gamblers) if stage]
    for stage in stages:
        _check_shares(stage)
    needed = tail_term(probability).upper

    def lead(candidate: float) -> float:
        return max(float(np.max(logs)) for logs in _log_wealth(stages, candidate)) - needed

    return _largest(lead, lambda candidate: _reaches(stages, candidate, needed), least, most)


def _check_shares(gamblers: Sequence[Gambler] | Sequence[ContextBets]) -> None:
    if math.fsum(one.share for one in gamblers) > 1.0:
        raise NumericalError("A mixture of bets begins with more than all of the wealth.")


def _largest(lead: Callable[[float], float], certain: Callable[[float], bool], least: float, most: float) -> float:
    """Where a decreasing function changes its sign; what is returned is certain, whatever the search has done."""
    span = most - least
    first = least + 1e-9 * span
    if not span > 0 or lead(first) <= 0.0:
        return least
    ahead = lead(most) >= 0.0
    if ahead and certain(most):
        return most + _BEYOND * span + 64 * U * abs(most)
    place = most if ahead else float(brentq(lead, first, most, xtol=1e-13 * span, rtol=1e-13))
    for step in range(_STEPS):
        candidate = place if step == 0 else place - 2.0 ** (step - _STEPS) * span
        if candidate <= first:
            break
        if certain(candidate):
            return candidate
    return least


def _times(count: int) -> IntArray:
    """Numbers of values after which the wealth is looked at: all, or about _MOST_TIMES of them, evenly spread."""
    return np.unique(np.linspace(0, count, min(count, _MOST_TIMES) + 1).astype(np.int64))


def _log_wealth(stages: Sequence[Sequence[Gambler]], candidate: float) -> list[FloatArray]:
    """log of the wealth at every time but the first, stage by stage, in ordinary floats."""
    found, begun = [], 0.0
    for gamblers in stages:
        starts = _times(gamblers[0].values.size)[:-1]
        sums = [np.cumsum(np.add.reduceat(one.growth(candidate), starts)) + math.log(one.share) for one in gamblers]
        found.append(begun + np.asarray(np.logaddexp.reduce(np.array(sums), axis=0)))
        begun = float(found[-1][-1])
    return found


def _reaches(stages: Sequence[Sequence[Gambler]], candidate: float, needed: float) -> bool:
    """Whether the wealth is certain to have been exp(needed) once: at the time when floats find it largest."""
    logs = _log_wealth(stages, candidate)
    last = int(np.argmax([np.max(one) for one in logs]))
    total = 0.0
    for gamblers, one in zip(stages[: last + 1], logs, strict=False):
        count = gamblers[0].values.size
        stop = count if gamblers is not stages[last] else int(_times(count)[int(np.argmax(one)) + 1])
        total = next_down(
            total + _log_mixture([(g.share, certified_sum(g.growth(candidate)[:stop])) for g in gamblers])
        )
    return total >= needed


def _log_mixture(parts: Sequence[tuple[float, Enclosure]]) -> float:
    """log sum_k share_k exp(x_k), rounded down."""
    top = max(size.lower for _, size in parts)
    total = math.fsum(share * math.exp(size.lower - top) for share, size in parts)
    logarithm = math.log(total * (1 - 16 * U))
    return next_down(next_down(top + logarithm) - 8 * U * (abs(top) + abs(logarithm) + 1.0))


@dataclass(frozen=True, eq=False)
class ContextBets:
    """One process for values with means m_i of their own. All is counted from a, a lower bound of the means."""

    values: FloatArray  # (n,) X_i - a, rounded down
    centers: FloatArray  # (n,) c_i - a, known before X_i
    losses: FloatArray  # (n,) X_i >= c_i - loss_i, known before X_i
    rates: FloatArray  # (n,) v_i >= 0, known before X_i, v_i loss_i <= most
    total: float  # V with sum_i v_i (m_i - a) <= V (J - a), J the mean that is asked for
    most: float
    share: float

    def __post_init__(self) -> None:
        columns = (self.values, self.centers, self.losses, self.rates)
        fine = 0 < self.most <= LARGEST_SHARE and self.share > 0 and 0 < self.total < math.inf
        fine = fine and all(bool(np.all(np.isfinite(one))) for one in columns)
        fine = fine and bool(np.all(self.losses >= 0) and np.all(self.rates >= 0))
        if not (fine and np.all(self.rates * self.losses <= self.most * (1 + 8 * U))):
            raise NumericalError("A bet could lose everything, or is none.")

    @cached_property
    def intercept(self) -> Enclosure:
        """sum_i log(1 + v_i (X_i - c_i)) + v_i (c_i - a), from below."""
        bets = self.rates * (self.values - self.centers)
        logs = np.log1p(np.maximum(bets - 8 * U * np.abs(bets), -self.most * (1 + 8 * U)))
        gains = self.rates * self.centers
        return certified_sum(logs - 8 * U * np.abs(logs)) + certified_sum(gains - 4 * U * np.abs(gains))


def contexts_end(bets: Sequence[ContextBets], most: float, probability: float) -> float:
    """A lower end of J - a in [0, most]; beyond `most` where every value is rejected."""
    _check_shares(bets)
    needed = tail_term(probability).upper

    def wealth(mean: float) -> float:
        lost = Enclosure(mean)
        return _log_mixture([(one.share, one.intercept - lost * one.total) for one in bets]) - needed

    return _largest(wealth, lambda mean: wealth(mean) >= 0.0, 0.0, most)
