"""(r, s') ~ P(· | s, a) as code: an environment that is stepped, many episodes at once, with finitely many actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.policies.protocol import check_probabilities
from bondic_lab.worlds.rollout import (
    ActionProbs,
    Flags,
    Floats,
    Integers,
    Rollout,
    discounted_returns,
    simulate_steps,
)


class Dynamics(ABC):
    """A Markov decision process by simulation. The observation is the state: restarting from it changes nothing.

    All randomness comes from the generator that is passed in; an object has no state of its own.
    """

    name: ClassVar[str]
    reward_range: ClassVar[tuple[float, float]]  # no reward is ever outside
    may_terminate: ClassVar[bool]  # False: no episode ever ends by itself, which narrows the value range
    gamma: float
    horizon: int  # rows after which an episode of the log is cut

    def __post_init__(self) -> None:
        if not 0.0 <= self.gamma < 1.0:
            raise InvalidInput(f"`gamma` is {self.gamma}: the discounted sum J* needs 0 <= gamma < 1.")
        if int(self.horizon) != self.horizon or self.horizon < 1:
            raise InvalidInput(
                f"`horizon` is {self.horizon}: an episode has at least one row; pass a whole number >= 1."
            )

    @property
    @abstractmethod
    def n_actions(self) -> int:
        """K: actions are 0..K−1."""

    @property
    @abstractmethod
    def state_box(self) -> tuple[Floats, Floats]:
        """Finite low and high, (d,) each, around the states of an episode; generous, not tight."""

    @abstractmethod
    def starts(self, n: int, rng: np.random.Generator) -> Floats:
        """s_0 ~ d_0, n independent draws: (n, d)."""

    @abstractmethod
    def step(self, states: Floats, actions: Integers, rng: np.random.Generator) -> tuple[Floats, Floats, Flags]:
        """One draw of rewards (n,), next states (n, d) and terminations (n,), given states (n, d) and actions (n,)."""

    def rollout(
        self, policy_probs: ActionProbs, n_episodes: int, length: int | None = None, *, rng: np.random.Generator
    ) -> Rollout:
        """Rows of `n_episodes` episodes, episode by episode, each cut (truncated) after `length` (`horizon`) rows."""
        count = self._at_least_one("n_episodes", n_episodes)
        rows = self._at_least_one("length", self.horizon if length is None else length)
        return simulate_steps(self.starts(count, rng), rows, self.step, self._checked(policy_probs), rng=rng)

    def returns(self, policy_probs: ActionProbs, n_episodes: int, length: int, *, rng: np.random.Generator) -> Floats:
        """Σ_{t < length} γ^t r_t of independent episodes; their mean is J* up to `truncation_bias(length)`."""
        count, rows = self._at_least_one("n_episodes", n_episodes), self._at_least_one("length", length)
        probs, starts = self._checked(policy_probs), self.starts(count, rng)
        return discounted_returns(starts, rows, self.step, probs, gamma=self.gamma, rng=rng)

    def truncation_bias(self, length: int) -> float:
        """|E Σ_{t ≥ length} γ^t r_t| ≤ γ^length max|r| / (1 − γ)."""
        return self.gamma**length * max(map(abs, self.reward_range)) / (1.0 - self.gamma)

    def _checked(self, policy_probs: ActionProbs) -> ActionProbs:
        return lambda states: check_probabilities(policy_probs(states), len(states), "state", self.n_actions)

    @staticmethod
    def _at_least_one(name: str, value: int) -> int:
        if int(value) != value or value < 1:
            raise InvalidInput(
                f"`{name}` is {value}: a rollout needs a step to log; pass a whole number of at least 1."
            )
        return int(value)
