"""A linear q̂ from the rows before every block: ridge regression whose actions share what they have in common (section 13).

It is trusted for one thing: that nothing but earlier rows enters. Verification fits again and compares.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.bounds.control import Control, LinearControl, linear_design
from bondic.bounds.decisions import Decisions
from bondic.bounds.episode_values import control_states, returns_with
from bondic.noise.wealth import moderate

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_SHARED, _OWN = 1.0, 20.0
"""Ridge penalties, in rows: of what all actions share, and of what one action adds to it."""
_MOST_COLUMNS = 200
"""With more observed numbers than this, q̂ has one number for every action and looks at no state."""
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
    least = 1e-6 * max(limits.width, 1e-150) ** 2
    return (low, high), (float(values.mean()), max(_IN_SAMPLE * float(values.var()), least))


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
    """q̂ of the state and the step, by temporal differences under the target policy, from all episodes before every block.

    sum ρ z (z - γ z')' w + κ w = sum ρ z r over steps with a next one or an end; z' is 0 after an end.
    """
    assert columns.episodes is not None
    before = int(np.searchsorted(columns.rows, borders[0]))
    states = control_states(columns)
    states = states if states.shape[1] <= _MOST_COLUMNS else states[:, -1:]
    center, spread = states[:before].mean(axis=0), states[:before].std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    design = linear_design(states, center, scale)
    last = np.append(np.diff(columns.episodes) != 0, True)
    following = np.where(columns.continues[:, None], np.roll(design, -1, axis=0), 0.0)
    weights = np.where(columns.continues & last, 0.0, np.minimum(columns.ratios.values, _MOST_WEIGHT))
    fits = []
    for stop in np.searchsorted(columns.rows, borders):
        weighed = weights[:stop, None] * design[:stop]
        left = weighed.T @ (design[:stop] - columns.terms.gamma * following[:stop]) + _OWN * np.eye(design.shape[1])
        fits.append(np.linalg.solve(left, weighed.T @ columns.rewards[:stop])[:, None])
    guess, limits = (design[:before] @ fits[0])[:, 0], columns.limits
    low, high = (float(np.clip(np.quantile(guess, tail), limits.low, limits.high)) for tail in _TAILS)
    values = moderate(returns_with(columns.first(before), np.clip(guess, low, high)))
    expected = (float(values.mean()), max(_IN_SAMPLE * float(values.var()), 1e-6 * max(limits.width, 1e-150) ** 2))
    return LinearControl(int(columns.rows[0]), borders, (low, high), expected, center, scale, np.array(fits))


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
