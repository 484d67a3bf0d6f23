"""States that are numbers: a model, groups and a stated allowance; without a statement the value range, and a curve beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bondic.bounds.start import sampled_start
from bondic.claims import ErrorBudget, Side, ends_of
from bondic.core.allowance import Allowance
from bondic.curve import AllowanceCurve
from bondic.errors import InvalidInput
from bondic.methods.clock import Clock, Progress
from bondic.methods.group_cells import FittedGroups, fit_groups, marks_of
from bondic.methods.listed import listing_options
from bondic.methods.on_cells import GROUP_CUTS, propose_on_cells
from bondic.methods.setting import tuning_problem
from bondic.plan.cells import Costs
from bondic.proofs.asked import Asked
from bondic.proofs.cells import TEST, CellsProof
from bondic.proofs.sequential import INITIAL, VECTOR
from bondic.result import Result
from bondic.rows import Rows
from bondic.terms import largest_width

NAME = "groups"
PILOT = 0.2
"""Share of the rows for the model, the groups and the first weights."""
_SHARES = {VECTOR: 0.2, TEST: 0.05, INITIAL: 0.1}
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
        Your own groups: a function of states that returns a label for each, or the name of a column. None: leaves of a tree.
    count : int, default None
        How many groups the tree has. None: the number with the shortest predicted interval.
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
        curve, fitted = self._curve(problem, alpha, clock)
        clock.stage("evaluate")
        proof = curve.proof
        if self.allowance is not None:
            assert isinstance(self.allowance, Allowance)
            proof = curve.stated(self.allowance, first=True)
        evaluated = proof.claims(curve.rows) if proof.allowance is not None else None
        clock.done("evaluate")
        result = Result.of(
            proof,
            curve.rows,
            method=NAME,
            claims=evaluated,
            choices=_notes(curve, fitted),
            effective=curve.bound.effective_rows(),
            seconds=clock.seconds,
        )
        return replace(result, curve=curve)

    def _curve(self, problem: Rows, alpha: float, clock: Clock) -> tuple[AllowanceCurve, FittedGroups]:
        planned = len(problem.rows) if self.planned_rows is None else self.planned_rows
        clock.stage("pilot")
        pilot = self._pilot(problem, planned)
        budget = self.budget(problem, alpha)
        ends = ends_of(self.side)
        costs = Costs(
            math.log(2 / budget[VECTOR]), math.log(1 / min(budget[end] for end in ends)), largest_width(problem.terms)
        )
        fitted = fit_groups(pilot, self.model, self.groups, self.count, costs, planned - len(pilot.rows), clock.stage)
        clock.done("pilot")
        clock.stage("plan")
        cells = fitted.cells(problem)
        proposal = propose_on_cells(problem, pilot, cells, budget, self.side, planned, GROUP_CUTS)
        certified = problem.select(pilot.rows.stop)
        proof = CellsProof(
            Asked.of(certified), budget, self.side, cells.after(pilot), proposal.events, planned=self.planned_rows
        )
        clock.done("plan")
        return AllowanceCurve(proof, certified, _words(fitted, problem), marks_of(fitted, pilot), fitted.name), fitted

    def budget(self, problem: Rows, alpha: float) -> ErrorBudget:
        """alpha over the vector event, the test of the allowance, the ends, and sampled starts."""
        sampled = sampled_start(problem, len(ends_of(self.side))) is not None
        shares = {name: share for name, share in _SHARES.items() if name != INITIAL or sampled}
        rest = (1 - sum(shares.values())) / len(ends_of(self.side))
        return ErrorBudget.split(alpha, shares | dict.fromkeys(ends_of(self.side), rest))

    def _pilot(self, problem: Rows, planned: int) -> Rows:
        wanted = math.ceil(self.pilot * planned) if isinstance(self.pilot, float) else int(self.pilot)
        found = tuning_problem(problem, wanted) if 0 < wanted < len(problem.rows) else None
        if found is None:
            raise InvalidInput(
                f"Groups need a pilot, and {wanted} of {len(problem.rows)} rows cannot be set aside for one: pass pilot= as a "
                "share of the rows, or a number."
            )
        return found


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
        "model": f"fitted Q evaluation ({fitted.name})" if fitted.second is not None else "your own",
        "groups": f"{fitted.groups.count} groups of states, {fitted.groups.n_cells} with actions",
    }
