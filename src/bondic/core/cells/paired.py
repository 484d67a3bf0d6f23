"""The difference of two policies, as one function on two layers of cells.

d = q_1 - q_2 on the first layer, q_2 on the second. Both obey Bellman equations of the same rows,

    d(x)    =  γ E[ sum_a π_1(a|s') d(s', a)  +  sum_a (π_1 - π_2)(a|s') q_2(s', a) ],
    q_2(x)  =  E[ r + γ sum_a π_2(a|s') q_2(s', a) ],            J_1 - J_2  =  E_{d_0 π_1}[d] + E_{d_0 (π_1 - π_2)}[q_2].

*Tables.* A row of the log is a row with outcome 0 at (1, x), followed by the atom (π_1, π_1 - π_2) of s', and one with outcome r
at (2, x), followed by (0, π_2): reward noise is no part of the first. Everything on cells holds as it stands (Lemma 60); what is
new is that rows of both layers come together (`ends`, `localize`).

*Groups.* The same with q_k = q̂_k + e_k(c) + ζ_k: models, e and ζ of the first layer are differences. Masses on cells would be
signed. So atoms are pairs of actions, one of each policy,

    sum_a π_1(a) f^1_a + sum_a (π_1 - π_2)(a) f^2_a  =  sum_ab m_ab ( f^1_a + f^2_a - f^2_b ),

for any m >= 0 with sums π_1 over b and π_2 over a: here m_aa = min(π_1, π_2)(a), and the rest is a product. What varies inside
the cells is ζ_1 for the first policy's action and ζ_2 for the second's: their allowances add up (Lemma 65, `CellShape`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bondic.core.bounded import FloatArray, IntArray, U
from bondic.core.cells.forecasts import EarlierRows, Forecasts, LabelTally, tally_by_label
from bondic.core.cells.localize import ValueLimits
from bondic.core.cells.rows import Cells, GroupCells, StateCells, TableCells
from bondic.core.cells.tally import CellRows, Tally, rounding_of_sums
from bondic.core.columns import AnsweredRows, Batch, Cloud, Columns, RowRange, Starts
from bondic.core.errors import InvalidInput
from bondic.core.kernels.normal_form import Layout
from bondic.core.question import Question
from bondic.core.registry import register
from bondic.core.terms import Terms, ValueRange, range_at_all_times, range_of

_WIDER = 1 + 8 * U


def beside(first: Cloud, second: Cloud) -> Cloud:
    """The same points with the answers of both policies, one after the other."""
    if not (np.array_equal(first.rows, second.rows) and np.array_equal(first.points, second.points)):
        raise InvalidInput("Both policies answer at the same states.")
    return replace(first, weights=np.hstack([first.weights, second.weights]))


def both(first: Batch, second: Batch) -> Batch:
    """The same rows with the answers of both policies."""
    return replace(first, initial=beside(first.initial, second.initial), next=beside(first.next, second.next))


def apart(cloud: Cloud) -> tuple[Cloud, Cloud]:
    """The same points with the answers of either policy."""
    one, two = np.split(cloud.weights, 2, axis=1)
    return replace(cloud, weights=one), replace(cloud, weights=two)


def answers_of(batch: Batch, place: int) -> Batch:
    """The batch with the answers of one policy."""
    return replace(batch, initial=apart(batch.initial)[place], next=apart(batch.next)[place])


@dataclass(frozen=True, eq=False)
class Paired:
    """The rows of a log with the answers of two policies, which start alike."""

    first: Columns
    second: Columns

    def __post_init__(self) -> None:
        one, two = self.first.initial_states, self.second.initial_states
        exact = self.first.exact_answers and self.second.exact_answers and self.first.layout.discrete
        if not (exact and one.same(two) and self.first.layout == self.second.layout):
            raise InvalidInput("Two policies are compared by the probabilities of their actions, at the same starts.")

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


class PairedLayers(Cells):
    """Both layers of cells; rows carry the answers of both policies."""

    layers = 2
    clip: float  # forecasts of γ (V_1 - V_2) are cut to [-clip, clip]: the smaller, the larger bets may be

    def __post_init__(self) -> None:
        if not self.clip > 0:
            raise InvalidInput("Forecasts are cut at a positive number.")

    @abstractmethod
    def policies(self) -> tuple[Cells, Cells]:
        """The cells of either policy by itself."""

    def size(self, slots: int) -> int:
        return 2 * self.policies()[1].size(slots)

    def answered(self, question: Question) -> AnsweredRows:
        if tuple(part.coefficient for part in question.parts) != (1.0, -1.0):
            raise InvalidInput("This proof is about the difference of two policies.")
        return Paired(*(part.columns for part in question.parts))

    def start_cells(self, cloud: Cloud, first: int, stop: int) -> tuple[FloatArray, FloatArray]:
        one, two = (
            cells.start_cells(own, first, stop) for cells, own in zip(self.policies(), apart(cloud), strict=True)
        )
        return np.hstack([one[0], one[0] - two[0]]), one[1] - two[1]

    def start_mean(self, cloud: Cloud, weights: FloatArray) -> FloatArray:
        one, two = (cells.start_mean(own, weights) for cells, own in zip(self.policies(), apart(cloud), strict=True))
        return np.concatenate([one, one - two])

    def start_points(self, cloud: Cloud) -> tuple[IntArray, FloatArray]:
        (group, one), (_, two) = (cells.start_points(cloud) for cells in self.policies())
        return group, one - two

    def limits(self, rows: AnsweredRows) -> ValueLimits:
        """e of the first layer is e_1 - e_2, each between the ends of the second."""
        known, second = range_at_all_times(rows.terms), self.policies()[1]
        own, cells = second.limits(rows), second.size(rows.layout.slots)
        most = max(rows.gamma, 1e-9) * (known.high - known.low) * _WIDER * _WIDER
        span = (own.high - own.low) * _WIDER
        # of γ |V_1 - V_2|: what is cut there only comes nearer
        width, clip = (most + min(self.clip, most)) * _WIDER, self.clip if self.clip < most else np.inf
        both = ((width, own.width), (-span, own.low), (span, own.high), (clip, np.inf))
        return ValueLimits(*(np.concatenate([np.full(cells, each) for each in pair]) for pair in both))

    def value_range(self, rows: AnsweredRows) -> ValueRange:
        width = range_of(rows.terms).width * _WIDER
        return ValueRange(-width, width)


@register("cells", "two policies")
@dataclass(frozen=True, eq=False)
class PairedCells(PairedLayers, StateCells):
    """Every state with every action, twice."""

    clip: float

    def __post_init__(self) -> None:
        StateCells.__post_init__(self)
        PairedLayers.__post_init__(self)

    def policies(self) -> tuple[TableCells, TableCells]:
        own = TableCells(self.states)
        return own, own

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


@register("cells", "two policies on groups")
@dataclass(frozen=True, eq=False)
class PairedGroups(PairedLayers):
    """The same groups for both policies, each with a model of its own; labels of the first are those of the first layer."""

    needs_allowance = True
    first: GroupCells
    second: GroupCells
    clip: float

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("group", "next_group", "start_group")
        same = all(np.array_equal(getattr(self.first, name), getattr(self.second, name)) for name in names)
        if not (same and self.first.count == self.second.count):
            raise InvalidInput("Both policies have the same groups.")

    def policies(self) -> tuple[GroupCells, GroupCells]:
        return self.first, self.second

    def atoms(self, rows: AnsweredRows) -> FloatArray:
        """Pairs of actions in every group, then actions."""
        slots, unit = rows.layout.slots, np.eye(self.second.size(rows.layout.slots))
        one = np.repeat(unit, slots, axis=0)
        two = np.repeat(unit.reshape(-1, slots, unit.shape[1]), slots, axis=0).reshape(one.shape)
        return np.block([[one, one - two], [np.zeros_like(unit), unit]])

    def parts(self, rows: AnsweredRows, stops: Sequence[int]) -> Iterator[CellRows]:
        """Of every batch the first layer, then the second."""
        slots, pairs, ahead = rows.layout.slots, self.second.size(rows.layout.slots), 0
        both = (self._parts_of(place, rows, stops) for place in (0, 1))
        for one, two, batch in zip(*both, rows.batches(), strict=True):
            there = slice(ahead, ahead + batch.next.rows.size)
            ahead = there.stop
            point, actions, mass = _coupled(*np.split(batch.next.weights, 2, axis=1))
            atom = self.first.next_group[there][point] * slots**2 + actions
            # rewards cancel, and their rounding is that of both sizes
            outcome, size = one.outcome - two.outcome, one.size + two.size
            yield CellRows(one.block, one.cell, outcome, batch.next.rows[point], atom, mass, size)
            yield replace(two, cell=two.cell + pairs, atom=two.atom + pairs * slots)

    def _parts_of(self, place: int, rows: AnsweredRows, stops: Sequence[int]) -> Iterator[CellRows]:
        """The rows of one policy by itself."""
        cells = self.policies()[place]
        cells.check(rows)
        batches = (answers_of(batch, place) for batch in rows.batches())
        yield from cells.parts_of(batches, rows.layout.slots, rows.gamma, stops)

    def center_size(self, values: FloatArray) -> float:
        del values
        return sum(float(np.abs(cells.start_value).max(initial=0.0)) for cells in self.policies())

    def labels(
        self, by_cell: Tally, rows: AnsweredRows, stops: Sequence[int], past: EarlierRows | None, eras: Sequence[int]
    ) -> LabelTally:
        if past is not None or eras:
            raise InvalidInput("Groups have forecasts of their own.")
        one, two = self.first.forecasts, self.second.forecasts
        following = np.zeros((one.cell.size + two.cell.size, by_cell.shape.atoms.shape[0]))
        split = following.shape[1] - two.following.shape[1]
        if one.following.shape[1] != split:
            raise InvalidInput("Forecasts are those of other cells.")
        following[: one.cell.size, :split], following[one.cell.size :, split:] = one.following, two.following
        cells, offsets = np.concatenate([one.cell, two.cell + by_cell.shape.cells // 2]), (one.offset, two.offset)
        forecasts = Forecasts(cells, np.concatenate(offsets), following)
        label, number, size = (np.concatenate(own) for own in zip(*self._labeled(rows), strict=True))
        largest = np.zeros(forecasts.cell.size)
        tallied = tally_by_label(
            self.parts(rows, stops), label, number, forecasts, by_cell.shape, by_cell.gamma, by_cell.reference
        )
        np.maximum.at(largest, label, size)
        return replace(tallied, center=largest)

    def _labeled(self, rows: AnsweredRows) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        """Labels, m_i and |q̂(x_i) + m_i| in the order of `parts`."""
        begin, first, second = 0, self.first, self.second
        for batch in rows.batches():
            here = slice(begin, begin + len(batch))
            begin = here.stop
            yield (
                first.label[here],
                first.predicted[here],
                np.abs(first.value[here] - second.value[here] + first.predicted[here]),
            )
            label = second.label[here] + first.forecasts.cell.size
            yield label, second.predicted[here], np.abs(second.value[here] + second.predicted[here])

    def _each(self, name: str, *arguments: object) -> Self:
        first, second = (getattr(cells, name)(*arguments) for cells in self.policies())
        return replace(self, first=first, second=second)

    def first_rows(self, rows: AnsweredRows) -> Self:
        return self._each("first_rows", rows)

    def after(self, pilot: AnsweredRows) -> Self:
        """The same for the rows after a pilot."""
        return self._each("after", pilot)

    def last_starts(self, rows: AnsweredRows) -> Self:
        return self._each("last_starts", rows)

    def pick_starts(self, cloud: Cloud, states: IntArray) -> Self:
        return self._each("pick_starts", cloud, states)


def _coupled(one: FloatArray, two: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Masses of pairs of actions whose sums are the answers of either policy: of every pair its point, a A + b, and the mass."""
    if np.any(np.abs(one.sum(axis=1) - two.sum(axis=1)) > rounding_of_sums(2 * one.shape[1])):
        raise InvalidInput("The probabilities of a policy at a next state are not 1 in all.")
    common = np.minimum(one, two)
    more, less = one - common, two - common
    total = np.maximum(more.sum(axis=1), less.sum(axis=1))[:, None, None]
    mass = more[:, :, None] * (less[:, None, :] / np.where(total > 0, total, 1.0))
    actions = np.arange(one.shape[1])
    mass[:, actions, actions] += common
    mass = mass.reshape(len(one), actions.size**2)
    point, pair = np.nonzero(mass)
    return point, pair, mass[point, pair]
