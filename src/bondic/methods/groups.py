"""States that are numbers: a model, groups and a stated allowance; without a statement the value range, and a curve beside it.

How long the interval will be is predicted from held-out rows: they are tallied and taken as often as rows will come; then the
bound itself says how long it would be. Weights are balanced on the held-out rows, so what later rows leave unbalanced is added:
rows of the last block vary by the root of their number. Sampled starts cost what bets on them would.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from bondic.core.balls import Provenance
from bondic.core.cells.allowance import NOTHING_ALLOWED, Allowance
from bondic.core.cells.ends import CellBound, EndWeights
from bondic.core.cells.localize import Events
from bondic.core.cells.paired import PairedGroups
from bondic.core.cells.proof import SINGLE, TEST, CellPlan, CellsProof
from bondic.core.cells.rows import GroupCells
from bondic.core.cells.tally import CellShape, Tally, tally
from bondic.core.claims import ErrorBudget, Side, ends_of
from bondic.core.errors import InvalidInput
from bondic.core.proof import Proof
from bondic.core.sequential.proof import INITIAL, VECTOR
from bondic.core.sums.forms import Sums
from bondic.core.terms import range_at_all_times, range_of
from bondic.curve import METHOD as NAME
from bondic.curve import AllowanceCurve
from bondic.methods.base import Clock, Progress, check_proof, describe, listing_options, planned_length
from bondic.methods.group_cells import FittedGroups, fit_groups, marks_of, split_pilot
from bondic.methods.on_cells import (
    CAREFUL,
    CLIPS,
    SIGNS,
    cell_budget,
    costs_of,
    expected_starts,
    known_mean,
    pilot_of,
    planned_stops,
    predicted_interval,
    reference,
    replayed_pilot,
    start_bets,
    start_cost,
)
from bondic.methods.paired_groups import FittedPair, fit_pair
from bondic.plan.cells import (
    FULL_BET,
    CellModel,
    mean_squares,
    propose_cell_events,
    propose_event,
    propose_rate,
    propose_tails,
    repeated,
    within,
)
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.estimand import estimand_of
from bondic.rows.paired import PairedRows, answered_by
from bondic.rows.prefix import Prefixes
from bondic.search.sequential.starts import known_starts

CUTS = (0.6, 0.9, 1.0)
"""Ends of blocks, as shares of the planned rows: an allowance is about averages over them, so they are long."""


def propose_groups_plan(
    problem: Rows,
    pilot: Rows,
    cells: GroupCells | PairedGroups,
    budget: ErrorBudget,
    side: Side,
    planned: int,
    before: Callable[[int], Rows] | None = None,
) -> CellPlan:
    """Two passes over the rows. `cells` speaks of all rows of the problem; `before(row)`, for a replay, of those before one."""
    expected = planned_stops(problem, pilot, planned, CUTS)
    stops = (*expected[:-1], max(expected[-1], problem.rows.stop))  # the last block holds whatever comes
    shape, none = (
        CellShape(len(stops), cells.atoms(problem), cells.layers),
        np.zeros(cells.size(problem.layout.slots)),
    )

    def count(rows: Rows) -> Tally:
        return tally(cells.first_rows(rows).parts(rows, stops), shape, rows.gamma, none)

    whole, block = count(problem) if before is None else count(before(stops[-2])), np.arange(len(stops))

    def history(first: int) -> Tally:
        return whole.of_blocks(block < first) if before is None else count(before(stops[first - 1]))

    limits, ends = cells.limits(problem), ends_of(side)
    costs, early = costs_of(budget, ends, limits.width), cells.first_rows(pilot)
    lengths = np.diff([problem.rows.start, *expected]).astype(np.float64)
    own = tally(early.parts(pilot, stops), shape, problem.gamma, reference(history(1), limits))
    counts, variance = mean_squares(own, early.labels(own, pilot, stops, None, ()))
    sizes = lengths * (float(counts.sum()) / max(lengths[0], 1.0))
    starts, ahead = known_starts(problem, pilot), float(sizes[1:].sum())
    means = [known_mean(cells, starts, first) for first in (pilot.rows.stop, *stops[:-1])]
    tails = propose_tails(history, means, sizes, variance, costs, [SIGNS[end] for end in ends])
    return CellPlan(
        stops[1:],
        propose_event(variance, counts, ahead / cells.layers, costs, cells.layers),
        propose_cell_events(variance, counts, ahead, costs),
        {end: EndWeights(tails[SIGNS[end]].weights[1:], tails[SIGNS[end]].rate) for end in ends},
        reference(whole.of_blocks(block > 0), limits),
        Provenance("begun", (problem.rows.start, pilot.rows.stop), problem.log_hash),
        start_bets(problem, pilot, cells, starts, budget, ends, planned, own.reference),
    )


def predicted_groups(
    held_out: Rows,
    cells: GroupCells | PairedGroups,
    budget: ErrorBudget,
    side: Side,
    rows: int,
    starts: float,
    allowance: Allowance = NOTHING_ALLOWED,
) -> float:
    """The length at an allowance, if `rows` like the held-out ones come, and `starts` sampled starts (0: the list is exact)."""
    stops, ends = (held_out.rows.stop,), ends_of(side)
    shape = CellShape(1, cells.atoms(held_out), cells.layers)
    limits, everything = cells.limits(held_out), cells.value_range(held_out)
    past = tally(cells.parts(held_out, stops), shape, held_out.gamma, np.zeros(shape.cells))
    own = tally(cells.parts(held_out, stops), shape, held_out.gamma, reference(past, limits))
    labels = cells.labels(own, held_out, stops, None, ())
    counts, variance = mean_squares(own, labels)
    costs, model, start = costs_of(budget, ends, limits.width), CellModel.of(past), cells.starts(held_out)
    visits, ahead = model.visits(start.cells[None])[0], float(rows * cells.layers)
    events = Events(
        propose_event(variance, counts, float(rows), costs, cells.layers), budget[VECTOR],
        propose_cell_events(variance, counts, ahead, costs), budget[SINGLE],
    )  # fmt: skip
    times = ahead / max(float(counts.sum()), 1.0)
    longer, labels = repeated(own, times), replace(labels, rows=repeated(labels.rows, times))
    rate, _ = propose_rate(visits, model, variance, ahead, costs)
    cap = FULL_BET / costs.width
    weights = within(rate * visits / (ahead * model.shares), cap, cells.layers)[None]
    tails = {SIGNS[end]: EndWeights(SIGNS[end] * weights, rate) for end in ends}
    bound = CellBound(longer, labels, events, tails, {SIGNS[end]: budget[end] for end in ends}, start, limits)
    located = bound.locate(allowance)
    last = (1.0 - CUTS[-2]) * ahead * model.shares + 1  # rows of the last block
    extra = located.support(np.abs(visits) * np.sqrt(last) / (ahead * model.shares))
    extra += start_cost(held_out, cells, own.reference, located.supports, budget, starts, len(ends), everything.width)
    found = bound.ends(located)
    at = {end: found[SIGNS[end]].value.mid + SIGNS[end] * (found[SIGNS[end]].spread + extra) for end in ends}
    return predicted_interval(everything, at)


AnyFitted = FittedGroups | FittedPair
PILOT = 0.2
"""Share of the rows for the model, the groups and the first weights."""
_SHARES = {VECTOR: 0.12, SINGLE: 0.08, TEST: 0.05, INITIAL: 0.1}
"""Shares of alpha beside those of the ends; that of the starts only where they are a sample."""


@listing_options
@dataclass(frozen=True)
class Groups:
    """A model, groups of states, and an allowance in units of value (theory: groups).

    q* = model + (one number per group and action) + what varies inside a group. The allowance bounds the last part; nothing
    else is assumed, and bondic chooses none: without a stated allowance the interval is the value range, and `result.curve`
    shows what every allowance would give, on one event. Model and groups come from the first rows; bad ones make the curve
    long, never wrong.

    Parameters
    ----------
    allowance : Allowance, float or (float, float), default None
        What you state: inside a group averages of the model's error differ by at most the first number, single values by at
        most the second; one number states both. None: nothing is stated.
    model : callable, default None
        Your own q(states, actions) -> values. None: fitted Q evaluation on the pilot.
    groups : callable or str, default None
        Your own groups: a function of states that returns a label for each, or the name of a column, each of whose values is a
        group (of numbers that hardly repeat, a tree on that column alone makes groups). None: leaves of a tree.
    count : int, default None
        How many groups the tree has. None: the number with the shortest interval, as rows of the pilot predict it that
        model and groups have not seen.
    side : {"both", "lower", "upper"}, default "both"
        Which ends to compute; the other one is that of the value range.
    pilot : float or int, default 0.2
        Rows set aside at the beginning, a share below 1 or a number.
    planned_rows : int, default None
        The number of rows that was planned, where the log may have stopped earlier or later.
    """

    allowance: Allowance | float | tuple[float, float] | None = None
    model: Callable[[Any, Any], Any] | None = None
    groups: Callable[[Any], Any] | str | None = None
    count: int | None = None
    side: Side = "both"
    pilot: float | int = PILOT
    planned_rows: int | None = None
    name: ClassVar[str] = NAME

    @property
    def assumes(self) -> Literal["nothing", "stated"]:
        return "nothing" if self.allowance is None else "stated"

    def applies(self, problem: Rows) -> str | None:
        """Always: any group is as valid as any other."""
        del problem
        return None

    def __post_init__(self) -> None:
        ends_of(self.side)
        if self.allowance is not None:
            object.__setattr__(self, "allowance", Allowance.of(self.allowance))
        if self.count is not None and self.count < 1:
            raise InvalidInput(f"count={self.count}: there is at least one group.")
        if self.count is not None and self.groups is not None:
            raise InvalidInput("groups= has its own number of groups: leave count= out.")

    def run(self, problem: Rows, alpha: float, progress: Progress | None, against: Rows | None = None) -> Result:
        """The value of the policy; with `against`, how far it exceeds that of another one on the same rows."""
        clock, problem = Clock(progress), problem if against is None else PairedRows.of(problem, against)
        clock.stage("pilot")
        pilot = self.pilot_of(problem)
        fitted = self.fit(problem, pilot, alpha, clock.stage)
        clock.done("pilot")
        clock.stage("plan")
        proof = self.prove(problem, pilot, fitted, alpha)
        certified = problem.select(pilot.rows.stop)
        marks = fitted.marks(pilot) if isinstance(fitted, FittedPair) else marks_of(fitted, pilot)
        curve = AllowanceCurve(proof, certified, _words(fitted, problem), marks, fitted.name, fitted)
        question = certified.policies()
        clock.done("plan")
        clock.stage("evaluate")
        if self.allowance is not None:
            proof = curve.stated(Allowance.of(self.allowance), first=True)
        result = Result.of(
            proof,
            question[0],
            against=question[1] if len(question) > 1 else None,
            method=NAME,
            claims=proof.claims_on(certified, curve.bound),
            choices=_notes(curve, fitted),
            effective=curve.bound.effective_rows(),
            planner=self._planner(problem),
        )
        clock.done("evaluate")
        return replace(result, curve=curve, seconds=clock.seconds)

    def pilot_of(self, problem: Rows) -> Rows:
        return pilot_of(problem, self.pilot, planned_length(problem, self.planned_rows))

    def fit(self, problem: Rows, pilot: Rows, alpha: float, report: Callable[[str], object]) -> AnyFitted:
        """Model and groups from the pilot: the same for one end as for both, as an allowance is about these groups."""
        both = replace(self, side="both")
        if isinstance(pilot, PairedRows):
            first, held_out = split_pilot(pilot)
            length = both._predictor(problem, pilot, alpha, NOTHING_ALLOWED)
            cuts = self._cut(problem, self._pair(problem, first, alpha, lambda _: None))
            clip = min(cuts, key=lambda fitted: length(fitted, held_out)).clip
            return replace(self._pair(problem, pilot, alpha, report), clip=clip)
        length = both._predictor(problem, pilot, alpha, NOTHING_ALLOWED)
        return fit_groups(pilot, self.model, self.groups, self.count, length, report)

    def _pair(self, problem: Rows, pilot: Rows, alpha: float, report: Callable[[str], object]) -> FittedPair:
        both = replace(self, side="both")
        length = both._predictor(answered_by(problem, 0), answered_by(pilot, 0), alpha, NOTHING_ALLOWED)
        return fit_pair(pilot, self.groups, self.count, length, report)

    @staticmethod
    def _cut(problem: Rows, fitted: FittedPair) -> list[FittedPair]:
        """Forecasts of differences cut at each of the places that are compared."""
        width = range_at_all_times(problem.terms).width
        return [replace(fitted, clip=clip * width) for clip in CLIPS]

    def differs(self, problem: Rows, other: Rows, alpha: float) -> bool:
        """Whether one event for the difference promises a shorter interval than one for each policy at half of alpha.

        With part of the rows to come alone, as for tables. Without a stated allowance the curve is that of the difference.
        """
        apart = any(not one.answers.exact or one.policy_in_log for one in (problem, other))
        if apart or self.model is not None or not problem.layout.discrete:
            return False
        pair = PairedRows.of(problem, other)
        pilot = self.pilot_of(pair)
        first, held_out = split_pilot(pilot)
        try:
            fitted = self._pair(pair, first, alpha, lambda _: None)
        except InvalidInput:  # too many groups for pairs of actions
            return False
        if self.allowance is None:
            return True
        allowance, single = Allowance.of(self.allowance), 0.0
        together = self._predictor(pair, pilot, alpha, allowance, CAREFUL)
        for place, fit in enumerate((fitted.first, fitted.second)):
            rows, early = answered_by(pair, place), answered_by(pilot, place)
            length = self._predictor(rows, early, 0.5 * alpha, allowance, CAREFUL)
            single += length(fit, answered_by(held_out, place))
        return min(together(one, held_out) for one in self._cut(pair, fitted)) < single

    def predicted_length(self, problem: Rows, alpha: float) -> float:
        """The length of the interval, in units of value, from the pilot alone; that of the range without a stated allowance."""
        if self.allowance is None:
            return range_of(problem.terms).width
        pilot = self.pilot_of(problem)
        first, held_out = split_pilot(pilot)
        fitted = self.fit(problem, first, alpha, lambda _: None)
        return self._predictor(problem, pilot, alpha, Allowance.of(self.allowance))(fitted, held_out)

    def _predictor(
        self, problem: Rows, pilot: Rows, alpha: float, allowance: Allowance, share: float = 1.0
    ) -> Callable[[AnyFitted, Rows], float]:
        budget, ahead = self.budget(problem, alpha), planned_length(problem, self.planned_rows) - len(pilot.rows)
        ahead = math.ceil(share * ahead)
        starts = expected_starts(problem, pilot, ahead)

        def length(fitted: AnyFitted, held_out: Rows) -> float:
            cells = fitted.cells(held_out)
            return predicted_groups(held_out, cells, budget, self.side, ahead, starts, allowance)

        return length

    def prove(
        self,
        problem: Rows,
        pilot: Rows,
        fitted: AnyFitted,
        alpha: float,
        before: Callable[[int], Rows] | None = None,
    ) -> CellsProof:
        """The proof without an allowance: nothing beyond the value range is claimed by it."""
        cells, budget = fitted.cells(problem), self.budget(problem, alpha)
        planned = planned_length(problem, self.planned_rows)
        events = propose_groups_plan(problem, pilot, cells, budget, self.side, planned, before)
        estimand = estimand_of(*problem.select(pilot.rows.stop).policies())
        return CellsProof(estimand, budget, self.side, cells.after(pilot), events, planned=self.planned_rows)

    def _planner(self, problem: Rows) -> dict[str, Any] | None:
        """None where a function of the user has a part in the plan."""
        if self.model is not None or callable(self.groups):
            return None
        how = GroupPlanner(self.groups, self.count, self.side, self.pilot, self.planned_rows)
        return describe(NAME, how, problem)

    def budget(self, problem: Rows, alpha: float) -> ErrorBudget:
        """alpha over the vector event, the test of the allowance, the ends, and sampled starts; no test of two allowances."""
        left_out = TEST if isinstance(problem, PairedRows) else ""
        return cell_budget(problem, alpha, {k: v for k, v in _SHARES.items() if k != left_out}, self.side)


@dataclass(frozen=True)
class GroupPlanner:
    """How groups were planned, as plain data: what a replay needs."""

    column: str | None = None  # the name of the column whose values are groups
    count: int | None = None
    side: Side = "both"
    pilot: float | int = PILOT
    planned_rows: int | None = None
    name: ClassVar[str] = NAME

    def replan(
        self, prefixes: Prefixes, proof: Proof, sums: Sums, against: Prefixes | None = None
    ) -> tuple[Proof, tuple[str, ...]]:
        """Model and groups from the pilot, every block from the rows before it."""
        del sums
        if against is not None:
            prefixes = Prefixes(PairedRows.of(prefixes.problem, against.problem))
        proof = check_proof(proof, CellsProof, NAME)
        method = Groups(
            groups=self.column, count=self.count, side=self.side, pilot=self.pilot, planned_rows=self.planned_rows
        )
        problem, alpha = prefixes.problem, proof.budget.alpha
        pilot = replayed_pilot(prefixes, proof, method.pilot_of)
        fitted = method.fit(problem, pilot, alpha, lambda _: None)
        made = method.prove(problem, pilot, fitted, alpha, prefixes.before)
        events = replace(made.events, reference=proof.events.reference)
        return replace(
            made, estimand=proof.estimand, events=events, allowance=proof.allowance, stated_first=proof.stated_first
        ), ("plan",)


def _words(fitted: AnyFitted, problem: Rows) -> tuple[str, ...]:
    """Every group in words, with the names of the columns."""
    layout = problem.layout
    names = list(problem.names) or [f"state[{k}]" for k in range(layout.observation_dim)]
    names += ["time"] * int(layout.has_time)
    names += [] if layout.discrete else [f"action[{k}]" for k in range(layout.action_dim)]
    return fitted.groups.describe(names)


def _notes(curve: AllowanceCurve, fitted: AnyFitted) -> dict[str, str]:
    first = curve.rows.rows.start
    return {
        "pilot": f"rows before {first} are used for model and groups, {curve.rows.rows} are certified",
        "model": "your own" if fitted.name == "yours" else f"fitted Q evaluation ({fitted.name})",
        "groups": f"{fitted.groups.count} groups of states, {fitted.groups.n_cells} with actions",
    }
