"""How far Y_i = r_i + gamma q*(x'_i) can be from a predicted center, over all q* that are left (14).

The center is Ŷ = clip_[A, C](ŷ). Known are enclosures ŷ in [y_lo, y_hi], Y in [Y_lo, Y_hi], Y - ŷ in [d_lo, d_hi]. Then

    Δ = Y - Ŷ <= d_hi                                                      if y_hi <= C,
            Δ <= max( d_hi, min(Y_hi - C, d_hi + y_hi - C) )               else,
    always  Δ <= Y_hi - clip(y_lo),

and the same mirrored below. "Y_hi <= C" is not enough for the first line: C = 0.5, ŷ = 0.9, Y = 0.4 has Y - ŷ = -0.5
and Δ = -0.1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Between, U

FloatArray = npt.NDArray[np.float64]


def clipped_deviation(predicted: Between, outcome: Between, apart: Between, clip: Between) -> Between:
    """Bounds of Y - clip(ŷ), rounded outward."""
    with np.errstate(invalid="ignore"):
        over = np.minimum(outcome.high - clip.high, apart.high + (predicted.high - clip.high))
        high = np.where(predicted.high <= clip.high, apart.high, np.maximum(apart.high, over))
        high = np.minimum(high, outcome.high - np.clip(predicted.low, clip.low, clip.high))
        under = np.maximum(outcome.low - clip.low, apart.low + (predicted.low - clip.low))
        low = np.where(predicted.low >= clip.low, apart.low, np.minimum(apart.low, under))
        low = np.maximum(low, outcome.low - np.clip(predicted.high, clip.low, clip.high))
    # every branch is made of at most three numbers: two roundings
    size = apart.largest() + predicted.largest() + outcome.largest() + clip.largest()
    return Between(low - 8 * U * size, high + 8 * U * size)
