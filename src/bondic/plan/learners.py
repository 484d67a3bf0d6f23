"""Regressions in NumPy: constant, linear, tree. `learner(states, actions, targets)` gives a function of (states, actions).

Action codes get a regression each, and the mean of all rows where an action has no row of its own; actions that are
numbers are columns beside the states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bondic.plan.rows import Actions, ActionValue, Floats, joined
from bondic.plan.tree import leaf_means

Learner = Callable[[Floats, Actions, Floats], ActionValue]
Fit = Callable[[Floats], Floats]
Regression = Callable[[Floats, Floats], Fit]
_Columns = Callable[[Floats, Actions], Floats]

_RIDGE = 1e-3
"""Share of a standardized column's variance: keeps collinear columns solvable, moves nothing else."""
_LEAVES = 64
_LEAF_ROWS = 20


def constant(_: Floats, __: Actions, targets: Floats) -> ActionValue:
    """The mean of the targets."""
    return ByAction({}, _Mean(float(targets.mean())))


def linear(states: Floats, actions: Actions, targets: Floats) -> ActionValue:
    """Ridge regression on standardized states, by action; on (s, a, a², s × a) where actions are numbers."""
    return _fitted(_ridge, _with_products, states, actions, targets)


def tree(states: Floats, actions: Actions, targets: Floats) -> ActionValue:
    """Means over the leaves of a regression tree, by action."""
    return _fitted(_leaf_means, joined, states, actions, targets)


def _fitted(
    regression: Regression, columns: _Columns, states: Floats, actions: Actions, targets: Floats
) -> ActionValue:
    if actions.ndim == 2:
        return OfColumns(regression(columns(states, actions), targets), columns)
    fits = {a: regression(states[actions == a], targets[actions == a]) for a in np.unique(actions).tolist()}
    return ByAction(fits, _Mean(float(targets.mean())))


# functions as data, so that other processes can be sent them


@dataclass(frozen=True, eq=False)
class OfColumns:
    """A function of columns that are made of states and actions."""

    fit: Fit
    columns: _Columns

    def __call__(self, states: Floats, actions: Actions) -> Floats:
        return self.fit(self.columns(states, actions))


@dataclass(frozen=True, eq=False)
class ByAction:
    """A function of states for some action codes, and one for all others."""

    fits: dict[int, Fit]
    others: Fit

    def __call__(self, states: Floats, actions: Actions) -> Floats:
        values = self.others(states)
        for a, fit in self.fits.items():
            here = actions == a
            if here.any():
                values[here] = fit(states[here])
        return values


@dataclass(frozen=True)
class _Mean:
    value: float

    def __call__(self, inputs: Floats) -> Floats:
        return np.full(len(inputs), self.value)


@dataclass(frozen=True, eq=False)
class _Line:
    slope: Floats
    center: Floats
    mean: float

    def __call__(self, inputs: Floats) -> Floats:
        return np.asarray(self.mean + (inputs - self.center) @ self.slope)


@dataclass(frozen=True, eq=False)
class _Leaves:
    means: Fit  # (n, 1)

    def __call__(self, inputs: Floats) -> Floats:
        return self.means(inputs)[:, 0]


def _with_products(states: Floats, actions: Actions) -> Floats:
    """A linear function of these can have its best action inside."""
    products = (states[:, :, None] * actions[:, None, :]).reshape(len(states), states.shape[1] * actions.shape[1])
    return np.hstack([states, actions, actions**2, products])


def _ridge(inputs: Floats, targets: Floats) -> Fit:
    center, mean = inputs.mean(axis=0), float(targets.mean())
    scale = inputs.std(axis=0)
    scale[scale == 0] = 1.0
    z = (inputs - center) / scale
    gram = z.T @ z / len(z) + _RIDGE * np.eye(z.shape[1])
    slope = np.linalg.solve(gram, z.T @ (targets - mean) / len(z)) / scale
    return _Line(slope, center, mean)


def _leaf_means(inputs: Floats, targets: Floats) -> Fit:
    return _Leaves(leaf_means(inputs, targets[:, None], leaves=_LEAVES, min_rows=_LEAF_ROWS))
