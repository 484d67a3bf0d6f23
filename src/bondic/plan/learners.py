"""Regressions in NumPy: constant, linear, tree. `learner(states, actions, targets)` gives a function of (states, actions).

Action codes get a regression each, and the mean of all rows where an action has no row of its own; actions that are
numbers are columns beside the states.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bondic.plan.rows import Actions, ActionValue, Floats, joined
from bondic.plan.tree import leaf_means

Learner = Callable[[Floats, Actions, Floats], ActionValue]
Regression = Callable[[Floats, Floats], Callable[[Floats], Floats]]

_RIDGE = 1e-3
"""Share of a standardized column's variance: keeps collinear columns solvable, moves nothing else."""
_LEAVES = 64
_LEAF_ROWS = 20


def constant(_: Floats, __: Actions, targets: Floats) -> ActionValue:
    """The mean of the targets."""
    mean = float(targets.mean())
    return lambda states, _: np.full(len(states), mean)


def linear(states: Floats, actions: Actions, targets: Floats) -> ActionValue:
    """Ridge regression on standardized states, by action; on (s, a, a², s × a) where actions are numbers."""
    return _fitted(_ridge, _with_products, states, actions, targets)


def tree(states: Floats, actions: Actions, targets: Floats) -> ActionValue:
    """Means over the leaves of a regression tree, by action."""
    return _fitted(_leaf_means, joined, states, actions, targets)


def _fitted(
    regression: Regression,
    columns: Callable[[Floats, Actions], Floats],
    states: Floats,
    actions: Actions,
    targets: Floats,
) -> ActionValue:
    if actions.ndim == 2:
        fit = regression(columns(states, actions), targets)
        return lambda states, actions: fit(columns(states, actions))
    fits = {a: regression(states[actions == a], targets[actions == a]) for a in np.unique(actions).tolist()}
    mean = float(targets.mean())

    def predict(states: Floats, actions: Actions) -> Floats:
        values = np.full(len(states), mean)
        for a in np.unique(actions).tolist():
            if a in fits:
                values[actions == a] = fits[a](states[actions == a])
        return values

    return predict


def _with_products(states: Floats, actions: Actions) -> Floats:
    """A linear function of these can have its best action inside."""
    products = (states[:, :, None] * actions[:, None, :]).reshape(len(states), states.shape[1] * actions.shape[1])
    return np.hstack([states, actions, actions**2, products])


def _ridge(inputs: Floats, targets: Floats) -> Callable[[Floats], Floats]:
    center, mean = inputs.mean(axis=0), float(targets.mean())
    scale = inputs.std(axis=0)
    scale[scale == 0] = 1.0
    z = (inputs - center) / scale
    gram = z.T @ z / len(z) + _RIDGE * np.eye(z.shape[1])
    slope = np.linalg.solve(gram, z.T @ (targets - mean) / len(z)) / scale
    return lambda inputs: np.asarray(mean + (inputs - center) @ slope)


def _leaf_means(inputs: Floats, targets: Floats) -> Callable[[Floats], Floats]:
    means = leaf_means(inputs, targets[:, None], leaves=_LEAVES, min_rows=_LEAF_ROWS)
    return lambda inputs: means(inputs)[:, 0]
