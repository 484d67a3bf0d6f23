"""A plan with coordinates made again, every sub-block from a log that is cut before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from bondic.core.balls import Ball
from bondic.core.claims import End, ErrorBudget
from bondic.core.sequential.plan import Plan
from bondic.core.sums.forms import Sums
from bondic.engines.sums import STANDARD
from bondic.rows import Rows
from bondic.rows.prefix import Prefixes
from bondic.search.sequential.blocks import block_ends, sub_blocks
from bondic.search.sequential.plan import Planner, Shape
from bondic.search.sequential.starts import known_starts


def replay_plan(
    prefixes: Prefixes,
    pilot: Rows,
    ball: Ball,
    budget: ErrorBudget,
    ends: tuple[End, ...],
    shape: Shape,
    sums: Sums = STANDARD,
) -> Plan:
    """What `make_plan` plans for all rows; a planner that looked at later ones would plan something else here.

    Landmarks after the first `seen` serve the evaluation, and come from all rows.
    """
    whole, first = prefixes.problem, prefixes.before(pilot.rows.stop)
    planner = Planner.begin(first, pilot, ball, budget, ends, shape, sums)
    planner.extend(first, ahead=1)
    start = planner.plan(prefixes.with_unseen_starts(first, known_starts(first, pilot).skipped)).start
    for row in _borders(whole, pilot, shape):
        planner.extend(prefixes.before(row), ahead=1)
    planner.extend(whole)
    return replace(planner.plan(whole), start=start)


def _borders(whole: Rows, pilot: Rows, shape: Shape) -> Iterator[int]:
    """Rows where sub-blocks begin: a function of numbers of rows alone."""
    first, stop = whole.rows.start, whole.rows.stop
    stops = block_ends(pilot.rows.stop, first, first + shape.planned, stop, shape.cuts)
    for begin, end in pairwise([pilot.rows.stop, *stops]):
        yield from (row for row in sub_blocks(begin, end).tolist() if row < stop)
