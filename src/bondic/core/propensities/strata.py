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

from bondic.core.bounded import FloatArray, IntArray, U, next_up
from bondic.core.columns import Columns
from bondic.core.errors import InvalidInput
from bondic.core.propensities.betting import moderate
from bondic.core.propensities.decisions import Decisions


@dataclass(frozen=True, eq=False)
class Strata:
    """Where units start: `places` (units,) are numbers of stated states, -1 for others; `weights` are the p_j > 0, from below."""

    places: IntArray
    weights: FloatArray

    @staticmethod
    def of(rows: Columns, columns: Decisions) -> Strata:
        """The units by the stated states that they start at; equal states of the list are one, their weights added."""
        states = rows.initial_states
        if states.kind != "exact":
            raise InvalidInput(
                "Stated starts have to be an exact list of states with weights: InitialStates.exact(states, weights)."
            )
        if not rows.states_recorded:
            raise InvalidInput(
                "The log has no observations, so the rows that start at the stated states cannot be found. Leave `initial` "
                "out (no --initial) for the value over the log's own starts."
            )
        weights: dict[bytes, float] = {}
        for state, weight in zip(states.observations + 0.0, states.weights.tolist(), strict=True):
            if weight > 0:
                weights[state.tobytes()] = weights.get(state.tobytes(), 0.0) + weight
        numbers = {state: number for number, state in enumerate(weights)}
        lower = np.array(list(weights.values())) * (1 - states.weights_error - (len(states) + 4) * 2 * U)
        starts = columns.observations[columns.starts] + 0.0
        return Strata(np.array([numbers.get(state.tobytes(), -1) for state in starts], dtype=np.int64), lower)

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

    def means(self, values: FloatArray, guess: float) -> FloatArray:
        """Running means of the earlier values at the same state, with that of all (and `guess`) as one value more."""
        sums, counts = [0.0] * self.weights.size, [0] * self.weights.size
        total, count, found = guess, 1, []
        for place, value in zip(self.places.tolist(), moderate(values).tolist(), strict=True):
            if place < 0:
                found.append(guess)
                continue
            found.append((total / count + sums[place]) / (1 + counts[place]))
            sums[place], counts[place] = sums[place] + value, counts[place] + 1
            total, count = total + value, count + 1
        return np.array(found)


@dataclass(frozen=True)
class BalancedRates:
    """v_i <= risk / loss_i from earlier units and s_i alone, such that their sums at s_j come near V p_j together.

    V = sqrt( 2 log(1/delta) N / s^2 ), times `multiple`, is nearly best for N planned units and s^2 the mean of
    (p_j/q_j)^2 (X - c)^2, q_j how often s_j comes, unless the caps leave too many states short of V p_j. s^2 and q_j are those of
    the units before, `variance` the prior with its weight. What a state still lacks of V p_j is divided among the units that are
    expected there. Other rates make the end longer, not wrong.
    """

    planned: int
    probability: float
    variance: float
    weight: float
    multiple: float
    risk: float

    def of(self, strata: Strata, deviations: FloatArray, losses: FloatArray) -> FloatArray:
        """`deviations` are X_i - c_i."""
        price, count, spread = math.log(1.0 / self.probability), self.weight, self.variance * self.weight
        weights, reachable, due = strata.weights.tolist(), math.inf, 0
        used, seen, caps, risks = ([0.0] * len(weights) for _ in range(4))
        found, squares, losses_of = np.zeros(strata.places.size), (moderate(deviations) ** 2).tolist(), losses.tolist()
        for i, place in enumerate(strata.places.tolist()):
            if place < 0:
                continue
            left, loss = max(self.planned - i, 0), losses_of[i]
            seen[place] += 1
            caps[place], risks[place] = self.risk / max(loss, self.risk * 1e-140), loss
            if i >= due:  # after as many units as there are states, and rarely where one more changes little
                capacity = np.array(used) + np.array(caps) * (np.array(seen) * left / (i + 1))
                due = i + len(weights) + min(i, left) // 64
                reachable = _reachable(capacity / strata.weights, capacity * risks, price)
            goal = min(self.multiple * math.sqrt(2.0 * price * max(self.planned, 1) * count / spread), reachable)
            frequency = seen[place] / (i + 1)
            lacking = max(goal * weights[place] - used[place], 0.0)
            found[i] = rate = min(lacking / max((self.planned - i) * frequency, 1.0), caps[place])
            used[place] += rate
            spread += (weights[place] / frequency) ** 2 * squares[i]
            count += 1
        return found


def _reachable(totals: FloatArray, risks: FloatArray, price: float) -> float:
    """The V beyond which a bound gets longer, where the sum of rates at s_j can be V_j p_j at most and c_j - a is about its loss.

    The length log(1/delta) / V + sum_j (p_j - V_j p_j / V)_+ loss_j falls in V while the states with V_j < V have less than
    log(1/delta) in sum_j V_j p_j loss_j.
    """
    order = np.argsort(totals)
    place = int(np.searchsorted(np.cumsum(risks[order]), price))
    return float(totals[order[place]]) if place < totals.size else math.inf
