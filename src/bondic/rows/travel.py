"""Blocks of a log that are worked on in other processes: they are sent the question, and make the same blocks from it.

A block depends on nothing but the row number, and results come in the order of the log: the bits are those of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bondic.core.columns import Cloud, RowRange
from bondic.core.errors import ExecutorError, InvalidInput, PolicyError
from bondic.data._arrays import FloatArray
from bondic.data.initial import InitialStates
from bondic.engines.remote import Remote, open_job, pack_job
from bondic.policies.answers import NextStates, StoredAnswers, ask_next
from bondic.policies.protocol import RowProbabilities
from bondic.rows.draws import Draws

if TYPE_CHECKING:
    from bondic.rows.rows import Rows

T = TypeVar("T")

_TRIED = 64
"""Initial states at which a policy that was sent is asked first: it has to answer as it does where it comes from."""

_SAME = 1e-9
"""Answers of the same policy on another machine differ by less than this, relatively."""


@dataclass(frozen=True, eq=False)
class SentRows:
    """A question on a log of files; of its initial states only the form is needed."""

    rows: Rows
    block_rows: int
    tried: FloatArray  # some initial states
    answers: FloatArray  # and what the policy said there

    @staticmethod
    def of(question: Rows) -> SentRows:
        if isinstance(question.policy, StoredAnswers | RowProbabilities):
            raise InvalidInput(
                "Other processes have to ask the policy themselves. Probabilities that were written down row by row stay in this "
                "process: leave the executor out, or pass the policy (file.py:function)."
            )
        layout, tried = question.layout, question.initial_states.observations[:_TRIED]
        light = replace(
            question,
            initial=Cloud(np.zeros((0, layout.dimension)), np.zeros((0, layout.slots)), np.zeros(0, np.int64)),
            initial_states=InitialStates.exact(np.zeros((1, layout.observation_dim))),
            answers=replace(question.answers, initial=question.answers.initial[:0]),
            notes=(),
            doubts=(),
        )
        return SentRows(light, question.block_rows, tried, _answers(light, tried))

    def opened(self) -> Rows:
        """The rows in another process, once policy and version are known to be the same there."""
        found = _answers(self.rows, self.tried)
        if found.shape != self.answers.shape or np.any(np.abs(found - self.answers) > _SAME * (1 + np.abs(found))):
            raise PolicyError(
                "The policy does not answer as it does where the work was sent from: it is another one, it is not the same "
                "whenever it is asked, or its libraries differ between the machines."
            )
        rows = replace(self.rows)
        if rows.block_rows != self.block_rows:
            raise ExecutorError(
                f"Blocks have {rows.block_rows} rows here and {self.block_rows} where the work was sent from. Install the same "
                "version everywhere."
            )
        return rows


def _answers(rows: Rows, states: FloatArray) -> FloatArray:
    """The policy at these states, asked as it is at next states."""
    times = np.zeros(len(states), np.int64) if rows.terms.time_varying else None
    asked = NextStates(states, times, np.arange(len(states)), 0)
    return ask_next(rows.policy, asked, rows.answers, Draws(rows.seed).at_group)


def over_blocks(executor: Remote, task: Callable[[Any], T], rows: Rows) -> Iterator[T]:
    """task(part) for every block of a log that is read from files, in the order of the log."""
    job, size = pack_job(SentRows.of(rows), task), rows.block_rows
    for found in executor.parts(_block, job, range(rows.rows.start // size, -(-rows.rows.stop // size))):
        yield from found


def _block(job: bytes, number: int) -> list[Any]:
    """In another process: one block of the log; nothing where none of its rows counts."""
    rows, task = _received(job)
    size = rows.block_rows
    stretch = RowRange(max(number * size, rows.rows.start), min((number + 1) * size, rows.rows.stop))
    return [task(part) for part in replace(rows, rows=stretch).batches()]


@lru_cache(maxsize=2)
def _received(job: bytes) -> tuple[Rows, Callable[[Any], Any]]:
    """Log and policy are opened once."""
    sent, task = open_job(job)
    return sent.opened(), task
