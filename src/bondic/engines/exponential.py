"""2^t on vectors, without a branch; module power has the coefficients and the proof."""

from __future__ import annotations

from bondic.engines.compiled import helper
from bondic.engines.lanes import splat, times_power_of_two
from bondic.engines.power import C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, SHIFTER


@helper(inline="always")
def power_of_two(t):  # type: ignore[no-untyped-def]
    """2^t in every lane, |t| <= LARGEST, relative error at most EXP_ULP U."""
    shifted = t + splat(SHIFTER)
    r = t - (shifted - splat(SHIFTER))
    p = splat(C9) + r * splat(C10)
    p = splat(C8) + r * p
    p = splat(C7) + r * p
    p = splat(C6) + r * p
    p = splat(C5) + r * p
    p = splat(C4) + r * p
    p = splat(C3) + r * p
    p = splat(C2) + r * p
    p = splat(C1) + r * p
    p = splat(1.0) + r * p
    return times_power_of_two(p, shifted)
