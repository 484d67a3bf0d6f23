"""What rows say about an interval from propensities before it is made: whether they hold any, and the length they predict."""

from __future__ import annotations

import math

import numpy as np

from bondic.core.claims import End
from bondic.core.errors import InvalidInput
from bondic.core.propensities.betting import moderate
from bondic.core.propensities.ratios import Stated
from bondic.core.propensities.strata import Strata
from bondic.core.terms import range_of
from bondic.rows import Rows
from bondic.rows.decisions import read_decisions

_BOTH: tuple[End, ...] = ("lower", "upper")
_FEWEST = 20
"""Episodes of a pilot from which a length is predicted."""


def logged(problem: Rows) -> bool:
    """Whether the log says with which probabilities its actions were taken."""
    return problem.log.has("behavior_action_probs") or problem.log.has("behavior_log_probs")


def predicted(stated: Stated, pilot: Rows, alpha: float, rows: float) -> float:
    """The length of the interval of so many rows like these, at most that of the range: means less what their spread costs.

    inf: too few episodes, or some that lack steps or go on after the pilot.
    """
    try:
        columns = read_decisions(pilot, None, every_action=False)
    except InvalidInput:
        return math.inf
    if columns.units < _FEWEST:
        return math.inf
    # from both ends, means of single decisions differ by chance alone; those of episodes by what was not recorded
    weight, units = float(columns.unit == "episode"), columns.units * rows / len(pilot.rows)
    shares, width = np.ones(columns.units), range_of(pilot.terms).width
    length = 0.0
    if not pilot.own_starts:
        strata = Strata.of(pilot, columns)
        shares, missing = strata.shares() * columns.units, float(strata.weights[strata.counts() == 0].sum())
        if not shares.any():
            return math.inf
        length = missing * width  # states that did not come count as the ends of the range
    for end in _BOTH:
        values = [moderate(one.values) for one in columns.from_end(end).estimators(None, stated)]
        length -= max(
            weight * float(np.mean(shares * v))
            - expected_spread(
                float(np.mean(shares**2 * (v - v.mean()) ** 2)), float(np.ptp(shares * v)), units, alpha / 2
            )
            for v in values
        )
    return min(max(length, 0.0), width)


def expected_spread(variance: float, width: float, units: float, probability: float) -> float:
    """sqrt( 2 s^2 log(1/delta) / n ) + width log(1/delta) / n: about how far bets leave an end from the mean of n values."""
    price = math.log(1 / probability)
    return math.sqrt(2 * price * max(variance, 1e-300) / units) + price * width / units
