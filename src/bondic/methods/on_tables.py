"""Events on the cells of a table: blocks, forecasts, quotas and the weights of both ends, each from the rows before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.balls import Provenance
from bondic.core.cells.allowance import NOTHING_ALLOWED, CellAllowance
from bondic.core.cells.ends import EndWeights
from bondic.core.cells.forecasts import EarlierRows, tally_by_era
from bondic.core.cells.localize import CellTails, Events, Ground, ValueLimits, locate
from bondic.core.cells.proof import SINGLE, CellPlan
from bondic.core.cells.rows import StateCells, StateIndex, within_quotas
from bondic.core.cells.system import MAX_TOGETHER
from bondic.core.cells.tally import COLUMNS, CellShape, Entries, Tally, tally
from bondic.core.claims import ErrorBudget, Side, ends_of
from bondic.core.columns import RowRange
from bondic.core.sequential.proof import VECTOR
from bondic.data.stream import ahead
from bondic.methods.on_cells import (
    CAREFUL,
    SIGNS,
    costs_of,
    known_mean,
    planned_stops,
    predicted_interval,
    reference,
    start_bets,
    start_cost,
)
from bondic.plan.cells import Costs, mean_squares, propose_cell_events, propose_event, reference_of, repeated
from bondic.plan.tables import CellCapacity, Prices, TableWeights, successor_diversity, with_prior_rows
from bondic.rows import Rows
from bondic.search.sequential.starts import known_starts

FloatArray = npt.NDArray[np.float64]


def states_of(problem: Rows, most: int, first: FloatArray | None = None) -> FloatArray | None:
    """(S, D): `first`, given starts, then logged and next states as they first appear; None where they are more than `most`."""
    known = np.zeros((0, problem.layout.dimension)) if first is None else first
    known = np.concatenate([known, _fresh(known, problem.initial.points)])
    for batch in problem.batches():
        rows = np.concatenate([np.arange(len(batch)) * 2, batch.next.rows * 2 + 1])
        points = np.concatenate([batch.logged, batch.next.points])[np.argsort(rows, kind="stable")]
        known = np.concatenate([known, _fresh(known, points)])
        if known.shape[0] > most:
            return None
    return known


def _fresh(known: FloatArray, points: FloatArray) -> FloatArray:
    """Those that are not known yet, once each, in their order."""
    if known.shape[0]:
        points = points[StateIndex(known).positions(points) < 0]
    _, first = np.unique(points + 0.0, axis=0, return_index=True)
    return points[np.sort(first)] + 0.0


IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

CUTS = (
    0.06, 0.07, 0.085, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.92, 0.95, 0.97,
    0.98, 0.987, 0.993, 1.0,
)  # fmt: skip
"""Ends of blocks, as shares of the planned rows: later blocks balance what earlier ones left."""
MARKS = (0.1, 0.2, 0.4, 0.7)
"""Those of them at which prices are made anew; forecasts too, where every block would make too many labels."""
_MAX_DIFFERENCES = 10_000_000
"""Labels with what follows them, times cells, that are compared one by one: a bound on time."""


@dataclass(frozen=True, eq=False)
class _PlannedEvents:
    """What the pilot says of the rows to come."""

    events: Events
    costs: Costs
    limits: ValueLimits

    @staticmethod
    def of(known: Tally, limits: ValueLimits, budget: ErrorBudget, side: Side, rows: float) -> _PlannedEvents:
        """Events for so many rows, of all layers, that are like those that are known."""
        costs, (counts, variance) = costs_of(budget, ends_of(side), limits.width), mean_squares(known)
        vector = propose_event(variance, counts, rows / known.shape.layers, costs, known.shape.layers)
        single = propose_cell_events(variance, counts, rows, costs)
        return _PlannedEvents(Events(vector, budget[VECTOR], single, budget[SINGLE]), costs, limits)

    def prices(self, known: Tally, rows: float) -> Prices:
        """What the events would leave of the values, and of the rows, if these repeat what is known."""
        shown = _Shown(known.shape, _shown(EarlierRows.of(known), known.shape))
        limits = shown.limits(self.limits)
        known, middle = shown.tally(known, limits.middle), limits.middle
        events, past = shown.events(self.events), EarlierRows.of(known)
        counts, variance = mean_squares(known)
        smooth = np.zeros_like(known.square)
        smooth[0] = counts * variance
        longer = replace(known, square=np.maximum(smooth, known.square))
        prior_weight = _prior_weight(past, known.shape)
        nothing = CellAllowance.of(NOTHING_ALLOWED, counts.size)
        found = []
        for share in (1.0, CAREFUL):
            now = repeated(longer, share * rows / max(float(counts.sum()), 1.0))
            labels = tally_by_era(
                now, with_prior_rows(past, prior_weight, middle), np.zeros(2, dtype=np.int64), (0,), middle
            )
            found.append(Prices.of(locate(Ground.of(now, labels, events, limits), nothing), past.count, prior_weight))
        return replace(found[0], unknown=found[1].unknown).at(shown.place)


def propose_table(
    problem: Rows,
    pilot: Rows,
    cells: StateCells,
    budget: ErrorBudget,
    side: Side,
    planned: int,
    before: Callable[[int], Rows] | None = None,
    fewest: int = 1,
) -> CellPlan:
    """Every block from the rows before it; `before(row)`, for a replay, knows no others.

    Nothing is estimated for a cell with fewer than `fewest` rows.
    """
    expected = planned_stops(problem, pilot, planned, CUTS)
    stops = (*expected[:-1], max(expected[-1], problem.rows.stop))  # the last block holds whatever comes
    shape, limits, ends = CellShape(2, cells.atoms(problem), cells.layers), cells.limits(problem), ends_of(side)
    starts, atoms = known_starts(problem, pilot), shape.entries
    known = _solved(pilot, cells, shape)
    past = first = EarlierRows.of(known)
    lengths = np.diff([problem.rows.start, *expected]).astype(np.float64)
    sizes = lengths * (float(known.count.sum()) / max(lengths[0], 1.0))
    ahead = float(sizes[1:].sum())
    planned_events = _PlannedEvents.of(known, limits, budget, side, ahead)
    log_term = planned_events.costs.tails
    maker = TableWeights(atoms, problem.gamma, limits.width, log_term, fewest=fewest, layers=cells.layers)
    weights, quotas = np.zeros((2, len(stops) - 1, shape.cells))
    marks = (0, *(k for k, stop in enumerate(expected[:-1]) if k and stop in _at(problem, planned, MARKS)))
    eras = marks if _too_many(known, len(stops) - 1) else tuple(range(len(stops) - 1))
    prices = planned_events.prices(known, ahead)
    for block in range(len(stops) - 1):
        begin, stop = (
            min(one, problem.rows.stop) for one in stops[block : block + 2]
        )  # the log may have stopped early
        start, left = known_mean(cells, starts, stops[block]), float(sizes[block + 1 :].sum())
        rows = problem if before is None else before(stop if block < len(stops) - 2 else begin)
        if block in marks[1:]:
            earlier = rows.restricted(RowRange(problem.rows.start, begin))
            prices = planned_events.prices(_solved(earlier, cells, shape), ahead)
        weights[block], quotas[block] = maker.propose(past, prices, start, left)
        if block < len(stops) - 2:
            part = rows.restricted(RowRange(begin, stop))
            seen = _count(part, cells, shape, quotas[block])
            maker.weigh(weights[block], EarlierRows.of(seen.of_blocks(np.array([True, False]))))
            past = _together(past.joined(EarlierRows.of(seen)), shape)
    assert maker.total is not None
    rate = maker.total
    if problem.rows.stop < stops[-1] and before is None:  # Λ may come from anywhere: here from the rows that came
        rate = min(max(float(maker.balanced.sum()), 1e-3 * rate), rate)
    certified = known if before is not None else _count(problem.select(pilot.rows.stop), cells, shape)
    return CellPlan(
        stops[1:],
        planned_events.events.vector,
        CellTails(np.where(first.count >= fewest, planned_events.events.cells.rates, 0.0)),
        {end: EndWeights(weights if end == "upper" else -weights, rate) for end in ends},
        reference_of(certified, certified.count.sum(axis=0) >= fewest, limits.middle),
        Provenance("begun", (problem.rows.start, pilot.rows.stop), problem.log_hash),
        start_bets(problem, pilot, cells, starts, budget, ends, planned, known.reference),
        quotas,
        with_prior_rows(_often(first, fewest), _prior_weight(first, shape), limits.middle),
        eras,
    )


def _often(past: EarlierRows, fewest: int) -> EarlierRows:
    """Without the rows of cells that fewer rows have shown."""
    kept = past.count >= fewest
    entries = kept[past.cell]
    columns = (past.cell[entries], past.atom[entries], past.mass[entries])
    return EarlierRows(np.where(kept, past.count, 0.0), np.where(kept, past.outcome, 0.0), *columns)


def _together(past: EarlierRows, shape: CellShape) -> EarlierRows:
    """Entries at one place as one: there are no more of them after many blocks."""
    found = Entries.added(past.cell, past.atom, past.mass, shape.atoms.shape[::-1])
    return replace(past, cell=found.row, atom=found.column, mass=found.value)


@dataclass(frozen=True)
class PredictedTable:
    """What the pilot says of the interval."""

    half: float  # from the middle to an end, but for sampled starts
    length: float  # of the interval within the value range


def predicted_table(
    pilot: Rows, cells: StateCells, budget: ErrorBudget, side: Side, rows: int, starts: float
) -> PredictedTable:
    """From the pilot alone, if so many rows like it follow, and `starts` sampled starts (0: the list is exact)."""
    shape, limits, ends = CellShape(2, cells.atoms(pilot), cells.layers), cells.limits(pilot), ends_of(side)
    known, everything = _solved(pilot, cells, shape), cells.value_range(pilot)
    start, ahead = known_mean(cells, known_starts(pilot, pilot), pilot.rows.stop), float(rows * cells.layers)
    planned_events = _PlannedEvents.of(known, limits, budget, side, ahead)
    log_term = planned_events.costs.tails
    maker = TableWeights(shape.entries, pilot.gamma, limits.width, log_term, layers=cells.layers)
    prices = planned_events.prices(known, ahead)
    past = EarlierRows.of(known)
    capacity = CellCapacity(past, maker.atoms, maker.gamma, prices, ahead, maker.width, layers=cells.layers)
    half = maker.best(capacity, start).half(maker.log_term)
    values, unknown = known.reference, prices.unknown
    extra = start_cost(
        pilot, cells, values, lambda seen: np.abs(seen) @ unknown, budget, starts, len(ends), everything.width
    )
    middle = float(np.clip(start @ values, everything.low, everything.high))
    at = {end: middle + SIGNS[end] * (half + extra) for end in ends}
    return PredictedTable(half, predicted_interval(everything, at))


def _at(problem: Rows, planned: int, cuts: Sequence[float]) -> list[int]:
    return [problem.rows.start + math.ceil(cut * planned) for cut in cuts]


def _prior_weight(past: EarlierRows, shape: CellShape) -> float:
    return successor_diversity(past, shape.atoms.shape[::-1], _size(past, shape)[0] <= MAX_TOGETHER)


def _too_many(known: Tally, blocks: int) -> bool:
    """Whether labels of all blocks are too many for differences one by one: forecasts are then made at the marks."""
    together, cells = _size(EarlierRows.of(known), known.shape)
    return together <= MAX_TOGETHER and blocks * known.mass.size * cells > _MAX_DIFFERENCES


def _shown(past: EarlierRows, shape: CellShape) -> BoolArray:
    """(S,) states that have rows, or follow some. How many others the log will show must not matter: it is not known yet."""
    rows = past.count.reshape(shape.atoms.shape[0], -1).sum(axis=1)
    following = np.bincount(past.atom, past.mass, minlength=rows.size)
    return np.asarray(rows + following > 0)


def _size(past: EarlierRows, shape: CellShape) -> tuple[int, int]:
    """Atoms times cells, and cells, of the states that were shown."""
    states = int(_shown(past, shape).sum())
    cells = states * (shape.cells // shape.atoms.shape[0])
    return states * cells, cells


class _Shown:
    """The states that were shown, and one more for all others, in every layer."""

    def __init__(self, shape: CellShape, shown: BoolArray) -> None:
        first = shown.reshape(shape.layers, -1)[0]  # the same states in all layers
        states, slots = int(first.sum()) + 1, shape.cells // shown.size
        number = np.where(first, np.cumsum(first) - 1, states - 1) + states * np.arange(shape.layers)[:, None]
        self.number, self.kept = number.reshape(-1), np.repeat(shown, slots)  # (S,) of the states, (p,) cells
        self.place = (self.number[:, None] * slots + np.arange(slots)).reshape(-1)  # (p,) which cell stands for each
        self.cells, layers, mixtures = states * slots, shape.layers, shape.entries
        own = shown[mixtures.row] & self.kept[mixtures.column]
        atoms = np.zeros((layers * states, layers * self.cells))
        atoms[self.number[mixtures.row[own]], self.place[mixtures.column[own]]] = mixtures.value[own]
        self.shape = replace(shape, atoms=atoms)

    def limits(self, limits: ValueLimits) -> ValueLimits:
        """All cells of a layer have the same."""
        own = (self.shape.by_layer(np.broadcast_to(one, self.place.size))[:, 0] for one in _ends_of(limits))
        return ValueLimits(*(np.repeat(one, self.cells) for one in own))

    def spread(self, values: FloatArray, rest: FloatArray | float = 0.0) -> FloatArray:
        """(..., p) of the cells that were shown; the state that stands for the others has `rest`."""
        found = np.zeros((*values.shape[:-1], self.shape.cells)) + rest
        found[..., self.place[self.kept]] = values[..., self.kept]
        return np.asarray(found)

    def events(self, events: Events) -> Events:
        """The state that stands for the others has none of its own."""
        vector = replace(events.vector, shape=self.spread(events.vector.shape, 1.0))
        return replace(events, vector=vector, cells=CellTails(self.spread(events.cells.rates)))

    def tally(self, own: Tally, middle: FloatArray | float) -> Tally:
        columns: dict[str, Any] = {name: self.spread(getattr(own, name)) for name in COLUMNS}
        return replace(
            own,
            shape=self.shape,
            reference=self.spread(own.reference, middle),
            ends=self.spread(own.ends.astype(np.float64)) > 0,
            at=(own.at[0], self.place[own.at[1]], self.number[own.at[2]]),
            **columns,
        )


def _ends_of(limits: ValueLimits) -> tuple[FloatArray | float, ...]:
    return limits.width, limits.low, limits.high, limits.clip


def _count(
    rows: Rows,
    cells: StateCells,
    shape: CellShape,
    quotas: FloatArray | None = None,
    values: FloatArray | None = None,
) -> Tally:
    """Sums over rows, with those beyond the quotas in the second block; `values`: a reference."""
    parts = ahead(cells.parts(rows, (rows.rows.stop,)))
    own = np.zeros(shape.cells) if values is None else values
    return tally(parts if quotas is None else within_quotas(parts, quotas[None]), shape, rows.gamma, own)


def _solved(rows: Rows, cells: StateCells, shape: CellShape) -> Tally:
    """The same at the reference that solves the equations of these rows."""
    return _count(rows, cells, shape, None, reference(_count(rows, cells, shape), cells.limits(rows)))
