"""Blocks of a log that are worked on in other processes: they are sent the question, and make the same blocks from it.

A block depends on nothing but the row number, and results come in the order of the log: the bits are those of one process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bondic.core.columns import RowRange
from bondic.data._arrays import FloatArray
from bondic.data.initial import first_starts
from bondic.errors import ExecutorError, PolicyError
from bondic.policies.answers import NextStates, StoredAnswers, query_next, same_answers
from bondic.policies.protocol import RowProbabilities
from bondic.rows.batch import Draws

if TYPE_CHECKING:
    from bondic.rows.rows import Rows

_TRIED = 64
"""Initial states at which a policy that was sent is queried first: it has to give the answers of the process that sent it."""


@dataclass(frozen=True, eq=False)
class SentRows:
    """A question on a log of files; of its initial states only the form is needed."""

    rows: Rows
    raw: bool  # whether a task takes rows of the log as they are, or batches of columns
    tried: FloatArray  # some initial states
    answers: FloatArray  # and the policy's answers there

    @staticmethod
    def of(question: Rows, *, raw: bool) -> SentRows:
        if any(isinstance(one.policy, StoredAnswers | RowProbabilities) for one in question.policies()):
            raise ExecutorError(
                "Worker processes evaluate the policy themselves; probabilities that are stored row by row stay in this "
                "process. Leave the executor out, or pass the policy (file.py:function)."
            )
        light = question.without_starts()
        tried = first_starts(question.initial_states, 0 if question.policy_in_log else _TRIED)
        return SentRows(light, raw, tried, _answers(light, tried))

    def check(self) -> None:
        """In another process: the policy has to be the same there."""
        if not same_answers(_answers(self.rows, self.tried), self.answers):
            raise PolicyError(
                "The policy answers differently here than in the process that sent the work: another version of it, random "
                "answers, or other library versions. Install the same files and versions everywhere."
            )

    @property
    def places(self) -> range:
        """Numbers of the blocks of the log that hold rows of the question."""
        rows, size = self.rows.rows, self.rows.block_rows
        return range(rows.start // size, -(-rows.stop // size))

    @property
    def block_rows(self) -> int:
        return self.rows.block_rows

    def blocks(self, numbers: range) -> Iterator[tuple[Any, ...]]:
        """What a task takes of some blocks, one after the other; nothing of those where no row counts."""
        rows, size = self.rows.rows, self.rows.block_rows
        whole = RowRange(numbers.start * size, min(numbers.stop * size, len(self.rows.log)))
        if self.raw:
            return ((self.rows, *part) for part in self.rows.log.batches(whole, size))
        stretch = RowRange(max(whole.start, rows.start), min(whole.stop, rows.stop))
        return ((batch,) for batch in replace(self.rows, rows=stretch).batches())


def _answers(rows: Rows, states: FloatArray) -> FloatArray:
    """The policies at these states, queried as at next states."""
    if not len(states):
        return np.zeros(0)
    times = np.zeros(len(states), np.int64) if rows.terms.time_varying else None
    queried = NextStates(states, times, np.arange(len(states)), 0)
    return np.concatenate(
        [query_next(one.policy, queried, one.answers, Draws(one.seed).at_group) for one in rows.policies()]
    )
