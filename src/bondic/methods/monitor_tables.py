"""A table that is followed while its log grows: the plan of every update continues that of the update before.

Blocks end at rows that the planned number decides, and everything about a block comes from the rows before it, so the plan of
more rows is the plan of fewer rows and further blocks. Floats could still differ in their last digits where more states are
known: what was used on rows stays as it was written then, with weight 0 for pairs that were not known yet.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bondic.core.cells.localize import CellTails
from bondic.core.cells.proof import CellPlan, CellsProof
from bondic.core.cells.rows import TableCells
from bondic.methods.clock import Clock
from bondic.methods.table import PlannedTable, Table
from bondic.result import Result
from bondic.rows import Rows

FloatArray = npt.NDArray[np.float64]


def follow_table(table: Table, problem: Rows, alpha: float, before: CellsProof | None, clock: Clock) -> Result | None:
    """The interval of all rows so far; None while no episode has begun after the pilot, where starts are the log's."""
    clock.stage("plan")
    known = before.cells.states if before is not None and isinstance(before.cells, TableCells) else None
    made = table.plan(problem, alpha, known)
    if before is not None:
        made = _continued(before, made)
    clock.done("plan")
    if problem.initial_states.from_rows and made.events.start is None:
        return None
    return table.evaluate(problem, made, clock)


def _continued(before: CellsProof, made: PlannedTable) -> PlannedTable:
    """The new plan with everything that the earlier one has used on rows."""
    old, new = before.events, made.events
    begins = (before.asked.rows[0], *old.stops[:-1])
    used = sum(begin < before.asked.rows[1] for begin in begins)
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
    return replace(made, budget=before.budget, events=_checked(old, events))


def _checked(old: CellPlan, new: CellPlan) -> CellPlan:
    assert old.stops[:-1] == new.stops[: len(old.stops) - 1]  # blocks are those of the planned number of rows
    return new


def _kept(old: FloatArray, new: FloatArray, blocks: int) -> FloatArray:
    """The first blocks as they were, with zeros for cells that were not known."""
    found = new.copy()
    found[:blocks] = 0.0
    found[:blocks, : old.shape[1]] = old[:blocks]
    return found


def _longer(old: FloatArray, new: FloatArray) -> FloatArray:
    return np.concatenate([old, new[old.size :]])
