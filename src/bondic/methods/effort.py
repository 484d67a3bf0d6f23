"""What an interval will cost, and what it will say, in a line before the work begins; neither is guaranteed.

The cost is right within a factor of two or three:

seconds of one core = 3 sums over all points (by pairs where nothing better is known) + rows × landmarks² × 1e-8, as measured
(benchmarks/many_actions.py).
"""

from __future__ import annotations

import math

from bondic.core.terms import range_of
from bondic.engines.threads import cores
from bondic.methods.default import LONG, landmarks_at_most, room
from bondic.methods.propensities import Propensities
from bondic.rendering import three
from bondic.rows import Rows
from bondic.tuning.defaults import MIN_ROWS, Choices, Radius, default_value_kernel, seconds_of_sums

_STEP = 1e-8
"""Seconds for each row and pair of landmarks."""
_WORTH_SAYING = 60.0
_CHANCE = 3.0
"""Standard errors by which a mean differs by more than chance."""
_UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def effort_words(problem: Rows, choices: Choices, radius: Radius | None, planned: int | None = None) -> str:
    """Time and memory of the default method, in one line; empty where it takes less than a minute."""
    rows = len(problem.rows) if planned is None else planned
    if rows < MIN_ROWS:
        return ""
    landmarks, seconds = landmarks_at_most(rows, room(problem)), 0.0
    if radius is not None:  # a table, and numbers of which nothing is stated, need no sums over points
        first = problem.first_block()
        kernel = default_value_kernel(first, choices)
        seconds = seconds_of_sums(kernel, problem.layout, first.some_points(MIN_ROWS), rows)
    seconds = (seconds + _STEP * rows * landmarks**2) / cores()
    if seconds < _WORTH_SAYING:
        return ""
    memory = 100.0 * rows * landmarks + 24.0 * problem.layout.slots * (rows + len(problem.initial_states))
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= 2 * size)
    return f"{rows} rows: about {three(seconds / size)} {unit} and {three(memory / 1e9)} GB"


def outlook_words(problem: Rows, alpha: float) -> str:
    """What the first block of a long log with propensities predicts for all of it; empty where it takes no time, or cannot tell.

    Later rows may say more than the first ones do: this is no answer, and stops nothing.
    """
    rows, method = len(problem.rows), Propensities()
    first = None if problem.log.held or rows < LONG else problem.first_block()
    if first is None or method.applies(first) is not None:
        return ""
    width = range_of(problem.terms).width
    length = method.predicted_length(first, alpha, rows)
    if math.isinf(length):
        return ""
    ratios = first.decisions(None, every_action=False).unit_ratios
    seen, stop = f"the first {len(first.rows)} of {rows} rows", "(Ctrl-C stops)"
    # the mean ratio is 1 where all that the policy does was logged with some probability
    lacking = 1.0 - float(ratios.mean())
    if lacking > _CHANCE * float(ratios.std()) / math.sqrt(ratios.size):
        return (
            f"Of what the new policy does, {seen} hold a share of {three(1.0 - lacking)} (the mean ratio of its probabilities to "
            f"the logged ones; 1 where nothing is missing). Unless later rows differ, {three(100 * lacking)} % of the value "
            f"range stay open {stop}."
        )
    worth = f"{seen}, worth {three(float(ratios.sum()) ** 2 / max(float(ratios @ ratios), 1e-300))} of the new policy,"
    if length < width:
        return f"Expected from {worth} is a length of about {three(length)}."
    needed = next(
        (2**k for k in range(1, 40) if method.predicted_length(first, alpha, 2.0**k * rows) <= 0.5 * width), 0
    )
    missing = f"; about {needed} times as many rows would halve it" if needed else ""
    return f"{worth[0].upper()}{worth[1:]} predict no less than the whole value range{missing} {stop}."
