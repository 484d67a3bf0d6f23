"""What rows say about an interval from propensities before it is made: whether they hold any, and the length they predict."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bondic.core.claims import End
from bondic.core.errors import InvalidInput
from bondic.core.propensities.betting import moderate
from bondic.core.propensities.ratios import Stated
from bondic.core.terms import range_of
from bondic.rows import Rows
from bondic.rows.decisions import read_decisions

_BOTH: tuple[End, ...] = ("lower", "upper")
_FEWEST = 20
"""Episodes of a pilot from which a length is predicted."""


def logged(problem: Rows) -> bool:
    """Whether the log says with which probabilities its actions were taken."""
    return problem.log.has("behavior_action_probs") or problem.log.has("behavior_log_probs")


def predicted_lengths(stated: Stated, pilot: Rows, alpha: float) -> Callable[[float], float] | None:
    """The length of the interval of so many times these rows, at most that of the range: means less what their spread costs.

    None: too few episodes, or some that lack steps or go on after the pilot.
    """
    try:
        columns = read_decisions(pilot, None, every_action=False)
    except InvalidInput:
        return None
    if columns.units < _FEWEST:
        return None
    # seen from both ends, means of single decisions differ by chance alone; those of episodes by what was not recorded
    weight, width = float(columns.unit == "episode"), range_of(pilot.terms).width
    seen = [[moderate(one.values) for one in columns.seen_from(end).estimators(None, stated)] for end in _BOTH]
    moments = [[(weight * float(v.mean()), float(v.var()), float(np.ptp(v))) for v in values] for values in seen]

    def length(times: float) -> float:
        units = columns.units * times
        ends = (
            max(mean - expected_spread(variance, ptp, units, alpha / 2) for mean, variance, ptp in end)
            for end in moments
        )
        return min(max(-sum(ends), 0.0), width)

    return length


def expected_spread(variance: float, width: float, units: float, probability: float) -> float:
    """sqrt( 2 s^2 log(1/delta) / n ) + width log(1/delta) / n: about how far bets leave an end from the mean of n values."""
    price = math.log(1 / probability)
    return math.sqrt(2 * price * max(variance, 1e-300) / units) + price * width / units
