"""Events on cells for a problem: blocks, the vector event and the weights of both ends, each from the rows before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.core.cells.allowance import NOTHING_ALLOWED
from bondic.core.cells.bound import CellBound
from bondic.core.cells.forecasts import ForecastTally
from bondic.core.cells.localize import Events, ValueLimits
from bondic.core.cells.proof import SINGLE, CellPlan
from bondic.core.cells.rows import Cells
from bondic.core.cells.tails import EndWeights, StartMean
from bondic.core.cells.tally import CellShape, Tally, tally
from bondic.core.claims import End, ErrorBudget, Side, ends_of
from bondic.core.classes.provenance import Provenance
from bondic.core.rounding import Enclosure
from bondic.core.sequential.proof import INITIAL, VECTOR
from bondic.core.starts import StartBets
from bondic.plan.cells import Costs, propose_cell_events, propose_event, propose_tails, reference_of
from bondic.rows import Rows
from bondic.search.sequential.starts import KnownStarts, known_starts, propose_bets

FloatArray = npt.NDArray[np.float64]

_SIGNS: dict[End, float] = {"lower": -1.0, "upper": 1.0}

GROUP_CUTS = (0.6, 0.9, 1.0)
"""Ends of blocks for groups, as shares of the planned rows: an allowance is about averages over them, so they are long."""


@dataclass(frozen=True, eq=False)
class CellProposal:
    """Events for the rows after the pilot, and how long the interval should come out at allowance 0."""

    events: CellPlan
    predicted: float


def planned_stops(first: int, pilot_stop: int, planned: int, cuts: Sequence[float]) -> tuple[int, ...]:
    """Rows of the log before which blocks should end, the pilot first. What is planned with them must not see how many came."""
    ends = [first + math.ceil(cut * planned) for cut in cuts]
    return (pilot_stop, *(sorted({end for end in ends if end > pilot_stop}) or [pilot_stop + 1]))


def propose_on_cells(
    problem: Rows,
    pilot: Rows,
    cells: Cells,
    budget: ErrorBudget,
    side: Side,
    planned: int,
    cuts: Sequence[float],
    before: Callable[[int], Rows] | None = None,
) -> CellProposal:
    """Two passes over the rows. `cells` speaks of all rows of the problem; `before(row)`, for a replay, of those before one."""
    expected = planned_stops(problem.rows.start, pilot.rows.stop, planned, cuts)
    stops = (*expected[:-1], max(expected[-1], problem.rows.stop))  # the last block holds whatever comes
    shape, none = CellShape(len(stops), cells.atoms(problem)), np.zeros(cells.size(problem.layout.slots))

    def count(rows: Rows) -> Tally:
        return tally(cells.first(rows).parts(rows, stops), shape, rows.gamma, none)

    whole = count(problem) if before is None else count(before(stops[-2]))

    def history(block: int) -> Tally:
        return whole.blocks(0, block) if before is None else count(before(stops[block - 1]))

    limits, ends = cells.limits(problem), ends_of(side)
    costs = costs_of(budget, ends, limits.width)
    past = history(1)
    lengths = np.diff([problem.rows.start, *expected]).astype(np.float64)
    own = tally(cells.first(pilot).parts(pilot, stops), shape, problem.gamma, reference(past, limits))
    foreseen = cells.first(pilot).forecast(pilot, stops, shape, own.reference)
    counts, squares = own.count.sum(axis=0), own.square.sum(axis=0)
    if foreseen is not None:
        squares = np.bincount(foreseen.cell, foreseen.rows.square.sum(axis=0), minlength=counts.size)
    variance = (squares + 2 * squares.sum() / max(float(counts.sum()), 1.0)) / (counts + 2)
    sizes = lengths * (float(counts.sum()) / max(lengths[0], 1.0))
    starts = known_starts(problem, pilot)
    means = [known_mean(cells, starts, first) for first in (pilot.rows.stop, *stops[:-1])]
    tails = propose_tails(history, means, sizes, variance, costs, [_SIGNS[end] for end in ends])
    ahead = float(sizes[1:].sum())
    vector, single = propose_event(variance, counts, ahead, costs), propose_cell_events(variance, counts, ahead, costs)
    events = CellPlan(
        stops[1:],
        vector,
        single,
        {end: EndWeights(tails[_SIGNS[end]].weights[1:], tails[_SIGNS[end]].rate) for end in ends},
        reference(whole.blocks(1, len(stops)), limits),
        Provenance("begun", (problem.rows.start, pilot.rows.stop), problem.log_hash),
        start_bets(problem, pilot, cells, starts, budget, ends, planned, own.reference),
    )
    times = ahead / max(float(counts.sum()), 1.0)
    longer = own.repeated(times)
    if foreseen is not None:
        foreseen = replace(foreseen, rows=foreseen.rows.repeated(times))
    both = Events(vector, budget[VECTOR], single, budget[SINGLE])
    return CellProposal(events, _predicted(longer, both, tails, means[1], budget, limits, foreseen))


def predicted_length(pilot: Rows, cells: Cells, budget: ErrorBudget, side: Side, rows: int) -> float:
    """Of the interval at allowance 0, from the pilot alone, if so many rows like it follow."""
    stops = (pilot.rows.stop,)
    shape, limits, ends = CellShape(1, cells.atoms(pilot)), cells.limits(pilot), ends_of(side)
    past = tally(cells.parts(pilot, stops), shape, pilot.gamma, np.zeros(shape.cells))
    own = tally(cells.parts(pilot, stops), shape, pilot.gamma, reference(past, limits))
    counts, squares = own.count.sum(axis=0), own.square.sum(axis=0)
    variance = (squares + 2 * squares.sum() / max(float(counts.sum()), 1.0)) / (counts + 2)
    costs, start = costs_of(budget, ends, limits.width), known_mean(cells, known_starts(pilot, pilot), pilot.rows.stop)
    sizes = np.array([float(counts.sum()), float(rows)])
    padded = past.padded()
    tails = propose_tails(lambda _: padded, [start, start], sizes, variance, costs, [_SIGNS[end] for end in ends])
    events = Events(
        propose_event(variance, counts, float(rows), costs), budget[VECTOR],
        propose_cell_events(variance, counts, float(rows), costs), budget[SINGLE],
    )  # fmt: skip
    times = rows / max(float(counts.sum()), 1.0)
    foreseen = cells.forecast(pilot, stops, shape, own.reference)
    if foreseen is not None:
        foreseen = replace(foreseen, rows=foreseen.rows.repeated(times))
    return _predicted(own.repeated(times), events, tails, start, budget, limits, foreseen)


def costs_of(budget: ErrorBudget, ends: Sequence[End], width: float) -> Costs:
    vector, single = (math.log(2 / budget[name]) for name in (VECTOR, SINGLE))
    return Costs(vector, single, math.log(1 / min(budget[end] for end in ends)), width)


def reference(tally: Tally, limits: ValueLimits) -> FloatArray:
    return reference_of(tally, tally.count.sum(axis=0) > 0, limits.low, limits.high)


def _predicted(
    longer: Tally,
    events: Events,
    tails: Mapping[float, EndWeights],
    start: FloatArray,
    budget: ErrorBudget,
    limits: ValueLimits,
    foreseen: ForecastTally | None,
) -> float:
    """The length of the interval at allowance 0, if the log repeats its pilot."""
    # the first block's weights, for all rows: those of the pilot are in block 0
    own = {
        sign: EndWeights(np.repeat(tail.weights[1:2], longer.shape.blocks, axis=0), tail.rate)
        for sign, tail in tails.items()
    }
    chances = {sign: budget["upper" if sign > 0 else "lower"] for sign in tails}
    bound = CellBound(longer, events, own, chances, StartMean(Enclosure(0.0), start, 0.0), limits, foreseen)
    ends = bound.ends(bound.locate(NOTHING_ALLOWED))
    return sum(min(terms.spread, limits.width) for terms in ends.values()) + limits.width * (2 - len(ends)) / 2


def known_mean(cells: Cells, starts: KnownStarts, row: int) -> FloatArray:
    """(p,) ψ_0, as the starts that are known before a row show it; the first of the log is known once there is a row."""
    known = starts.told_by < max(row, int(starts.told_by[0]) + 1)
    weights = np.where(known, np.maximum(starts.weights, 0.0), 0.0)
    weights = weights if weights.sum() > 0 else known.astype(np.float64)
    return cells.start_mean(starts.cloud, weights / weights.sum())


def start_bets(
    problem: Rows,
    pilot: Rows,
    cells: Cells,
    starts: KnownStarts,
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
