"""Groups and a model for a problem, from its pilot: as numbers at every row, next point and start. Never trusted.

The number of groups is that of the shortest predicted interval: with a model, groups and labels of the pilot's first two thirds,
on the last. In the prediction is the bias that groups may cause: fewer groups assume more, more groups are noisier.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from bondic.methods.group_labels import Foresights, Labels, labels_of
from bondic.plan.cells import CellModel
from bondic.plan.fitted import candidates, choose_model, half_models, held_out_from
from bondic.plan.groups import TreeGroups, UserGroups, mostly_new, propose_groups, user_groups
from bondic.plan.model import Model, UserModel, disagreement
from bondic.plan.rows import TrainingRows
from bondic.plan.tree import RegressionTree, grow
from bondic.rendering import three
from bondic.rows import Rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_CELLS = 1200
"""Groups times actions: equations on more cells take long, and every one of them needs rows."""
_MOST_GROUPS = 32
_FEWEST_IN_HALF = 10
_COMPARED = 20_000
"""Rows that numbers of groups are compared on, at most: a bound on time."""
AnyGroups = TreeGroups | UserGroups


@dataclass(frozen=True, eq=False)
class FittedGroups:
    """A model with groups, which can be asked anywhere."""

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
        """Everything as numbers, block by block."""
        parts = [self._batch(batch) for batch in problem.batches()]
        group, following, value, next_value, half, label, foreseen = (
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
            foreseen,
            plain if self.labels is None else self.labels.forecasts,
        )

    def _batch(self, batch: Batch) -> tuple[IntArray | FloatArray, ...]:
        group, cloud = self.group(batch.logged), batch.next
        following = self.group(cloud.points) if cloud.rows.size else np.zeros(0, dtype=np.int64)
        means = self.means(cloud.points, cloud.weights) if cloud.rows.size else np.zeros(0)
        next_value = np.asarray(np.bincount(cloud.rows, means, minlength=len(batch)), dtype=np.float64)
        cell = group * max(batch.layout.slots, 1) + batch.slots
        label, foreseen = cell, np.zeros(cell.size)
        if self.labels is not None:
            label, foreseen = self.labels.of(self, batch.logged, batch.slots, cell)
        half = self.half(batch.logged, group)
        return group, following, self.values(batch.logged, batch.slots), next_value, half, label, foreseen


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
        following, chances = np.zeros_like(batch.logged), np.zeros((n, layout.slots))
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


def fit_groups(
    pilot: Rows,
    model: Any,
    groups: Any,
    count: int | None,
    length: Callable[[FittedGroups, Rows], float],
    report: Callable[[str], object],
) -> FittedGroups:
    """A model and groups from the pilot alone, or the user's own; `length` is predicted from held-out rows."""
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
    own_groups = groups is not None and column is None
    given = user_groups(_labels(groups, pilot), training.states, actions) if own_groups else None
    if given is not None and given.n_cells > MOST_CELLS:
        raise InvalidInput(
            f"groups has {given.count} labels, and with the actions {given.n_cells} cells; at most {MOST_CELLS} can be used: "
            "make fewer, larger groups."
        )
    report("groups")

    def made(mine: Model, rows: Rows, arrays: TrainingRows, size: int, foresights: Foresights | None) -> FittedGroups:
        found = given or propose_groups(arrays, _Clipped(mine, limits), count=size, column=column)
        bare = FittedGroups(mine, found, (), None, limits, columns, name, second)
        return replace(bare, labels=labels_of(bare, bare.cells(rows), rows, foresights))

    most = max(min(_MOST_GROUPS, MOST_CELLS // layout.slots), 1)
    size = count or most
    if count is None and given is None:
        cut = int(pilot.whole().log_rows[held_out_from(len(pilot))])
        first = pilot.select(max(pilot.rows.start, cut - 2 * _COMPARED), cut)
        held_out = pilot.select(cut, min(pilot.rows.stop, cut + _COMPARED))
        arrays, mine = training_rows(first), choice.early if model is None else own
        foresights, sizes = Foresights.of(arrays), sorted({min(2**k, most) for k in range(1, 6)})
        found = [made(mine, first, arrays, each, foresights) for each in sizes]
        size = sizes[int(np.argmin([length(one, held_out) + 2 * _bias(one, held_out) for one in found]))]
    chosen = made(own, pilot, training, size, Foresights.of(training))
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


def _bias(fitted: FittedGroups, pilot: Rows) -> float:
    """|<ζ, μ>| of balanced weights, if the error of the model were like the difference of two models that saw other rows.

    ζ = d - (its mean over the rows of the cell): the mean of ζ at the starts, and γ times that at next points by visits.
    """
    batch, cloud, slots, count = pilot.whole(), pilot.initial, pilot.layout.slots, fitted.groups.n_cells
    first, second = fitted.second
    cell = fitted.group(batch.logged) * slots + batch.slots
    apart = fitted.values(batch.logged, batch.slots, first) - fitted.values(batch.logged, batch.slots, second)
    counts = np.bincount(cell, minlength=count)
    means = (np.bincount(cell, apart, minlength=count) / np.maximum(counts, 1)).reshape(-1, slots)

    def varying(points: FloatArray, weights: FloatArray) -> FloatArray:
        here = fitted.means(points, weights, first) - fitted.means(points, weights, second)
        return np.asarray(here - (means[fitted.group(points)] * weights).sum(axis=1))

    cells = fitted.cells(pilot)
    shape = CellShape(1, cells.atoms(pilot))
    model = CellModel.of(tally(cells.parts(pilot, (pilot.rows.stop,)), shape, pilot.gamma, np.zeros(shape.cells)))
    weights = pilot.initial_states.weights
    visits = model.visits(cells.start_mean(cloud, weights)[None])[0]
    found = float(weights[cloud.rows] @ varying(cloud.points, cloud.weights))
    if batch.next.rows.size:
        ahead = np.bincount(cell[batch.next.rows], varying(batch.next.points, batch.next.weights), minlength=count)
        found += pilot.gamma * float(visits @ (ahead / np.maximum(counts, 1)))
    return abs(found)


def _disagreement(fitted: FittedGroups, batch: Batch, cell: IntArray, count: int) -> FloatArray:
    states, actions = fitted.split(batch.logged)
    first, second = fitted.second
    return disagreement(
        first.values, second.values, states, batch.slots if actions is None else actions, cell, count
    ).spread


def _halves(fitted: FittedGroups, pilot: Rows) -> tuple[RegressionTree | None, ...]:
    """Each group cut in two where residuals of the pilot differ most; None where it has too few rows."""
    training, batch = training_rows(pilot), pilot.whole()
    residuals = training.residuals(_Clipped(fitted.model, fitted.limits).values)
    found: list[RegressionTree | None] = []
    group = fitted.group(batch.logged)
    for code in range(fitted.groups.count):
        here = np.flatnonzero(group == code)
        if here.size < 4 * _FEWEST_IN_HALF:
            found.append(None)
            continue
        tree = grow(batch.logged[here], residuals[here], leaves=2, min_rows=max(here.size // 4, _FEWEST_IN_HALF))
        found.append(tree if tree.leaves == 2 else None)
    return tuple(found)


def marks_of(fitted: FittedGroups, pilot: Rows) -> tuple[Mark, ...]:
    """What may hint at the allowance that is needed, from the pilot: no choice is made by it."""
    batch, slots = pilot.whole(), pilot.layout.slots
    cell = fitted.group(batch.logged) * slots + batch.slots
    found = []
    spread = _disagreement(fitted, batch, cell, fitted.groups.n_cells)
    counts = np.bincount(cell, minlength=spread.size)
    value = float(np.nan_to_num(spread) @ counts / max(int(counts.sum()), 1))
    other = "two models fitted on different rows" if fitted.name != "yours" else "your model and a fitted one"
    found.append(Mark("two models", value, f"{other} differ by {three(value)} inside a group, on average"))
    residual = training_rows(pilot).residuals(_Clipped(fitted.model, fitted.limits).values)
    half = 2 * cell + fitted.half(batch.logged, fitted.group(batch.logged))
    count, total = (np.bincount(half, w, minlength=2 * fitted.groups.n_cells).reshape(-1, 2) for w in (None, residual))
    both = (count > 0).all(axis=1)
    if both.any():
        gaps = np.abs(total[both, 0] / count[both, 0] - total[both, 1] / count[both, 1]) / 2
        value = float(gaps @ count[both].sum(axis=1) / count[both].sum())
        text = f"one-step errors of the model in halves of a group lie {three(value)} from its mean, on average"
        found.append(Mark("halves of groups", value, text))
    found.append(_start_mark(fitted, pilot, cell))
    return tuple(mark for mark in found if math.isfinite(mark.value))


def _start_mark(fitted: FittedGroups, pilot: Rows, cell: IntArray) -> Mark:
    """How far two models' difference at the starts is from that at the rows of the same cells."""
    batch, cloud, slots = pilot.whole(), pilot.initial, pilot.layout.slots
    first, second = fitted.second
    own = fitted.values(batch.logged, batch.slots, first) - fitted.values(batch.logged, batch.slots, second)
    counts = np.bincount(cell, minlength=fitted.groups.n_cells)
    means = np.bincount(cell, own, minlength=counts.size) / np.maximum(counts, 1)
    group = fitted.group(cloud.points)
    weights = pilot.initial_states.weights[cloud.rows]
    at_rows = (means.reshape(-1, slots)[group] * cloud.weights).sum(axis=1)
    at_starts = fitted.means(cloud.points, cloud.weights, first) - fitted.means(cloud.points, cloud.weights, second)
    value = abs(float(weights @ (at_starts - at_rows)))
    return Mark(
        "starts", value, f"at the starts their difference lies {three(value)} from that at the rows of the same groups"
    )
