"""How long an interval on groups will be, from rows that neither model nor groups nor labels have seen.

With what was made of earlier rows, the held-out rows are tallied and taken as often as rows will come; then the bound itself says
how long it would be. Weights are balanced on the held-out rows, so what later rows leave unbalanced is added: rows of
the last block vary by the root of their number. Sampled starts cost what bets on them would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bondic.core.betting import loss
from bondic.core.cells.allowance import NOTHING_ALLOWED
from bondic.core.cells.bound import CellBound
from bondic.core.cells.localize import Events, Located
from bondic.core.cells.proof import SINGLE
from bondic.core.cells.rows import GroupCells
from bondic.core.cells.tails import EndTerms, EndWeights
from bondic.core.cells.tally import CellShape, tally
from bondic.core.claims import ErrorBudget, Side, ends_of
from bondic.core.sequential.proof import INITIAL, VECTOR
from bondic.core.terms import ValueRange, range_of
from bondic.methods.on_cells import GROUP_CUTS, costs_of
from bondic.plan.cells import FULL_BET, CellModel, propose_cell_events, propose_event, propose_rate, reference_of
from bondic.rows import Rows
from bondic.search.sequential.starts import known_starts

FloatArray = npt.NDArray[np.float64]

_SIGNS = {"lower": -1.0, "upper": 1.0}


def outlook(held_out: Rows, cells: GroupCells, budget: ErrorBudget, side: Side, rows: int, starts: float) -> float:
    """The length at allowance 0, if `rows` like the held-out ones come, and `starts` sampled starts (0: the list is exact)."""
    stops, ends = (held_out.rows.stop,), ends_of(side)
    shape, limits = CellShape(1, cells.atoms(held_out)), cells.limits(held_out)
    past = tally(cells.parts(held_out, stops), shape, held_out.gamma, np.zeros(shape.cells))
    counts = past.count.sum(axis=0)
    reference = reference_of(past, counts > 0, limits.low, limits.high)
    own = tally(cells.parts(held_out, stops), shape, held_out.gamma, reference)
    foreseen = cells.forecast(held_out, stops, shape, reference)
    assert foreseen is not None
    squares = np.bincount(foreseen.cell, foreseen.rows.square.sum(axis=0), minlength=counts.size)
    variance = (squares + 2 * squares.sum() / max(float(counts.sum()), 1.0)) / (counts + 2)
    costs, model, start = costs_of(budget, ends, limits.width), CellModel.of(past), cells.starts(held_out)
    visits, ahead = model.visits(start.cells[None])[0], float(rows)
    events = Events(
        propose_event(variance, counts, ahead, costs), budget[VECTOR],
        propose_cell_events(variance, counts, ahead, costs), budget[SINGLE],
    )  # fmt: skip
    times = ahead / max(float(counts.sum()), 1.0)
    longer, foreseen = own.repeated(times), replace(foreseen, rows=foreseen.rows.repeated(times))
    rate, _ = propose_rate(visits, model, variance, ahead, costs)
    cap = FULL_BET / costs.width
    weights = np.clip(rate * visits / (ahead * model.shares), -cap, cap)[None]
    tails = {_SIGNS[end]: EndWeights(_SIGNS[end] * weights, rate) for end in ends}
    bound = CellBound(longer, events, tails, {_SIGNS[end]: budget[end] for end in ends}, start, limits, foreseen)
    located = bound.locate(NOTHING_ALLOWED)
    last = (1.0 - GROUP_CUTS[-2]) * ahead * model.shares + 1  # rows of the last block
    unbalanced = located.support(located.system.direction(np.abs(visits) * np.sqrt(last) / (ahead * model.shares)))
    extra = unbalanced + _start_cost(held_out, cells, located, budget, starts, len(ends))
    return _between(bound.ends(located), range_of(held_out.terms), extra)


def _between(ends: Mapping[float, EndTerms], limits: ValueRange, extra: float) -> float:
    low, high = limits.low, limits.high
    for sign, terms in ends.items():
        at = terms.value.mid + sign * (terms.spread + extra)
        low, high = (low, min(high, at)) if sign > 0 else (max(low, at), high)
    return max(high - low, 0.0)


def _start_cost(
    held_out: Rows, cells: GroupCells, located: Located, budget: ErrorBudget, starts: float, ends: int
) -> float:
    """min over rates b of ( log(1/δ) / b + sum_j g(-b |V(x_j) - mean|) / b ) / n_0, V within E."""
    probability = budget.get(INITIAL)
    if probability is None or starts <= 0:
        return 0.0
    width = range_of(held_out.terms).width
    seen, values = cells.start_cells(held_out.initial, 0, min(len(held_out.initial_states), 256))
    mean = seen.mean(axis=0)
    middle = values + seen @ located.system.tally.reference
    apart = np.minimum(np.abs(middle - middle.mean()) + located.supports(seen - mean), width)
    price, best = math.log(2 * ends / probability), width
    for bet in FULL_BET / width * np.geomspace(1e-3, 1.0, 16):
        best = min(best, (price / starts + float(loss(-bet * apart).mean())) / bet)
    return best


def expected_starts(problem: Rows, pilot: Rows, rows: int) -> float:
    """How many sampled starts will be used; 0 where the list is exact."""
    states = problem.initial_states
    if states.kind == "exact":
        return 0.0
    known = known_starts(problem, pilot).skipped
    if states.from_rows and not states.count_fixed:
        return max(known * rows / max(len(pilot.rows), 1), 1.0)
    return float(len(states) - known)
