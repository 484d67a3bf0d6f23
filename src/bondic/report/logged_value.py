"""What the policy that made the log earned: a line to compare with.

Returns of the log's episodes are draws of it. An episode that was cut is completed by the least (largest) value that the ranges
leave, so that the means of the two columns are below (above) the value; bets on them (22) give an interval for this finite
log, if episodes are independent of each other and the logging policy stayed the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import U
from bondic.core.propensities.betting import BettingProcess, Strategy, lower_end, plug_in_rates
from bondic.core.terms import range_of
from bondic.rows import Rows
from bondic.rows.episodes import recorded_returns

FloatArray = npt.NDArray[np.float64]

_FEWEST = 20


@dataclass(frozen=True)
class LoggedValue:
    """The value of the logging policy, from the log's own starts."""

    low: float
    high: float
    mean: float  # of the recorded returns: a guess
    episodes: int
    cut: int  # episodes that did not come to an end


def logged_value(problem: Rows, alpha: float) -> LoggedValue | None:
    """None where fewer than 20 episodes begin in the log, or its rows have no beginning that is known."""
    limits, gamma = range_of(problem.terms), problem.gamma
    known = problem.log.has_episode_ids or problem.initial_states.from_rows
    if not known or limits.width == 0:
        return None
    found = recorded_returns(problem)
    count = len(found.returns)
    if count < _FEWEST:
        return None
    left = np.where(found.ended, 0.0, gamma ** found.steps.astype(np.float64))
    slack = 64 * U * (found.steps + 8) * max(limits.largest, abs(problem.terms.reward_range[0]), 1.0)
    from_below = np.clip(found.returns + left * limits.low - slack, limits.low, None)
    from_above = np.clip(found.returns + left * limits.high + slack, None, limits.high)
    low = _end(from_below, limits.low, limits.high, alpha / 2)
    high = -_end(-from_above, -limits.high, -limits.low, alpha / 2)
    return LoggedValue(low, high, float(found.returns.mean()), count, int((~found.ended).sum()))


def _end(values: FloatArray, floor: float, most: float, probability: float) -> float:
    """A lower end of the mean of values that are at least `floor`."""
    prior, bets = (0.5 * (floor + most), 0.25 * (most - floor) ** 2, 1.0), Strategy().bets
    rates = plug_in_rates(values, len(values), probability, prior)
    processes = [BettingProcess(values, floor, multiple * rates, risk, 1 / len(bets)) for multiple, risk in bets]
    return min(lower_end([processes], floor, most, probability), most)
