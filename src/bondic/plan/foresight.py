"""What will follow a row, by regression on the pilot: next state, whether it ends, the policy there, reward. Never trusted.

Where the next state is nearly a function of state and action, r̂ + γ V̂(ŝ') forecasts r + γ V̂(s') far better than any
regression of it on (s, a) does: V̂ has cliffs, and ŝ' is smooth. The policy is not asked at ŝ', where nobody may ask it
(a replay has its recorded answers alone): a tree on its answers stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bondic.plan.rows import Actions, Floats, TrainingRows, joined
from bondic.plan.tree import grow

_ROWS = 20_000
"""Rows that regressions use, at most: a bound on time."""
_FEATURES = 100
"""Most columns of a quadratic regression; a linear one where there would be more."""
_RIDGE = 1e-6
_LEAVES, _LEAF_ROWS = 64, 5
Regression = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Ahead:
    """What is foreseen to follow rows."""

    states: Floats  # (m, d) ŝ'
    answers: Floats  # (m, A) the policy's probabilities there, or (m, k) its mean action
    rewards: Floats  # (m,) r̂
    goes_on: Floats  # (m,) the chance that there is a next state


@dataclass(frozen=True, eq=False)
class Foresight:
    """Regressions that were made of some rows."""

    moves: Callable[[Floats, Actions], Floats]  # (m, d): s' - s
    rewards: Callable[[Floats, Actions], Floats]  # (m, 1)
    goes_on: Regression  # (m, 1), of s and ŝ'
    answers: Regression

    @staticmethod
    def of(rows: TrainingRows) -> Foresight:
        """From rows, some of which have a next state."""
        rows = rows.thinned(_ROWS)
        went = np.zeros(len(rows), dtype=bool)
        went[rows.next_pairs.rows] = True
        following = rows.next_states[went]
        moves = _by_action(rows.states[went], rows.actions[went], following - rows.states[went])
        both = np.hstack([rows.states, rows.states + moves(rows.states, rows.actions)])
        return Foresight(
            moves,
            _by_action(rows.states, rows.actions, rows.rewards[:, None]),
            _leaf_means(both, went[:, None].astype(np.float64)),
            _scored(following, _means_of(rows)[went]),
        )

    def ahead(self, states: Floats, actions: Actions) -> Ahead:
        following = states + self.moves(states, actions)
        goes_on = self.goes_on(np.hstack([states, following]))[:, 0]
        return Ahead(following, self.answers(following), self.rewards(states, actions)[:, 0], goes_on)


def _means_of(rows: TrainingRows) -> Floats:
    """(n, A) the policy's probabilities after a row, or (n, k) its mean action."""
    if rows.next_probabilities is not None:
        return rows.next_probabilities
    assert rows.next_actions is not None
    assert rows.next_weights is not None
    return np.asarray(np.einsum("ijk,ij->ik", rows.next_actions, rows.next_weights))


def _scored(inputs: Floats, targets: Floats) -> Regression:
    """Means over the leaves of a tree that may also split along what a regression says."""
    score = _ridge(inputs, targets)
    means = _leaf_means(np.hstack([inputs, score(inputs)]), targets)
    return lambda inputs: means(np.hstack([inputs, score(inputs)]))


def _leaf_means(inputs: Floats, targets: Floats) -> Regression:
    tree = grow(inputs, targets, leaves=_LEAVES, min_rows=_LEAF_ROWS)
    codes = tree.codes(inputs)
    sums = np.stack([np.bincount(codes, own, minlength=tree.leaves) for own in targets.T], axis=1)
    means = sums / np.bincount(codes, minlength=tree.leaves)[:, None]
    return lambda inputs: np.asarray(means[tree.codes(inputs)])


def _by_action(states: Floats, actions: Actions, targets: Floats) -> Callable[[Floats, Actions], Floats]:
    """A regression for every action code that has enough rows, one for all the others; with numbers one for all."""
    if actions.ndim == 2:
        fit = _ridge(joined(states, actions), targets)
        return lambda states, actions: fit(joined(states, actions))
    everything, least = _ridge(states, targets), 2 * _columns(states[:1]).shape[1]
    codes, counts = np.unique(actions, return_counts=True)
    fits = {a: _ridge(states[actions == a], targets[actions == a]) for a in codes[counts >= least].tolist()}

    def predict(states: Floats, actions: Actions) -> Floats:
        found = everything(states)
        for code in np.unique(actions).tolist():
            if code in fits:
                found[actions == code] = fits[code](states[actions == code])
        return found

    return predict


def _ridge(inputs: Floats, targets: Floats) -> Regression:
    """Least squares on standardized columns, their squares and products."""
    center, scale = inputs.mean(axis=0), inputs.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)

    def columns(inputs: Floats) -> Floats:
        return _columns((inputs - center) / scale)

    own = columns(inputs)
    gram = own.T @ own / len(own)
    gram += _RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
    slope = np.linalg.solve(gram, own.T @ targets / len(own))
    return lambda inputs: np.asarray(columns(inputs) @ slope)


def _columns(z: Floats) -> Floats:
    width = z.shape[1]
    if (width + 1) * (width + 2) // 2 > _FEATURES:
        return np.hstack([np.ones((len(z), 1)), z])
    first, second = np.triu_indices(width)
    return np.hstack([np.ones((len(z), 1)), z, z[:, first] * z[:, second]])
