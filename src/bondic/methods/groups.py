"""States that are numbers: a model, groups and a stated allowance; without a statement the value range, and a curve beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from bondic.core.cells.allowance import Allowance
from bondic.core.cells.proof import SINGLE, TEST, CellsProof
from bondic.core.claims import ErrorBudget, Side, ends_of
from bondic.core.errors import InvalidInput, refuse
from bondic.core.proof import Proof
from bondic.core.sequential.proof import INITIAL, VECTOR
from bondic.core.sums.forms import Sums
from bondic.core.terms import range_of
from bondic.curve import METHOD as NAME
from bondic.curve import AllowanceCurve
from bondic.methods.clock import Clock, Progress
from bondic.methods.described import describe
from bondic.methods.group_cells import FittedGroups, fit_groups, marks_of, split_pilot
from bondic.methods.listed import listing_options
from bondic.methods.on_cells import cell_budget, expected_starts, pilot_of, replayed_pilot
from bondic.methods.on_groups import predicted_groups, propose_groups_plan
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.asked import asked_of
from bondic.rows.prefix import Prefixes

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

    def run(self, problem: Rows, alpha: float, progress: Progress | None) -> Result:
        clock = Clock(progress)
        clock.stage("pilot")
        pilot = self.pilot_of(problem)
        fitted = self.fit(problem, pilot, alpha, clock.stage)
        clock.done("pilot")
        clock.stage("plan")
        proof = self.prove(problem, pilot, fitted, alpha)
        certified = problem.select(pilot.rows.stop)
        curve = AllowanceCurve(proof, certified, _words(fitted, problem), marks_of(fitted, pilot), fitted.name, fitted)
        clock.done("plan")
        clock.stage("evaluate")
        if self.allowance is not None:
            proof = curve.stated(Allowance.of(self.allowance), first=True)
        result = Result.of(
            proof,
            certified,
            method=NAME,
            claims=proof.claims_on(certified, curve.bound),
            choices=_notes(curve, fitted),
            effective=curve.bound.effective_rows(),
            planner=self._planner(problem),
        )
        clock.done("evaluate")
        return replace(result, curve=curve, seconds=clock.seconds)

    def pilot_of(self, problem: Rows) -> Rows:
        return pilot_of(problem, self.pilot, self._planned(problem))

    def fit(self, problem: Rows, pilot: Rows, alpha: float, report: Callable[[str], object]) -> FittedGroups:
        """Model and groups from the pilot."""
        length = self._predictor(problem, pilot, alpha, Allowance(0.0))
        return fit_groups(pilot, self.model, self.groups, self.count, length, report)

    def predicted_length(self, problem: Rows, alpha: float) -> float:
        """The length of the interval, in units of value, from the pilot alone; that of the range without a stated allowance."""
        if self.allowance is None:
            return range_of(problem.terms).width
        pilot = self.pilot_of(problem)
        first, held_out = split_pilot(pilot)
        fitted = self.fit(problem, first, alpha, lambda _: None)
        return self._predictor(problem, pilot, alpha, Allowance.of(self.allowance))(fitted, held_out)

    def _predictor(
        self, problem: Rows, pilot: Rows, alpha: float, allowance: Allowance
    ) -> Callable[[FittedGroups, Rows], float]:
        budget, ahead = self.budget(problem, alpha), self._planned(problem) - len(pilot.rows)
        starts = expected_starts(problem, pilot, ahead)

        def length(fitted: FittedGroups, held_out: Rows) -> float:
            return predicted_groups(held_out, fitted.cells(held_out), budget, self.side, ahead, starts, allowance)

        return length

    def prove(
        self,
        problem: Rows,
        pilot: Rows,
        fitted: FittedGroups,
        alpha: float,
        before: Callable[[int], Rows] | None = None,
    ) -> CellsProof:
        """The proof without an allowance: nothing beyond the value range is claimed by it."""
        cells, budget = fitted.cells(problem), self.budget(problem, alpha)
        planned = self._planned(problem)
        events = propose_groups_plan(problem, pilot, cells, budget, self.side, planned, before)
        asked = asked_of(problem.select(pilot.rows.stop))
        return CellsProof(asked, budget, self.side, cells.after(pilot), events, planned=self.planned_rows)

    def _planned(self, problem: Rows) -> int:
        return len(problem.rows) if self.planned_rows is None else self.planned_rows

    def _planner(self, problem: Rows) -> dict[str, Any] | None:
        """None where a function of the user has a part in the plan."""
        if self.model is not None or callable(self.groups):
            return None
        how = GroupPlanner(self.groups, self.count, self.side, self.pilot, self.planned_rows)
        return describe(NAME, how, problem)

    def budget(self, problem: Rows, alpha: float) -> ErrorBudget:
        """alpha over the vector event, the test of the allowance, the ends, and sampled starts."""
        return cell_budget(problem, alpha, _SHARES, self.side)


@dataclass(frozen=True)
class GroupPlanner:
    """How groups were planned, as plain data: what a replay needs."""

    column: str | None = None  # the name of the column whose values are groups
    count: int | None = None
    side: Side = "both"
    pilot: float | int = PILOT
    planned_rows: int | None = None

    def replan(self, prefixes: Prefixes, proof: Proof, sums: Sums) -> tuple[Proof, tuple[str, ...]]:
        """Model and groups from the pilot, every block from the rows before it."""
        del sums
        refuse(not isinstance(proof, CellsProof), f"The proof is not one of the method {NAME}.")
        assert isinstance(proof, CellsProof)
        method = Groups(
            groups=self.column, count=self.count, side=self.side, pilot=self.pilot, planned_rows=self.planned_rows
        )
        problem, alpha = prefixes.problem, proof.budget.alpha
        pilot = replayed_pilot(prefixes, proof, method.pilot_of)
        fitted = method.fit(problem, pilot, alpha, lambda _: None)
        made = method.prove(problem, pilot, fitted, alpha, prefixes.before)
        events = replace(made.events, reference=proof.events.reference)
        return replace(
            made, asked=proof.asked, events=events, allowance=proof.allowance, stated_first=proof.stated_first
        ), ("plan",)


def _words(fitted: FittedGroups, problem: Rows) -> tuple[str, ...]:
    """Every group in words, with the names of the columns."""
    layout = problem.layout
    names = list(problem.names) or [f"state[{k}]" for k in range(layout.observation_dim)]
    names += ["time"] * int(layout.has_time)
    names += [] if layout.discrete else [f"action[{k}]" for k in range(layout.action_dim)]
    return fitted.groups.describe(names)


def _notes(curve: AllowanceCurve, fitted: FittedGroups) -> dict[str, str]:
    first = curve.rows.rows.start
    return {
        "pilot": f"rows before {first} are used for model and groups, {curve.rows.rows} are certified",
        "model": "your own" if fitted.name == "yours" else f"fitted Q evaluation ({fitted.name})",
        "groups": f"{fitted.groups.count} groups of states, {fitted.groups.n_cells} with actions",
    }
