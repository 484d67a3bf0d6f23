"""A sampled initial distribution, bounded by bets at what q* can still be (section 9).

Starts x_1, x_2, ... are independent with E q*(x_j) = J*. For a guess c of J* and a bet b that were fixed before them,

    b sum_j ( J* - q*(x_j) )  <=  log(1/delta) + sum_j g( -b (q*(x_j) - c) ),     at every number of starts at once,

whatever c is (Lemma 35). With a good bet J* - J_emp costs about sd sqrt(2 log(1/delta) / n_0), sd the spread of q* over the
starts, plus log(1/delta) times the losing side of the range over n_0; Hoeffding's inequality has B / 2 in the place of sd.
q*(x_j) is bounded by what is left of Q. Actions drawn at a fixed list of starts are independent terms with means of their own;
weights of the list multiply the bets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.bounds.plan import StartBets
from bondic.claims import End
from bondic.classes.ellipsoids import Ellipsoid
from bondic.classes.landmarks import Coordinates
from bondic.classes.value_class import ValueClass
from bondic.data.initial import InitialStates
from bondic.errors import InvalidInput, NumericalError
from bondic.noise.betting import LARGEST_BET, loss, tail_term
from bondic.rounding import Between, Enclosure, U, upper_sum
from bondic.rows import Cloud, Rows
from bondic.sums.forms import STANDARD, Sums
from bondic.sums.rowwise import RowMeasures
from bondic.terms import ValueRange

FloatArray = npt.NDArray[np.float64]

_PART = 16_384


def used_starts(rows: Rows, skipped: int) -> Rows:
    """The same question without the first starts, those that were seen while the plan was begun."""
    if skipped == 0:
        return rows
    states, cloud = rows.initial_states, rows.initial
    if states.kind != "sample" or not 0 < skipped < len(states):
        raise InvalidInput(f"{skipped} of {len(states)} initial states cannot be left out.")
    kept = cloud.rows >= skipped
    used = Cloud(cloud.points[kept], cloud.weights[kept], cloud.rows[kept] - skipped, cloud.draws)
    count = len(states) - skipped
    sample = InitialStates(states.observations[skipped:], np.full(count, 1.0 / count), "sample", states.count_fixed)
    return replace(rows, initial=used, initial_states=replace(sample, from_rows=states.from_rows))


@dataclass(frozen=True, eq=False)
class StartTerms:
    """Independent terms: one per start of a sample, one per drawn action of a fixed list."""

    cloud: Cloud  # points, with the weights of their actions
    rows: npt.NDArray[np.int64]  # which term every point belongs to
    shares: FloatArray  # (terms,) weight of every term relative to 1 / terms

    @staticmethod
    def of(rows: Rows) -> StartTerms:
        states, cloud = rows.initial_states, rows.initial
        if states.kind == "sample":
            return StartTerms(cloud, cloud.rows, np.ones(len(states)))
        each = states.weights[cloud.rows] * len(states)  # an exact list with drawn actions: every draw is a term
        one = Cloud(cloud.points, np.ones_like(cloud.weights), np.arange(len(each)))
        return StartTerms(one, np.arange(len(each)), each)

    def __len__(self) -> int:
        return len(self.shares)


def start_error(
    rows: Rows,
    ball: ValueClass,
    found: Coordinates,
    bets: StartBets,
    sets: Sequence[Ellipsoid],
    limits: ValueRange,
    end: End,
    probability: float,
    sums: Sums = STANDARD,
) -> Enclosure:
    """A bound of J* - J_emp (upper end) or of J_emp - J* (lower end), with probability at least 1 - `probability`."""
    terms, sign = StartTerms.of(rows), 1.0 if end == "upper" else -1.0
    bet = sign * bets.rates[end] * terms.shares
    losing = limits.high - bets.guess if end == "upper" else bets.guess - limits.low
    if not np.all(np.abs(bet) * max(losing, 0.0) <= LARGEST_BET):
        raise NumericalError("A bet on the initial states is too large for the value range.")
    values = _values(terms, ball, found, sets, limits, rows, sums)
    low, high = -bet * (values.low - bets.guess), -bet * (values.high - bets.guess)
    slack = 4 * U * np.abs(bet) * (values.largest() + abs(bets.guess))
    worst = np.maximum(loss(np.minimum(low, high) - slack), loss(np.maximum(low, high) + slack))
    total = tail_term(probability) + upper_sum(worst)
    # weights of a list are defined as normalized: floats that are off by a share of the number of states
    uneven = (len(rows.initial_states) + 16) * U * limits.width
    return total / (Enclosure(bets.rates[end]) * float(len(terms))) + uneven


def _values(
    terms: StartTerms,
    ball: ValueClass,
    found: Coordinates,
    sets: Sequence[Ellipsoid],
    limits: ValueRange,
    rows: Rows,
    sums: Sums,
) -> Between:
    """q* at every term, over all sets at once and inside the value range."""
    low, high = np.full(len(terms), limits.low), np.full(len(terms), limits.high)
    error = (12 + rows.layout.slots) * U
    for top in range(0, len(terms), _PART):
        stop = min(top + _PART, len(terms))
        some = slice(*np.searchsorted(terms.rows, [top, stop]))
        measures = RowMeasures(
            terms.cloud.points[some], terms.cloud.weights[some], terms.rows[some] - top, stop - top, error
        )
        embedding = found.single(measures)
        center, off = np.zeros(stop - top), np.zeros(stop - top)
        if ball.center is not None:
            center, off = sums.row_products(ball.center, measures)
        for one in sets:
            bounds = one.products(embedding)
            size = np.abs(bounds.low) + np.abs(bounds.high) + np.abs(center) + off
            low[top:stop] = np.maximum(low[top:stop], bounds.low + center - off - 4 * U * size)
            high[top:stop] = np.minimum(high[top:stop], bounds.high + center + off + 4 * U * size)
    crossed = low > high  # nothing is left of Q at this start: whatever is said about it is true
    return Between(np.where(crossed, limits.low, low), np.where(crossed, limits.high, high))
