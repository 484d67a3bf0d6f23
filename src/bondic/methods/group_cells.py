"""Groups and a model for a problem, from its pilot: as numbers at every row, next point and start. Never trusted.

The number of groups is that of the shortest predicted interval: with a model, groups and labels of the pilot's first two thirds,
on the last. In the prediction is the bias that groups may cause: fewer groups assume more, more groups are noisier.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.cells.forecasts import Forecasts
from bondic.core.cells.rows import GroupCells
from bondic.core.cells.tally import CellShape, tally
from bondic.core.columns import Batch
from bondic.core.errors import InvalidInput
from bondic.core.terms import range_at_all_times
from bondic.curve import Mark
from bondic.methods.group_labels import CrossFits, Labels, labels_of
from bondic.plan.cells import CellModel
from bondic.plan.fitted import candidates, choose_model, half_models, held_out_from
from bondic.plan.groups import TreeGroups, UserGroups, mostly_new, propose_groups, user_groups
from bondic.plan.rows import Model, TrainingRows, UserModel
from bondic.plan.tree import RegressionTree, grow
from bondic.rendering import three
from bondic.rows import Rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_CELLS = 1200
"""Groups times actions: equations on more cells take long, and every one of them needs rows."""
_MAX_GROUPS = 32
_MIN_IN_HALF = 10
_COMPARED = 20_000
"""Rows that numbers of groups are compared on, at most: a bound on time."""
AnyGroups = TreeGroups | UserGroups


@dataclass(frozen=True, eq=False)
class FittedGroups:
    """A model with groups, which can be evaluated anywhere."""

    model: Model
    groups: AnyGroups
    halves: tuple[RegressionTree | None, ...]  # of every group: how it is cut in two
    labels: Labels | None  # what is forecast to follow; None while groups are still compared
    limits: tuple[float, float]  # values of the model are cut to these
    layout_actions: int  # columns of a point that are the action; 0 where actions are codes
    name: str
    second: tuple[Model, Model]  # fitted on the first and the second half of the pilot; or a fitted one and the user's

    def split(self, points: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """States and, where they are numbers, actions of points."""
        if not self.layout_actions:
            return points, None
        return points[:, : -self.layout_actions], points[:, -self.layout_actions :]

    def group(self, points: FloatArray) -> IntArray:
        return self.groups.codes(*self.split(points))

    def likely(self, group: IntArray, answers: FloatArray) -> IntArray:
        """The cell of the most likely action."""
        return np.asarray(group * answers.shape[1] + answers.argmax(axis=1))

    def half(self, points: FloatArray, group: IntArray) -> IntArray:
        found = np.zeros(group.size, dtype=np.int64)
        for code, tree in enumerate(self.halves):
            if tree is not None:
                here = np.flatnonzero(group == code)
                found[here] = tree.codes(points[here])
        return found

    def values(self, points: FloatArray, slots: IntArray, model: Model | None = None) -> FloatArray:
        """q̂ at pairs."""
        states, actions = self.split(points)
        found = (model or self.model).values(states, slots if actions is None else actions)
        return np.clip(found, *self.limits)

    def means(self, points: FloatArray, weights: FloatArray, model: Model | None = None) -> FloatArray:
        """The policy's share of the mean of q̂ at every point: sum over its actions, or over one draw."""
        if self.layout_actions:
            return np.asarray(self.values(points, np.zeros(points.shape[0], dtype=np.int64), model) * weights[:, 0])
        table = np.clip((model or self.model).value_table(points), *self.limits)
        return np.asarray(np.einsum("ij,ij->i", table, weights))

    def cells(self, problem: Rows) -> GroupCells:
        """Everything as numbers, block by block; other processes may make them."""
        parts = problem.over_batches(self._batch)
        group, following, value, next_value, half, label, forecast = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )
        count = self.groups.n_cells
        plain = Forecasts(np.arange(count), np.zeros(count), np.zeros((count, count)))
        cloud = problem.initial
        start = np.bincount(cloud.rows, self.means(cloud.points, cloud.weights), minlength=len(problem.initial_states))
        return GroupCells(
            self.groups.count,
            group,
            following,
            self.group(cloud.points),
            value,
            next_value,
            np.clip(start, *self.limits),
            half,
            label,
            forecast,
            plain if self.labels is None else self.labels.forecasts,
        )

    def _batch(self, batch: Batch) -> tuple[IntArray | FloatArray, ...]:
        group, cloud = self.group(batch.logged), batch.next
        following = self.group(cloud.points) if cloud.rows.size else np.zeros(0, dtype=np.int64)
        means = self.means(cloud.points, cloud.weights) if cloud.rows.size else np.zeros(0)
        next_value = np.asarray(np.bincount(cloud.rows, means, minlength=len(batch)), dtype=np.float64)
        cell = group * max(batch.layout.slots, 1) + batch.slots
        label, forecast = cell, np.zeros(cell.size)
        if self.labels is not None:
            label, forecast = self.labels.of(self, batch.logged, batch.slots, cell)
        half = self.half(batch.logged, group)
        return group, following, self.values(batch.logged, batch.slots), next_value, half, label, forecast


def training_rows(pilot: Rows) -> TrainingRows:
    """The pilot as arrays."""
    batch, layout = pilot.whole(), pilot.layout
    n, known = len(batch), range_at_all_times(pilot.terms)
    common: dict[str, Any] = {
        "rewards": batch.rewards,
        "gamma": min(pilot.gamma, 1 - 1e-6),
        "value_range": (known.low, known.high),
    }
    if layout.discrete:
        following, chances = np.zeros_like(batch.logged), np.zeros((n, batch.next.weights.shape[1]))
        following[batch.next.rows], chances[batch.next.rows] = batch.next.points, batch.next.weights
        return TrainingRows(
            batch.logged,
            batch.slots,
            next_states=following,
            n_actions=layout.slots,
            next_probabilities=chances,
            **common,
        )
    k, draws = layout.action_dim, batch.next.draws
    states, actions = batch.logged[:, :-k], batch.logged[:, -k:]
    following, chosen, weights = np.zeros_like(states), np.zeros((n, draws, k)), np.zeros((n, draws))
    if batch.next.rows.size:
        rows = batch.next.rows[::draws]
        following[rows] = batch.next.points[::draws, :-k]
        chosen[rows] = batch.next.points[:, -k:].reshape(-1, draws, k)
        weights[rows] = batch.next.weights[:, 0].reshape(-1, draws)
    return TrainingRows(states, actions, next_states=following, next_actions=chosen, next_weights=weights, **common)


def split_pilot(pilot: Rows) -> tuple[Rows, Rows]:
    """Rows for model, groups and labels, and held-out rows on which lengths are predicted."""
    cut = int(pilot.whole().log_rows[held_out_from(len(pilot))])
    first = pilot.select(max(pilot.rows.start, cut - 2 * _COMPARED), cut)
    return first, pilot.select(cut, min(pilot.rows.stop, cut + _COMPARED))


def fit_groups(
    pilot: Rows,
    model: Any,
    groups: Any,
    count: int | None,
    length: Callable[[FittedGroups, Rows], float],
    report: Callable[[str], object],
    each: int | None = None,
) -> FittedGroups:
    """A model and groups from the pilot alone, or the user's own; `length` is predicted from held-out rows.

    `each`: what a group counts for, of MAX_CELLS; None: its cells.
    """
    training, layout = training_rows(pilot), pilot.layout
    actions = layout.slots if layout.discrete else None
    report("model")
    choice = choose_model(training)
    parts = half_models(training, candidates()[choice.name])
    own: Model = choice.model if model is None else UserModel(model, actions)
    known = range_at_all_times(pilot.terms)
    limits = (min(known.low, 0.0), max(known.high, 0.0)) if pilot.terms.horizon else (known.low, known.high)
    columns, name = 0 if layout.discrete else layout.action_dim, choice.name if model is None else "yours"
    second: tuple[Model, Model] = parts if model is None else (choice.model, own)
    column = _number_column(groups, pilot, training)
    each, given = each or max(layout.slots, 1), None
    if isinstance(groups, TreeGroups | UserGroups):
        given = groups
    elif groups is not None and column is None:
        given = user_groups(_labels(groups, pilot), training.states, actions)
    if given is not None and given.count * each > MAX_CELLS:
        raise InvalidInput(
            f"groups has {given.count} labels, and with the actions {given.count * each} cells; at most {MAX_CELLS} can be "
            "used: make fewer, larger groups."
        )
    report("groups")

    def made(mine: Model, rows: Rows, arrays: TrainingRows, size: int, cross_fits: CrossFits | None) -> FittedGroups:
        found = given or propose_groups(arrays, _Clipped(mine, limits), count=size, column=column)
        bare = FittedGroups(mine, found, (), None, limits, columns, name, second)
        parts = bare.cells(rows).parts(rows, (rows.rows.stop,))
        return replace(bare, labels=labels_of(bare, parts, (found.n_cells,) * 2, rows, cross_fits))

    most = max(min(_MAX_GROUPS, MAX_CELLS // each), 1)
    size = count or most
    if count is None and given is None:
        first, held_out = split_pilot(pilot)
        arrays, mine = training_rows(first), choice.early if model is None else own
        cross_fits, sizes = CrossFits.of(arrays), sorted({min(2**k, most) for k in range(1, 6)})
        found = [made(mine, first, arrays, each, cross_fits) for each in sizes]
        size = sizes[int(np.argmin([length(one, held_out) + 2 * _bias(one, held_out) for one in found]))]
    chosen = made(own, pilot, training, size, CrossFits.of(training))
    return replace(chosen, halves=_halves(chosen, pilot))


@dataclass(frozen=True)
class _Clipped:
    """A model whose values are cut to the value range."""

    model: Model
    limits: tuple[float, float]

    def values(self, states: FloatArray, actions: Any) -> FloatArray:
        return np.clip(self.model.values(states, actions), *self.limits)

    def value_table(self, states: FloatArray) -> FloatArray:
        return np.clip(self.model.value_table(states), *self.limits)


def _number_column(groups: Any, pilot: Rows, training: TrainingRows) -> int | None:
    """Where the named column stands, if its values are numbers of which later rows have others: a tree makes groups of them."""
    if not isinstance(groups, str) or groups not in pilot.names or not pilot.layout.discrete:
        return None
    place = pilot.names.index(groups)
    return place if mostly_new(training.states[:, place], held_out_from(len(training))) else None


def _labels(groups: Any, pilot: Rows) -> Any:
    """A function of states; the name of a column stands for its values."""
    if callable(groups):
        return groups
    if isinstance(groups, str):
        if groups not in pilot.names:
            raise InvalidInput(
                f"groups={groups!r} is no column of the states; these are {', '.join(pilot.names) or 'not named'}."
            )
        place = pilot.names.index(groups)
        return lambda states: states[:, place]
    raise InvalidInput(
        "groups is a function of states that returns a label for each, or the name of a column of the states."
    )


@dataclass(frozen=True, eq=False)
class _Difference:
    """Of two models that saw other rows: what varies inside a cell stands for ζ."""

    fitted: FittedGroups
    pilot: Rows

    @cached_property
    def cell(self) -> IntArray:
        batch = self.pilot.whole()
        return self.fitted.group(batch.logged) * self.pilot.layout.slots + batch.slots

    @cached_property
    def counts(self) -> IntArray:
        return np.bincount(self.cell, minlength=self.fitted.groups.n_cells)

    @cached_property
    def rows(self) -> FloatArray:
        """(n,) at the rows, less the mean of their cell."""
        return np.asarray(self._apart - self.means.reshape(-1)[self.cell])

    @cached_property
    def _apart(self) -> FloatArray:
        batch, (first, second) = self.pilot.whole(), self.fitted.second
        return self.fitted.values(batch.logged, batch.slots, first) - self.fitted.values(
            batch.logged, batch.slots, second
        )

    @cached_property
    def means(self) -> FloatArray:
        """(groups, actions) over the rows of every cell."""
        total = np.bincount(self.cell, self._apart, minlength=self.counts.size)
        return np.asarray(total / np.maximum(self.counts, 1)).reshape(-1, self.pilot.layout.slots)

    def at(self, points: FloatArray, weights: FloatArray) -> FloatArray:
        """The policy's mean at other points, less those of their cells."""
        first, second = self.fitted.second
        here = self.fitted.means(points, weights, first) - self.fitted.means(points, weights, second)
        return np.asarray(here - (self.means[self.fitted.group(points)] * weights).sum(axis=1))

    def at_starts(self) -> float:
        cloud = self.pilot.initial
        return float(self.pilot.initial_states.weights[cloud.rows] @ self.at(cloud.points, cloud.weights))


def _bias(fitted: FittedGroups, pilot: Rows) -> float:
    """|<ζ, μ>| of balanced weights: the mean of ζ at the starts, and γ times that at next points by visits."""
    apart, following, cells = _Difference(fitted, pilot), pilot.whole().next, fitted.cells(pilot)
    found = apart.at_starts()
    if following.rows.size:
        shape = CellShape(1, cells.atoms(pilot))
        model = CellModel.of(tally(cells.parts(pilot, (pilot.rows.stop,)), shape, pilot.gamma, np.zeros(shape.cells)))
        visits = model.visits(cells.start_mean(pilot.initial, pilot.initial_states.weights)[None])[0]
        ahead = apart.at(following.points, following.weights)
        ahead = np.bincount(apart.cell[following.rows], ahead, minlength=visits.size) / np.maximum(apart.counts, 1)
        found += pilot.gamma * float(visits @ ahead)
    return abs(found)


def _halves(fitted: FittedGroups, pilot: Rows) -> tuple[RegressionTree | None, ...]:
    """Each group cut in two where residuals of the pilot differ most; None where it has too few rows."""
    training, batch = training_rows(pilot), pilot.whole()
    residuals = training.residuals(_Clipped(fitted.model, fitted.limits).values)
    found: list[RegressionTree | None] = []
    group = fitted.group(batch.logged)
    for code in range(fitted.groups.count):
        here = np.flatnonzero(group == code)
        if here.size < 4 * _MIN_IN_HALF:
            found.append(None)
            continue
        tree = grow(batch.logged[here], residuals[here], leaves=2, min_rows=max(here.size // 4, _MIN_IN_HALF))
        found.append(tree if tree.leaves == 2 else None)
    return tuple(found)


def marks_of(fitted: FittedGroups, pilot: Rows) -> tuple[Mark, ...]:
    """What may hint at the allowance that is needed, from the pilot: no choice is made by it."""
    batch, apart = pilot.whole(), _Difference(fitted, pilot)
    value = float(np.abs(apart.rows).mean())
    other = "two models fitted on different rows" if fitted.name != "yours" else "your model and a fitted one"
    found = [Mark("two models", value, f"{other} differ by {three(value)} inside a group, on average")]
    residual = training_rows(pilot).residuals(_Clipped(fitted.model, fitted.limits).values)
    half = 2 * apart.cell + fitted.half(batch.logged, fitted.group(batch.logged))
    count, total = (np.bincount(half, w, minlength=2 * fitted.groups.n_cells).reshape(-1, 2) for w in (None, residual))
    both = (count > 0).all(axis=1)
    if both.any():
        gaps = np.abs(total[both, 0] / count[both, 0] - total[both, 1] / count[both, 1]) / 2
        value = float(gaps @ count[both].sum(axis=1) / count[both].sum())
        text = f"one-step errors of the model in halves of a group lie {three(value)} from its mean, on average"
        found.append(Mark("halves of groups", value, text))
    value = abs(apart.at_starts())
    text = f"at the starts their difference lies {three(value)} from that at the rows of the same groups"
    return tuple(mark for mark in (*found, Mark("starts", value, text)) if math.isfinite(mark.value))
