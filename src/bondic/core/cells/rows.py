"""From rows of a problem to rows of a tally: which cell each row is, and which cells follow it.

A *table* has a cell for every state and action, and an atom for every state: the policy's actions there. *Groups* have a cell
for every group and action (for every group, where actions are numbers and groups are of states with actions), and every cell
is an atom. What is known of groups and of the model is values, row by row: no code of a tree or a model is needed to check
an interval. A table is the case of one cell per pair: nothing varies inside a cell, and no allowance is needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, FloatArray, IntArray, U, certified_dot, inflate, upper_sum
from bondic.core.cells.ends import StartMean
from bondic.core.cells.forecasts import EarlierRows, Forecasts, LabelTally, tally_by_era, tally_by_label
from bondic.core.cells.localize import ValueLimits
from bondic.core.cells.tally import CellRows, CellShape, Tally, rounding_of_sums, tally
from bondic.core.columns import AnsweredRows, Batch, Cloud
from bondic.core.errors import InvalidInput, NoTable, NumericalError
from bondic.core.question import Question
from bondic.core.registry import kind, register
from bondic.core.terms import ValueRange, largest_width, range_at_all_times, range_of

SAME_ANSWERS = 1e-14
"""Differences of a policy's answers at one state, in all: their rounding on any machine. The errors of a tally cover more."""


@kind("cells")
class Cells(ABC):
    """Which cell a row is, and what the center says there."""

    needs_allowance: ClassVar[bool]
    layers: ClassVar[int] = 1  # of cells, one for every function

    def answered(self, question: Question) -> AnsweredRows:
        """The rows that the cells are about."""
        return question.columns

    def value_range(self, rows: AnsweredRows) -> ValueRange:
        """Where what is bounded lies, whatever the log says."""
        return range_of(rows.terms)

    @abstractmethod
    def size(self, slots: int) -> int:
        """p."""

    @abstractmethod
    def atoms(self, rows: AnsweredRows) -> FloatArray:
        """(J, p) A."""

    @abstractmethod
    def parts(self, rows: AnsweredRows, stops: Sequence[int]) -> Iterator[CellRows]:
        """The rows, in order; block b ends before row stops[b] of the log."""

    @abstractmethod
    def labels(
        self, by_cell: Tally, rows: AnsweredRows, stops: Sequence[int], past: EarlierRows | None, eras: Sequence[int]
    ) -> LabelTally:
        """The rows of the tally by what is forecast to follow them; `past` and `eras` where earlier rows make the forecasts."""

    @abstractmethod
    def limits(self, rows: AnsweredRows) -> ValueLimits: ...

    @abstractmethod
    def start_points(self, cloud: Cloud) -> tuple[IntArray, FloatArray]:
        """The number of the state or group of every initial point, and the center's value at every initial state."""

    def halves(self, rows: AnsweredRows, stops: Sequence[int], reference: FloatArray) -> Tally | None:
        """The rows with cells 2 c and 2 c + 1 for the halves of cell c; None where nothing varies inside a cell."""
        del rows, stops, reference
        return None

    def first_rows(self, rows: AnsweredRows) -> Cells:
        """The same for a stretch of rows that begins where these cells do."""
        del rows
        return self

    def last_starts(self, rows: AnsweredRows) -> Cells:
        """The same for these starts, which are the last of those that the cells know."""
        del rows
        return self

    def pick_starts(self, cloud: Cloud, states: IntArray) -> Cells:
        """The same for some of the starts, by their places; `cloud` are the points of all of them."""
        del cloud, states
        return self

    def start_cells(self, cloud: Cloud, first: int, stop: int) -> tuple[FloatArray, FloatArray]:
        """(m, p) the policy's cells at the starts first..stop-1, and (m,) the center's value there."""
        groups, values = self.start_points(cloud)
        there = slice(*(int(k) for k in np.searchsorted(cloud.rows, [first, stop])))
        slots = cloud.weights.shape[1]
        cells = np.zeros((stop - first, self.size(slots) // slots, slots))
        np.add.at(cells, (cloud.rows[there] - first, groups[there]), cloud.weights[there])
        return cells.reshape(stop - first, -1), values[first:stop]

    def start_mean(self, cloud: Cloud, weights: FloatArray) -> FloatArray:
        """(p,) the mean of the cells over starts with these weights."""
        groups, _ = self.start_points(cloud)
        slots = cloud.weights.shape[1]
        cells = np.zeros((self.size(slots) // slots, slots))
        np.add.at(cells, groups, weights[cloud.rows, None] * cloud.weights)
        return cells.reshape(-1)

    def center_size(self, values: FloatArray) -> float:
        """What rounding errors of the center's values at the starts are measured by."""
        return float(np.abs(values).max(initial=0.0))

    def starts(self, rows: AnsweredRows) -> StartMean:
        """ψ_0 and the center's mean over the initial states."""
        _, values = self.start_points(rows.initial)
        weights = rows.initial_states.weights
        error = 4 * (rows.initial.rows.size + rows.layout.slots + 64) * U + rows.initial_states.weights_error
        center = certified_dot(weights, values)
        # weights are defined as a normalized list, values as means over actions: both are off by a share of themselves
        size = self.center_size(values) * upper_sum(weights)
        center = Enclosure(center.mid, inflate(center.rad + error * size))
        # of two policies ψ_0 is (π_1, π_1 - π_2): three means, each off by as much
        return StartMean(center, self.start_mean(rows.initial, weights), (2 * self.layers - 1) * error)


@dataclass(frozen=True, eq=False)
class StateCells(Cells):
    """Cells of a list of states, each with every action; nothing is known beforehand, so the center is 0."""

    needs_allowance = False
    states: FloatArray  # (S, D), all different

    def __post_init__(self) -> None:
        fine = self.states.ndim == 2 and bool(np.all(np.isfinite(self.states)))
        if not (fine and np.unique(self.states + 0.0, axis=0).shape[0] == self.states.shape[0] > 0):
            raise InvalidInput("The states of a table are finite, and all different.")

    def size(self, slots: int) -> int:
        return int(self.states.shape[0]) * slots

    def atoms(self, rows: AnsweredRows) -> FloatArray:
        return self.diagonal(self.answers(rows))

    def diagonal(self, answers: FloatArray) -> FloatArray:
        """(S, S * slots): answers (S, slots) at the cells of their states."""
        states, slots = answers.shape
        found = np.zeros((states, states, slots))
        found[np.arange(states), np.arange(states)] = answers
        return found.reshape(states, states * slots)

    def answers(self, rows: AnsweredRows) -> FloatArray:
        """(S, slots) what the policy answers, at every state; one state has one answer, and 0 stands for states without any."""
        answers, index = np.full((self.states.shape[0], rows.initial.weights.shape[1]), np.nan), StateIndex(self.states)
        for cloud in chain([rows.initial], (batch.next for batch in rows.batches())):
            places = index.required(cloud.points)
            first = np.isnan(answers[places, 0])
            answers[places[first]] = cloud.weights[first]
            if np.any(np.abs(answers[places] - cloud.weights).sum(axis=1) > SAME_ANSWERS):
                raise NoTable("The policy has several answers at one state of the table.")
        return np.asarray(np.nan_to_num(answers))

    def parts(self, rows: AnsweredRows, stops: Sequence[int]) -> Iterator[CellRows]:
        index, slots = StateIndex(self.states), rows.layout.slots
        for batch in rows.batches():
            own, following = index.required(batch.logged), index.required(batch.next.points)
            yield CellRows(
                blocks_of(batch.log_rows, stops), own * slots + batch.slots, batch.rewards, batch.next.rows, following,
                np.ones(following.size), float(np.abs(batch.rewards).max(initial=0.0)),
            )  # fmt: skip

    def labels(
        self, by_cell: Tally, rows: AnsweredRows, stops: Sequence[int], past: EarlierRows | None, eras: Sequence[int]
    ) -> LabelTally:
        if past is None:
            raise InvalidInput("Forecasts of a table are made from earlier rows.")
        limits, times = self.limits(rows), np.arange(by_cell.shape.blocks) % len(stops)
        return tally_by_era(by_cell, past, times, eras, limits.middle)

    def start_points(self, cloud: Cloud) -> tuple[IntArray, FloatArray]:
        return StateIndex(self.states).required(cloud.points), np.zeros(int(cloud.rows.max(initial=-1)) + 1)

    def limits(self, rows: AnsweredRows) -> ValueLimits:
        known = range_at_all_times(rows.terms)
        return ValueLimits(largest_width(rows.terms), known.low, known.high)


@register("cells", "table")
@dataclass(frozen=True, eq=False)
class TableCells(StateCells):
    """Every state with every action."""


@register("cells", "groups")
@dataclass(frozen=True, eq=False)
class GroupCells(Cells):
    """Groups and a model, as numbers: fixed before the rows that they are used on."""

    needs_allowance = True
    count: int  # groups
    group: IntArray  # (n,) of every row
    next_group: IntArray  # (N,) of every next point
    start_group: IntArray  # (N_0,) of every initial point
    value: FloatArray  # (n,) q̂(x_i)
    next_value: FloatArray  # (n,) the policy's mean of q̂ at s'_i; 0 after an end
    start_value: FloatArray  # (n_0,) the same at every initial state
    half: IntArray  # (n,) 0 or 1: which half of its group a row is in, for tests of the allowance
    label: IntArray  # (n,) finer than cells: by what is forecast to follow
    predicted: FloatArray  # (n,) of r + γ V̂(s') - q̂(x): what a forecast of the row itself says beyond that of its label
    forecasts: Forecasts  # of every label

    def __post_init__(self) -> None:
        codes = (self.group, self.next_group, self.start_group)
        fine = self.count > 0 and all(np.all((one >= 0) & (one < self.count)) for one in codes)
        columns = (self.value, self.next_value, self.half, self.label, self.predicted)
        fine = fine and self.group.ndim == 1 and all(one.shape == self.group.shape for one in columns)
        fine = fine and bool(np.all((self.half == 0) | (self.half == 1)))
        values = (self.value, self.next_value, self.start_value, self.predicted)
        if not (fine and all(np.all(np.isfinite(one)) for one in values)):
            raise InvalidInput("Every row, next point and start has one of the groups, and a finite value.")

    def size(self, slots: int) -> int:
        return self.count * slots

    def atoms(self, rows: AnsweredRows) -> FloatArray:
        return np.eye(self.size(rows.layout.slots))

    def parts(self, rows: AnsweredRows, stops: Sequence[int]) -> Iterator[CellRows]:
        self.check(rows)
        yield from self.parts_of(rows.batches(), rows.layout.slots, rows.gamma, stops)

    def parts_of(self, batches: Iterable[Batch], slots: int, gamma: float, stops: Sequence[int]) -> Iterator[CellRows]:
        """The same from all batches, whose weights are the answers."""
        first, ahead = 0, 0
        for batch in batches:
            here, there = slice(first, first + len(batch)), slice(ahead, ahead + batch.next.rows.size)
            first, ahead = here.stop, there.stop
            value, following = self.value[here], np.where(batch.continues, self.next_value[here], 0.0)
            group, weights = self.next_group[there], batch.next.weights
            point, slot = np.divmod(np.flatnonzero(weights != 0.0), slots)  # faster than nonzero(weights)
            size = np.abs(batch.rewards) + np.abs(value) + np.abs(following)
            yield CellRows(
                blocks_of(batch.log_rows, stops), self.group[here] * slots + batch.slots,
                batch.rewards + gamma * following - value, batch.next.rows[point], group[point] * slots + slot,
                weights[point, slot], float(size.max(initial=0.0)),
            )  # fmt: skip

    def labels(
        self, by_cell: Tally, rows: AnsweredRows, stops: Sequence[int], past: EarlierRows | None, eras: Sequence[int]
    ) -> LabelTally:
        if past is not None or eras:
            raise InvalidInput("Groups have forecasts of their own.")
        parts = self.parts(rows, stops)
        return tally_by_label(
            parts, self.label, self.predicted, self.forecasts, by_cell.shape, by_cell.gamma, by_cell.reference
        )

    def halves(self, rows: AnsweredRows, stops: Sequence[int], reference: FloatArray) -> Tally:
        count = self.size(rows.layout.slots)
        atoms = np.zeros((count, 2 * count))
        atoms[np.arange(count), 2 * np.arange(count)] = 1.0  # both halves have the reference of their cell
        parts = self._half_parts(rows, stops)
        return tally(parts, CellShape(len(stops), atoms), rows.gamma, np.repeat(reference, 2))

    def _half_parts(self, rows: AnsweredRows, stops: Sequence[int]) -> Iterator[CellRows]:
        first = 0
        for part in self.parts(rows, stops):
            half = self.half[first : first + part.cell.size]
            first += part.cell.size
            yield replace(part, cell=2 * part.cell + half)

    def check(self, rows: AnsweredRows) -> None:
        if self.group.size != len(rows) or self.next_group.size != _points(rows):
            raise InvalidInput(f"There are groups of {self.group.size} rows, and {len(rows)} rows.")
        model = _model_range(rows)
        for values in (self.value, self.next_value, self.start_value):
            if not np.all((values >= model.low) & (values <= model.high)):
                raise NumericalError("The model leaves the value range.")

    def start_points(self, cloud: Cloud) -> tuple[IntArray, FloatArray]:
        needed = (cloud.rows.size, int(cloud.rows.max(initial=-1)) + 1)
        if (known := (self.start_group.size, self.start_value.size)) != needed:
            raise InvalidInput(
                f"There are groups and values of {known} initial points and states, and {needed} points and states."
            )
        return self.start_group, self.start_value

    def limits(self, rows: AnsweredRows) -> ValueLimits:
        """e(c) is a mean of q* - q̂ over logged points, next points or starts: all of q̂ lies in its range (`check`)."""
        known, model = range_at_all_times(rows.terms), _model_range(rows)
        return ValueLimits(largest_width(rows.terms), known.low - model.high, known.high - model.low)

    def first_rows(self, rows: AnsweredRows) -> GroupCells:
        return self.part(slice(0, len(rows)), slice(0, _points(rows)))

    def after(self, pilot: AnsweredRows) -> GroupCells:
        """The same for the rows after a pilot."""
        return self.part(slice(len(pilot), None), slice(_points(pilot), None))

    def last_starts(self, rows: AnsweredRows) -> GroupCells:
        points, states = rows.initial.rows.size, len(rows.initial_states)
        if self.start_group.size < points or self.start_value.size < states:
            raise InvalidInput("A start has no group.")
        first, value = self.start_group.size - points, self.start_value.size - states
        return replace(self, start_group=self.start_group[first:], start_value=self.start_value[value:])

    def pick_starts(self, cloud: Cloud, states: IntArray) -> GroupCells:
        points = np.isin(cloud.rows, states)
        return replace(self, start_group=self.start_group[points], start_value=self.start_value[states])

    def part(self, rows: slice, points: slice) -> GroupCells:
        return replace(
            self, group=self.group[rows], next_group=self.next_group[points], value=self.value[rows],
            next_value=self.next_value[rows], half=self.half[rows], label=self.label[rows],
            predicted=self.predicted[rows],
        )  # fmt: skip


def _model_range(rows: AnsweredRows) -> ValueRange:
    """Where q̂ and its means over actions may lie: the value range with 0, wider by the rounding of a mean and of a difference."""
    known, terms = range_at_all_times(rows.terms), rows.layout.slots + rows.next_draws + rows.initial_draws
    rounding = rounding_of_sums(terms) * known.largest
    return ValueRange(min(known.low, 0.0) - rounding, max(known.high, 0.0) + rounding)


def _points(rows: AnsweredRows) -> int:
    return sum(batch.next.rows.size for batch in rows.batches())


def blocks_of(log_rows: IntArray, stops: Sequence[int]) -> IntArray:
    """The block of every row: block b ends before row stops[b] of the log."""
    found = np.searchsorted(np.asarray(stops), log_rows, side="right")
    if found.size and int(found.max()) >= len(stops):
        raise InvalidInput("The blocks of the plan end before the rows do.")
    return np.asarray(found)


def within_quotas(parts: Iterable[CellRows], quotas: FloatArray) -> Iterator[CellRows]:
    """Rows of block b and cell c beyond the first quotas[b, c] move to block B + b, B the number of blocks."""
    blocks, cells = quotas.shape
    seen = np.zeros(blocks * cells, dtype=np.int64)
    for part in parts:
        key = part.block * cells + part.cell
        earlier = seen[key] + repeats(key)
        seen += np.bincount(key, minlength=seen.size)
        beyond = earlier >= quotas.reshape(-1)[key]
        yield replace(part, block=part.block + blocks * beyond)


def repeats(values: IntArray) -> IntArray:
    """How many entries before each one are equal to it."""
    small = values.size > 0 and int(values.max()) - int(values.min()) < 2**16
    order = np.argsort((values - values.min()).astype(np.uint16) if small else values, kind="stable")  # a pass or two
    new = np.flatnonzero(np.diff(values[order], prepend=-1))
    ranks = np.arange(values.size) - np.repeat(new, np.diff(np.append(new, values.size)))
    out = np.empty(values.size, dtype=np.int64)
    out[order] = ranks
    return out


_MOST_BITS = 17


class StateIndex:
    """Where every point stands among different states; -1: nowhere. Found by a 64-bit mark, and compared number by number."""

    def __init__(self, states: FloatArray) -> None:
        self.states = states + 0.0  # -0.0 is 0.0
        marks = self.marks_of(self.states)
        self.order = np.argsort(marks, kind="stable")
        self.marks = marks[self.order]
        if np.any(self.marks[1:] == self.marks[:-1]):
            raise NumericalError("Two states of a table have the same mark.")
        self.shift, self.places = self._places(marks)

    @staticmethod
    def _places(marks: npt.NDArray[np.uint64]) -> tuple[np.uint64, IntArray | None]:
        """The place of every state by the first bits of its mark, where few of them tell all states apart."""
        for bits in range(8, _MOST_BITS):
            shift = np.uint64(64 - bits)
            short = marks >> shift
            if marks.size and 2 * marks.size <= 2**bits and np.unique(short).size == marks.size:
                found = np.zeros(2**bits, dtype=np.int64)
                found[short] = np.arange(marks.size)
                return shift, found
        return np.uint64(0), None

    @staticmethod
    def marks_of(points: FloatArray) -> npt.NDArray[np.uint64]:
        bits = np.ascontiguousarray(points).view(np.uint64)
        mark = np.zeros(points.shape[0], dtype=np.uint64)
        for column in bits.T:
            mixed = (mark ^ column) * np.uint64(0x9E3779B97F4A7C15)
            mark = mixed ^ (mixed >> np.uint64(29))
        return mark

    def required(self, points: FloatArray) -> IntArray:
        """The positions; an error where there is none."""
        places = self.positions(points)
        if np.any(places < 0):
            raise InvalidInput("A state is not among those of the table.")
        return places

    def positions(self, points: FloatArray) -> IntArray:
        points = points + 0.0
        marks = self.marks_of(points)
        if self.places is None:
            found = self.order[np.minimum(np.searchsorted(self.marks, marks), self.marks.size - 1)]
        else:
            found = self.places[marks >> self.shift]
        return np.asarray(np.where((self.states[found] == points).all(axis=1), found, -1))
