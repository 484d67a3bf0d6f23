"""States that are names, one cell for every state and action: nothing is assumed, and noise costs what the log shows of it.

While a log grows, the plan of every update continues that of the update before: blocks end at rows that the planned number
decides, and everything about a block comes from the rows before it. Floats could still differ in their last digits where more
states are known: what was used on rows stays as it was written then, with weight 0 for pairs that were not known yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from bondic.core.cells.allowance import NOTHING_ALLOWED
from bondic.core.cells.localize import CellTails
from bondic.core.cells.paired import PairedCells
from bondic.core.cells.proof import SINGLE, CellPlan, CellsProof
from bondic.core.cells.rows import StateCells, TableCells
from bondic.core.cells.system import MAX_TOGETHER
from bondic.core.claims import ErrorBudget, Side, ends_of
from bondic.core.errors import InvalidInput, NoTable
from bondic.core.proof import Estimand, Proof
from bondic.core.sequential.proof import INITIAL, VECTOR, claims_of
from bondic.core.sums.forms import Sums
from bondic.core.terms import range_at_all_times
from bondic.methods.base import Clock, Progress, check_proof, describe, estimate_of, listing_options, planned_length
from bondic.methods.on_cells import CAREFUL, CLIPS, cell_budget, expected_starts, pilot_of, replayed_pilot
from bondic.methods.on_tables import PredictedTable, predicted_table, propose_table, states_of
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.coded import coded
from bondic.rows.estimand import estimand_of
from bondic.rows.paired import PairedRows
from bondic.rows.prefix import Prefixes

FloatArray = npt.NDArray[np.float64]

NAME = "table"
PILOT = 0.05
_SHARES = ((0.15, 0.1), (0.1, 0.02), (0.02, 0.02))
"""Shares of alpha of the vector event and of those of single cells: chosen on the pilot by the shortest predicted interval."""
_STARTS = 0.1
"""That of sampled starts."""
_MAX_NUMBERS = 20_000_000
"""States times pairs: larger equations do not fit into memory."""


@dataclass(frozen=True, eq=False)
class PlannedTable:
    """Cells and events for a problem."""

    pilot: Rows
    cells: StateCells
    budget: ErrorBudget
    events: CellPlan


@listing_options
@dataclass(frozen=True)
class Table:
    """The interval of a finite table of states and actions (theory: groups, with one cell per pair). Nothing is assumed about q*.

    Rows are used in their order: a pilot, then blocks whose weights come from the rows before them.

    Parameters
    ----------
    side : {"both", "lower", "upper"}, default "both"
        Which ends to compute; the other one is that of the value range.
    pilot : float or int, default 0.05
        Rows set aside at the beginning, a share below 1 or a number. They are not certified.
    planned_rows : int, default None
        The number of rows that was planned, where the log may have stopped earlier or later.
    fewest_rows : int, default 1
        Pairs of state and action that fewer rows have shown before a block carry no weight in it: 5 for a certificate that
        shows no single row (`Result.without_rows`).
    """

    side: Side = "both"
    pilot: float | int = PILOT
    planned_rows: int | None = None
    fewest_rows: int = 1
    name: ClassVar[str] = NAME
    assumes: ClassVar[Literal["nothing"]] = "nothing"

    def __post_init__(self) -> None:
        ends_of(self.side)
        if self.fewest_rows < 1:
            raise InvalidInput(f"fewest_rows={self.fewest_rows}: at least one row has to show a pair.")

    def plan(self, problem: Rows, alpha: float, known: FloatArray | None = None) -> PlannedTable:
        """Everything that is fixed before the rows it is used on; InvalidInput where there is no table.

        `known`: states that come first, those of an earlier plan for the beginning of this log.
        """
        return self._plan(problem, self._pilot(problem), alpha, known=known)

    def applies(self, problem: Rows) -> str | None:
        """None, or why there is no table; whether states are names is for others to say."""
        if not problem.layout.discrete:
            return "actions are numbers, and a table has one cell for every state and action"
        if problem.policy_in_log:
            return "the policy is known by the log's own columns, and a table needs its probabilities at next states"
        exact = problem.answers.exact
        return None if exact else "the policy is known by drawn actions, and a table needs its probabilities"

    def predicted_length(self, problem: Rows, alpha: float, rows: int | None = None) -> float:
        """The length of the interval, in units of value, from the pilot alone; inf where it has no table.

        `rows`: the whole problem is the pilot, and so many rows like it follow.
        """
        if self.applies(problem):
            return math.inf
        try:
            pilot = self._pilot(problem) if rows is None else problem
            ahead = planned_length(problem, self.planned_rows) - len(pilot.rows) if rows is None else rows
            found, *_ = self._predicted(pilot, alpha, ahead, problem)
        except InvalidInput:  # no pilot, or several answers of the policy at one state
            return math.inf
        return math.inf if found is None else found.length

    def differs(self, problem: Rows, other: Rows, alpha: float) -> bool:
        """Whether the predicted interval of a table of the difference is shorter than one for each policy at half of alpha.

        With part of the rows to come alone: bets on differences suffer more where cells come less often than the pilot says.
        """
        if self.applies(problem) or self.applies(other):
            return False
        pair = PairedRows.of(problem, other)
        pilot = self._pilot(pair)
        states = states_of(pilot, self._most_states(problem))
        if states is None or 4 * states.shape[0] ** 2 * problem.layout.slots > MAX_TOGETHER:
            return False  # cells one by one know nothing of what both policies have in common
        ahead = int(CAREFUL * (planned_length(problem, self.planned_rows) - len(pilot.rows)))

        def length(rows: Rows, level: float) -> float:
            found, *_ = self._predicted(self._pilot(rows), level, ahead, rows)
            return math.inf if found is None else found.length

        return length(pair, alpha) < sum(length(one, 0.5 * alpha) for one in (problem, other))

    @staticmethod
    def _most_states(problem: Rows) -> int:
        return int(math.sqrt(_MAX_NUMBERS / problem.layout.slots))

    def _plan(
        self,
        problem: Rows,
        pilot: Rows,
        alpha: float,
        before: Callable[[int], Rows] | None = None,
        known: FloatArray | None = None,
    ) -> PlannedTable:
        if not problem.layout.discrete:
            raise InvalidInput("Actions are numbers: there is no table of states and actions. Use method=Groups().")
        most = self._most_states(problem)
        states = states_of(problem, most, known)
        if states is None:
            raise NoTable(
                f"There are more than {most} states, too many for equations on all of them. If they are numbers, not names, use "
                "method=Groups() (--method groups)."
            )
        ahead = planned_length(problem, self.planned_rows) - len(pilot.rows)
        _, budget, share = self._predicted(pilot, alpha, ahead, problem)
        cells = _cells(problem, states, share)
        events = propose_table(
            problem,
            pilot,
            cells,
            budget,
            self.side,
            planned_length(problem, self.planned_rows),
            before,
            self.fewest_rows,
        )
        return PlannedTable(pilot, cells, budget, events)

    def run(self, problem: Rows, alpha: float, progress: Progress | None, against: Rows | None = None) -> Result:
        """The value of the policy; with `against`, how far it exceeds that of another one on the same rows."""
        clock, rows = Clock(progress), problem if against is None else PairedRows.of(problem, against)
        clock.stage("plan")
        rows = coded(rows, self._most_states(problem))
        made = self.plan(rows, alpha)
        clock.done("plan")
        return self.evaluate(rows, made, clock, describe(NAME, self, problem))

    def follow(self, problem: Rows, alpha: float, before: CellsProof | None, clock: Clock) -> Result | None:
        """The interval of a log that grows, from the proof of the update before; None while no start follows the pilot."""
        clock.stage("plan")
        known = before.cells.states if before is not None and isinstance(before.cells, StateCells) else None
        made = self.plan(problem, alpha, known)
        made = made if before is None else _continued(before, made)
        clock.done("plan")
        states = problem.initial_states
        unknown = states.kind == "sample" and states.from_rows and made.events.start is None
        return None if unknown else self.evaluate(problem, made, clock)

    def evaluate(
        self, problem: Rows, made: PlannedTable, clock: Clock, planner: dict[str, Any] | None = None
    ) -> Result:
        """The interval of a plan on the rows after its pilot; `planner` says how it was made."""
        clock.stage("evaluate")
        certified = problem.select(made.pilot.rows.stop)
        question = certified.policies()
        proof = self._proof(estimand_of(*question), made)
        found = proof.evaluate(certified, proof.bound(certified), NOTHING_ALLOWED)
        estimate, source = estimate_of(found.claims)
        clock.done("evaluate")
        notes = {
            "pilot": f"rows before {certified.rows.start} tune, {certified.rows} are certified",
            "states": f"{made.cells.states.shape[0]} states are a table",
            **source,
        }
        return Result.of(
            proof,
            question[0],
            against=question[1] if len(question) > 1 else None,
            method=NAME,
            estimate=estimate,
            claims=claims_of(found, made.budget),
            choices=notes,
            effective=found.effective,
            seconds=clock.seconds,
            planner=planner,
        )

    def _proof(self, estimand: Estimand, made: PlannedTable) -> CellsProof:
        return CellsProof(estimand, made.budget, self.side, made.cells, made.events, planned=self.planned_rows)

    def replan(
        self, prefixes: Prefixes, proof: Proof, sums: Sums, against: Prefixes | None = None
    ) -> tuple[Proof, tuple[str, ...]]:
        """Every block from the rows before it."""
        del sums
        if against is not None:
            prefixes = Prefixes(PairedRows.of(prefixes.problem, against.problem))
        proof = check_proof(proof, CellsProof, NAME)
        pilot = replayed_pilot(prefixes, proof, self._pilot)
        made = self._plan(prefixes.problem, pilot, proof.budget.alpha, prefixes.before)
        again = self._proof(proof.estimand, made)
        # the reference and Λ may come from anywhere
        tails = {end: replace(tail, rate=proof.events.tails[end].rate) for end, tail in again.events.tails.items()}
        events = replace(again.events, reference=proof.events.reference, tails=tails)
        return replace(again, events=events), ("plan",)

    def _predicted(
        self, pilot: Rows, alpha: float, ahead: int, problem: Rows
    ) -> tuple[PredictedTable | None, ErrorBudget, float]:
        """The shortest interval that the pilot predicts, and how alpha is divided for it; the starts are those of the problem.

        The last number says where forecasts of differences are cut. None where the pilot has no table.
        """
        states, clips = (
            states_of(pilot, self._most_states(problem)),
            CLIPS[: 2 if isinstance(problem, PairedRows) else 1],
        )
        if states is None:
            return None, self.budget(problem, alpha, _SHARES[0]), clips[0]
        starts, found = expected_starts(problem, pilot, ahead), []
        for budget in (self.budget(problem, alpha, shares) for shares in _SHARES):
            for clip in clips:
                cells = _cells(problem, states, clip)
                found.append((predicted_table(pilot, cells, budget, self.side, ahead, starts), budget, clip))
        return min(found, key=lambda one: one[0].half)

    def budget(self, problem: Rows, alpha: float, shares: tuple[float, float]) -> ErrorBudget:
        """alpha over the vector event, those of single cells, the ends, and sampled starts."""
        own = {VECTOR: shares[0], SINGLE: shares[1], INITIAL: _STARTS}
        return cell_budget(problem, alpha, own, self.side)

    def _pilot(self, problem: Rows) -> Rows:
        return pilot_of(problem, self.pilot, planned_length(problem, self.planned_rows))


def _cells(problem: Rows, states: FloatArray, share: float) -> StateCells:
    width = range_at_all_times(problem.terms).width
    return PairedCells(states, share * width) if isinstance(problem, PairedRows) else TableCells(states)


def _continued(before: CellsProof, made: PlannedTable) -> PlannedTable:
    """The new plan with everything that the earlier one has used on rows."""
    old, new = before.events, made.events
    begins = (before.estimand.rows[0], *old.stops[:-1])
    used = sum(begin < before.estimand.rows[1] for begin in begins)
    tails = {
        end: replace(tail, weights=_kept(old.tails[end].weights, tail.weights, used)) for end, tail in new.tails.items()
    }
    assert old.past is not None
    assert new.past is not None
    assert old.quotas is not None
    assert new.quotas is not None
    events = replace(
        new,
        vector=replace(old.vector, shape=_longer(old.vector.shape, new.vector.shape)),
        cells=CellTails(_kept(old.cells.rates, np.zeros_like(new.cells.rates), len(old.cells.rates))),
        tails=tails,
        start=new.start if old.start is None else old.start,
        quotas=_kept(old.quotas, new.quotas, used),
        past=replace(
            old.past,
            count=_longer(old.past.count, new.past.count),
            outcome=_longer(old.past.outcome, new.past.outcome),
        ),
        eras=old.eras,
    )
    assert old.stops[:-1] == new.stops[: len(old.stops) - 1]  # blocks are those of the planned number of rows
    return replace(made, budget=before.budget, events=events)


def _kept(old: FloatArray, new: FloatArray, blocks: int) -> FloatArray:
    """The first blocks as they were, with zeros for cells that were not known."""
    found = new.copy()
    found[:blocks] = 0.0
    found[:blocks, : old.shape[1]] = old[:blocks]
    return found


def _longer(old: FloatArray, new: FloatArray) -> FloatArray:
    return np.concatenate([old, new[old.size :]])
