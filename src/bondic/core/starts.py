"""Initial states that are a sample: J* - J_emp, by Hoeffding's inequality or by bets fixed before the starts (Lemma 35).

Starts x_1, x_2, ... are independent, V(x) = sum_a pi(a|x) q*(x, a) lies in [v_lo, v_hi], of width B, and E V(x_j) = J*. With a
guess R (a number, or the mean of V over starts that were left out), rates λ, b_1, ..., b_K and shares p_0 + ... + p_K <= 1, all
fixed before these starts,

    p_0 exp( sum_j λ (J* - V(x_j)) - λ^2 B^2 / 8 )  +  sum_k p_k exp( sum_j b_k (J* - V(x_j)) - g( -b_k (V(x_j) - R_k) ) ),

R_k = max{ R, v_hi - F/b_k } with F < 1, is a supermartingale that begins at 1 or less. It exceeds 1/delta with probability at
most delta, at any number n_0 of starts, so

    n_0 (J* - J_emp)  <=  min{ log(1/(p_0 delta))/λ + n_0 λ B^2/8,  ( log(1/(p_k delta)) + sum_j g(-b_k (V(x_j) - R_k)) ) / b_k }.

The first is Hoeffding's inequality at p_0 of the probability: no set of value functions, however large, makes it worse. The
others pay for what V varies over the starts, as far as the class and the rows tell. The lower end is the same for -V.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from bondic.core.betting import MAX_BET, bet_cost, tail_term
from bondic.core.bounded import Between, Enclosure, FloatArray, U, certified_dot, log_enclosure, upper_sum
from bondic.core.claims import End
from bondic.core.columns import AnsweredRows, Cloud
from bondic.core.errors import InvalidInput
from bondic.core.sums.measure import RowMeasures
from bondic.core.terms import ValueRange, range_of

INITIAL_SHARE = 0.2
"""Share of alpha for a sampled initial distribution; fixed here, before any data are seen."""
_GRID = 24
"""Rates for planned sizes 1, 4, 16, ..., 4^23: enough for any sample that fits a computer."""
_MAX_RATES, _MAX_COMPARED = 64, 256
"""Of bets, and of starts whose mean is R: the exact norm of their mean takes all pairs of them."""
_PART = 16_384

_Rows = TypeVar("_Rows", bound=AnsweredRows)


@dataclass(frozen=True, eq=False)
class SampledStart:
    """Hoeffding's inequality, |J* - J_emp| <= B sqrt( log(sides / delta_0) S / 2 ), S = sum_j p_j^2 / draws.

    A sample of n_0 states has p_j = 1 / n_0 and draws = 1 whatever the number of action draws (they belong to the same
    independent term); a list, or the starts of a log, with m action draws per state has draws = m.
    """

    weights: FloatArray  # p_j
    width: float  # B at time 0
    draws: int  # independent draws behind every weight
    count_fixed: bool  # a sample, or draws at the starts of a log that grows: every size at once
    sides: int

    def error(self, probability: float) -> Enclosure:
        """A bound of |J* - J_emp| that holds with probability 1 - `probability`."""
        if not self.count_fixed:
            return self._any_size(probability)
        effective = certified_dot(self.weights, self.weights) / float(self.draws)
        level = log_enclosure(Enclosure(float(self.sides)) / probability)
        return Enclosure(self.width) * (level * effective * 0.5).sqrt()

    def _any_size(self, probability: float) -> Enclosure:
        """min_j ( log(sides j (j+1) / delta_0) / lambda_j + lambda_j B^2 n_0 / 8 ) / n_0, valid at every stopping time.

        Each lambda_j is fixed (best for n_0 = 4^(j-1)) and has error probability delta_0 / (j (j + 1)); these sum to delta_0.
        """
        if self.width == 0:
            return Enclosure(0.0)
        found: list[Enclosure] = []
        count = float(np.count_nonzero(self.weights) * self.draws)
        for j in range(1, _GRID + 1):
            level = log_enclosure(Enclosure(float(self.sides * j * (j + 1))) / probability)
            rate = (8.0 * level.mid / 4.0 ** (j - 1)) ** 0.5 / self.width
            found.append((level / rate + Enclosure(self.width) * self.width * count * 0.125 * rate) / count)
        return min(found, key=lambda bound: bound.upper)


def sampled_start(rows: AnsweredRows, sides: int, limits: ValueRange | None = None) -> SampledStart | None:
    """For an interval (2 sides) or a bound (1); None when d_0 and the means over initial actions are exact."""
    states = rows.initial_states
    listed = states.kind != "sample"
    if listed and rows.exact_answers:
        return None
    draws = max(rows.initial_draws, 1) if listed else 1
    width = (range_of(rows.terms) if limits is None else limits).width
    return SampledStart(states.weights, width, draws, states.count_fixed, sides)


@dataclass(frozen=True, eq=False)
class StartBets:
    """Bets on initial states that are a sample, fixed before the states they are used on."""

    skipped: int  # starts at the beginning of the list that were seen before; they carry no weight
    center: float | None  # R; None: the mean value of the skipped starts
    hoeffding: float  # λ
    rates: tuple[float, ...]  # b_k
    shares: tuple[float, ...]  # p_0, p_1, ..., p_K
    largest: float = 0.99  # F

    def __post_init__(self) -> None:
        fine = self.skipped >= 0 and 0 < len(self.rates) <= _MAX_RATES and (self.center is not None or self.skipped > 0)
        fine = fine and (self.center is None or math.isfinite(self.center)) and 0 < self.largest <= MAX_BET
        fine = fine and len(self.shares) == 1 + len(self.rates) and math.fsum(self.shares) <= 1
        if not (fine and all(0 < number < math.inf for number in (self.hoeffding, *self.rates, *self.shares))):
            raise InvalidInput("Bets on initial states need rates and shares > 0, and a center or skipped starts.")


def used_starts(rows: _Rows, skipped: int) -> _Rows:
    """The same question without the first starts, those that were seen while the plan was begun."""
    if skipped == 0:
        return rows
    states = rows.initial_states
    if states.kind != "sample" or not 0 < skipped < len(states):
        raise InvalidInput(f"{skipped} of {len(states)} initial states cannot be left out.")
    return rows.later_starts(skipped)


@dataclass(frozen=True, eq=False)
class StartTerms:
    """Independent terms: one per start of a sample, one per drawn action of a fixed list; and starts before them."""

    cloud: Cloud  # points, with the weights of their actions; `rows` say which term every point belongs to
    shares: FloatArray  # (terms,) weight of every term relative to 1 / terms
    compared: Cloud  # skipped starts, whose mean value is R
    count: int  # of them
    error: float  # relative, of the weights of actions

    @staticmethod
    def of(rows: AnsweredRows, skipped: int) -> StartTerms:
        """`rows` with all starts."""
        states, cloud, error = rows.initial_states, rows.initial, (12 + rows.layout.slots) * U
        count = min(skipped, _MAX_COMPARED) if states.kind == "sample" else 0
        kept = cloud.rows < count
        compared = Cloud(cloud.points[kept], cloud.weights[kept], cloud.rows[kept], cloud.draws)
        if states.kind == "sample" or skipped:
            used = used_starts(rows, skipped)
            return StartTerms(used.initial, np.ones(len(used.initial_states)), compared, count, error)
        each = states.weights[cloud.rows] * len(states)  # an exact list with drawn actions: every draw is a term
        one = Cloud(cloud.points, np.ones_like(cloud.weights), np.arange(len(each)))
        return StartTerms(one, each, compared, 0, error)

    def __len__(self) -> int:
        return len(self.shares)

    def reference(self) -> RowMeasures:
        """The measure of R."""
        seen = self.compared
        zeros, error = np.zeros(len(seen.rows), dtype=np.int64), self.error + 4 * U
        return RowMeasures(seen.points, seen.weights / self.count, zeros, 1, error)

    def parts(self) -> Iterator[tuple[slice, RowMeasures]]:
        """The terms, some at a time."""
        cloud = self.cloud
        for top in range(0, len(self), _PART):
            stop = min(top + _PART, len(self))
            some = slice(*np.searchsorted(cloud.rows, [top, stop]))
            own = RowMeasures(cloud.points[some], cloud.weights[some], cloud.rows[some] - top, stop - top, self.error)
            yield slice(top, stop), own

    def alike(self) -> FloatArray:
        """(terms,) the share of the compared starts that are the same: state and answers of the policy, bit for bit.

        Answers that are written down per episode may differ at one state. Terms of several drawn actions are not compared.
        """
        clouds = (self.compared, self.cloud)
        if not self.count or any(np.unique(cloud.rows).size != cloud.rows.size for cloud in clouds):
            return np.zeros(len(self))
        both = np.concatenate([np.hstack([cloud.points, cloud.weights]) for cloud in clouds]) + 0.0
        kind = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
        tally = np.bincount(kind[: self.count], minlength=int(kind.max()) + 1)
        return np.asarray(tally[kind[self.count :]] / self.count)


Deviations = Callable[[StartTerms, StartBets], Between]
"""What is known of V(x_j) - R beside the value range, term by term."""


def start_cost(
    rows: AnsweredRows,
    bets: StartBets | None,
    probability: float | None,
    ends: tuple[End, ...],
    end: End,
    value: ValueRange,
    known: Deviations | None = None,
    limits: ValueRange | None = None,
) -> Enclosure:
    """What a sampled d_0 adds to an end, of the `probability` that all ends share; 0 where d_0 is exact.

    `limits` of what is bounded at a start, where it is not the value of one policy.
    """
    limits = range_of(rows.terms) if limits is None else limits
    sampled = sampled_start(rows, len(ends), limits)
    if sampled is None:
        return Enclosure(0.0)
    if probability is None:
        raise InvalidInput("The initial distribution is sampled: a part of alpha must be set aside for it.")
    if bets is not None:
        return start_error(rows, bets, limits, value, end, probability / len(ends), known)
    # no start of the log follows the pilot: another bound, picked for that, would spend this part of alpha twice
    drawn_in_log = rows.initial_states.kind == "sample" and rows.initial_states.from_rows
    return Enclosure(sampled.width) if drawn_in_log else sampled.error(probability)


def start_error(
    rows: AnsweredRows,
    bets: StartBets,
    limits: ValueRange,
    value: ValueRange,
    end: End,
    probability: float,
    known: Deviations | None = None,
) -> Enclosure:
    """A bound of J* - J_emp (upper end) or of J_emp - J* (lower end), with probability at least 1 - `probability`.

    `rows` with all starts; J_emp is the mean over those that were not left out, and lies in `value` on the event of the other
    bounds. `known` says what V can still be there.
    """
    terms = StartTerms.of(rows, bets.skipped)
    deviation = _deviations(terms, bets, limits, known)
    center = _center_bounds(terms, bets, deviation, value)
    if end == "lower":  # the upper end for -V
        deviation, center = Between(-deviation.high, -deviation.low), ValueRange(-center.high, -center.low)
        limits = ValueRange(-limits.high, -limits.low)
    levels, count = [tail_term(probability * share) for share in bets.shares], float(len(terms))
    squares = Enclosure(limits.width) * limits.width * upper_sum(terms.shares**2 * (1 + 4 * U)) * 0.125
    found = [(levels[0] / bets.hoeffding + squares * bets.hoeffding) / count]
    for rate, level in zip(bets.rates, levels[1:], strict=True):
        price = upper_sum(_prices(terms, rate, bets.largest, deviation, center, limits))
        found.append((level + price) / (Enclosure(rate) * count))
    # weights of starts and of actions are defined as normalized: floats that are off by a share of their number
    largest = max(
        limits.largest, 2 * range_of(rows.terms).largest if rows.initial.weights.shape[1] > rows.layout.slots else 0
    )
    uneven = 2 * (len(rows.initial_states) + rows.layout.slots + 16) * U * (limits.width + largest)
    return min(found, key=lambda bound: bound.upper) + uneven


def _prices(
    terms: StartTerms, rate: float, largest: float, deviation: Between, center: ValueRange, limits: ValueRange
) -> FloatArray:
    """The worst g(-b_j (V_j - R_k)) of every term, from bounds of V_j - R and of R: V - max(R, clip) = min(V - R, V - clip)."""
    clip = limits.high - largest / (rate * float(terms.shares.max()))
    low, high = deviation.low, np.minimum(deviation.high, np.minimum(center.high + deviation.high, limits.high) - clip)
    if clip > center.low:
        low = np.minimum(low, np.maximum(center.low + deviation.low, limits.low) - clip)
    bet, size = rate * terms.shares, 8 * U * (limits.largest + abs(clip) + deviation.magnitude() + center.largest)
    low, high = -bet * (high + size), -bet * (low - size)
    return np.asarray(np.maximum(bet_cost(low), bet_cost(high)))


def _deviations(terms: StartTerms, bets: StartBets, limits: ValueRange, known: Deviations | None) -> Between:
    """V(x_j) - R from the value range, where a start cancels its own share of R, and from what is known besides.

    Where the two exclude each other the feasible set is empty, and every statement about it is true.
    """
    most = (1.0 - terms.alike()) * limits.width * (1 + 8 * U)
    wide = Between(-most, most)
    if bets.center is not None:
        wide = Between(np.full(len(terms), limits.low - bets.center), np.full(len(terms), limits.high - bets.center))
    if known is None:
        return wide
    other = known(terms, bets)
    cut = wide.within(other)
    crossed = cut.low > cut.high
    return Between(np.where(crossed, wide.low, cut.low), np.where(crossed, wide.high, cut.high))


def _center_bounds(terms: StartTerms, bets: StartBets, deviation: Between, value: ValueRange) -> ValueRange:
    """Bounds of R = J_emp - mean_j (V(x_j) - R)."""
    if bets.center is not None:
        return ValueRange(bets.center, bets.center)
    count, slack = float(len(terms)), (len(terms) + 8) * U
    low, high = (float(np.sum(side)) / count for side in (deviation.low, deviation.high))
    most = slack * (value.largest + float(deviation.magnitude().max()))
    return ValueRange(value.low - high - most, value.high - low + most)
