"""Events on groups for a problem: blocks, the vector event and the weights of both ends, each from the rows before it.

How long the interval will be is predicted from rows that neither model nor groups nor labels have seen: they are tallied and
taken as often as rows will come; then the bound itself says how long it would be. Weights are balanced on the held-out rows,
so what later rows leave unbalanced is added: rows of the last block vary by the root of their number. Sampled starts cost what
bets on them would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bondic.core.balls import Provenance
from bondic.core.cells.allowance import NOTHING_ALLOWED, Allowance
from bondic.core.cells.ends import CellBound, EndWeights
from bondic.core.cells.localize import Events
from bondic.core.cells.proof import SINGLE, CellPlan
from bondic.core.cells.rows import GroupCells
from bondic.core.cells.tally import CellShape, Tally, tally
from bondic.core.claims import ErrorBudget, Side, ends_of
from bondic.core.sequential.proof import VECTOR
from bondic.core.terms import range_of
from bondic.methods.on_cells import (
    SIGNS,
    costs_of,
    known_mean,
    planned_stops,
    predicted_interval,
    reference,
    start_bets,
    start_cost,
)
from bondic.plan.cells import (
    FULL_BET,
    CellModel,
    mean_squares,
    propose_cell_events,
    propose_event,
    propose_rate,
    propose_tails,
    repeated,
)
from bondic.rows import Rows
from bondic.search.sequential.starts import known_starts

CUTS = (0.6, 0.9, 1.0)
"""Ends of blocks, as shares of the planned rows: an allowance is about averages over them, so they are long."""


def propose_groups_plan(
    problem: Rows,
    pilot: Rows,
    cells: GroupCells,
    budget: ErrorBudget,
    side: Side,
    planned: int,
    before: Callable[[int], Rows] | None = None,
) -> CellPlan:
    """Two passes over the rows. `cells` speaks of all rows of the problem; `before(row)`, for a replay, of those before one."""
    expected = planned_stops(problem, pilot, planned, CUTS)
    stops = (*expected[:-1], max(expected[-1], problem.rows.stop))  # the last block holds whatever comes
    shape, none = CellShape(len(stops), cells.atoms(problem)), np.zeros(cells.size(problem.layout.slots))

    def count(rows: Rows) -> Tally:
        return tally(cells.first(rows).parts(rows, stops), shape, rows.gamma, none)

    whole, block = count(problem) if before is None else count(before(stops[-2])), np.arange(len(stops))

    def history(first: int) -> Tally:
        return whole.of_blocks(block < first) if before is None else count(before(stops[first - 1]))

    limits, ends = cells.limits(problem), ends_of(side)
    costs, early = costs_of(budget, ends, limits.width), cells.first(pilot)
    lengths = np.diff([problem.rows.start, *expected]).astype(np.float64)
    own = tally(early.parts(pilot, stops), shape, problem.gamma, reference(history(1), limits))
    counts, variance = mean_squares(own, early.labels(own, pilot, stops, None, ()))
    sizes = lengths * (float(counts.sum()) / max(lengths[0], 1.0))
    starts, ahead = known_starts(problem, pilot), float(sizes[1:].sum())
    means = [known_mean(cells, starts, first) for first in (pilot.rows.stop, *stops[:-1])]
    tails = propose_tails(history, means, sizes, variance, costs, [SIGNS[end] for end in ends])
    return CellPlan(
        stops[1:],
        propose_event(variance, counts, ahead, costs),
        propose_cell_events(variance, counts, ahead, costs),
        {end: EndWeights(tails[SIGNS[end]].weights[1:], tails[SIGNS[end]].rate) for end in ends},
        reference(whole.of_blocks(block > 0), limits),
        Provenance("begun", (problem.rows.start, pilot.rows.stop), problem.log_hash),
        start_bets(problem, pilot, cells, starts, budget, ends, planned, own.reference),
    )


def predicted_groups(
    held_out: Rows,
    cells: GroupCells,
    budget: ErrorBudget,
    side: Side,
    rows: int,
    starts: float,
    allowance: Allowance = NOTHING_ALLOWED,
) -> float:
    """The length at an allowance, if `rows` like the held-out ones come, and `starts` sampled starts (0: the list is exact)."""
    stops, ends = (held_out.rows.stop,), ends_of(side)
    shape, limits, everything = CellShape(1, cells.atoms(held_out)), cells.limits(held_out), range_of(held_out.terms)
    past = tally(cells.parts(held_out, stops), shape, held_out.gamma, np.zeros(shape.cells))
    own = tally(cells.parts(held_out, stops), shape, held_out.gamma, reference(past, limits))
    labels = cells.labels(own, held_out, stops, None, ())
    counts, variance = mean_squares(own, labels)
    costs, model, start = costs_of(budget, ends, limits.width), CellModel.of(past), cells.starts(held_out)
    visits, ahead = model.visits(start.cells[None])[0], float(rows)
    events = Events(
        propose_event(variance, counts, ahead, costs), budget[VECTOR],
        propose_cell_events(variance, counts, ahead, costs), budget[SINGLE],
    )  # fmt: skip
    times = ahead / max(float(counts.sum()), 1.0)
    longer, labels = repeated(own, times), replace(labels, rows=repeated(labels.rows, times))
    rate, _ = propose_rate(visits, model, variance, ahead, costs)
    cap = FULL_BET / costs.width
    weights = np.clip(rate * visits / (ahead * model.shares), -cap, cap)[None]
    tails = {SIGNS[end]: EndWeights(SIGNS[end] * weights, rate) for end in ends}
    bound = CellBound(longer, labels, events, tails, {SIGNS[end]: budget[end] for end in ends}, start, limits)
    located = bound.locate(allowance)
    last = (1.0 - CUTS[-2]) * ahead * model.shares + 1  # rows of the last block
    extra = located.support(np.abs(visits) * np.sqrt(last) / (ahead * model.shares))
    extra += start_cost(held_out, cells, own.reference, located.supports, budget, starts, len(ends), everything.width)
    found = bound.ends(located)
    at = {end: found[SIGNS[end]].value.mid + SIGNS[end] * (found[SIGNS[end]].spread + extra) for end in ends}
    return predicted_interval(everything, at)
