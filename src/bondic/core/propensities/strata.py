"""Stated starts d_0 = sum_j p_j δ(s_j), answered from the units that start at the s_j: strata (section 13, Theorem 40a).

With m_i = m(s_j) >= a for a unit that starts at s_j, J = sum_j p_j m(s_j), and v_i = 0 for units that start elsewhere,

    sum_i v_i (m_i - a)  =  sum_j (m(s_j) - a) sum_{i at s_j} v_i  <=  V (J - a),     V = max_j sum_{i at s_j} v_i / p_j.    (21a)

V may be read off afterwards; states that never come count as a. The bound is sharp where the sums are V p_j for all j, and
this is what the rates aim at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import U, next_up
from bondic.core.propensities.wealth import moderate

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Strata:
    """Where units start: `places` (units,) are numbers of stated states, -1 for others; `weights` are the p_j > 0, from below."""

    places: IntArray
    weights: FloatArray

    def since(self, first: int) -> Strata:
        """Without the first units."""
        return Strata(self.places[first:], self.weights)

    def counts(self) -> IntArray:
        """Units at every stated state."""
        return np.bincount(self.places[self.places >= 0], minlength=self.weights.size)

    def shares(self) -> FloatArray:
        """(units,) p_j divided among the units at s_j, and 1 in sum: what a mean over the stated starts weighs units by."""
        counts = self.counts()
        each = np.divide(self.weights, counts, out=np.zeros(counts.size), where=counts > 0)
        found = np.where(self.places >= 0, each[self.places], 0.0)
        return np.asarray(found / max(found.sum(), 1e-300))

    def total(self, rates: FloatArray) -> float:
        """V of (21a), rounded up."""
        kept = self.places >= 0
        sums = np.bincount(self.places[kept], weights=rates[kept], minlength=self.weights.size)
        return next_up(float(np.max(sums * (1 + (self.counts() + 8) * 2 * U) / self.weights)) * (1 + 4 * U))


def stratum_means(values: FloatArray, strata: Strata, guess: float) -> FloatArray:
    """Running means of the earlier values at the same state, with that of all stated states (and `guess`) as one value more."""
    sums, counts = [0.0] * strata.weights.size, [0] * strata.weights.size
    total, count, found = guess, 1, []
    for place, value in zip(strata.places.tolist(), moderate(values).tolist(), strict=True):
        if place < 0:
            found.append(guess)
            continue
        found.append((total / count + sums[place]) / (1 + counts[place]))
        sums[place], counts[place] = sums[place] + value, counts[place] + 1
        total, count = total + value, count + 1
    return np.array(found)


def balanced_rates(
    values: FloatArray,
    centers: FloatArray,
    losses: FloatArray,
    most: float,
    strata: Strata,
    planned: int,
    probability: float,
    start: tuple[float, float],
    multiple: float,
) -> FloatArray:
    """v_i <= most / loss_i from earlier units and s_i alone, such that their sums at s_j come near V p_j together.

    V = sqrt( 2 log(1/delta) N / s^2 ) is nearly best for N planned units and s^2 the mean of (p_j/q_j)^2 (X - c)^2, q_j how often
    s_j comes, unless the caps leave too many states short of V p_j. s^2 and q_j are those of the units before, `start` a variance
    and the number of units that it counts for. What a state still lacks of V p_j is divided among the units that it is expected
    to have. Other rates make the end longer, not wrong.
    """
    (variance, count), price = start, math.log(1.0 / probability)
    spread, size, reachable, due = variance * count, strata.weights.size, math.inf, 0
    weights, used, seen = strata.weights.tolist(), [0.0] * size, [0] * size
    largest, risk, found = [0.0] * size, [0.0] * size, []
    squares = ((moderate(values) - centers) ** 2).tolist()
    for i, (place, square, loss) in enumerate(zip(strata.places.tolist(), squares, losses.tolist(), strict=True)):
        if place < 0:
            found.append(0.0)
            continue
        seen[place] += 1
        largest[place], risk[place] = most / max(loss, most * 1e-140), loss
        if i >= due:  # after as many units as there are states, and rarely where one more changes little
            coming = np.array(seen) * max(planned - i, 0) / (i + 1)
            capacity = np.array(used) + np.array(largest) * coming
            due = i + size + min(i, max(planned - i, 0)) // 64
            reachable = _reachable(capacity / strata.weights, capacity * risk, price)
        goal = min(multiple * math.sqrt(2.0 * price * max(planned, 1) * count / spread), reachable)
        frequency = seen[place] / (i + 1)
        lacking = max(goal * weights[place] - used[place], 0.0)
        rate = min(lacking / max((planned - i) * frequency, 1.0), largest[place])
        used[place] += rate
        found.append(rate)
        spread += (weights[place] / frequency) ** 2 * square
        count += 1
    return np.array(found)


def _reachable(totals: FloatArray, risks: FloatArray, price: float) -> float:
    """The V beyond which a bound gets longer, where the sum of rates at s_j can be V_j p_j at most and c_j - a is about its loss.

    The length log(1/delta) / V + sum_j (p_j - V_j p_j / V)_+ loss_j falls in V while the states with V_j < V have less than
    log(1/delta) in sum_j V_j p_j loss_j.
    """
    order = np.argsort(totals)
    place = int(np.searchsorted(np.cumsum(risks[order]), price))
    return float(totals[order[place]]) if place < totals.size else math.inf
