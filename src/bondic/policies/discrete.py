"""Discrete policies: table, softmax, deterministic, uniform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, PolicyError

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """pi(a | s) read from a table; the state is the whole number in the first observation column."""

    table: Any  # (states, actions)

    def __post_init__(self) -> None:
        table = np.array(self.table, dtype=np.float64)
        if table.ndim != 2 or np.any(table < 0) or not np.allclose(table.sum(axis=1), 1.0, rtol=0, atol=1e-6):
            raise InvalidInput("A policy table has one row of probabilities per state, each summing to 1.")
        object.__setattr__(self, "table", table)

    def action_probs(self, observations: FloatArray) -> FloatArray:
        states = observations[:, 0]
        bad = (states != np.rint(states)) | (states < 0) | (states >= self.table.shape[0])
        if bad.any():
            state, last = states[np.flatnonzero(bad)[0]], self.table.shape[0] - 1
            raise PolicyError(f"State {state} is not in the table, which has states 0..{last} in its rows.")
        return np.asarray(self.table[states.astype(np.int64)])


@dataclass(frozen=True, eq=False)
class SoftmaxPolicy:
    """pi(a | s) proportional to exp( score_a(s) / temperature ).

    Parameters
    ----------
    scores : callable
        (n, d) array of observations -> (n, number of actions) array of scores.
    temperature : float, default 1
        Large: nearly uniform; small: nearly the best action alone.
    """

    scores: Callable[[FloatArray], Any]
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise InvalidInput(f"The temperature must be positive and finite, not {self.temperature}.")

    def action_probs(self, observations: FloatArray) -> FloatArray:
        scores = np.asarray(self.scores(observations), dtype=np.float64)
        if scores.ndim != 2:
            raise PolicyError(f"Scores have shape {scores.shape}; (rows, number of actions) is needed.")
        with np.errstate(over="ignore"):  # a score that is hopeless at this temperature becomes exp(-inf) = 0
            weights = np.exp((scores - scores.max(axis=1, keepdims=True)) / self.temperature)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class DeterministicPolicy:
    """pi(a | s) = 1 for one action a = choose(s).

    Parameters
    ----------
    choose : callable
        (n, d) array of observations -> (n,) whole numbers, or (n, k) floats for continuous actions.
    n_actions : int, default None
        How many discrete actions there are; None where actions are continuous.
    """

    choose: Callable[[FloatArray], Any]
    n_actions: int | None = None
    deterministic: ClassVar[bool] = True

    def action_probs(self, observations: FloatArray) -> FloatArray:
        if self.n_actions is None:
            raise PolicyError("The log has discrete actions: build DeterministicPolicy with n_actions=.")
        chosen = np.asarray(self.choose(observations))
        if chosen.shape != (observations.shape[0],) or not np.isin(chosen, np.arange(self.n_actions)).all():
            raise PolicyError(
                f"A deterministic policy must choose one of 0..{self.n_actions - 1} per row, in shape "
                f"{observations.shape[:1]}; it returned shape {chosen.shape} with {chosen.ravel()[:3]}, ..."
            )
        return np.asarray(np.eye(self.n_actions)[chosen.astype(np.int64)])

    def sample_action(self, observations: FloatArray, rng: np.random.Generator) -> FloatArray:
        del rng
        chosen = np.asarray(self.choose(observations), dtype=np.float64)
        return chosen[:, None] if chosen.ndim == 1 else chosen


@dataclass(frozen=True)
class UniformPolicy:
    """pi(a | s) = 1 / number of actions.

    Parameters
    ----------
    n_actions : int
        How many actions there are: 0, ..., n_actions - 1.
    """

    n_actions: int

    def action_probs(self, observations: FloatArray) -> FloatArray:
        return np.full((observations.shape[0], self.n_actions), 1.0 / self.n_actions)
