"""Predicted cost of an interval, shown before the work begins; correct within a factor of two or three.

seconds of one core = 3 sums over all points (by pairs where nothing better is known) + rows × landmarks² × 1e-8, as measured
(benchmarks/many_actions.py).
"""

from __future__ import annotations

from bondic.engines.threads import cores
from bondic.methods.default import landmarks_at_most, room
from bondic.rendering import three
from bondic.rows import Rows
from bondic.tuning.defaults import MIN_ROWS, Choices, Radius, default_value_kernel, seconds_of_sums

_STEP = 1e-8
"""Seconds for each row and pair of landmarks."""
_WORTH_SAYING = 60.0
_UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def effort_words(problem: Rows, choices: Choices, radius: Radius | None, planned: int | None = None) -> str:
    """Time and memory of the default method, in one line; empty where it takes less than a minute."""
    rows = len(problem.rows) if planned is None else planned
    if rows < MIN_ROWS:
        return ""
    landmarks, seconds = landmarks_at_most(rows, room(problem)), 0.0
    if radius is not None:  # a table, and numbers of which nothing is stated, need no sums over points
        first = problem.first_block()
        kernel = default_value_kernel(first, choices, planned=rows)
        seconds = seconds_of_sums(kernel, problem.layout, first.some_points(MIN_ROWS), rows)
    seconds = (seconds + _STEP * rows * landmarks**2) / cores()
    if seconds < _WORTH_SAYING:
        return ""
    memory = 100.0 * rows * landmarks + 24.0 * problem.layout.slots * (rows + len(problem.initial_states))
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= 2 * size)
    return f"{rows} rows: about {three(seconds / size)} {unit} and {three(memory / 1e9)} GB"
