"""A certificate without single rows: for logs about people.

What is left out: the policy's answers row by row, and initial states that are a sample. Verification asks the policy
again and reads the initial states off the log (or is given them). What stays: kernels, ω as feature coordinates,
claims, and an exact list of initial states, which states the question and is nobody's row.

What cannot be withheld: landmark points, with which ω, a center of Q or a plan is written. A landmark that fewer than five
rows share *is* a row, and such a certificate is refused; W made of random features has none. So is a table's plan with a
block that has a model of a pair of which fewer than five rows came before it: the model of one row is its outcome. Numbers
made from many rows (bandwidths, centers of kernels, hashes) are not protected further: this is no differential privacy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from bondic.core.cells.proof import CellPlan
from bondic.core.cells.rows import GroupCells, StateIndex, TableCells
from bondic.core.classes.basis import LandmarkBasis
from bondic.core.codec import instances
from bondic.core.columns import Columns
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function
from bondic.core.proof import Proof
from bondic.core.sequential.table_plan import TableBlock, TablePlan, repeats

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FEWEST_ROWS = 5
"""A point that at least this many rows share says nothing about one of them."""


P = TypeVar("P", bound=Proof)


def withhold_rows(proof: P, rows: Columns) -> P:
    """The same proof with every single row left out.

    `rows` is the question that was answered, pilot rows included: what was tuned on them may be made of them.
    """
    if rows.log_hash != proof.asked.log_hash:
        raise InvalidInput("The certificate belongs to another log than the problem (content hashes differ).")
    if any(instances(proof, GroupCells)):
        raise InvalidInput(
            "Groups and a model are held row by row: a certificate of groups cannot do without single rows. Keep it, or state a "
            "kernel ball (ball=, radius=) with method=Dual()."
        )
    _refuse_landmarks_that_are_rows(proof, rows)
    for plan in instances(proof, TablePlan):
        _refuse_models_of_few_rows(plan, rows, proof.asked.rows[0])
    for plan, cells in zip(instances(proof, CellPlan), instances(proof, TableCells), strict=True):
        _refuse_cells_of_few_rows(plan, cells, rows, proof.asked.rows[0])
    return proof.without_rows()


def _refuse_landmarks_that_are_rows(proof: Proof, rows: Columns) -> None:
    points = [array for function in instances(proof, Function) for array in function.landmarks()]
    points += [basis.points for basis in instances(proof, LandmarkBasis)]
    points += [plan.states for plan in instances(proof, TablePlan)]
    points += [cells.states for cells in instances(proof, TableCells)]
    if not points:
        return
    centers = np.unique(np.concatenate(points), axis=0)
    shared = _rows_sharing(rows, centers, sampled=proof.asked.start.kind == "sample")
    alone = int(((shared > 0) & (shared < FEWEST_ROWS)).sum())
    if alone:
        raise InvalidInput(
            f"The proof is written with {centers.shape[0]} landmark points, and {alone} of them are states of fewer than "
            f"{FEWEST_ROWS} rows: the certificate would show rows. Use the dual method with a W of explicit features, for "
            "instance random features: Dual(choices=Choices(weight_bandwidth=1.0)) (--with weight_bandwidth=1)."
        )


def _refuse_models_of_few_rows(plan: TablePlan, rows: Columns, first: int) -> None:
    """`first` is the log's row where the first block begins."""
    batches = list(rows.batches())
    pairs = np.concatenate([plan.pairs(batch.logged, batch.slots) for batch in batches])
    log_rows = np.concatenate([batch.log_rows for batch in batches])
    last = (pairs >= 0) & (repeats(pairs) == FEWEST_ROWS - 1)
    enough = np.full(plan.places.size, log_rows[-1] + 1)  # the row with which there are enough of a pair
    enough[pairs[last]] = log_rows[last]
    few = [bool(np.any(enough[: block.weights.size] >= begin)) for block, begin in _begun(plan, first)]
    if any(few):
        raise InvalidInput(
            f"{sum(few)} of {len(few)} blocks of the plan have models of pairs that fewer than {FEWEST_ROWS} rows had shown: the "
            "certificate would show what followed in single rows. Use Sequential(coordinates=True), Default(no_rows=True), or a "
            "longer pilot."
        )


def _refuse_cells_of_few_rows(plan: CellPlan, cells: TableCells, rows: Columns, first: int) -> None:
    """Weights of a block are made of what followed each pair before it, and the reference of what followed in certified rows."""
    index, slots = StateIndex(cells.states), rows.layout.slots
    batches = list(rows.batches())
    pairs = np.concatenate([index.positions(batch.logged) * slots + batch.slots for batch in batches])
    log_rows = np.concatenate([batch.log_rows for batch in batches])

    def alone(used: npt.NDArray[np.bool_]) -> int:
        counts = np.bincount(pairs[used & (pairs >= 0)])
        return int(((counts > 0) & (counts < FEWEST_ROWS)).sum())

    few = max([alone(log_rows >= first), *(alone(log_rows < begin) for begin in (first, *plan.stops[:-1]))])
    if few:
        raise InvalidInput(
            f"Weights or values of {few} pairs of states and actions come from fewer than {FEWEST_ROWS} rows: the certificate "
            "would show what followed in single rows. Use Sequential(coordinates=True), Default(no_rows=True), or a longer pilot."
        )


def _begun(plan: TablePlan, first: int) -> Iterator[tuple[TableBlock, int]]:
    """Every block with the log's row where it begins."""
    return zip(plan.blocks, [first, *(block.stop for block in plan.blocks[:-1])], strict=True)


def _rows_sharing(rows: Columns, centers: FloatArray, *, sampled: bool) -> IntArray:
    """How many rows share each center: as the logged point or as a next one, whichever are more.

    Not their sum: the next state of a row is the logged state of the one after it, so one visit would count twice.
    Initial states that are draws are rows of their own.
    """
    logged, following = np.zeros((2, centers.shape[0]), dtype=np.int64)
    initial = np.zeros(centers.shape[0], dtype=np.int64)
    for part in rows.batches():
        logged += _occurrences(part.logged, np.arange(len(part)), centers)
        following += _occurrences(part.next.points, part.next.rows, centers)
        if sampled:
            initial = _occurrences(part.initial.points, part.initial.rows, centers)
    return np.maximum(np.maximum(logged, following), initial)


def _occurrences(points: FloatArray, rows: IntArray, centers: FloatArray) -> IntArray:
    """In how many rows a point equals each center; `rows[j]` is the row of point j."""
    if not points.shape[0]:
        return np.zeros(centers.shape[0], dtype=np.int64)
    _, group = np.unique(np.concatenate([points, centers]) + 0.0, axis=0, return_inverse=True)
    group = group.reshape(-1)
    once = np.unique(np.column_stack([group[: points.shape[0]], rows]), axis=0)
    counts = np.bincount(once[:, 0], minlength=int(group.max()) + 1)
    return np.asarray(counts[group[points.shape[0] :]], dtype=np.int64)
