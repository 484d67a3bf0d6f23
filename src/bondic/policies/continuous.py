"""Continuous policies: Gaussian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, PolicyError

FloatArray = npt.NDArray[np.float64]


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
        mean = np.asarray(self.mean(observations), dtype=np.float64)
        mean = mean[:, None] if mean.ndim == 1 else mean
        std = np.asarray(self.std(observations) if callable(self.std) else self.std, dtype=np.float64)
        actions = mean + std * rng.standard_normal(mean.shape)
        if self.low is not None or self.high is not None:
            actions = np.clip(actions, self.low, self.high)
        return np.asarray(actions)

    def action_density(self, observations: FloatArray, actions: FloatArray) -> FloatArray:
        """pi(a | s) = prod_j N(a_j; mean_j, std_j^2); a clipped Gaussian has none (the ends have positive probability)."""
        if self.low is not None or self.high is not None:
            raise PolicyError(
                "A Gaussian policy that is clipped to a box has no density: ratios of densities do not exist."
            )
        mean = np.asarray(self.mean(observations), dtype=np.float64)
        mean = mean[:, None] if mean.ndim == 1 else mean
        std = np.asarray(self.std(observations) if callable(self.std) else self.std, dtype=np.float64)
        if np.any(std <= 0):
            raise PolicyError("A Gaussian policy with standard deviation 0 has no density.")
        scaled = (actions - mean) / std
        size = np.prod(np.broadcast_to(np.sqrt(2.0 * np.pi) * std, mean.shape), axis=1)
        return np.asarray(np.exp(-0.5 * np.sum(scaled**2, axis=1)) / size)
