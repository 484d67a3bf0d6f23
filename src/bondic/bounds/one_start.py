"""Starts that are nearly always one and the same: what a sample of them leaves open about J*, whatever q* is (section 9).

V(s) = Σ_a π(a|s) q*(s, a) lies in a range of width B, and D(s) = V(s) - V(s_0) is 0 at s_0 and in [-B, B] elsewhere. Lemma 35
with X_j = D(x_j) and the guess c = 0, for s_0 and a bet b with b B < 1 that were fixed before the starts x_1, x_2, ...: V(s_0)
leaves both sides, and with probability at least 1 - delta, at every number n_0 of starts at once,

    J* - J_emp  <=  ( log(1/delta) + n_1 g(-b B) ) / (b n_0),     n_1 of them others than s_0,

and J_emp - J* likewise. Where no other start comes this is B log(1/delta) / n_0 up to a hair; Hoeffding's inequality costs
B sqrt( log(1/delta) / (2 n_0) ). Nothing is known, or needed, about q*.
"""

from __future__ import annotations

import numpy as np

from bondic.bounds.table_plan import OneStart
from bondic.errors import InvalidInput, NumericalError
from bondic.noise.betting import LARGEST_BET, loss, tail_term
from bondic.rounding import Enclosure, U
from bondic.rows import Rows
from bondic.terms import ValueRange


def one_start_error(rows: Rows, start: OneStart, limits: ValueRange, probability: float) -> Enclosure:
    """A bound of J* - J_emp, and of J_emp - J*, each with probability at least 1 - `probability`.

    `rows` are without the starts that were skipped. Starts count as the same where state and answers of the policy are, bit
    for bit: answers that are written down per episode may differ at one state.
    """
    if rows.initial_states.kind != "sample" or not rows.answers.exact or not rows.layout.discrete:
        raise InvalidInput("Starts are compared where they are a sample, and the policy has probabilities.")
    cloud, count = rows.initial, len(rows.initial_states)
    if cloud.points.shape[1:] != start.state.shape or cloud.weights.shape[1:] != start.answers.shape:
        raise InvalidInput("The start of the plan does not have the columns of this log.")
    same = (cloud.points == start.state).all(axis=1) & (cloud.weights == start.answers).all(axis=1)
    others = np.unique(cloud.rows[~same]).size
    bet = start.rate * limits.width * (1 + 4 * U)
    if not bet <= LARGEST_BET:
        raise NumericalError("A bet on the initial states is too large for the value range.")
    price = float(loss(np.array([-bet]))[0])
    total = tail_term(probability) + Enclosure(float(others)) * price
    # weights of starts and of actions are defined as normalized: floats that are off by a share of their number
    uneven = 2 * (count + rows.layout.slots + 16) * U * (limits.width + limits.largest)
    return total / (Enclosure(start.rate) * float(count)) + uneven
