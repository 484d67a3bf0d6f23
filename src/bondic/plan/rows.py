"""The pilot as arrays: x_i = (s_i, a_i), r_i, s'_i, and the policy's actions there with their weights.

Models are fitted to the backup r_i + γ Σ_j w_ij q(s'_i, a'_ij), and judged by what it leaves,

    ρ_i = r_i + γ Σ_j w_ij q(s'_i, a'_ij) − q(s_i, a_i).

Actions are codes 0 … A − 1 with `next_probabilities` (n, A), or numbers (n, k) with `next_actions` (n, m, k) and
`next_weights` (n, m). After an end all weights of a row are zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bondic.core.errors import InvalidInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Actions = NDArray[Any]  # (m,) codes or (m, k) numbers
ActionValue = Callable[[Floats, Actions], Floats]
"""q(states, actions), row by row."""


@dataclass(frozen=True)
class NextPairs:
    """The pairs (s'_i, a'_ij) with w_ij > 0, in one list: row i, state, action, weight."""

    rows: Ints
    states: Floats
    actions: Actions
    weights: Floats


@dataclass(frozen=True)
class TrainingRows:
    """Rows of the pilot in the order of the log; targets are clipped to `value_range`."""

    states: Floats  # (n, d)
    actions: Actions  # (n,) codes, or (n, k)
    rewards: Floats  # (n,)
    next_states: Floats  # (n, d)
    gamma: float
    value_range: tuple[float, float]
    n_actions: int | None = None
    next_probabilities: Floats | None = None  # (n, A)
    next_actions: Floats | None = None  # (n, m, k)
    next_weights: Floats | None = None  # (n, m)

    def __post_init__(self) -> None:
        n = len(self.states)
        if not 0 <= self.gamma < 1:
            raise InvalidInput(f"gamma must lie in [0, 1), not {self.gamma}.")
        if not -np.inf < self.value_range[0] <= self.value_range[1] < np.inf:
            raise InvalidInput(f"value_range must be two finite numbers, the smaller first, not {self.value_range}.")
        if n == 0 or self.states.ndim != 2 or self.states.shape[1] == 0:
            raise InvalidInput(
                f"states must be an array (rows, columns) with at least one of each, not {self.states.shape}."
            )
        expected: dict[str, tuple[int, ...]] = dict.fromkeys(("states", "next_states"), self.states.shape)
        expected["rewards"] = (n,)
        if self.n_actions is not None:
            expected |= {"actions": (n,), "next_probabilities": (n, self.n_actions)}
            if (
                self.actions.dtype.kind not in "iu"
                or not 0 <= self.actions.min() <= self.actions.max() < self.n_actions
            ):
                raise InvalidInput(f"actions must be whole numbers from 0 to n_actions − 1 = {self.n_actions - 1}.")
        else:
            if self.next_actions is None or self.next_actions.ndim != 3:
                raise InvalidInput("Actions that are numbers need next_actions, an array (rows, draws, columns).")
            draws, columns = self.next_actions.shape[1:]
            expected |= {"actions": (n, columns), "next_actions": (n, draws, columns), "next_weights": (n, draws)}
        for name, shape in expected.items():
            check_numbers(name, getattr(self, name), shape)

    def __len__(self) -> int:
        return len(self.states)

    @cached_property
    def next_pairs(self) -> NextPairs:
        """Next pairs that count: a policy that never takes an action needs no value there."""
        weights = self.next_probabilities if self.next_weights is None else self.next_weights
        assert weights is not None
        rows, j = np.nonzero(weights)
        actions = j if self.next_actions is None else self.next_actions[rows, j]
        return NextPairs(rows, self.next_states[rows], actions, weights[rows, j])

    def take(self, index: Ints | slice) -> TrainingRows:
        """Some of the rows."""
        arrays: dict[str, Any] = {
            name: values[index] for name, values in vars(self).items() if isinstance(values, np.ndarray)
        }
        return replace(self, **arrays)

    def thinned(self, most: int) -> TrainingRows:
        """At most this many rows, drawn with a fixed seed, in their order."""
        if len(self) <= most:
            return self
        return self.take(np.sort(np.random.default_rng(0).choice(len(self), most, replace=False)))

    def backup(self, value: ActionValue) -> Floats:
        """r_i + γ Σ_j w_ij q(s'_i, a'_ij), clipped to the value range."""
        if self.gamma == 0 or len(self.next_pairs.rows) == 0:
            return self.clipped(self.rewards)
        return self.backup_of(value(self.next_pairs.states, self.next_pairs.actions))

    def backup_of(self, next_values: Floats) -> Floats:
        """The same from values at `next_pairs`."""
        pairs = self.next_pairs
        return self.clipped(
            self.rewards + self.gamma * np.bincount(pairs.rows, pairs.weights * next_values, minlength=len(self))
        )

    def clipped(self, values: Floats) -> Floats:
        return np.clip(values, *self.value_range)

    def residuals(self, value: ActionValue) -> Floats:
        """ρ_i of the model."""
        return self.backup(value) - value(self.states, self.actions)


def joined(states: Floats, actions: Actions) -> Floats:
    """Columns of the states, then of the actions."""
    return np.hstack([states, actions])


def check_numbers(name: str, values: Any, shape: tuple[int, ...]) -> Floats:
    """The values as float64, if they have this shape and are finite; else an error that names the row."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InvalidInput(f"{name} must be numbers in an array of shape {shape}: {problem}.") from problem
    if numbers.shape != shape:
        raise InvalidInput(f"{name} must have the shape {shape}, not {numbers.shape}.")
    if not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0, 0])
        raise InvalidInput(f"{name} must be finite numbers; row {row} has {numbers[row]}.")
    return numbers
