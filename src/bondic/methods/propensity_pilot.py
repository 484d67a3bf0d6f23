"""What the first rows say about an interval from propensities: which rows may be looked at, and the length they predict.

Rows that were looked at are not certified, and whether an episode is certified does not depend on how long it is.
"""

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


def split_episodes(problem: Rows, rows: int) -> tuple[Rows, Rows] | None:
    """Whole episodes within the first `rows` rows, and those that begin after them; None where there are none of either."""
    last, first = _borders(problem, problem.rows.start + rows)
    if last is None or first is None:
        return None
    return problem.select(problem.rows.start, last), problem.select(first)


def _borders(problem: Rows, stop: int) -> tuple[int | None, int | None]:
    """The last and the first row that begin an episode: not after the pilot's end, and not before it; None: there is none.

    The episode that the pilot's end falls into is likely a long one. Whether an episode is certified must not depend on how long
    it is, and another method would certify its later rows: so it is neither looked at nor certified.
    """
    rows = problem.rows
    if not problem.log.has_episode_ids:
        return (stop, stop) if rows.start < stop < rows.stop else (None, None)
    before, last = None, None
    for where, part in problem.log.batches(rows):
        ids = np.asarray(part.episode_ids)
        begins = where.start + np.flatnonzero(
            np.concatenate([[last is not None and ids[0] != last], ids[1:] != ids[:-1]])
        )
        last = ids[-1]
        early = begins[begins <= stop]
        before = int(early[-1]) if early.size else before
        if begins.size and begins[-1] >= stop:
            return before, int(begins[begins >= stop][0])
    return before, None


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
