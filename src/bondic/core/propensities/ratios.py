"""ρ_i = π(a_i|s_i) / b_i(a_i|s_i), the one place where ratios are formed; ρ_{0:t}, their products in an episode (section 13).

The columns of the log are taken as they stand: what is bounded is what the arithmetic adds to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import U
from bondic.core.errors import InvalidInput
from bondic.data.transitions import Transitions

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LARGEST = 1e130
"""Products of ratios are cut here: what is weighed by them is >= 0, so that less of it is on the safe side."""
_MISSING = (
    "The log has no propensities. Pass `behavior_action_probs` (or `behavior_log_probs`), the probability with which every "
    "logged action was taken, or use a method that does not need them, such as Sequential() or Dual()."
)


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


def logged_ratios(part: Transitions, target: FloatArray | None, slots: int) -> Ratios:
    """The ratios of some rows; `target` is π(a_i|s_i) as a policy said it, None where the log holds it."""
    if target is not None:
        # a row of the policy's probabilities stands for itself divided by its sum: one rounding for every action
        below, logarithms, extra = _column(part, "behavior"), None, float(slots)
    else:
        extra = 0.0
        below, logarithms = None, (_logs(part, "target"), _logs(part, "behavior"))
        if part.target_action_probs is not None and part.behavior_action_probs is not None:
            target, below, logarithms = part.target_action_probs, part.behavior_action_probs, None
    if logarithms is None:
        assert target is not None
        assert below is not None
        return _checked(target / below, np.full(target.size, (8.0 + extra) * U))
    upper, lower = logarithms
    with np.errstate(over="ignore"):
        values = np.exp(upper - lower)
    sizes = np.where(np.isfinite(upper), np.abs(upper), 0.0) + np.abs(lower)
    return _checked(values, 8 * U * (1.0 + sizes))


def _checked(values: FloatArray, errors: FloatArray) -> Ratios:
    if not np.all(np.isfinite(values)):
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InvalidInput(f"The ratio π/b overflows at row {row} of the part that was read: check its propensities.")
    return Ratios(values, errors)


def _column(part: Transitions, whose: str) -> FloatArray:
    """Probabilities, from their logarithms if need be."""
    found = getattr(part, f"{whose}_action_probs")
    return np.asarray(np.exp(_logs(part, whose)) if found is None else found)


def _logs(part: Transitions, whose: str) -> FloatArray:
    given, probabilities = getattr(part, f"{whose}_log_probs"), getattr(part, f"{whose}_action_probs")
    if given is None and probabilities is None:
        raise InvalidInput(
            _MISSING if whose == "behavior" else "The log does not hold the target policy's probabilities."
        )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probabilities) if given is None else given)
