"""A sampled initial distribution: J* - J_emp, bounded by bets that were fixed before the starts (Lemma 35).

Starts x_1, x_2, ... are independent, V(x) = sum_a pi(a|x) q*(x, a) lies in [v_lo, v_hi], of width B, and E V(x_j) = J*. With a
guess R (a number, or the mean of V over starts that were left out), rates λ, b_1, ..., b_K and shares p_0 + ... + p_K <= 1, all
fixed before these starts,

    p_0 exp( sum_j λ (J* - V(x_j)) - λ^2 B^2 / 8 )  +  sum_k p_k exp( sum_j b_k (J* - V(x_j)) - g( -b_k (V(x_j) - R_k) ) ),

R_k = max{ R, v_hi - F/b_k } with F < 1, is a supermartingale that begins at 1 or less. It exceeds 1/delta with probability at
most delta, at any number n_0 of starts, so

    n_0 (J* - J_emp)  <=  min{ log(1/(p_0 delta))/λ + n_0 λ B^2/8,  ( log(1/(p_k delta)) + sum_j g(-b_k (V(x_j) - R_k)) ) / b_k }.

The first is Hoeffding's inequality at p_0 of the probability: no set of value functions, however large, makes it worse. The
others pay for what V varies over the starts, as far as the class and the rows tell; a start that is the same as all of those
left out costs nothing but the logarithm, and that little where v_hi is near. The lower end is the same for -V.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.betting import loss, tail_term
from bondic.core.bounded import Between, Enclosure, U, row_norms, upper_sum
from bondic.core.claims import End
from bondic.core.classes.balls import ValueClass
from bondic.core.classes.ellipsoids import Ellipsoid
from bondic.core.classes.landmarks import Coordinates, Embedding
from bondic.core.columns import Cloud, Columns
from bondic.core.errors import InvalidInput
from bondic.core.sequential.plan import FULL_BET, StartBets
from bondic.core.sums.forms import Sums
from bondic.core.sums.measure import RowMeasures
from bondic.core.sums.reference import REFERENCE
from bondic.core.terms import ValueRange

FloatArray = npt.NDArray[np.float64]
Deviations = Callable[["StartTerms", StartBets], Between]
"""What is known of V(x_j) - R beside the value range, term by term."""

_PART = 16_384
_MOST_COMPARED = 256
"""R is the mean over so many of the starts that were left out at most: the exact norm of their mean takes all pairs of them."""


def used_starts(rows: Columns, skipped: int) -> Columns:
    """The same question without the first starts, those that were seen while the plan was begun."""
    if skipped == 0:
        return rows
    states = rows.initial_states
    if states.kind != "sample" or not 0 < skipped < len(states):
        raise InvalidInput(f"{skipped} of {len(states)} initial states cannot be left out.")
    return rows.later_starts(skipped)


def _some(cloud: Cloud, kept: npt.NDArray[np.bool_], first: int = 0) -> Cloud:
    return Cloud(cloud.points[kept], cloud.weights[kept], cloud.rows[kept] - first, cloud.draws)


@dataclass(frozen=True, eq=False)
class StartTerms:
    """Independent terms: one per start of a sample, one per drawn action of a fixed list; and starts before them."""

    cloud: Cloud  # points, with the weights of their actions; `rows` say which term every point belongs to
    shares: FloatArray  # (terms,) weight of every term relative to 1 / terms
    compared: Cloud  # skipped starts, whose mean value is R
    count: int  # of them
    error: float  # relative, of the weights of actions

    @staticmethod
    def of(rows: Columns, skipped: int) -> StartTerms:
        """`rows` with all starts."""
        states, cloud, error = rows.initial_states, rows.initial, (12 + rows.layout.slots) * U
        if states.kind == "sample":
            used = used_starts(rows, skipped)
            count = min(skipped, _MOST_COMPARED)
            seen = _some(cloud, cloud.rows < count)
            return StartTerms(used.initial, np.ones(len(used.initial_states)), seen, count, error)
        if skipped:
            raise InvalidInput("Starts of an exact list cannot be left out.")
        each = states.weights[cloud.rows] * len(states)  # an exact list with drawn actions: every draw is a term
        one = Cloud(cloud.points, np.ones_like(cloud.weights), np.arange(len(each)))
        return StartTerms(one, each, _some(cloud, cloud.rows < 0), 0, error)

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
        _, kind = np.unique(both, axis=0, return_inverse=True)
        kind = kind.reshape(-1)
        tally = np.bincount(kind[: self.count], minlength=int(kind.max()) + 1)
        return np.asarray(tally[kind[self.count :]] / self.count)


def start_error(
    rows: Columns,
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
    apart = _in_range(terms, bets, limits)
    if known is not None:
        apart = _closer(apart, known(terms, bets))
    guess = _guess(terms, bets, apart, value)
    if end == "lower":  # the upper end for -V
        apart, guess = Between(-apart.high, -apart.low), ValueRange(-guess.high, -guess.low)
        limits = ValueRange(-limits.high, -limits.low)
    levels, count = [tail_term(probability * share) for share in bets.shares], float(len(terms))
    found = [_hoeffding(terms, bets.hoeffding, limits, levels[0])]
    for rate, level in zip(bets.rates, levels[1:], strict=True):
        price = upper_sum(_prices(terms, rate, apart, guess, limits))
        found.append((level + price) / (Enclosure(rate) * count))
    # weights of starts and of actions are defined as normalized: floats that are off by a share of their number
    uneven = 2 * (len(rows.initial_states) + rows.layout.slots + 16) * U * (limits.width + limits.largest)
    return min(found, key=lambda bound: bound.upper) + uneven


def _hoeffding(terms: StartTerms, rate: float, limits: ValueRange, level: Enclosure) -> Enclosure:
    """( log(1/(p_0 delta)) / λ + λ B^2 sum_j share_j^2 / 8 ) / n_0."""
    squares = Enclosure(limits.width) * limits.width * upper_sum(terms.shares**2 * (1 + 4 * U)) * 0.125
    return (level / rate + squares * rate) / float(len(terms))


def _prices(terms: StartTerms, rate: float, apart: Between, guess: ValueRange, limits: ValueRange) -> FloatArray:
    """The worst g(-b_j (V_j - R_k)) of every term, from bounds of V_j - R and of R: V - max(R, clip) = min(V - R, V - clip)."""
    clip = limits.high - FULL_BET / (rate * float(terms.shares.max()))
    low, high = apart.low, np.minimum(apart.high, np.minimum(guess.high + apart.high, limits.high) - clip)
    if clip > guess.low:
        low = np.minimum(low, np.maximum(guess.low + apart.low, limits.low) - clip)
    bet, size = rate * terms.shares, 8 * U * (limits.largest + abs(clip) + apart.largest() + guess.largest)
    low, high = -bet * (high + size), -bet * (low - size)
    return np.asarray(np.maximum(loss(low), loss(high)))


def _in_range(terms: StartTerms, bets: StartBets, limits: ValueRange) -> Between:
    """V(x_j) - R from the value range alone: a start cancels its own share of R."""
    if bets.guess is not None:
        ones = np.ones(len(terms))
        return Between((limits.low - bets.guess) * ones, (limits.high - bets.guess) * ones)
    most = (1.0 - terms.alike()) * limits.width * (1 + 8 * U)
    return Between(-most, most)


def _guess(terms: StartTerms, bets: StartBets, apart: Between, value: ValueRange) -> ValueRange:
    """Bounds of R = J_emp - mean_j (V(x_j) - R)."""
    if bets.guess is not None:
        return ValueRange(bets.guess, bets.guess)
    count, slack = float(len(terms)), (len(terms) + 8) * U
    low, high = (float(np.sum(side)) / count for side in (apart.low, apart.high))
    most = slack * (value.largest + float(apart.largest().max()))
    return ValueRange(value.low - high - most, value.high - low + most)


def _closer(wide: Between, other: Between) -> Between:
    """Both are true; where they exclude each other nothing is left of Q, and whatever is said about it is true."""
    low, high = np.maximum(wide.low, other.low), np.minimum(wide.high, other.high)
    crossed = low > high
    return Between(np.where(crossed, wide.low, low), np.where(crossed, wide.high, high))


def learned(ball: ValueClass, found: Coordinates, sets: Sequence[Ellipsoid], sums: Sums = REFERENCE) -> Deviations:
    """V(x_j) - R over what the rows leave of Q, in all sets at once."""

    def deviations(terms: StartTerms, bets: StartBets) -> Between:
        far = np.full(len(terms), np.inf)
        low, high = -far, far
        shift = _Shift.of(terms, bets.guess, ball, found, sums)
        for part, measures in terms.parts():
            embedding, center, off = shift.apply(measures)
            for one in sets:
                bounds = one.products(embedding)
                size = np.abs(bounds.low) + np.abs(bounds.high) + np.abs(center) + off
                low[part] = np.maximum(low[part], bounds.low + center - off - 4 * U * size)
                high[part] = np.minimum(high[part], bounds.high + center + off + 4 * U * size)
        return Between(low, high)

    return deviations


@dataclass(frozen=True, eq=False)
class _Shift:
    """R as coordinates with what they leave over, and as a value of the center (or a number)."""

    embedding: Embedding | None  # None: R is a number
    value: float
    error: float
    ball: ValueClass
    found: Coordinates
    sums: Sums

    @staticmethod
    def of(terms: StartTerms, guess: float | None, ball: ValueClass, found: Coordinates, sums: Sums) -> _Shift:
        if guess is not None:
            return _Shift(None, guess, 0.0, ball, found, sums)
        mean = terms.reference()
        value, error = _center(ball, mean, sums)
        return _Shift(found.single(mean), float(value[0]), float(error[0]), ball, found, sums)

    def apply(self, measures: RowMeasures) -> tuple[Embedding, FloatArray, FloatArray]:
        """Embeddings of x_j less R, and the center's part of the difference with its error."""
        here, (center, off) = self.found.single(measures), _center(self.ball, measures, self.sums)
        less, moved = self.embedding, center - self.value
        off = off + self.error + 2 * U * (np.abs(center) + abs(self.value))
        if less is None:
            return here, moved, off
        lost = 4 * U * self.found.radius * (row_norms(here.coordinates) + row_norms(less.coordinates))
        return (
            Embedding(
                here.coordinates - less.coordinates,
                (here.perp + less.perp) * (1 + 4 * U),
                (here.extra + less.extra + lost) * (1 + 8 * U),
            ),
            moved,
            off,
        )


def _center(ball: ValueClass, measures: RowMeasures, sums: Sums) -> tuple[FloatArray, FloatArray]:
    if ball.center is None:
        return np.zeros(measures.count), np.zeros(measures.count)
    return sums.row_products(ball.center, measures)
