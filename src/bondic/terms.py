"""What the user states about a question: discount, ranges, horizon. Nothing here is read off the log."""

from __future__ import annotations

from dataclasses import dataclass

MOST_STEPS = 2**53
"""Longer horizons are refused: float64 no longer tells their last step from the one before."""


@dataclass(frozen=True)
class Terms:
    """What the user states about the question; all of it goes into the certificate.

    `value_range` [v_lo, v_hi] states that every realised discounted return lies in it, from any state-action pair, at any
    time and whichever policy follows; None states nothing beyond the reward range.
    """

    gamma: float
    reward_range: tuple[float, float]
    may_terminate: bool = True
    horizon: int | None = None
    time_varying: bool = False
    value_range: tuple[float, float] | None = None
