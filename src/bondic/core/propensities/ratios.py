"""ρ_i = π(a_i|s_i) / b_i(a_i|s_i), the one place where ratios are formed, and what was stated about them (section 13).

The columns of the log are taken as they stand: what is bounded is what the arithmetic adds to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic.core.bounded import FloatArray, IntArray, U
from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Ratios:
    """Numbers >= 0 with a bound of their relative errors."""

    values: FloatArray  # (n,)
    errors: FloatArray  # (n,) relative

    def __post_init__(self) -> None:
        wrong = np.flatnonzero(~np.isfinite(self.values))
        if wrong.size:
            raise InvalidInput(f"The ratio π/b overflows at row {wrong[0]} of those read: check its propensities.")

    def __getitem__(self, part: slice | IntArray) -> Ratios:
        return Ratios(self.values[part], self.errors[part])

    def low(self) -> FloatArray:
        """From below."""
        return np.asarray(np.maximum(self.values * (1.0 - 2.0 * self.errors), 0.0))

    @staticmethod
    def ones(count: int) -> Ratios:
        """Of the behavior to itself."""
        return Ratios(np.broadcast_to(1.0, count), np.broadcast_to(0.0, count))

    @staticmethod
    def of(target: FloatArray, behavior: FloatArray, roundings: int) -> Ratios:
        """π/b from probabilities; every π is the result of so many roundings."""
        return Ratios(target / behavior, np.broadcast_to((8.0 + roundings) * U, target.size))

    @staticmethod
    def of_logs(target: FloatArray, behavior: FloatArray) -> Ratios:
        """π/b from logarithms of probabilities."""
        with np.errstate(over="ignore"):
            values = np.exp(target - behavior)
        sizes = np.where(np.isfinite(target), np.abs(target), 0.0) + np.abs(behavior)
        return Ratios(values, 8 * U * (1.0 + sizes))


@dataclass(frozen=True, eq=False)
class Target:
    """π at the logged states of a stretch: of the logged actions (n,), or of all actions (n, slots)."""

    rows: tuple[int, int]
    probs: FloatArray

    def of(self, part: RowRange, dimensions: int) -> FloatArray:
        if not (self.rows[0] <= part.start and part.stop <= self.rows[1] and self.probs.ndim == dimensions):
            raise InvalidInput(
                f"The policy's probabilities at logged states are those of rows {self.rows}, not {part}."
            )
        return self.probs[part.start - self.rows[0] : part.stop - self.rows[0]]


@dataclass(frozen=True)
class Stated:
    """What was stated about the propensities beyond the log."""

    gamma_sensitivity: float = 1.0  # Γ: no true b° exceeds Γ times the logged b
    max_ratio: float | None = None  # no ratio π/b exceeds it, at any state and action
    min_propensity: float | None = None  # no action is taken with a smaller probability

    def __post_init__(self) -> None:
        if not (np.isfinite(self.gamma_sensitivity) and self.gamma_sensitivity >= 1.0):
            raise InvalidInput(
                f"gamma_sensitivity={self.gamma_sensitivity}: a factor of 1 (propensities are right) or more."
            )
        if self.max_ratio is not None and not 0 < self.max_ratio < np.inf:
            raise InvalidInput(f"max_ratio={self.max_ratio}: a positive number.")
        if self.min_propensity is not None and not 0 < self.min_propensity <= 1:
            raise InvalidInput(f"min_propensity={self.min_propensity}: a probability above 0.")

    def cap(self) -> float | None:
        """A bound of every ratio, known before anything is drawn; None: nothing was stated."""
        bounds = [] if self.max_ratio is None else [self.max_ratio]
        bounds += [] if self.min_propensity is None else [1.0 / self.min_propensity * (1 + 4 * U)]
        return min(bounds, default=None)

    def robust_cap(self) -> float | None:
        """The same where doubly robust values may be formed: under Γ > 1 they may not."""
        return self.cap() if self.gamma_sensitivity == 1.0 else None

    def caps(self, cap: float, probs: FloatArray | None, count: int) -> FloatArray:
        """Bounds row by row, (count, slots or 1): π(a|s_i) over the least behavior probability is one, too."""
        if probs is None or self.min_propensity is None:
            return np.full((count, 1), cap)
        return np.asarray(np.minimum(cap, probs / self.min_propensity * (1 + (4 + probs.shape[1]) * U)))
