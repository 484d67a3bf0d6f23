"""When the default takes `Propensities`, and on which rows: a rule that sees no row that is certified afterwards.

Where starts were stated that are not the log's own: never, unless there is no other method. One-step logs (γ = 0; every row ends,
or episodes have ids) and logs that hold the target's probabilities alone: always, on all rows, as nothing but that form was
looked at. Other logs: if the pilot ends every row, or foresees an interval of less than half the value range from whole episodes;
then the rows after the pilot are certified.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bondic.core.claims import End
from bondic.core.errors import InvalidInput
from bondic.core.propensities.betting import moderate
from bondic.core.propensities.decisions import Decisions
from bondic.core.terms import range_of
from bondic.methods.propensities import Propensities
from bondic.rows import Rows
from bondic.rows.decisions import read_decisions, single_rows
from bondic.rows.episodes import own_starts

_PROMISING = 0.5
"""Share of the value range below which a guess of the length is worth leaving q* out for."""
_BOTH: tuple[End, ...] = ("lower", "upper")
_FEWEST = 20
"""Episodes of a pilot from which a length is guessed."""


@dataclass(frozen=True)
class Applicable:
    """The rows that are left for it, and why it was taken."""

    problem: Rows
    why: str


def logged(problem: Rows) -> bool:
    """Whether the log says with which probabilities its actions were taken."""
    return problem.log.has("behavior_action_probs") or problem.log.has("behavior_log_probs")


def applies(problem: Rows) -> bool:
    """Whether they answer for the initial states that were stated, and the log tells its decisions or episodes apart."""
    starts = problem.initial_states.kind == "exact" or own_starts(problem)
    return logged(problem) and starts and (problem.log.has_episode_ids or single_rows(problem))


def find(method: Propensities, problem: Rows, pilot: Callable[[Rows], int], alpha: float) -> Applicable | None:
    """None: it does not apply, or promises too little; so many rows as `pilot` says may be looked at."""
    if not logged(problem):
        return None
    if problem.policy_in_log:
        return Applicable(problem, "the policy is known by its probabilities of the logged actions alone")
    if not (own_starts(problem) and (problem.layout.discrete or hasattr(problem.policy, "action_density"))):
        return None
    if problem.gamma == 0.0:
        if not applies(problem):
            return None
        return Applicable(
            problem, "the log holds propensities and every decision stands alone: nothing is assumed about q*"
        )
    stop = problem.rows.start + pilot(problem)
    last, first = _borders(problem, stop)
    if last is None or first is None:
        return None
    looked, rest = problem.select(problem.rows.start, last), problem.select(first)
    if single_rows(looked):
        return Applicable(
            rest, f"the log holds propensities and the first {len(looked.rows)} rows are episodes of one step"
        )
    share = predicted_share(method, looked, len(rest.rows) / len(looked.rows), alpha)
    if share is None or share >= _PROMISING:
        return None
    return Applicable(
        rest,
        f"the log holds propensities, and the episodes in the first {len(looked.rows)} rows promise a length of about "
        f"{100 * share:.2g} % of the value range without assuming anything about q*",
    )


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


def predicted_share(method: Propensities, pilot: Rows, times: float, alpha: float) -> float | None:
    """About how long the interval will be, as a share of the value range, from the values of the pilot's episodes."""
    try:
        columns = read_decisions(pilot, None, every_action=False)
    except InvalidInput:  # episodes that lack steps, or that go on after the pilot: not for this method
        return None
    if columns.units < _FEWEST:
        return None
    low, high = (_end(columns.seen_from(end), method, columns.units * times, alpha / 2) for end in _BOTH)
    width = range_of(pilot.terms).width
    return min(max(-high - low, 0.0), width) / width


def _end(columns: Decisions, method: Propensities, units: float, probability: float) -> float:
    """A guess of the lower end, as seen from one end: the mean of the values less what their spread costs."""
    return max(
        float(values.mean()) - expected_spread(float(values.var()), float(np.ptp(values)), units, probability)
        for values in (moderate(one.values) for one in columns.estimators(None, method.stated))
    )


def expected_spread(variance: float, width: float, units: float, probability: float) -> float:
    """sqrt( 2 s^2 log(1/delta) / n ) + width log(1/delta) / n: about how far bets leave an end from the mean of n values."""
    price = math.log(1 / probability)
    return math.sqrt(2 * price * max(variance, 1e-300) / units) + price * width / units


def predicted_length(method: Propensities, problem: Rows, alpha: float) -> Callable[[float], float] | None:
    """About how long the interval of so many times these rows would be, from how much their values vary.

    Of single decisions it leaves out how far apart the means seen from both ends happen to be, unlike `predicted_share`. None:
    too few episodes, or none that can be used.
    """
    try:
        columns = read_decisions(problem, None, every_action=False)
    except InvalidInput:
        return None
    if columns.units < _FEWEST:
        return None
    seen = [[moderate(one.values) for one in columns.seen_from(end).estimators(None, method.stated)] for end in _BOTH]
    apart = 0.0  # of single decisions by chance alone; of episodes what was not recorded
    if columns.unit == "episode":
        apart = max(-sum(max(float(v.mean()) for v in values) for values in seen), 0.0)

    def length(times: float) -> float:
        units = columns.units * times
        return apart + sum(
            min(expected_spread(float(v.var()), float(np.ptp(v)), units, alpha / 2) for v in values) for values in seen
        )

    return length
