"""Labels inside cells, by what is forecast to follow a row, and a forecast of each row's own outcome. Never trusted.

Regressions on the pilot predict the next state, whether there is one, the policy there and the reward. Where the next state is
nearly a function of state and action, r̂ + γ V̂(ŝ') forecasts r + γ V̂(s') far better than any regression of it on (s, a): V̂ has
cliffs, and ŝ' is smooth. The policy is not queried at ŝ' (a replay has its recorded answers alone): a tree on its answers is its
surrogate. Outcomes o_i = r_i + γ V̂(s'_i) - q̂(x_i) are predicted as

    m_i = a ( r̂_i + γ V̂(ŝ'_i) - q̂(x_i) ) - a' γ (chance of an end) V̂(ŝ'_i),

with shares a, a' in [0, 1] that fit rows whose regressions did not see them: 0 where the next state is chance. A tree on the
state, the action and ŝ' separates remainders and next cells; its leaves inside cells are the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from bondic.core.cells.forecasts import Forecasts
from bondic.core.cells.tally import CellRows
from bondic.plan.learners import ByAction, OfColumns
from bondic.plan.rows import Actions, ActionValue, Floats, TrainingRows, joined
from bondic.plan.tree import RegressionTree, grow, leaf_means
from bondic.rows import Rows

_REGRESSION_ROWS = 20_000
"""Rows that regressions use, at most: a bound on time."""
_FEATURES = 100
"""Most columns of a quadratic regression; a linear one where there would be more."""
_RIDGE = 1e-6
_REGRESSION_LEAVES, _LEAF_ROWS = 64, 5
Regression = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class PredictedNext:
    """What is forecast to follow rows."""

    states: Floats  # (m, d) ŝ'
    answers: Floats  # (m, A) the policy's probabilities there, or (m, k) its mean action
    rewards: Floats  # (m,) r̂
    goes_on: Floats  # (m,) the chance that there is a next state


@dataclass(frozen=True, eq=False)
class TransitionModel:
    """Regressions that were made of some rows."""

    moves: ActionValue  # (m, d): s' - s
    rewards: ActionValue  # (m, 1)
    goes_on: Regression  # (m, 1), of s and ŝ'
    answers: Regression

    @staticmethod
    def of(rows: TrainingRows) -> TransitionModel:
        """From rows, some of which have a next state."""
        rows = rows.thinned(_REGRESSION_ROWS)
        went = np.zeros(len(rows), dtype=bool)
        went[rows.next_pairs.rows] = True
        following = rows.next_states[went]
        moves = _by_action(rows.states[went], rows.actions[went], following - rows.states[went])
        both = np.hstack([rows.states, rows.states + moves(rows.states, rows.actions)])
        return TransitionModel(
            moves,
            _by_action(rows.states, rows.actions, rows.rewards[:, None]),
            leaf_means(both, went[:, None].astype(np.float64), leaves=_REGRESSION_LEAVES, min_rows=_LEAF_ROWS),
            _scored(following, _means_of(rows)[went]),
        )

    def ahead(self, states: Floats, actions: Actions) -> PredictedNext:
        following = states + self.moves(states, actions)
        goes_on = self.goes_on(np.hstack([states, following]))[:, 0]
        return PredictedNext(following, self.answers(following), self.rewards(states, actions)[:, 0], goes_on)


def _means_of(rows: TrainingRows) -> Floats:
    """(n, A) the policy's probabilities after a row, or (n, k) its mean action."""
    if rows.next_probabilities is not None:
        return rows.next_probabilities
    assert rows.next_actions is not None
    assert rows.next_weights is not None
    return np.asarray(np.einsum("ijk,ij->ik", rows.next_actions, rows.next_weights))


def _scored(inputs: Floats, targets: Floats) -> Regression:
    """Means over the leaves of a tree that may also split on the predictions of a regression."""
    score = _ridge(inputs, targets)
    means = leaf_means(np.hstack([inputs, score(inputs)]), targets, leaves=_REGRESSION_LEAVES, min_rows=_LEAF_ROWS)
    return _Scored(score, means)


@dataclass(frozen=True, eq=False)
class _Scored:
    score: Regression
    means: Regression

    def __call__(self, inputs: Floats) -> Floats:
        return self.means(np.hstack([inputs, self.score(inputs)]))


def _by_action(states: Floats, actions: Actions, targets: Floats) -> ActionValue:
    """A regression for every action code that has enough rows, one for all the others; with numbers one for all."""
    if actions.ndim == 2:
        return OfColumns(_ridge(joined(states, actions), targets), joined)
    least = 2 * _columns(states[:1]).shape[1]
    codes, counts = np.unique(actions, return_counts=True)
    fits = {a: _ridge(states[actions == a], targets[actions == a]) for a in codes[counts >= least].tolist()}
    return ByAction(fits, _ridge(states, targets))


def _ridge(inputs: Floats, targets: Floats) -> Regression:
    """Least squares on standardized columns, their squares and products."""
    center, scale = inputs.mean(axis=0), inputs.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    own = _columns((inputs - center) / scale)
    gram = own.T @ own / len(own)
    gram += _RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
    return _Quadratic(center, scale, np.asarray(np.linalg.solve(gram, own.T @ targets / len(own))))


@dataclass(frozen=True, eq=False)
class _Quadratic:
    center: Floats
    scale: Floats
    slope: Floats

    def __call__(self, inputs: Floats) -> Floats:
        return np.asarray(_columns((inputs - self.center) / self.scale) @ self.slope)


def _columns(z: Floats) -> Floats:
    width = z.shape[1]
    if (width + 1) * (width + 2) // 2 > _FEATURES:
        return np.hstack([np.ones((len(z), 1)), z])
    first, second = np.triu_indices(width)
    return np.hstack([np.ones((len(z), 1)), z, z[:, first] * z[:, second]])


FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class AnyFit(Protocol):
    """A model with groups: of one policy, or of the difference of two."""

    def split(self, points: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """States and, where they are numbers, actions of points."""

    def group(self, points: FloatArray) -> IntArray: ...

    def likely(self, group: IntArray, answers: FloatArray) -> IntArray:
        """A number of what most likely follows, from the group and the answers there."""

    def values(self, points: FloatArray, slots: IntArray) -> FloatArray: ...

    def means(self, points: FloatArray, weights: FloatArray) -> FloatArray: ...


_LEAVES, _ROWS, _SKETCH = 256, 20, 6
"""Most leaves of the tree, rows of the pilot in one, and random projections that stand for next cells."""
_MAX_LABELS, _MAX_ROWS = 2048, 50_000
"""Of each kind of labels, and rows that they are made of: bounds on time."""
_MAX_CELLS = 4096
"""More than there can be cells: of two codes one is made."""
_PRIOR = 2.0
"""Rows of its cell that a label's means are mixed with."""


@dataclass(frozen=True, eq=False)
class RowForecasts:
    """What regressions say of rows."""

    inputs: FloatArray  # what the tree splits
    outcome: FloatArray  # (n, 2) r̂ + γ V̂(ŝ') - q̂(x), and what the chance of an end takes from it
    following: IntArray  # the cell that most likely follows, or p for an end; 0 where it was not requested


@dataclass(frozen=True, eq=False)
class Labels:
    """Cells, then (cell, next cell that is forecast), then leaves of a tree inside these: the finest that the pilot has seen."""

    tree: RegressionTree
    keys: tuple[IntArray, IntArray]  # of the finer labels, ascending
    forecasts: Forecasts
    transitions: TransitionModel | None
    shares: FloatArray  # (2,) a
    gamma: float

    def of(self, model: AnyFit, points: FloatArray, slots: IntArray, cell: IntArray) -> tuple[IntArray, FloatArray]:
        """The label of every row, and a m̂_i."""
        found = _forecast(model, self.transitions, self.gamma, points, slots)
        keys = _keys(cell, found, self.tree)
        label, first = cell, self.forecasts.cell.size - sum(own.size for own in self.keys)
        for known, key in zip(self.keys, keys, strict=True):
            place = np.minimum(np.searchsorted(known, key), max(known.size - 1, 0))
            label = np.where(known[place] == key, first + place, label) if known.size else label
            first += known.size
        return np.asarray(label), found.outcome @ self.shares


def _forecast(
    model: AnyFit, transitions: TransitionModel | None, gamma: float, points: FloatArray, slots: IntArray
) -> RowForecasts:
    none = np.zeros(len(points), dtype=np.int64)
    if transitions is None:
        return RowForecasts(np.column_stack([points, slots]), np.zeros((len(points), 2)), none)
    states, actions = model.split(points)
    ahead = transitions.ahead(states, slots if actions is None else actions)
    if actions is None:
        after, value = ahead.states, model.means(ahead.states, ahead.answers)
        cell = model.likely(model.group(after), ahead.answers)
    else:
        after = np.hstack([ahead.states, ahead.answers])
        cell, value = model.group(after), model.values(after, none)
    lost = gamma * (1 - ahead.goes_on) * value
    outcome = np.column_stack([ahead.rewards + gamma * value - model.values(points, slots), -lost])
    return RowForecasts(np.column_stack([points, slots, after, outcome]), outcome, cell)


def _keys(cell: IntArray, forecast: RowForecasts, tree: RegressionTree) -> tuple[IntArray, IntArray]:
    """Of (cell, next cell) and of (cell, next cell, leaf)."""
    pair = cell * _MAX_CELLS + forecast.following
    return pair, pair * tree.leaves + tree.codes(forecast.inputs)


@dataclass(frozen=True, eq=False)
class CrossFits:
    """Regressions on each half of some rows, and on all of them: no group is needed for them."""

    halves: tuple[TransitionModel, TransitionModel]
    whole: TransitionModel

    @staticmethod
    def of(training: TrainingRows) -> CrossFits | None:
        """None where nothing follows, or one half has no next state."""
        went, cut = training.next_pairs.rows, (len(training) + 1) // 2
        if training.gamma == 0 or not (np.any(went < cut) and np.any(went >= cut)):
            return None
        parts = (training.take(slice(0, cut)), training.take(slice(cut, None)))
        return CrossFits((TransitionModel.of(parts[0]), TransitionModel.of(parts[1])), TransitionModel.of(training))


def labels_of(
    model: AnyFit, parts: Iterable[CellRows], shape: tuple[int, int], pilot: Rows, known: CrossFits | None
) -> Labels:
    """From the rows of a pilot, so many cells and atoms (`shape`); `known` was made of them."""
    (count, atoms), batch, part = shape, pilot.whole(), _joined(parts)
    some = np.linspace(0, len(batch) - 1, min(len(batch), _MAX_ROWS)).astype(np.int64)
    cell, outcome, following = part.cell[some], part.outcome[some], _masses(part, atoms)[some]
    forecast = _cross_fitted(
        model, known, pilot.gamma, batch.logged[some], batch.slots[some], 2 * some < len(batch) + 1
    )
    shares = _shares(outcome, forecast.outcome, following.sum(axis=1) > 0)
    if known is not None and not shares.any():
        return labels_of(model, [part], shape, pilot, None)
    left = outcome - forecast.outcome @ shares
    sketch = np.random.default_rng(0).standard_normal((atoms, _SKETCH))
    targets = np.column_stack([following @ sketch, left / (float(left.std()) or 1.0)])
    rows = cell.size
    tree = grow(forecast.inputs, targets, leaves=min(_LEAVES, max(rows // _ROWS, 1)), min_rows=_ROWS // 2)
    columns = np.column_stack([left, following])
    overall = columns.mean(axis=0)
    place, above = cell, _means(cell, columns, np.tile(overall, (count, 1)))
    keys, own, means = [], [np.arange(count)], [above]
    for key in _keys(cell, forecast, tree):  # every label is mixed with the one that it is a part of
        seen, first, finer, sizes = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        place, above = finer, _means(finer, columns, above[place[first]])
        kept = sizes * _MAX_LABELS >= rows
        keys.append(seen[kept])
        own.append(cell[first[kept]])
        means.append(above[kept])
    table = np.concatenate(means)
    forecasts = Forecasts(np.concatenate(own), table[:, 0], table[:, 1:])
    return Labels(tree, (keys[0], keys[1]), forecasts, known.whole if known else None, shares, pilot.gamma)


def _means(place: IntArray, columns: FloatArray, prior: FloatArray) -> FloatArray:
    """Means over the rows of every place, mixed with what is known of it beforehand."""
    sums = np.zeros_like(prior)
    np.add.at(sums, place, columns)
    return np.asarray((sums + _PRIOR * prior) / (np.bincount(place, minlength=len(prior)) + _PRIOR)[:, None])


def _shares(outcome: FloatArray, forecast: FloatArray, went: npt.NDArray[np.bool_]) -> FloatArray:
    """Of the first column on rows that something follows, then of the second on all rows; least squares, cut to [0, 1]."""
    first = _slope(outcome[went], forecast[went, 0])
    return np.array([first, _slope(outcome - first * forecast[:, 0], forecast[:, 1])])


def _slope(targets: FloatArray, column: FloatArray) -> float:
    square = float(column @ column)
    return float(np.clip(targets @ column / square, 0.0, 1.0)) if square > 0 else 0.0


def _cross_fitted(
    model: AnyFit,
    known: CrossFits | None,
    gamma: float,
    points: FloatArray,
    slots: IntArray,
    early: npt.NDArray[np.bool_],
) -> RowForecasts:
    """Rows in their order, those of each half forecast by regressions on the other."""
    if known is None:
        return _forecast(model, None, gamma, points, slots)
    parts = (early, ~early)
    found = [
        _forecast(model, other, gamma, points[own], slots[own])
        for own, other in zip(parts, known.halves[::-1], strict=True)
    ]
    inputs, outcome, following = (
        np.concatenate([getattr(one, name) for one in found]) for name in ("inputs", "outcome", "following")
    )
    return RowForecasts(inputs, outcome, following)


def _joined(parts: Iterable[CellRows]) -> CellRows:
    """All rows as one part."""
    found = list(parts)
    tops = np.cumsum([0, *(part.cell.size for part in found)])
    names = ("block", "cell", "outcome", "atom", "mass")
    columns = {name: np.concatenate([getattr(part, name) for part in found]) for name in names}
    owner = np.concatenate([part.owner + top for part, top in zip(found, tops, strict=False)])
    return CellRows(**columns, owner=owner, size=max(part.size for part in found))


def _masses(part: CellRows, count: int) -> FloatArray:
    """(n, J) masses."""
    found = np.zeros((part.cell.size, count))
    np.add.at(found, (part.owner, part.atom), part.mass)
    return found
