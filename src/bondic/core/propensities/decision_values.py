"""Values X whose mean is at most the value of the policy, unit by unit, rounded down (section 13).

Everything is a lower end here: the upper one is that of the negated rewards (`Decisions.seen_from`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import TINY, U, next_down
from bondic.core.errors import InvalidInput
from bondic.core.propensities.control import Control
from bondic.core.propensities.decisions import Decisions
from bondic.core.propensities.ratios import LARGEST, Ratios

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stated:
    """What was stated about the propensities beyond the log."""

    off_by: float = 1.0  # Γ: no true b° exceeds Γ times the logged b
    largest_ratio: float | None = None  # no ratio π/b exceeds it, at any state and action
    least_behavior_prob: float | None = None  # no action is taken with a smaller probability

    def __post_init__(self) -> None:
        if not (np.isfinite(self.off_by) and self.off_by >= 1.0):
            raise InvalidInput(f"off_by={self.off_by}: a factor of 1 or more (1: the propensities are right).")
        if self.largest_ratio is not None and not 0 < self.largest_ratio < np.inf:
            raise InvalidInput(f"largest_ratio={self.largest_ratio}: a positive number.")
        if self.least_behavior_prob is not None and not 0 < self.least_behavior_prob <= 1:
            raise InvalidInput(f"least_behavior_prob={self.least_behavior_prob}: a probability above 0.")

    def cap(self) -> float | None:
        """A bound of every ratio, known before anything is drawn; None: nothing was stated."""
        bounds = [] if self.largest_ratio is None else [self.largest_ratio]
        bounds += [] if self.least_behavior_prob is None else [1.0 / self.least_behavior_prob * (1 + 4 * U)]
        return min(bounds, default=None)

    def caps(self, probs: FloatArray | None, count: int) -> FloatArray:
        """Bounds row by row, (count, slots or 1): π(a|s_i) over the least behavior probability is one, too."""
        most = self.cap()
        assert most is not None
        if probs is None or self.least_behavior_prob is None:
            return np.full((count, 1), most)
        return np.asarray(np.minimum(most, probs / self.least_behavior_prob * (1 + (4 + probs.shape[1]) * U)))


def check_ratios(ratios: Ratios, stated: Stated) -> None:
    """A ratio of the log above what was stated refutes the statement."""
    cap, seen = stated.cap(), float(ratios.low().max())
    if cap is not None and seen > cap * (1 + 1e-9):
        raise InvalidInput(
            f"A ratio π/b of {seen:.6g} is logged, above the stated bound {cap:.6g} (largest_ratio, 1 / least_behavior_prob). "
            "The bound must hold at every state and action: state a larger one, or none."
        )


def _check_least(ratios: Ratios, caps: FloatArray, stated: Stated, rows: IntArray) -> None:
    """An action of the log with a smaller probability than the least that was stated refutes the statement."""
    wrong = np.flatnonzero(ratios.low() > caps * (1 + 1e-9))
    if wrong.size:
        raise InvalidInput(
            f"Row {int(rows[wrong[0]])}: its action was taken with a smaller probability than the stated least_behavior_prob="
            f"{stated.least_behavior_prob}. The bound must hold at every state and action: state a smaller one, or none."
        )


def free_values(columns: Decisions, off_by: float) -> FloatArray:
    """v_lo + ρ (r - v_lo) / Γ for single rows; >= v_lo whatever the ratios are, so nothing about them is stated."""
    low = columns.limits.low
    gain = np.maximum(columns.rewards - low, 0.0) * (1 - 4 * U)
    return above(low, np.minimum(columns.ratios.low(), LARGEST) * gain / off_by)


def above(low: float, gains: FloatArray) -> FloatArray:
    """low + gains, from below: gains are >= 0 and good to a few U."""
    total = low + np.maximum(gains * (1 - 16 * U) - TINY, 0.0)
    return np.asarray(np.maximum(total - 4 * U * np.abs(total), low))


@dataclass(frozen=True, eq=False)
class Robust:
    """Doubly robust values of the rows from the first border on; the rows before it trained q̂."""

    values: FloatArray  # (n,) from below
    centers: FloatArray  # (n,) E_π[q̂(s_i, .)], known before the action
    losses: FloatArray  # (n,) X_i >= center_i - loss_i
    floor: float  # X_i >= floor, at every state
    first: int  # values before it belong to rows that trained q̂


def mean_and_taken(q: FloatArray, probs: FloatArray | None, slots: IntArray) -> tuple[FloatArray, FloatArray]:
    """E_π[q̂(s_i, .)] and q̂(s_i, a_i) of predictions (n, slots), or (n, 1) for all actions alike."""
    if q.shape[1] == 1:
        return q[:, 0], q[:, 0]
    if probs is None:
        raise InvalidInput(
            "A control variate that tells actions apart needs the policy's probabilities of all actions."
        )
    return np.einsum("ij,ij->i", probs, q), q[np.arange(len(q)), slots]


def robust_values(columns: Decisions, control: Control, stated: Stated) -> Robust:
    """E_π[q̂(s_i, .)] + ρ_i (r_i - q̂(s_i, a_i)); needs a stated bound of the ratios, as r - q̂ may be negative."""
    cap, limits = stated.cap(), columns.limits
    assert cap is not None
    first = int(np.searchsorted(columns.rows, control.borders[0]))
    later = slice(first, len(columns.rows))
    raw = columns.sign * control.values(columns.rows[later], columns.observations[later])
    q = np.clip(raw, limits.low, limits.high)
    probs = columns.probs[later] if columns.probs is not None and control.by_action else None
    centers, taken = mean_and_taken(q, probs, columns.slots[later])
    ratios = Ratios(columns.ratios.values[later], columns.ratios.errors[later])
    move = ratios.values * (columns.rewards[later] - taken)
    # π is a row divided by its sum, good to one rounding for every action: paid for in q̂ and in q*, both inside the limits
    slots = 1 if columns.probs is None else columns.probs.shape[1]
    error = np.abs(move) * (2 * ratios.errors + 8 * U) + 4 * U * (np.abs(move) + limits.largest * (slots + 4))
    room, caps = np.maximum(q - limits.low, 0.0), stated.caps(probs, len(q))
    drawn = caps[:, 0] if caps.shape[1] == 1 else caps[np.arange(len(q)), columns.slots[later]]
    _check_least(ratios, drawn, stated, columns.rows[later])
    losses = (caps * room).max(axis=1) * (1 + 8 * U) + 4 * U * limits.largest * (slots + 4)
    ends = sorted(np.clip(columns.sign * np.array(control.clip), limits.low, limits.high).tolist())
    floor = next_down(ends[0] - cap * (ends[1] - limits.low) * (1 + 8 * U)) - 16 * U * (abs(ends[0]) + abs(limits.low))
    return Robust(centers + move - error, centers, losses, floor, first)
