"""How long an interval from more rows would be, as far as the rows at hand can tell: guesses, never bounds.

The predictions that the methods make from their pilots, with more of the log in the place of the pilot: for tables of many
pairs what a plan without coordinates foresees, for others one with few coordinates; from propensities the spread of the
weighted rewards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from bondic.claims import Side, ends_of
from bondic.classes.ball import Ball
from bondic.classes.box import Box
from bondic.errors import InvalidInput, NumericalError
from bondic.methods import with_propensities
from bondic.methods.propensities import Propensities
from bondic.methods.sequential import Sequential
from bondic.methods.setting import tuning_problem
from bondic.rows import Rows
from bondic.rows.episodes import own_starts
from bondic.search.sequential.plan import costs_of, pairs_of_a_table, predicted_length
from bondic.search.sequential.tables import predict_table_length
from bondic.terms import range_at_all_times, range_of
from bondic.tuning.scales import seen_states
from bondic.tuning.states import state_kind

_MOST_ROWS = 3000
"""Rows that a guess is made from."""
_FEW_PAIRS = 24
"""Pairs up to which a plan with coordinates is foreseen in about half a second."""
_SHORT = 500
"""Rows below which both plans of a table are foreseen: the one with coordinates knows too little to tell."""
_LANDMARKS = 24
_GROWTH = 4.0
_MOST_GROWTH = 256.0
_HALVINGS = 1
"""A number of rows is found up to the root of _GROWTH, from above."""


@dataclass(frozen=True, eq=False)
class LengthGuess:
    """A guess of the length, as a share of the value range, for any number of certified rows."""

    seen: int  # rows that it was made from
    share: Callable[[float], float]  # rows -> length / width, at most 1

    def rows_for(self, share: float, begin: float) -> float | None:
        """The number of rows at which the guess falls to `share`, `begin` or more; None where it stays above it."""
        low, high = begin, begin
        while self.share(high) > share:
            if high > _MOST_GROWTH * begin:
                return None
            low, high = high, _GROWTH * high
        for _ in range(_HALVINGS if high > begin else 0):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.share(middle) <= share else (middle, high)
        return float(high)


def sequential_guess(
    problem: Rows,
    alpha: float,
    side: Side = "both",
    *,
    gamma: float | None = None,
    categorical: bool | None = None,
    ball: Ball | None = None,
) -> LengthGuess | None:
    """The sequential interval, from the first rows of a problem, for its own discount or another; None: nothing can be told.

    `categorical` says what states were taken for; None: the rows tell. `ball` is the class that was stated; where states are
    numbers and none was, there is no guess. A question that the method cannot answer (a policy that
    is known at logged actions alone, states that have to be asked about) has no guess.
    """
    if not range_at_all_times(problem.terms).width:
        return None
    try:
        first = tuning_problem(problem, min(len(problem.rows), _MOST_ROWS))
        if first is None:
            return None
        return _sequential(first if gamma is None else _discounted(first, gamma), alpha, side, categorical, ball)
    except (InvalidInput, NumericalError):
        return None


def propensity_guess(problem: Rows, alpha: float) -> LengthGuess | None:
    """The interval from propensities; None where starts were stated that are not the log's, or it has too little to tell."""
    if not (with_propensities.applies(problem) and own_starts(problem)):
        return None
    length = with_propensities.foreseen_length(Propensities(), problem, alpha)
    if length is None:
        return None
    rows, width = len(problem.rows), range_of(problem.terms).width
    return LengthGuess(rows, lambda wanted: min(length(wanted / rows) / width, 1.0))


def _discounted(first: Rows, gamma: float) -> Rows:
    """The same rows with another discount: neither the next states nor the policy's answers depend on it."""
    terms = replace(first.terms, gamma=gamma)
    kept = None if first.kept is None else tuple(replace(batch, terms=terms) for batch in first.kept)
    return replace(first, terms=terms, kept=kept)


def _sequential(
    first: Rows, alpha: float, side: Side, categorical: bool | None, stated: Ball | None
) -> LengthGuess | None:
    rows, limits, ends = first.whole(), range_at_all_times(first.terms), ends_of(side)
    kind = state_kind(seen_states(first), first.layout, categorical if first.layout.discrete else False)
    if stated is None and not (kind.table and first.answers.exact):
        return None
    ball: Ball | Box = stated or Box.around(limits.low, limits.high, first.layout)
    pairs = 0 if stated else pairs_of_a_table(first)
    lengths: list[Callable[[int], float]] = []
    if isinstance(ball, Box) and (pairs > _FEW_PAIRS or len(rows) < _SHORT):
        box, log_term = ball, math.log(len(ends) / alpha)
        lengths.append(lambda planned: predict_table_length(first, box, log_term, planned))
    if pairs <= _FEW_PAIRS:
        costs = costs_of(Sequential(side=side).budget(first, alpha), ends)
        lengths.append(lambda planned: predicted_length(first, ball, planned, costs, _LANDMARKS))

    def share(wanted: float) -> float:
        planned = len(first.rows) + max(math.ceil(wanted), 1)
        try:
            return min(1.0, *(length(planned) / limits.width for length in lengths))
        except NumericalError:  # rows that no plan can be made from promise nothing
            return 1.0

    return LengthGuess(len(first.rows), share)
