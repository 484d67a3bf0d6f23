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

    inf: too few episodes, some that lack steps or go on after the pilot, or starts that are neither the log's nor a list.
    """
    listed = pilot.initial_states.kind == "exact" and pilot.states_recorded
    if not (listed or pilot.own_starts):
        return math.inf
    try:
        columns = read_decisions(pilot, None, every_action=False)
    except InvalidInput:
        return math.inf
    if columns.units < _FEWEST:
        return math.inf
    if not columns.ratios.values.any():  # the policy takes none of the logged actions: nothing is known of it
        return range_of(pilot.terms).width
    # from both ends, means of single decisions differ by chance alone; those of episodes by what was not recorded
    weight, units = float(columns.unit == "episode"), columns.units * rows / len(pilot.rows)
    shares, width, missing = np.ones(columns.units), range_of(pilot.terms).width, 0.0
    if not pilot.own_starts:
        strata = Strata.of(pilot, columns)
        shares, missing = strata.shares() * columns.units, float(strata.weights[strata.counts() == 0].sum())
        if not shares.any():
            return math.inf
    gap = spread = 0.0
    for end in _BOTH:
        found = []
        for one in columns.from_end(end).estimators(None, stated):
            values = moderate(one.values)
            variance, largest = np.mean(shares**2 * (values - values.mean()) ** 2), np.ptp(shares * values)
            lost = expected_spread(float(variance), float(largest), units, alpha / 2)
            found.append((float(np.mean(shares * values)), lost))
        mean, lost = max(found, key=lambda one: weight * one[0] - one[1])
        gap, spread = gap - weight * mean, spread + lost
    # means that cross are chance; states that did not come count as the ends of the range
    return min(max(gap, 0.0) + spread + missing * width, width)


def expected_spread(variance: float, width: float, units: float, probability: float) -> float:
    """sqrt( 2 s^2 log(1/delta) / n ) + width log(1/delta) / n: about how far bets leave an end from the mean of n values."""
    price = math.log(1 / probability)
    return math.sqrt(2 * price * max(variance, 1e-300) / units) + price * width / units
