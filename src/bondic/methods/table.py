"""States that are names, one cell for every state and action: nothing is assumed, and noise costs what the log shows of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bondic.core.cells.allowance import NOTHING_ALLOWED
from bondic.core.cells.proof import SINGLE, CellsProof
from bondic.core.cells.rows import TableCells
from bondic.core.certificate.asked import Asked
from bondic.core.certificate.limits import refuse
from bondic.core.certificate.proof import Proof
from bondic.core.claims import ErrorBudget, Side, ends_of
from bondic.core.dual.bound import VALUE
from bondic.core.errors import InvalidInput
from bondic.core.sequential.ends import decided_by_rows
from bondic.core.sequential.proof import INITIAL, VECTOR, claims_of
from bondic.core.start import sampled_start
from bondic.core.sums.forms import Sums
from bondic.methods.clock import Clock, Progress
from bondic.methods.described import describe
from bondic.methods.listed import listing_options
from bondic.methods.on_cells import CellProposal
from bondic.methods.on_tables import predicted_table, propose_table
from bondic.methods.setting import tuning_problem
from bondic.methods.states import states_of
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.prefix import Prefixes
from bondic.tuning.pilot import SMALLEST_PILOT

NAME = "table"
PILOT = 0.05
_SHARES = ((0.15, 0.1), (0.1, 0.02), (0.02, 0.02))
"""Shares of alpha of the vector event and of those of single cells: the pilot tells which promises the shortest interval."""
_STARTS = 0.1
"""That of sampled starts."""
_MOST_NUMBERS = 20_000_000
"""States times pairs: larger equations do not fit into memory."""


@dataclass(frozen=True, eq=False)
class PlannedTable:
    """Cells and events for a problem."""

    pilot: Rows
    cells: TableCells
    budget: ErrorBudget
    proposal: CellProposal


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
    """

    side: Side = "both"
    pilot: float | int = PILOT
    planned_rows: int | None = None

    def __post_init__(self) -> None:
        ends_of(self.side)

    def plan(self, problem: Rows, alpha: float) -> PlannedTable:
        """Everything that is fixed before the rows it is used on; InvalidInput where there is no table."""
        return self._plan(problem, self._pilot(problem), alpha)

    def predicted(self, problem: Rows, alpha: float) -> float:
        """The length of the interval, from the pilot alone; inf where it has no table."""
        if not problem.layout.discrete:
            return math.inf
        try:
            pilot = self._pilot(problem)
            return self._promised(problem, pilot, alpha)[0]
        except InvalidInput:  # no pilot, or several answers of the policy at one state
            return math.inf

    def predicted_after(self, pilot: Rows, rows: int, alpha: float) -> float:
        """The length of the interval if so many rows like those of the pilot follow it."""
        return replace(self, planned_rows=len(pilot.rows) + rows)._promised(pilot, pilot, alpha)[0]

    @staticmethod
    def _most_states(problem: Rows) -> int:
        return int(math.sqrt(_MOST_NUMBERS / problem.layout.slots))

    def _plan(
        self, problem: Rows, pilot: Rows, alpha: float, before: Callable[[int], Rows] | None = None
    ) -> PlannedTable:
        if not problem.layout.discrete:
            raise InvalidInput("Actions are numbers: there is no table of states and actions. Use method=Groups().")
        most = self._most_states(problem)
        states = states_of(problem, most)
        if states is None:
            raise InvalidInput(
                f"There are more than {most} states, too many for equations on all of them. If they are numbers, not names, use "
                "method=Groups() (--method groups)."
            )
        cells, (_, budget) = TableCells(states), self._promised(problem, pilot, alpha)
        proposal = propose_table(problem, pilot, cells, budget, self.side, self._planned(problem), before)
        return PlannedTable(pilot, cells, budget, proposal)

    def run(self, problem: Rows, alpha: float, progress: Progress | None) -> Result:
        clock = Clock(progress)
        clock.stage("plan")
        made = self.plan(problem, alpha)
        clock.done("plan")
        clock.stage("evaluate")
        certified = problem.select(made.pilot.rows.stop)
        proof = self._proof(Asked.of(certified), made)
        found = proof.evaluate(certified, proof.bound(certified), NOTHING_ALLOWED)
        carrying = {claim.end: claim[VALUE].mid for claim in found.claims if decided_by_rows(claim)}
        clock.done("evaluate")
        notes = {
            "pilot": f"rows before {certified.rows.start} tune, {certified.rows} are certified",
            "states": f"{made.cells.states.shape[0]} states are a table",
        }
        if carrying:
            notes["estimate"] = f"doubly robust, by the weights of the {' and '.join(carrying)} end"
        return Result.of(
            proof,
            certified,
            method=NAME,
            estimate=sum(carrying.values()) / len(carrying) if carrying else math.nan,
            claims=claims_of(found, made.budget),
            choices=notes,
            effective=found.effective,
            seconds=clock.seconds,
            planner=describe(NAME, self, problem),
        )

    def _proof(self, asked: Asked, made: PlannedTable) -> CellsProof:
        return CellsProof(asked, made.budget, self.side, made.cells, made.proposal.events, planned=self.planned_rows)

    def replan(self, prefixes: Prefixes, proof: Proof, sums: Sums) -> tuple[Proof, tuple[str, ...]]:
        """Every block from the rows before it."""
        del sums
        refuse(not isinstance(proof, CellsProof), f"The proof is not one of the method {NAME}.")
        assert isinstance(proof, CellsProof)
        pilot = replayed_pilot(prefixes, proof, self._pilot)
        made = self._plan(prefixes.problem, pilot, proof.budget.alpha, prefixes.before)
        again = self._proof(proof.asked, made)
        # the reference and Λ may come from anywhere
        tails = {end: replace(tail, rate=proof.events.tails[end].rate) for end, tail in again.events.tails.items()}
        events = replace(again.events, reference=proof.events.reference, tails=tails)
        return replace(again, events=events), ("plan",)

    def _promised(self, problem: Rows, pilot: Rows, alpha: float) -> tuple[float, ErrorBudget]:
        """The shortest length that the pilot predicts, and how alpha is divided for it."""
        states = states_of(pilot, self._most_states(problem))
        if states is None:
            return math.inf, self.budget(problem, alpha, _SHARES[0])
        ahead, cells = self._planned(problem) - len(pilot.rows), TableCells(states)
        found = [self.budget(problem, alpha, shares) for shares in _SHARES]
        lengths = [predicted_table(pilot, cells, budget, self.side, ahead) for budget in found]
        best = int(np.argmin(lengths))
        return lengths[best], found[best]

    def budget(self, problem: Rows, alpha: float, shares: tuple[float, float]) -> ErrorBudget:
        """alpha over the vector event, those of single cells, the ends, and sampled starts."""
        own = {VECTOR: shares[0], SINGLE: shares[1], INITIAL: _STARTS}
        return cell_budget(problem, alpha, own, self.side)

    def _planned(self, problem: Rows) -> int:
        return len(problem.rows) if self.planned_rows is None else self.planned_rows

    def _pilot(self, problem: Rows) -> Rows:
        return pilot_of(problem, self.pilot, self._planned(problem))


def cell_budget(problem: Rows, alpha: float, shares: dict[str, float], side: Side) -> ErrorBudget:
    """alpha in these shares, that of the starts only where they are a sample, and the rest over the ends."""
    ends = ends_of(side)
    sampled = sampled_start(problem, len(ends)) is not None
    own = {name: share for name, share in shares.items() if name != INITIAL or sampled}
    return ErrorBudget.split(alpha, own | dict.fromkeys(ends, (1 - sum(own.values())) / len(ends)))


def pilot_of(problem: Rows, pilot: float | int, planned: int) -> Rows:
    """The rows that are set aside, as a problem of their own."""
    wanted = math.ceil(pilot * planned) if isinstance(pilot, float) else int(pilot)
    found = tuning_problem(problem, wanted) if 0 < wanted < len(problem.rows) else None
    if found is None:
        raise InvalidInput(
            f"A pilot is needed, of at least {SMALLEST_PILOT} usable rows and fewer than all: {wanted} of {len(problem.rows)} "
            "rows cannot be set aside for one. Pass pilot= as another share of the rows, or a number."
        )
    return found


def replayed_pilot(prefixes: Prefixes, proof: CellsProof, pilot: Callable[[Rows], Rows]) -> Rows:
    """The pilot from the rows before the certified ones alone."""
    first = proof.asked.rows[0]
    refuse(first == prefixes.problem.rows.start, "No rows were set aside for a pilot.")
    begin = pilot(prefixes.problem).rows.stop
    refuse(begin != first, f"Rows from {begin} on follow the pilot, not {first}.")
    known = prefixes.before(first)
    found = tuning_problem(known, len(known.rows))
    refuse(found is None, "The pilot has no row that counts.")
    assert found is not None
    return found
