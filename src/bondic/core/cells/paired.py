"""The difference of two policies on a table, as one function on two layers of cells.

d = q_1 - q_2 on the first layer, q_2 on the second. Both obey Bellman equations of the same rows,

    d(x)    =  γ E[ sum_a π_1(a|s') d(s', a)  +  sum_a (π_1 - π_2)(a|s') q_2(s', a) ],
    q_2(x)  =  E[ r + γ sum_a π_2(a|s') q_2(s', a) ],            J_1 - J_2  =  E_{d_0 π_1}[d] + E_{d_0 (π_1 - π_2)}[q_2],

so a row of the log is a row with outcome 0 at (1, x), followed by the atom (π_1, π_1 - π_2) of s', and one with outcome r at (2,
x), followed by (0, π_2): reward noise is no part of the first. Everything on cells holds as it stands (Lemma 60); what is new is
that rows of both layers come together (`ends`, `localize`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bondic.core.bounded import FloatArray, U
from bondic.core.cells.localize import ValueLimits
from bondic.core.cells.rows import StateCells, TableCells
from bondic.core.cells.tally import CellRows
from bondic.core.columns import AnsweredRows, Batch, Cloud, Columns, RowRange, Starts
from bondic.core.errors import InvalidInput
from bondic.core.kernels.normal_form import Layout
from bondic.core.question import Question
from bondic.core.registry import register
from bondic.core.terms import Terms, ValueRange, largest_width, range_at_all_times, range_of

_WIDER = 1 + 8 * U


def beside(first: Cloud, second: Cloud) -> Cloud:
    """The same points with the answers of both policies, one after the other."""
    if not (np.array_equal(first.rows, second.rows) and np.array_equal(first.points, second.points)):
        raise InvalidInput("Both policies answer at the same states.")
    return replace(first, weights=np.hstack([first.weights, second.weights]))


def both(first: Batch, second: Batch) -> Batch:
    """The same rows with the answers of both policies."""
    return replace(first, initial=beside(first.initial, second.initial), next=beside(first.next, second.next))


@dataclass(frozen=True, eq=False)
class Paired:
    """The rows of a log with the answers of two policies, which start alike."""

    first: Columns
    second: Columns

    def __post_init__(self) -> None:
        one, two = self.first.initial_states, self.second.initial_states
        exact = self.first.exact_answers and self.second.exact_answers and self.first.layout.discrete
        if not (exact and one.same(two) and self.first.layout == self.second.layout):
            raise InvalidInput("On a table two policies are compared by their probabilities, at the same starts.")

    def __len__(self) -> int:
        return len(self.first)

    @property
    def terms(self) -> Terms:
        return self.first.terms

    @property
    def gamma(self) -> float:
        return self.first.gamma

    @property
    def layout(self) -> Layout:
        return self.first.layout

    @property
    def rows(self) -> RowRange:
        return self.first.rows

    @property
    def initial(self) -> Cloud:
        return beside(self.first.initial, self.second.initial)

    @property
    def initial_states(self) -> Starts:
        return self.first.initial_states

    @property
    def exact_answers(self) -> bool:
        return True

    @property
    def next_draws(self) -> int:
        return self.first.next_draws

    @property
    def initial_draws(self) -> int:
        return self.first.initial_draws

    def batches(self) -> Iterator[Batch]:
        for one, two in zip(self.first.batches(), self.second.batches(), strict=True):
            yield both(one, two)

    def later_starts(self, skipped: int) -> Paired:
        return Paired(self.first.later_starts(skipped), self.second.later_starts(skipped))


@register("cells", "two policies")
@dataclass(frozen=True, eq=False)
class PairedCells(StateCells):
    """Every state with every action, twice; rows carry the answers of both policies."""

    layers = 2
    clip: float  # forecasts of γ (V_1 - V_2) are cut to [-clip, clip]: the smaller, the larger bets may be

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.clip > 0:
            raise InvalidInput("Forecasts are cut at a positive number.")

    def size(self, slots: int) -> int:
        return 2 * super().size(slots)

    def answered(self, question: Question) -> AnsweredRows:
        if tuple(part.coefficient for part in question.parts) != (1.0, -1.0):
            raise InvalidInput("This proof is about the difference of two policies.")
        return Paired(*(part.columns for part in question.parts))

    def atoms(self, rows: AnsweredRows) -> FloatArray:
        one, two = np.split(self.answers(rows), 2, axis=1)
        first, second = self.diagonal(one), self.diagonal(two)
        return np.block([[first, self.diagonal(one - two)], [np.zeros_like(first), second]])

    def parts(self, rows: AnsweredRows, stops: Sequence[int]) -> Iterator[CellRows]:
        states = self.states.shape[0]
        pairs = states * rows.layout.slots
        for part in super().parts(rows, stops):
            yield CellRows(
                np.tile(part.block, 2), np.concatenate([part.cell, part.cell + pairs]),
                np.concatenate([np.zeros(part.cell.size), part.outcome]),
                np.concatenate([part.owner, part.owner + part.cell.size]),
                np.concatenate([part.atom, part.atom + states]), np.tile(part.mass, 2), part.size,
            )  # fmt: skip

    def start_cells(self, cloud: Cloud, first: int, stop: int) -> tuple[FloatArray, FloatArray]:
        one, two = (TableCells(self.states).start_cells(own, first, stop) for own in _apart(cloud))
        return np.hstack([one[0], one[0] - two[0]]), one[1]

    def start_mean(self, cloud: Cloud, weights: FloatArray) -> FloatArray:
        one, two = (TableCells(self.states).start_mean(own, weights) for own in _apart(cloud))
        return np.concatenate([one, one - two])

    def limits(self, rows: AnsweredRows) -> ValueLimits:
        known, pairs = range_at_all_times(rows.terms), StateCells.size(self, rows.layout.slots)
        apart = (known.high - known.low) * _WIDER
        most = max(rows.gamma, 1e-9) * apart * _WIDER  # of γ |V_1 - V_2|: what is cut there only comes nearer
        width, clip = [(most + min(self.clip, most)) * _WIDER, largest_width(rows.terms)], [self.clip, np.inf]
        clip[0] = self.clip if self.clip < most else np.inf
        ends = ([-apart, known.low], [apart, known.high])
        return ValueLimits(*(np.repeat(own, pairs) for own in (width, *ends, clip)))

    def value_range(self, rows: AnsweredRows) -> ValueRange:
        width = range_of(rows.terms).width * _WIDER
        return ValueRange(-width, width)


def _apart(cloud: Cloud) -> tuple[Cloud, Cloud]:
    one, two = np.split(cloud.weights, 2, axis=1)
    return replace(cloud, weights=one), replace(cloud, weights=two)
