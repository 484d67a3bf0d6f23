"""Mixtures of two policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.policies.protocol import is_time_dependent

FloatArray = npt.NDArray[np.float64]


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
        first, second = (
            np.asarray(part.action_probs(observations, *(time if is_time_dependent(part) else ())))
            for part in (self.policy, self.other)
        )
        return np.asarray(self.alpha * first + (1.0 - self.alpha) * second)

    def action_density(self, observations: FloatArray, actions: FloatArray, *time: Any) -> FloatArray:
        first, second = (
            np.asarray(part.action_density(observations, actions, *(time if is_time_dependent(part) else ())))
            for part in (self.policy, self.other)
        )
        return np.asarray(self.alpha * first + (1.0 - self.alpha) * second)

    def sample_action(self, observations: FloatArray, rng: np.random.Generator, *time: Any) -> FloatArray:
        first, second = (
            np.asarray(part.sample_action(observations, rng, *(time if is_time_dependent(part) else ())))
            for part in (self.policy, self.other)
        )
        pick = np.asarray(rng.random(observations.shape[0]) < self.alpha)
        return np.asarray(np.where(pick.reshape(-1, *([1] * (first.ndim - 1))), first, second))
