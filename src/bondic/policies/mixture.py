"""Mixtures of two policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.errors import InvalidInput

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MixturePolicy:
    """alpha * pi + (1 - alpha) * pi_0, drawn anew at every step."""

    alpha: float
    policy: Any
    other: Any

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise InvalidInput(f"The mixture rate must lie in [0, 1], not {self.alpha}.")

    def action_probs(self, observations: FloatArray) -> FloatArray:
        first, second = self.policy.action_probs(observations), self.other.action_probs(observations)
        return np.asarray(self.alpha * np.asarray(first) + (1.0 - self.alpha) * np.asarray(second))

    def sample_action(self, observations: FloatArray, rng: np.random.Generator) -> FloatArray:
        first = np.asarray(self.policy.sample_action(observations, rng))
        second = np.asarray(self.other.sample_action(observations, rng))
        pick = np.asarray(rng.random(observations.shape[0]) < self.alpha)
        return np.asarray(np.where(pick.reshape(-1, *([1] * (first.ndim - 1))), first, second))
