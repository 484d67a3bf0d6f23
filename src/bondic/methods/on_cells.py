"""Events on cells for a problem: blocks, the vector event and the weights of both ends, each from the rows before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from bondic.core.cells.ends import EndWeights
from bondic.core.cells.localize import ValueLimits
from bondic.core.cells.proof import SINGLE, CellPlan
from bondic.core.cells.rows import Cells, GroupCells
from bondic.core.cells.tally import CellShape, Tally, tally
from bondic.core.claims import End, ErrorBudget, Side, ends_of
from bondic.core.classes.provenance import Provenance
from bondic.core.sequential.plan import StartBets
from bondic.core.sequential.proof import INITIAL, VECTOR
from bondic.plan.cells import Costs, mean_squares, propose_cell_events, propose_event, propose_tails, reference_of
from bondic.rows import Rows
from bondic.search.sequential.starts import Starts, known_starts, propose_bets

FloatArray = npt.NDArray[np.float64]

_SIGNS: dict[End, float] = {"lower": -1.0, "upper": 1.0}

GROUP_CUTS = (0.6, 0.9, 1.0)
"""Ends of blocks for groups, as shares of the planned rows: an allowance is about averages over them, so they are long."""


def planned_stops(first: int, pilot_stop: int, planned: int, cuts: Sequence[float]) -> tuple[int, ...]:
    """Rows of the log before which blocks should end, the pilot first. What is planned with them must not see how many came."""
    ends = [first + math.ceil(cut * planned) for cut in cuts]
    return (pilot_stop, *(sorted({end for end in ends if end > pilot_stop}) or [pilot_stop + 1]))


def propose_on_groups(
    problem: Rows,
    pilot: Rows,
    cells: GroupCells,
    budget: ErrorBudget,
    side: Side,
    planned: int,
    before: Callable[[int], Rows] | None = None,
) -> CellPlan:
    """Two passes over the rows. `cells` speaks of all rows of the problem; `before(row)`, for a replay, of those before one."""
    expected = planned_stops(problem.rows.start, pilot.rows.stop, planned, GROUP_CUTS)
    stops = (*expected[:-1], max(expected[-1], problem.rows.stop))  # the last block holds whatever comes
    shape, none = CellShape(len(stops), cells.atoms(problem)), np.zeros(cells.size(problem.layout.slots))

    def count(rows: Rows) -> Tally:
        return tally(cells.first(rows).parts(rows, stops), shape, rows.gamma, none)

    whole = count(problem) if before is None else count(before(stops[-2]))
    block = np.arange(len(stops))

    def history(first: int) -> Tally:
        return whole.of_blocks(block < first) if before is None else count(before(stops[first - 1]))

    limits, ends = cells.limits(problem), ends_of(side)
    costs = costs_of(budget, ends, limits.width)
    lengths = np.diff([problem.rows.start, *expected]).astype(np.float64)
    early = cells.first(pilot)
    own = tally(early.parts(pilot, stops), shape, problem.gamma, reference(history(1), limits))
    counts, variance = mean_squares(own, early.labels(own, pilot, stops, None, ()))
    sizes = lengths * (float(counts.sum()) / max(lengths[0], 1.0))
    starts = known_starts(problem, pilot)
    means = [known_mean(cells, starts, first) for first in (pilot.rows.stop, *stops[:-1])]
    tails = propose_tails(history, means, sizes, variance, costs, [_SIGNS[end] for end in ends])
    ahead = float(sizes[1:].sum())
    return CellPlan(
        stops[1:],
        propose_event(variance, counts, ahead, costs),
        propose_cell_events(variance, counts, ahead, costs),
        {end: EndWeights(tails[_SIGNS[end]].weights[1:], tails[_SIGNS[end]].rate) for end in ends},
        reference(whole.of_blocks(block > 0), limits),
        Provenance("begun", (problem.rows.start, pilot.rows.stop), problem.log_hash),
        start_bets(problem, pilot, cells, starts, budget, ends, planned, own.reference),
    )


def costs_of(budget: ErrorBudget, ends: Sequence[End], width: float) -> Costs:
    vector, single = (math.log(2 / budget[name]) for name in (VECTOR, SINGLE))
    return Costs(vector, single, math.log(1 / min(budget[end] for end in ends)), width)


def reference(tally: Tally, limits: ValueLimits) -> FloatArray:
    return reference_of(tally, tally.count.sum(axis=0) > 0, limits.low, limits.high)


def known_mean(cells: Cells, starts: Starts, row: int) -> FloatArray:
    """(p,) ψ_0, as the starts that are known before a row show it; the first of the log is known once there is a row."""
    known = starts.told_by < max(row, int(starts.told_by[0]) + 1)
    weights = np.where(known, np.maximum(starts.weights, 0.0), 0.0)
    weights = weights if weights.sum() > 0 else known.astype(np.float64)
    return cells.start_mean(starts.cloud, weights / weights.sum())


def start_bets(
    problem: Rows,
    pilot: Rows,
    cells: Cells,
    starts: Starts,
    budget: ErrorBudget,
    ends: Sequence[End],
    planned: int,
    values: FloatArray,
) -> StartBets | None:
    """Bets on sampled starts, at the spread of the values over those that are left out."""
    probability = budget.get(INITIAL)
    if probability is None:
        return None
    spread, skipped = math.inf, min(starts.skipped, 1024)
    if skipped:
        seen, center = cells.start_cells(problem.initial, 0, skipped)
        spread = float((center + seen @ values).std())
    return propose_bets(problem, pilot, problem.rows.start + planned, probability / len(ends), spread=spread)
