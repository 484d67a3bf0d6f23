"""Policies that come with the library: table, softmax, deterministic, uniform, Gaussian, and mixtures of two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.data._arrays import FloatArray
from bondic.errors import PolicyError
from bondic.policies.protocol import is_time_dependent, one_hot


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """pi(a | s) read from a table; the state is the whole number in the first observation column.

    Parameters
    ----------
    table : array
        (states, actions): a row of probabilities for every state.

    Examples
    --------
    >>> import numpy as np
    >>> from bondic import TablePolicy
    >>> policy = TablePolicy([[0.9, 0.1], [0.2, 0.8]])
    >>> policy.action_probs(np.array([[1.0], [0.0]])).tolist()
    [[0.2, 0.8], [0.9, 0.1]]
    """

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
        return one_hot(chosen.astype(np.int64), self.n_actions)

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


@dataclass(frozen=True, eq=False)
class GaussianPolicy:
    """a ~ N( mean(s), diag(std^2) ), optionally clipped to a box (the clipped action is the action).

    Parameters
    ----------
    mean : callable
        (n, d) array of observations -> (n, k) array of mean actions.
    std : float, array of float (k,), or callable
        Standard deviation of every action dimension; a function of the observations where it differs by state.
    low : float or array of float, default None
        Smallest action; None: no limit. A clipped policy has no density.
    high : float or array of float, default None
        Largest action; None: no limit.
    """

    mean: Callable[[FloatArray], Any]
    std: Any
    low: Any = None
    high: Any = None

    def __post_init__(self) -> None:
        if not callable(self.std) and (np.any(np.asarray(self.std) < 0) or not np.all(np.isfinite(self.std))):
            raise InvalidInput(f"The standard deviation must be finite and >= 0, not {self.std}.")

    def sample_action(self, observations: FloatArray, rng: np.random.Generator) -> FloatArray:
        mean, std = self._moments(observations)
        actions = mean + std * rng.standard_normal(mean.shape)
        return np.asarray(np.clip(actions, self.low, self.high) if self._clipped else actions)

    def action_density(self, observations: FloatArray, actions: FloatArray) -> FloatArray:
        """pi(a | s) = prod_j N(a_j; mean_j, std_j^2); a clipped Gaussian has none (the ends have positive probability)."""
        if self._clipped:
            raise PolicyError(
                "A Gaussian policy that is clipped to a box has no density: ratios of densities do not exist."
            )
        mean, std = self._moments(observations)
        if np.any(std <= 0):
            raise PolicyError("A Gaussian policy with standard deviation 0 has no density.")
        size = np.prod(np.broadcast_to(np.sqrt(2.0 * np.pi) * std, mean.shape), axis=1)
        return np.asarray(np.exp(-0.5 * np.sum(((actions - mean) / std) ** 2, axis=1)) / size)

    @property
    def _clipped(self) -> bool:
        return self.low is not None or self.high is not None

    def _moments(self, observations: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = np.asarray(self.mean(observations), dtype=np.float64)
        std = self.std(observations) if callable(self.std) else self.std
        return mean[:, None] if mean.ndim == 1 else mean, np.asarray(std, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class MixturePolicy:
    """alpha * pi + (1 - alpha) * pi_0, drawn anew at every step.

    Parameters
    ----------
    alpha : float
        Share of `policy`, in [0, 1].
    policy : Policy
        pi, taken with probability alpha.
    other : Policy
        pi_0, taken otherwise.
    """

    alpha: float
    policy: Any
    other: Any

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise InvalidInput(f"The mixture rate must lie in [0, 1], not {self.alpha}.")

    @property
    def time_dependent(self) -> bool:
        return is_time_dependent(self.policy) or is_time_dependent(self.other)

    def action_probs(self, observations: FloatArray, *time: Any) -> FloatArray:
        first, second = self._both("action_probs", observations, time=time)
        return np.asarray(self.alpha * first + (1.0 - self.alpha) * second)

    def action_density(self, observations: FloatArray, actions: FloatArray, *time: Any) -> FloatArray:
        first, second = self._both("action_density", observations, actions, time=time)
        return np.asarray(self.alpha * first + (1.0 - self.alpha) * second)

    def sample_action(self, observations: FloatArray, rng: np.random.Generator, *time: Any) -> FloatArray:
        first, second = self._both("sample_action", observations, rng, time=time)
        pick = np.asarray(rng.random(observations.shape[0]) < self.alpha)
        return np.asarray(np.where(pick.reshape(-1, *([1] * (first.ndim - 1))), first, second))

    def _both(self, method: str, *inputs: Any, time: tuple[Any, ...]) -> list[FloatArray]:
        """The results of both parts; time goes to those that depend on it."""
        parts = (self.policy, self.other)
        return [np.asarray(getattr(p, method)(*inputs, *(time if is_time_dependent(p) else ()))) for p in parts]
