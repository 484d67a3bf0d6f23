"""Wealth of bets that a mean is larger: lower ends from values X_1, X_2, ... (section 13, Theorems 39 and 40).

*One mean.* E[X_i | past] <= J and X_i >= a. For rates v_i >= 0 from the past and 0 < c < 1

    W_n(J) = prod_i ( 1 + v_i(J) (X_i - J) ),     v_i(J) = min( v_i, c / (J - a)_+ ),                          (22)

is a supermartingale that starts at 1: the mean of a factor is at most 1, and no factor is below 1 - c. So it ever reaches
1/delta with probability at most delta (Ville). It decreases in J whatever the values are, and so does a mixture of such
processes with fixed weights: all J below the largest one at which the wealth once reached 1/delta are rejected together. At some
time all of the wealth may be divided anew, by what was observed before: the product of both mixtures, which decreases as well.

*Means m_i >= a of their own.* With centers c_i and rates v_i from the past

    prod_i exp( log(1 + v_i (X_i - c_i)) + v_i (c_i - m_i) )   is a supermartingale: the mean of a factor is (1 + u) e^-u <= 1,

u = v_i (m_i - c_i) (the Lemma of section 9). Any V with sum_i v_i (m_i - a) <= V (J - a) makes it a lower end of J: for the mean
of n contexts (21) V = n max_i v_i, for stated starts (21a) `Strata.total`.

A `Strategy` is data: whatever its numbers are, an end holds if they were fixed before the values; good ones make it short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bondic.core.betting import tail_term
from bondic.core.bounded import Enclosure, FloatArray, U, certified_sum, filled, next_down, portions, same_sum
from bondic.core.errors import InvalidInput, NumericalError
from bondic.core.propensities.crossing import largest

MAX_RISK = 0.99
"""No bet may risk more than this share of the wealth."""
_NO_BET = "A bet is not positive, or can lose all wealth."
_MODERATE = 1e140
"""Squares of larger numbers could overflow."""


@dataclass(frozen=True)
class Strategy:
    """Numbers of the bets.

    The defaults were fixed by experiment on click and classification logs: within a tenth of the best single bet there, and
    shorter by a twentieth than equal shares from the start.
    """

    bets: tuple[tuple[float, float], ...] = ((1.0, 0.75), (2.0, 0.95))  # multiple of the rate, largest share at risk
    reserve: float = 0.5  # of the wealth, not bet before doubly robust values begin
    prior_weight: float = 1.0  # of what is expected of weighted rewards, in observations
    control_weight: float = 50.0  # of what is expected of doubly robust values

    def __post_init__(self) -> None:
        fine = bool(self.bets) and all(0 < multiple < math.inf and 0 < risk <= MAX_RISK for multiple, risk in self.bets)
        fine = fine and 0 <= self.reserve < 1
        if not (fine and 0 < self.prior_weight < math.inf and 0 < self.control_weight < math.inf):
            raise InvalidInput("The numbers of a betting strategy are out of range.")

    @property
    def largest_risk(self) -> float:
        return max(risk for _, risk in self.bets)


def plug_in_rates(
    values: FloatArray, planned: int, probability: float, prior: tuple[float, float, float]
) -> FloatArray:
    """sqrt( 2 log(1/delta) / (N s_i^2) ), s_i^2 the variance of the values before the i-th: nothing in it is from later.

    N values are planned; `prior` are a mean, a variance > 0 and their weight in observations. It would be best for a known
    variance and many values; another rate makes an end longer, never wrong.
    """
    (mean, variance, weight), price = prior, 2.0 * math.log(1.0 / probability) / max(planned, 1)
    total = squares = 0.0

    def rates(some: slice) -> FloatArray:
        nonlocal total, squares
        mine, before = moderate(values[some]), weight + np.arange(some.start, some.stop)
        sums = np.cumsum(np.concatenate([[total], mine]))
        deviations = (mine - (weight * mean + sums[:-1]) / before) ** 2
        spread = np.cumsum(np.concatenate([[squares], deviations]))
        total, squares = float(sums[-1]), float(spread[-1])
        return np.asarray(np.sqrt(price / ((weight * variance + spread[:-1]) / before)))

    return filled(values.size, rates)


def running_means(values: FloatArray, guess: float) -> Callable[[slice], FloatArray]:
    """Means of the earlier values, and of the guess as one more: at some of the values, which are asked for in their order."""
    total = 0.0

    def means(some: slice) -> FloatArray:
        nonlocal total
        sums = np.cumsum(np.concatenate([[total], values[some]]))
        total = float(sums[-1])
        return np.asarray((guess + sums[:-1]) / (1.0 + np.arange(some.start, some.stop)))

    return means


def moderate(values: FloatArray) -> FloatArray:
    """Cut where squares would overflow: for rates and guesses, which may be any numbers."""
    return np.clip(np.asarray(values), -_MODERATE, _MODERATE)


def _log_factors(bets: FloatArray, risk: float) -> FloatArray:
    """log(1 + bet) from below, bets good to a few U. Below -risk they come from rounding alone, and are cut there."""
    logs = np.log1p(np.maximum(bets - 8 * U * np.abs(bets), -risk * (1 + 8 * U)))
    return np.asarray(logs - 8 * U * np.abs(logs))


@dataclass(frozen=True, eq=False)
class BettingProcess:
    """One process (22) of a mixture."""

    values: FloatArray  # (n,) X_i, rounded down
    floor: float  # a: no value can be below it, whatever happens
    rates: FloatArray  # (n,) v_i / multiple >= 0, from earlier values alone
    risk: float  # c: the largest share of the wealth that one value can take
    share: float  # of the wealth at the start; those of a mixture sum to 1 at most
    multiple: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.risk <= MAX_RISK and self.share > 0 and 0 < self.multiple < math.inf):
            raise NumericalError(_NO_BET)

    def bets(self, candidate: float, some: slice) -> FloatArray:
        """v_i(J) (X_i - J) of (22) at some of the values. Below the floor nothing can be lost, and rates are not cut."""
        gap, rates = candidate - self.floor, self.rates[some]
        rates = rates if self.multiple == 1.0 else self.multiple * rates
        return np.asarray((np.minimum(rates, self.risk / gap) if gap > 0 else rates) * (self.values[some] - candidate))

    def log_factors(self, candidate: float, some: slice) -> FloatArray:
        """Of (22), rounded down."""
        return _log_factors(self.bets(candidate, some), self.risk)


def check_shares(shares: Sequence[float]) -> None:
    if math.fsum(shares) > 1.0:
        raise NumericalError("A mixture of bets begins with more than all of the wealth.")


def log_mixture(parts: Sequence[tuple[float, Enclosure]]) -> float:
    """log sum_k share_k exp(x_k), rounded down."""
    top = max(size.lower for _, size in parts)
    total = math.fsum(share * math.exp(size.lower - top) for share, size in parts)
    logarithm = math.log(total * (1 - 16 * U))
    return next_down(next_down(top + logarithm) - 8 * U * (abs(top) + abs(logarithm) + 1.0))


class MeansProcess:
    """One process for values with means m_i of their own, some rows at a time. All is counted from a, a bound of the means."""

    def __init__(self, risk: float, share: float) -> None:
        if not (0 < risk <= MAX_RISK and share > 0):
            raise NumericalError(_NO_BET)
        self.risk, self.share = risk, share
        self._logs: list[float] = []
        self._gains: list[float] = []

    @staticmethod
    def on(
        values: FloatArray, centers: FloatArray, losses: FloatArray, rates: FloatArray, risk: float, share: float
    ) -> MeansProcess:
        """On all rows."""
        found = MeansProcess(risk, share)
        for some in portions(values.size):
            found.bet(values[some], centers[some], losses[some], rates[some])
        return found

    def bet(self, values: FloatArray, centers: FloatArray, losses: FloatArray, rates: FloatArray) -> None:
        """X_i - a, rounded down; c_i - a, loss_i with X_i >= c_i - loss_i and v_i >= 0 known before X_i; v_i loss_i <= risk."""
        fine = all(bool(np.all(np.isfinite(one))) for one in (values, centers, losses, rates))
        fine = fine and bool(np.all(losses >= 0) and np.all(rates >= 0))
        if not (fine and np.all(rates * losses <= self.risk * (1 + 8 * U))):
            raise NumericalError(_NO_BET)
        gains = rates * centers
        self._logs += same_sum(_log_factors(rates * (values - centers), self.risk))
        self._gains += same_sum(gains - 4 * U * np.abs(gains))

    @cached_property
    def intercept(self) -> Enclosure:
        """sum_i log(1 + v_i (X_i - c_i)) + v_i (c_i - a), from below."""
        return certified_sum(self._logs) + certified_sum(self._gains)


def means_end(processes: Sequence[tuple[MeansProcess, float]], most: float, probability: float) -> float:
    """A lower end of J - a in [0, most]; beyond `most` where every value is rejected.

    Every process comes with a V > 0 for which sum_i v_i (m_i - a) <= V (J - a).
    """
    check_shares([one.share for one, _ in processes])
    if not all(0 < total < math.inf for _, total in processes):
        raise NumericalError(_NO_BET)
    needed = tail_term(probability).upper

    def wealth(mean: float) -> float:
        lost = Enclosure(mean)
        return log_mixture([(one.share, one.intercept - lost * total) for one, total in processes]) - needed

    return largest(wealth, lambda mean: wealth(mean) >= 0.0, 0.0, most)
