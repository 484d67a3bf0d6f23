"""Groups of states from the pilot: leaves of one tree, or the user's own. A cell is a group with an action.

Action codes are never merged: the tree splits states, and a cell is (group, action). Actions that are numbers are
columns beside the states, and a cell is a leaf.

The tree splits where the model's values and its residuals differ, action by action. An allowance covers how q* − q̂
varies inside a cell, which cannot be observed. On worlds with known q* trees on the values of a fitted model left the least of
it and trees on residuals alone the most; but residuals show what a poor model (a constant, the user's) misses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bondic.core.errors import InvalidInput, one_line
from bondic.plan.rows import Actions, Floats, Ints, Model, TrainingRows, joined
from bondic.plan.tree import RegressionTree, grow

_VALUES = 200_000
"""Rows times actions that a tree is grown on, at most: a bound on time."""


@dataclass(frozen=True)
class TreeGroups:
    """Leaves of a tree on states (action codes), or on states and actions (`n_actions` None)."""

    tree: RegressionTree
    n_actions: int | None

    @property
    def count(self) -> int:
        return self.tree.leaves

    @property
    def n_cells(self) -> int:
        return self.count * (self.n_actions or 1)

    def codes(self, states: Floats, actions: Actions | None = None) -> Ints:
        """The group of every row; it takes actions where they are numbers."""
        if self.n_actions is not None:
            return self.tree.codes(states)
        assert actions is not None, "groups of states and actions need both"
        return self.tree.codes(joined(states, actions))

    def cells(self, states: Floats, actions: Actions) -> Ints:
        """group · A + action, or the leaf."""
        codes = self.codes(states, actions)
        return codes if self.n_actions is None else codes * self.n_actions + actions

    def describe(self, names: Sequence[str]) -> tuple[str, ...]:
        """Every group in words; names of the states' columns, then of the actions' where they are numbers."""
        return self.tree.describe(names)


@dataclass(frozen=True)
class UserGroups:
    """`groups=` of the user: labels of the pilot in order, and last one group for every other label."""

    labels: NDArray[Any]
    function: Callable[[Floats], Any]
    n_actions: int | None

    @property
    def count(self) -> int:
        return len(self.labels) + 1

    @property
    def n_cells(self) -> int:
        return self.count * (self.n_actions or 1)

    def codes(self, states: Floats, _: Actions | None = None) -> Ints:
        """The group of every row."""
        values = _labels(self.function, states)
        if (values.dtype.kind == "U") != (self.labels.dtype.kind == "U"):
            raise InvalidInput(
                f"groups were {self.labels.dtype} in the pilot and are {values.dtype} now: use one kind."
            )
        places = np.minimum(np.searchsorted(self.labels, values), len(self.labels) - 1)
        return np.where(self.labels[places] == values, places, len(self.labels))

    def cells(self, states: Floats, actions: Actions) -> Ints:
        """group · A + action, or the group where actions are numbers."""
        return self.codes(states) if self.n_actions is None else self.codes(states) * self.n_actions + actions

    def describe(self, _: Sequence[str] = ()) -> tuple[str, ...]:
        return (*(one_line(label) for label in self.labels), "any other")


def user_groups(function: Callable[[Floats], Any], pilot_states: Floats, n_actions: int | None) -> UserGroups:
    """The user's groups, a function of states; labels are those of the pilot."""
    return UserGroups(np.unique(_labels(function, pilot_states)), function, n_actions)


def _labels(function: Callable[[Floats], Any], states: Floats) -> NDArray[Any]:
    """One label for every row, as numbers or text."""
    labels = np.asarray(function(states))
    labels = labels.astype(str) if labels.dtype.kind == "O" else labels
    if labels.shape != (len(states),) or labels.dtype.kind not in "biufU":
        raise InvalidInput(
            f"groups must be one number or text for each of {len(states)} rows, not {labels.dtype} of shape "
            f"{labels.shape}: pass a column, or a function of states that returns one."
        )
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise InvalidInput(f"groups have no label (nan) in row {int(np.argmax(np.isnan(labels)))}: give it one.")
    return labels


def propose_groups(
    rows: TrainingRows, model: Model, *, count: int, min_rows: int | None = None, column: int | None = None
) -> TreeGroups:
    """The tree of `count` groups for a model, at least `min_rows` rows each; on one column of the states alone, if named."""
    rows = rows.thinned(_VALUES // (rows.n_actions or 1))
    least = max(20, len(rows) // (4 * count)) if min_rows is None else min_rows
    targets = _targets(rows, model)
    if column is not None:  # columns without differences are never split
        rows = replace(rows, states=np.where(np.arange(rows.states.shape[1]) == column, rows.states, 0.0))
    return tree_groups(rows, targets, count=count, min_rows=least)


def mostly_new(values: Floats, first: int) -> bool:
    """Whether most values from row `first` on are not among those before: numbers, then, and no names of groups."""
    return bool(np.mean(~np.isin(values[first:], values[:first])) > 0.5) if 0 < first < len(values) else False


def _targets(rows: TrainingRows, model: Model) -> Floats:
    """Values of every action, and residuals in the column of the row's action: two blocks of the same weight."""
    if rows.n_actions is None:
        values, taken = model.values(rows.states, rows.actions)[:, None], np.ones((len(rows), 1), dtype=bool)
    else:
        values, taken = model.value_table(rows.states), rows.actions[:, None] == np.arange(rows.n_actions)
    residuals = rows.residuals(model.values)[:, None] * taken
    means = residuals.sum(axis=0) / np.maximum(taken.sum(axis=0), 1)
    return np.hstack([_unit(values), _unit((residuals - means) * taken)])


def _unit(block: Floats) -> Floats:
    """Centered columns with variances that add up to 1, or zeros."""
    centered = block - block.mean(axis=0)
    scale = np.sqrt((centered**2).mean(axis=0).sum())
    return centered / scale if scale > 1e-12 * np.abs(block).max(initial=0) else np.zeros_like(block)


def tree_groups(rows: TrainingRows, targets: Floats, *, count: int, min_rows: int) -> TreeGroups:
    """Groups that separate these targets, (n,) or (n, K)."""
    inputs = rows.states if rows.n_actions is not None else joined(rows.states, rows.actions)
    return TreeGroups(grow(inputs, targets, leaves=count, min_rows=min_rows), rows.n_actions)


def cell_errors(rows: TrainingRows, groups: TreeGroups | UserGroups, residuals: Floats) -> Floats:
    """ē (n_cells,) with mean over every cell of ρ_i + γ Σ_j w_ij ē(c'_ij) − ē(c_i) = 0; 0 in cells without rows.

    Added to the model it solves Bellman's equation on average in every cell (aggregation, Bertsekas and Castañón 1989).
    """
    count, pairs = groups.n_cells, rows.next_pairs
    cells, next_cells = groups.cells(rows.states, rows.actions), groups.cells(pairs.states, pairs.actions)
    visits = np.bincount(cells, minlength=count)
    moves = np.bincount(cells[pairs.rows] * count + next_cells, pairs.weights, minlength=count * count)
    system = np.diag(np.maximum(visits, 1.0)) - rows.gamma * moves.reshape(count, count)
    return np.linalg.solve(system, np.bincount(cells, residuals, minlength=count))
