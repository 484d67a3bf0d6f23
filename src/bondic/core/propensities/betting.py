"""Wealth of bets that a mean is larger: lower ends from values X_1, X_2, ... (sections 13 and 17, Theorems 39 and 40).

*One mean.* E[X_i | past] <= J and X_i >= a. For rates v_i >= 0 from the past and 0 < c < 1

    W_n(J) = prod_i ( 1 + v_i(J) (X_i - J) ),     v_i(J) = min( v_i, c / (J - a)_+ ),                          (22)

is a supermartingale that starts at 1: the mean of a factor is at most 1, and no factor is below 1 - c. So it ever reaches
1/delta with probability at most delta (Ville). It decreases in J whatever the values are, and so does a mixture of such
processes with fixed weights: all J below the largest one at which the wealth once reached 1/delta are rejected together. At some
time all of the wealth may be divided anew, by what was observed before: the product of both mixtures, which decreases as well.

*This log.* X_i has a mean of its own, m_i = E[X_i | past, s_i] or less, and M is the mean of m_1, ..., m_N, whatever the contexts
s_i are and wherever they come from. With centers c_i known before the action and a rate v fixed before the first row

    sum_i log(1 + v (X_i - c_i)) - log(1/delta)  <=  sum_i log(1 + v (m_i - c_i))  <=  N log(1 + v (M - mean c)),            (40)

with probability at least 1 - delta at all N at once: (1 + v (X_i - c_i)) / (1 + v (m_i - c_i)) has a mean of at most 1 (Ville),
and the logarithm is concave. A mixture over several v holds as well: sum_k p_k exp(S_k - N log(1 + v_k (M - mean c_k))), which
falls in M.

*Stated starts.* With centers c_i and rates v_i from the past

    prod_i exp( log(1 + v_i (X_i - c_i)) + v_i (c_i - m_i) )   is a supermartingale: the mean of a factor is (1 + u) e^-u <= 1,

u = v_i (m_i - c_i) (the Lemma of section 9). Any V with sum_i v_i (m_i - a) <= V (J - a) makes it a lower end of J: (21a),
`Strata.total`.

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


class LogProcess:
    """One process (40), some rows at a time: values and centers less a, a bound of the means."""

    def __init__(self, rate: float, risk: float, share: float) -> None:
        if not (0 < rate < math.inf and 0 < risk <= MAX_RISK and share > 0):
            raise NumericalError(_NO_BET)
        self.rate, self.risk, self.share, self.count = rate, risk, share, 0
        self._logs: list[float] = []
        self._centers: list[float] = []

    def bet(self, values: FloatArray, centers: FloatArray, losses: FloatArray) -> None:
        """X_i - a, rounded down; c_i - a, and loss_i with X_i >= c_i - loss_i, known before X_i; v loss_i <= risk."""
        _check_bets(values, centers, losses, np.float64(self.rate), self.risk)
        self._logs += same_sum(_log_factors(self.rate * (values - centers), self.risk))
        self._centers += same_sum(centers)
        self.count += values.size

    @cached_property
    def _totals(self) -> tuple[Enclosure, float]:
        """S = sum_i log(1 + v (X_i - c_i)) and the mean of c_i - a, both from below."""
        mean = certified_sum(self._centers) / float(self.count)
        return certified_sum(self._logs), next_down(mean.lower)

    def log_wealth(self, mean: float) -> Enclosure:
        """S - N log(1 + v (M - mean c)), from below, at M - a; no M is below mean c - risk / v."""
        total, center = self._totals
        bet = max(self.rate * (mean - center) + 8 * U * self.rate * (abs(mean) + abs(center)), -self.risk * (1 + 8 * U))
        price = math.log1p(bet)
        return total - Enclosure(price + 8 * U * abs(price)) * float(self.count)


def this_log_end(processes: Sequence[LogProcess], most: float, probability: float) -> float:
    """A lower end of M - a in [0, most], from a mixture of (40); beyond `most` where every value is rejected."""
    check_shares([one.share for one in processes])
    needed = tail_term(probability).upper

    def wealth(mean: float) -> float:
        return log_mixture([(one.share, one.log_wealth(mean)) for one in processes]) - needed

    return largest(wealth, lambda mean: wealth(mean) >= 0.0, 0.0, most)


def _check_bets(
    values: FloatArray, centers: FloatArray, losses: FloatArray, rates: FloatArray | np.float64, risk: float
) -> None:
    """Refuse what is not finite, or could lose more than `risk` of the wealth."""
    fine = all(bool(np.all(np.isfinite(one))) for one in (values, centers, losses, rates))
    fine = fine and bool(np.all(losses >= 0) and np.all(rates >= 0))
    if not (fine and np.all(rates * losses <= risk * (1 + 8 * U))):
        raise NumericalError(_NO_BET)


class MeansProcess:
    """One process for stated starts: X_i - a, rounded down; c_i - a, loss_i with X_i >= c_i - loss_i, v_i >= 0 before X_i."""

    def __init__(
        self, values: FloatArray, centers: FloatArray, losses: FloatArray, rates: FloatArray, risk: float, share: float
    ) -> None:
        if not (0 < risk <= MAX_RISK and share > 0):
            raise NumericalError(_NO_BET)
        self.share = share
        self._logs: list[float] = []
        self._gains: list[float] = []
        for some in portions(values.size):
            mine = values[some], centers[some], losses[some], rates[some]
            _check_bets(*mine, risk)
            gains = rates[some] * centers[some]
            self._logs += same_sum(_log_factors(rates[some] * (values[some] - centers[some]), risk))
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
