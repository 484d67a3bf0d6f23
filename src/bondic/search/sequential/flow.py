"""Weights of pairs that balance ψ_0 in a table, and the Λ for which the interval is shortest.

Weight W_x on pair x balances what arrives there and sends γ P(. | x) of it on. So W is what arrives, cut to what the pair can
carry, and what is cut stays as imbalance, at r per unit of weight:

    W = clip( Λ ψ_0 - (balanced so far) + γ P^T W,  -c, c ),      length = ( log(1/delta) + noise + r |μ|_1 ) / Λ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.betting import curvature
from bondic.core.sequential.plan import FULL_BET
from bondic.search.sequential.visits import Visits

FloatArray = npt.NDArray[np.float64]

_CAUTIOUS = 0.1
"""A pair carries no weight whose noise would cost more than this share of what leaving it unbalanced costs."""
_SURE, _SPREAD = 0.5, 2.0
"""Of the rows of a pair that are expected, so many are counted on: all but two standard deviations, at least half."""
_STEPS, _CLOSE = 2000, 1e-7
_MOST = 0.99


@dataclass(frozen=True, eq=False)
class Flow:
    """Weights for the rows that are left, and what they would lead to."""

    total: float  # Λ of all rows
    weights: FloatArray  # (S A,) W
    sizes: FloatArray  # (S A,) per row
    wanted: FloatArray  # (S A,) what arrives: as much as a pair may carry if it comes more often than expected
    bias: float  # all three times Λ
    noise: float
    paid: float

    def half(self, log_term: float) -> float:
        """Half the length of the interval."""
        return (log_term + self.noise + self.bias + self.paid) / self.total


@dataclass(frozen=True, eq=False)
class Capacity:
    """What the pairs can carry in so many rows to come."""

    visits: Visits
    sure: FloatArray  # (S A,) rows that are counted on
    largest: FloatArray  # (S A,) weight of one row

    @staticmethod
    def of(visits: Visits, rows: float) -> Capacity:
        """For `rows` rows that are like those of the past."""
        width, known = float(visits.past.widths.max()), visits.count > 0
        coming = visits.count * (rows / len(visits.past))
        allowed = _CAUTIOUS * visits.radius
        quiet = allowed / np.maximum(visits.noise + allowed * visits.worst, 1e-300)
        largest = np.where(known, np.minimum(FULL_BET / width, quiet), 0.0)
        return Capacity(visits, np.maximum(coming - _SPREAD * np.sqrt(coming), _SURE * coming), largest)

    def aim(self, total: float, balanced: FloatArray, paid: float, guess: FloatArray | None = None) -> Flow:
        """Weights for a Λ in all, when so much was balanced and paid before."""
        past, caps = self.visits.past, self.largest * self.sure
        wanted = total * past.start - balanced
        found = np.zeros(past.size) if guess is None else guess
        for _ in range(_STEPS):
            new = np.clip(wanted + self._sent_on(found), -caps, caps)
            done = np.abs(new - found).sum() <= _CLOSE * np.abs(new).sum()
            found = new
            if done:
                break
        arriving = wanted + self._sent_on(found)
        sizes = np.minimum(np.abs(found) / np.maximum(self.sure, 1e-300), self.largest)
        bets = np.minimum(sizes * self.visits.worst, _MOST)
        noise = float(np.sum(np.abs(found) * sizes * self.visits.noise * curvature(-bets)))
        bias = self.visits.radius * float(np.abs(arriving - found).sum())
        return Flow(total, found, sizes, np.abs(arriving), bias, noise, paid)

    def _sent_on(self, weights: FloatArray) -> FloatArray:
        """γ P^T W: what arrives at pairs."""
        there = self.visits.gamma * (self.visits.backward @ weights)
        return np.asarray((there[:, None] * self.visits.past.answers).reshape(-1))


def best_flow(found: Capacity, totals: FloatArray, balanced: FloatArray, paid: float, log_term: float) -> Flow:
    """The one of least length."""
    aims: list[Flow] = []
    for total in totals.tolist():
        aims.append(found.aim(total, balanced, paid, aims[-1].weights if aims else None))
    return min(aims, key=lambda aim: aim.half(log_term))
