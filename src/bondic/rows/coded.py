"""Rows of a table as numbers of states: files are read, and the policy asked, once, for as many passes as follow.

A block of the log becomes its different states and, row by row, which of them came and what followed. That is what other
processes send back, and blocks are put together in their order: the same bits wherever they were made. Batches that are made
of numbers equal those of the log, but for a policy's answers, which are the first ones at every state: others may differ from
them by rounding alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bondic.core.cells.rows import SAME_ANSWERS, StateIndex
from bondic.core.columns import Batch, Cloud, RowRange
from bondic.data._arrays import FloatArray, IntArray
from bondic.data.compact import CompactColumns

if TYPE_CHECKING:
    from bondic.rows.rows import Rows


@dataclass(frozen=True, eq=False)
class _Block:
    """What one block of a log says of states."""

    states: FloatArray  # (S', D) as they first appear, a row's own state before the next one
    answers: FloatArray  # (S', slots) first ones at next states; NaN at others
    apart: float  # how far other answers are from them
    columns: CompactColumns


@dataclass(frozen=True, eq=False)
class CodedColumns:
    """Rows of a log from `base` on."""

    states: FloatArray  # (S, D)
    answers: FloatArray  # (S, slots), of two policies one after the other
    columns: CompactColumns
    base: int

    def blocks(self, wanted: RowRange, size: int, empty: Batch) -> Iterator[Batch]:
        """Block by block, the first and the last one cut; `empty` is what all of them share."""
        for top in range(wanted.start // size * size, wanted.stop, size):
            rows = RowRange(max(top, wanted.start), min(top + size, wanted.stop))
            if not len(rows):
                continue
            part = self.columns.cut(RowRange(rows.start - self.base, rows.stop - self.base))
            continues = part["next"] >= 0
            following = part["next"][continues]
            points = Cloud(
                self.states.take(following, axis=0), self.answers.take(following, axis=0), np.flatnonzero(continues)
            )
            yield replace(
                empty, logged=self.states.take(part["state"], axis=0), slots=part["slot"], rewards=part["rewards"],
                continues=continues, next=points, log_rows=np.arange(rows.start, rows.stop), rows=rows,
            )  # fmt: skip

    def answered_by(self, place: int) -> CodedColumns:
        """With the answers of one of two policies."""
        return replace(self, answers=np.split(self.answers, 2, axis=1)[place])


def coded(rows: Rows, most: int) -> Rows:
    """The same rows as numbers of at most so many states; as they are where they are in memory, or have no such numbers."""
    plain = rows.kept is None and rows.coded is None and not rows.log.held
    if not plain or rows.terms.time_varying or not rows.layout.discrete or not rows.answers.exact or rows.policy_in_log:
        return rows
    states, answers = np.zeros((0, rows.layout.dimension)), np.zeros((0, rows.initial.weights.shape[1]))
    columns = CompactColumns()
    for block in rows.over_batches(_block):
        if block is None or block.apart > SAME_ANSWERS or len(states) + len(block.states) > 2 * most:
            return rows
        places = StateIndex(states).positions(block.states) if len(states) else np.full(len(block.states), -1)
        fresh = places < 0
        places[fresh] = len(states) + np.arange(int(fresh.sum()))
        states = np.concatenate([states, block.states[fresh]])
        answers = np.concatenate([answers, np.full((int(fresh.sum()), answers.shape[1]), np.nan)])
        first = np.isnan(answers[places, 0])
        answers[places[first]] = block.answers[first]
        off = np.abs(answers[places] - block.answers).sum(axis=1)
        if len(states) > most or block.apart + float(np.nanmax(off, initial=0.0)) > SAME_ANSWERS:
            return rows
        columns.add(_renumbered(block.columns, places))
    return replace(rows, coded=CodedColumns(states, answers, columns, rows.rows.start))


def _renumbered(columns: CompactColumns, places: IntArray) -> dict[str, Any]:
    """The columns of a block with the numbers that its states have among all."""
    found = columns.cut(RowRange(0, len(columns)))
    following = np.append(places, -1)[found["next"]]  # -1, nothing, is the last one
    return found | {"state": places[found["state"]], "next": following}


def _block(batch: Batch) -> _Block | None:
    """One batch in numbers; None where two of its states have one mark."""
    count, ahead = len(batch), batch.next.rows
    order = np.argsort(np.concatenate([np.arange(count) * 2, ahead * 2 + 1]), kind="stable")
    points = np.concatenate([batch.logged, batch.next.points]) + 0.0  # -0.0 is 0.0
    ordered = points[order]
    marks = StateIndex.marks_of(ordered)
    for known in (
        (marks >> np.uint64(48)).astype(np.uint16),
        marks,
    ):  # a few bits often do, and are sorted in a pass or two
        states, codes = _numbered(ordered, known)
        if np.array_equal(states[codes], ordered):
            break
    else:
        return None
    found = np.empty(len(points), np.int64)
    found[order] = codes
    own, following = found[:count], np.full(count, -1)
    following[ahead] = found[count:]
    seen, places = np.unique(found[count:], return_index=True)
    answers = np.full((len(states), batch.next.weights.shape[1]), np.nan)
    answers[seen] = batch.next.weights[places]
    off = np.abs(answers[found[count:]] - batch.next.weights).sum(axis=1)
    columns = CompactColumns()
    columns.add({"state": own, "next": following, "slot": batch.slots, "rewards": batch.rewards})
    return _Block(states, answers, float(off.max(initial=0.0)), columns)


def _numbered(points: FloatArray, marks: npt.NDArray[Any]) -> tuple[FloatArray, IntArray]:
    """The first point of every mark, in the order of their appearance, and which of them every point has the mark of."""
    order = np.argsort(marks, kind="stable")
    new = np.concatenate([[True], marks[order[1:]] != marks[order[:-1]]])
    first = order[new]
    rank = np.empty(first.size, np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    codes = np.empty(len(points), np.int64)
    codes[order] = rank[np.cumsum(new) - 1]
    return points[np.sort(first)], codes
