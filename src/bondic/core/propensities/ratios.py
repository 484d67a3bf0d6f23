"""ρ_i = π(a_i|s_i) / b_i(a_i|s_i), the one place where ratios are formed; ρ_{0:t}, their products in an episode (section 13).

The columns of the log are taken as they stand: what is bounded is what the arithmetic adds to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import U
from bondic.core.errors import InvalidInput

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LARGEST = 1e130
"""Products of ratios are cut here: what is weighed by them is >= 0, so that less of it is on the safe side."""


@dataclass(frozen=True, eq=False)
class Ratios:
    """Numbers >= 0 with a bound of their relative errors."""

    values: FloatArray  # (n,)
    errors: FloatArray  # (n,) relative

    def low(self) -> FloatArray:
        """From below."""
        return np.asarray(np.maximum(self.values * (1.0 - 2.0 * self.errors), 0.0))

    @staticmethod
    def joined(parts: list[Ratios]) -> Ratios:
        values, errors = ([getattr(part, name) for part in parts] for name in ("values", "errors"))
        return Ratios(np.concatenate(values), np.concatenate(errors))


def ratios_of(target: FloatArray, behavior: FloatArray, roundings: int) -> Ratios:
    """π/b from probabilities; every π is the result of so many roundings."""
    return _checked(target / behavior, np.full(target.size, (8.0 + roundings) * U))


def ratios_of_logs(target: FloatArray, behavior: FloatArray) -> Ratios:
    """π/b from logarithms of probabilities."""
    with np.errstate(over="ignore"):
        values = np.exp(target - behavior)
    sizes = np.where(np.isfinite(target), np.abs(target), 0.0) + np.abs(behavior)
    return _checked(values, 8 * U * (1.0 + sizes))


def _checked(values: FloatArray, errors: FloatArray) -> Ratios:
    if not np.all(np.isfinite(values)):
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InvalidInput(f"The ratio π/b overflows at row {row} of the part that was read: check its propensities.")
    return Ratios(values, errors)
