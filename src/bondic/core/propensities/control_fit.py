"""A linear q̂ from the rows before every block: ridge regression whose actions share what they have in common (section 13).

It is trusted for one thing: that nothing but earlier rows enters. Verification fits again and compares.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.core.propensities.control import Control, LinearControl, linear_design
from bondic.core.propensities.decision_values import mean_and_taken
from bondic.core.propensities.decisions import Decisions
from bondic.core.propensities.episode_values import control_states, returns_with, units_left
from bondic.core.propensities.wealth import moderate

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_SHARED, _OWN = 1.0, 20.0
"""Ridge penalties, in rows: of what all actions share, and of what one action adds to it."""
_MOST_COLUMNS = 200
"""With more observed numbers than this, q̂ has one number for every action and looks at no state."""
_MOST_FEATURES, _PIECE = 400, 2048
"""Of temporal differences with an action: above, q̂ is the same for all actions. Rows that are added up at once."""
_TAILS = (0.01, 0.99)
"""Predictions are cut where those for the rows before the first block end, but for a hundredth on either side."""
_MOST_WEIGHT = 100.0
"""Of one step in a fit: larger ratios would leave nothing to the others."""
_IN_SAMPLE = 1.5
"""Residuals of the rows that a fit has seen are smaller than those of other rows."""


_SAME, _DIGITS = 1e-6, 1e-11
"""Two fits are the same if they differ by no more than this share of the unit, or of the number itself: other machines round
differently."""


def linear_control(columns: Decisions, borders: tuple[int, ...]) -> LinearControl:
    """q̂ of every block from all rows before it; `columns` begin with the first row that may be looked at."""
    before = int(np.searchsorted(columns.rows, borders[0]))
    seen = columns.observations[:before] if columns.observations.shape[1] <= _MOST_COLUMNS else np.zeros((before, 0))
    every = columns.observations[:, : seen.shape[1]]
    center, spread = seen.mean(axis=0), seen.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    design = linear_design(every, center, scale)
    actions = 1 if columns.probs is None else columns.probs.shape[1]
    stops = np.searchsorted(columns.rows, borders)
    slots = np.zeros_like(columns.slots) if actions == 1 else columns.slots
    fits = [fit_linear(design[:stop], slots[:stop], columns.rewards[:stop], actions) for stop in stops]
    predictions = design[:before] @ fits[0]
    clip, expected = guess_range(columns, predictions)
    return LinearControl(int(columns.rows[0]), borders, clip, expected, center, scale, np.array(fits))


def guess_range(columns: Decisions, predictions: FloatArray) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where to cut predictions, and mean and variance of X, from the rows that were predicted: the first ones."""
    count, limits = len(predictions), columns.limits
    low, high = (float(np.clip(np.quantile(predictions, tail), limits.low, limits.high)) for tail in _TAILS)
    cut = np.clip(predictions, low, high)
    single = cut.shape[1] == 1 or columns.probs is None
    means = cut[:, 0] if single or columns.probs is None else np.einsum("ij,ij->i", columns.probs[:count], cut)
    taken = cut[:, 0] if single else cut[np.arange(count), columns.slots[:count]]
    values = moderate(means + columns.ratios.values[:count] * (columns.rewards[:count] - taken))
    return (low, high), (float(values.mean()), max(_IN_SAMPLE * float(values.var()), least_variance(columns, count)))


def least_variance(columns: Decisions, count: int) -> float:
    """mean(ρ^2) B^2 / (4 (n + 1)) of n rows: as if one more had a reward of the largest variance.

    Where nothing but zeros was seen, rare rewards are likely all the same.
    """
    squares = float(np.mean(moderate(columns.ratios.values[:count]) ** 2)) / (4.0 * (count + 1))
    return max(squares, 1e-6) * max(columns.limits.width, 1e-150) ** 2


def fit_linear(design: FloatArray, slots: IntArray, rewards: FloatArray, actions: int) -> FloatArray:
    """Ridge regression r ~ z.(w + u_a), (1 + d, actions): every action borrows from all others what they share.

    With G_a = sum z z', h_a = sum z r over the rows of action a and M_a = (G_a + κ I)^-1, u_a = M_a (h_a - G_a w) and
    (λ I + sum_a κ M_a G_a) w = sum_a κ M_a h_a.
    """
    size = design.shape[1]
    left, right = _SHARED * np.eye(size), np.zeros(size)
    parts = {}
    for action in np.unique(slots):
        mine = slots == action
        gram, moment = design[mine].T @ design[mine], design[mine].T @ rewards[mine]
        both = np.linalg.solve(gram + _OWN * np.eye(size), np.column_stack([gram, moment]))
        left, right = left + _OWN * both[:, :-1], right + _OWN * both[:, -1]
        parts[int(action)] = both
    shared = np.linalg.solve(left, right)
    found = np.repeat(shared[:, None], actions, axis=1)
    for action, both in parts.items():
        found[:, action] += both[:, -1] - both[:, :-1] @ shared
    return found


def episode_control(columns: Decisions, borders: tuple[int, ...]) -> LinearControl:
    """q̂ of the state, the step and the action, by temporal differences under the target policy, from all episodes before a block.

    Where π(.|s) is not known, or actions are too many, q̂ is the same for all actions. It is made in units of the steps that are
    left, so that its range is a range of rewards.
    """
    assert columns.episodes is not None
    assert columns.steps is not None
    before = int(np.searchsorted(columns.rows, borders[0]))
    states = control_states(columns)
    states = states if states.shape[1] <= _MOST_COLUMNS else states[:, -1:]
    center, spread = states[:before].mean(axis=0), states[:before].std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    units = units_left(columns.terms, columns.steps)[:, None]
    design = linear_design(states, center, scale) * units
    known = columns.probs is not None and (1 + columns.probs.shape[1]) * design.shape[1] <= _MOST_FEATURES
    stops = np.searchsorted(columns.rows, borders)
    fits = (_action_differences if known else _state_differences)(columns, design, stops)
    guess, limits = (design[:before] @ fits[0]) / units[:before], columns.limits
    low, high = (float(np.clip(np.quantile(guess, tail), limits.low, limits.high)) for tail in _TAILS)
    first = columns.first(before)
    cut = np.clip(np.clip(guess, low, high) * units[:before], limits.low, limits.high)
    means, taken = mean_and_taken(cut, first.probs, first.slots)
    values = moderate(returns_with(first, taken, means))
    expected = (float(values.mean()), max(_IN_SAMPLE * float(values.var()), 1e-6 * max(limits.width, 1e-150) ** 2))
    return LinearControl(int(columns.rows[0]), borders, (low, high), expected, center, scale, np.array(fits))


def _counted(columns: Decisions) -> BoolArray:
    """Steps with a next one or an end: of what follows a cut nothing was seen."""
    assert columns.episodes is not None
    last = np.append(np.diff(columns.episodes) != 0, True)
    return np.asarray(~(columns.continues & last))


def _state_differences(columns: Decisions, design: FloatArray, stops: IntArray) -> list[FloatArray]:
    """sum ρ z (z - γ z')' w + κ w = sum ρ z r over the steps that count; z' is 0 after an end. One column."""
    following = np.where(columns.continues[:, None], np.roll(design, -1, axis=0), 0.0)
    weights = np.where(_counted(columns), np.minimum(columns.ratios.values, _MOST_WEIGHT), 0.0)
    fits: list[FloatArray] = []
    for stop in stops:
        weighed = weights[:stop, None] * design[:stop]
        left = weighed.T @ (design[:stop] - columns.terms.gamma * following[:stop]) + _OWN * np.eye(design.shape[1])
        fits.append(np.asarray(np.linalg.solve(left, weighed.T @ columns.rewards[:stop])[:, None], dtype=np.float64))
    return fits


def _action_differences(columns: Decisions, design: FloatArray, stops: IntArray) -> list[FloatArray]:
    """q̂(s, a) = z.(w + u_a): sum φ (φ - γ E_π[φ'])' θ + penalty = sum φ r over the steps that count. A column for every action.

    φ is z, and z once more in the place of the action; no ratio enters, as q̂ speaks of the action that was taken.
    """
    assert columns.probs is not None
    actions, size = columns.probs.shape[1], design.shape[1]
    counted, width = _counted(columns), (1 + columns.probs.shape[1]) * design.shape[1]
    left = np.diag(np.repeat([_SHARED, *([_OWN] * actions)], size))
    right, done, fits = np.zeros(width), 0, []
    for stop in stops.tolist():
        for top in range(done, stop, _PIECE):
            rows = np.arange(top, min(top + _PIECE, stop))[counted[top : min(top + _PIECE, stop)]]
            after = np.minimum(rows + 1, len(design) - 1)
            here, there = np.eye(actions)[columns.slots[rows]], columns.probs[after] * columns.continues[rows, None]
            seen = _with_actions(design[rows], np.column_stack([np.ones(len(rows)), here]))
            next_ = _with_actions(design[after], np.column_stack([columns.continues[rows], there]))
            left = left + seen.T @ (seen - columns.terms.gamma * next_)
            right = right + seen.T @ columns.rewards[rows]
        done = stop
        shared, *own = np.linalg.solve(left, right).reshape(1 + actions, size)
        fits.append(np.column_stack([shared + one for one in own]))
    return fits


def _with_actions(design: FloatArray, weights: FloatArray) -> FloatArray:
    """z once for every column of the weights, times it."""
    return np.asarray((weights[:, :, None] * design[:, None, :]).reshape(len(design), -1))


def same_control(first: Control, second: Control, width: float) -> bool:
    """Whether two fits on the same rows are the same up to rounding; values have a range of this width.

    Each column is compared in its own unit: what is small beside the largest column, or beside the mean of the rewards, may be
    all that predictions depend on.
    """
    if not (isinstance(first, LinearControl) and isinstance(second, LinearControl)):
        return False
    if first.borders != second.borders or first.begun != second.begun:
        return False
    units: dict[str, FloatArray] = {
        "clip": np.array(width),
        "expected": np.array([width, second.expected[1]]),
        "center": second.scale,
        "scale": second.scale,
        "coefficients": np.array(width),
    }
    pairs = [
        (np.asarray(getattr(first, name)), np.asarray(getattr(second, name)), unit) for name, unit in units.items()
    ]
    return all(
        a.shape == b.shape and np.all(np.abs(a - b) <= _SAME * unit + _DIGITS * np.abs(b)) for a, b, unit in pairs
    )
