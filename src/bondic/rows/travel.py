"""Rows that are asked for in another process: the question as data, and the same blocks of rows made from it there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.columns import Batch, Cloud, RowRange
from bondic.core.errors import ExecutorError, InvalidInput, PolicyError
from bondic.core.kernels.normal_form import Layout
from bondic.core.terms import Terms
from bondic.data.initial import InitialStates
from bondic.data.opened import OpenedParquet
from bondic.data.stream import LogStream
from bondic.policies.answers import NextStates, StartAnswers, StoredAnswers, ask_next
from bondic.policies.protocol import RowProbabilities
from bondic.rows.draws import Draws
from bondic.rows.rows import Rows

FloatArray = npt.NDArray[np.float64]

_TRIED = 64
"""Initial states at which a policy that was sent is asked first: it has to answer as it does where it comes from."""

_SAME = 1e-9
"""Answers of the same policy on another machine differ by less than this, relatively."""


@dataclass(frozen=True, eq=False)
class SentRows:
    """A question on a log of Parquet files."""

    log: OpenedParquet
    terms: Terms
    layout: Layout
    draws: int
    exact: bool
    rows: tuple[int, int]
    block_rows: int
    count: int
    seed: int
    tried: FloatArray  # some initial states
    answers: FloatArray  # and what the policy said there
    policy: Any

    @staticmethod
    def of(question: Rows) -> SentRows:
        assert isinstance(question.log, LogStream)  # rows of other logs are kept, and nobody is sent for them
        if isinstance(question.policy, StoredAnswers | RowProbabilities):
            raise InvalidInput(
                "Other processes have to ask the policy themselves. Probabilities that were written down row by row stay in this "
                "process: leave the executor out, or pass the policy (file.py:function)."
            )
        states, answers = question.initial_states.observations[:_TRIED], question.answers
        return SentRows(
            question.log.opened(),
            question.terms,
            question.layout,
            answers.draws,
            answers.exact,
            (question.rows.start, question.rows.stop),
            question.block_rows,
            question.count,
            question.seed,
            states,
            _answers(question.policy, states, question.terms, answers, question.seed),
            question.policy,
        )

    def opened(self) -> Rows:
        """The rows in another process; nothing of the initial states is needed there but their form."""
        layout, policy = self.layout, self.policy
        tail = (layout.slots,) if layout.discrete else (1, layout.action_dim)
        answers = StartAnswers(np.zeros((0, *tail)), layout.discrete, self.exact, self.draws)
        found = _answers(policy, self.tried, self.terms, answers, self.seed)
        if found.shape != self.answers.shape or np.any(np.abs(found - self.answers) > _SAME * (1 + np.abs(found))):
            raise PolicyError(
                "The policy does not answer as it does where the work was sent from: it is another one, it is not the same "
                "whenever it is asked, or its libraries differ between the machines."
            )
        nobody = Cloud(np.zeros((0, layout.dimension)), np.zeros((0, layout.slots)), np.zeros(0, np.int64))
        states = InitialStates.exact(np.zeros((1, layout.observation_dim)))
        log = self.log.reopen()
        stretch = RowRange(*self.rows)
        rows = Rows(log, policy, self.terms, layout, nobody, states, answers, stretch, self.seed, self.count)
        if rows.block_rows != self.block_rows:
            raise ExecutorError(
                f"Blocks have {rows.block_rows} rows here and {self.block_rows} where the work was sent from. Install the same "
                "version everywhere."
            )
        return replace(rows, following=np.zeros(-(-len(log) // rows.block_rows), np.int64))


def _answers(policy: Any, states: FloatArray, terms: Terms, start: StartAnswers, seed: int) -> FloatArray:
    """The policy at these states, asked as it is at next states."""
    times = np.zeros(len(states), np.int64) if terms.time_varying else None
    asked = NextStates(states, times, np.arange(len(states)), 0)
    return ask_next(policy, asked, start, Draws(seed).at_group)


def block_places(question: Rows) -> range:
    """Numbers of the blocks of the log that hold rows of the question."""
    size = question.block_rows
    return range(question.rows.start // size, -(-question.rows.stop // size))


def block_at(question: Rows, number: int) -> Batch | None:
    """The rows of one block; None where none of them counts."""
    size = question.block_rows
    stretch = RowRange(max(number * size, question.rows.start), min((number + 1) * size, question.rows.stop))
    return next(iter(replace(question, rows=stretch).batches()), None)
