"""A certificate without single rows: for logs about people.

What is left out: the policy's answers row by row, and initial states that are a sample. Verification asks the policy
again and reads the initial states off the log (or is given them). What stays: kernels, ω as feature coordinates,
claims, and an exact list of initial states, which is part of the problem and no row of the log.

What cannot be withheld: landmark points, with which ω, a center of Q or a plan is written. A landmark that fewer than five
rows share *is* a row, and such a certificate is refused; W made of random features has none. So is a table's plan with
weights made from fewer than five rows of a pair: those of one row tell its outcome. Numbers
made from many rows (bandwidths, centers of kernels, hashes) are not protected further: this is no differential privacy.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from bondic.core.cells.proof import CellPlan
from bondic.core.cells.rows import GroupCells, StateCells, StateIndex
from bondic.core.codec import instances
from bondic.core.columns import Columns
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function
from bondic.core.proof import Proof
from bondic.core.sequential.basis import LandmarkBasis

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MIN_ROWS = 5
"""A point that at least this many rows share says nothing about one of them."""


P = TypeVar("P", bound=Proof)


def withhold_rows(proof: P, rows: Columns) -> P:
    """The same proof with every single row left out.

    `rows` is the question that was answered, pilot rows included: what was tuned on them may be made of them.
    """
    if rows.log_hash != proof.estimand.log_hash:
        raise InvalidInput("The certificate belongs to another log than the problem (content hashes differ).")
    if any(instances(proof, GroupCells)):
        raise InvalidInput(
            "A certificate of groups stores groups and model row by row, so single rows cannot be withheld. Keep it, or state "
            "a kernel ball (ball=, radius=) with method=Dual()."
        )
    _refuse_landmarks_that_are_rows(proof, rows)
    for plan, cells in zip(instances(proof, CellPlan), instances(proof, StateCells), strict=True):
        _refuse_cells_of_few_rows(plan, cells, rows, proof.estimand.rows[0])
    return proof.without_rows()


def _refuse_landmarks_that_are_rows(proof: Proof, rows: Columns) -> None:
    points = [array for function in instances(proof, Function) for array in function.landmarks()]
    points += [basis.points for basis in instances(proof, LandmarkBasis)]
    points += [cells.states for cells in instances(proof, StateCells)]
    if not points:
        return
    centers = np.unique(np.concatenate(points), axis=0)
    shared = _rows_sharing(rows, centers, sampled=proof.estimand.start.kind != "exact")
    alone = int(((shared > 0) & (shared < MIN_ROWS)).sum())
    if alone:
        raise InvalidInput(
            f"The proof is written with {centers.shape[0]} landmark points, and {alone} of them are states of fewer than "
            f"{MIN_ROWS} rows: the certificate would show rows. Use the dual method with a W of explicit features, for "
            "instance random features: Dual(choices=Choices(weight_bandwidth=1.0)) (--with weight_bandwidth=1)."
        )


def _refuse_cells_of_few_rows(plan: CellPlan, cells: StateCells, rows: Columns, first: int) -> None:
    """The weight of a pair in a block comes from the rows before it, the reference from certified rows."""
    index, slots, limits = StateIndex(cells.states), rows.layout.slots, cells.limits(rows)
    batches = list(rows.batches())
    pairs = np.concatenate([index.positions(batch.logged) * slots + batch.slots for batch in batches])
    log_rows = np.concatenate([batch.log_rows for batch in batches])
    middle, near = 0.5 * (limits.low + limits.high), 1e-9 * limits.width

    def few(used: BoolArray) -> BoolArray:
        counts = np.bincount(pairs[used & (pairs >= 0)], minlength=plan.reference.size // cells.layers)
        counts = np.tile(counts, cells.layers)
        return (counts > 0) & (counts < MIN_ROWS)

    revealing = few(log_rows >= first) & (np.abs(plan.reference - middle) > near)
    early = few(log_rows < first)
    revealing |= early & (plan.cells.rates > 0).any(axis=0)
    if plan.past is not None:
        followed = np.bincount(plan.past.cell, plan.past.mass, minlength=early.size) > 0
        revealing |= early & (followed | (np.abs(plan.past.outcome - plan.past.count * middle) > near))
    for block, begin in enumerate((first, *plan.stops[:-1])):
        weighed = np.any([tail.weights[block] != 0 for tail in plan.tails.values()], axis=0)
        revealing |= few(log_rows < begin) & (weighed if plan.quotas is None else weighed | (plan.quotas[block] > 0))
    if revealing.any():
        raise InvalidInput(
            f"Weights or values of {int(revealing.sum())} pairs of states and actions come from fewer than {MIN_ROWS} rows: "
            f"the certificate would show what followed in single rows. Use Table(fewest_rows={MIN_ROWS}) or "
            "Default(no_rows=True)."
        )


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
