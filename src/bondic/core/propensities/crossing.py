"""Where a decreasing function changes its sign: an end is where the wealth's lead over its level does.

The search may do what it likes; what it returns is certain.
"""

from __future__ import annotations

from collections.abc import Callable

from bondic.core.bounded import U

Place = tuple[float, float]

_BACKWARD_STEPS = 44
"""From where floats see the crossing, each twice as long: the first is 1e-13 of the range."""
BEYOND = 1e-6
"""Of the range: how far beyond it the end is put where every value in it is rejected, so that no rounding brings it back."""


def largest(
    lead: Callable[[float], float],
    certain: Callable[[float], bool],
    least: float,
    most: float,
    guess: tuple[float, float] | None = None,
) -> float:
    """Where a decreasing function changes its sign; what is returned is certain, whatever the search has done.

    `guess` is where it may do so, and how far that may be off.
    """
    span = most - least
    first = least + 1e-9 * span
    if not span > 0:
        return least
    below, over = _bracket(lead, first, most, guess or (first, span))
    if below is None:
        return least
    if over is None and certain(most):
        return most + BEYOND * span + 64 * U * abs(most)
    place = most if over is None else crossing(lead, below, over, 1e-13 * (span + abs(first)))
    return certain_end(certain, place, least, span)


def certain_end(certain: Callable[[float], bool], place: float, least: float, span: float) -> float:
    """The first candidate that is certain, from a place backward, each step twice as long; `least` if there is none."""
    for step in range(_BACKWARD_STEPS):
        candidate = place if step == 0 else place - 2.0 ** (step - _BACKWARD_STEPS) * span
        if candidate <= least + 1e-9 * span:
            break
        if certain(candidate):
            return candidate
    return least


def _bracket(
    lead: Callable[[float], float], first: float, most: float, guess: tuple[float, float]
) -> tuple[Place | None, Place | None]:
    """(x, lead(x)) below and over a sign change in [first, most]; None where there is none on that side."""
    x, step = min(max(guess[0], first), most), max(guess[1], 1e-9 * (most - first))
    found = lead(x)
    ahead = found >= 0.0
    while x != (most if ahead else first):
        before, x = (x, found), min(x + step, most) if ahead else max(x - step, first)
        found, step = lead(x), 8.0 * step
        if (found >= 0.0) != ahead:
            return (before, (x, found)) if ahead else ((x, found), before)
    return ((x, found), None) if ahead else (None, (x, found))


def crossing(lead: Callable[[float], float], below: Place, over: Place, width: float) -> float:
    """The positive side of a bracket of this width around the sign change, from (x, lead(x)) on both sides.

    Chandrupatla's method: inverse quadratic interpolation through x_1, x_2, x_3 where that is safe, else bisection.
    """
    (x1, f1), (x2, f2), step = over, below, 0.5
    if f2 == 0.0:
        return x2
    while True:
        x = x1 + step * (x2 - x1)
        found = lead(x)
        if (found >= 0.0) == (f1 >= 0.0):
            x3, f3 = x1, f1
        else:
            x3, f3, x2, f2 = x2, f2, x1, f1
        x1, f1 = x, found
        least = 0.5 * width / abs(x2 - x1)
        if least > 0.5 or f1 == 0.0:
            return x1 if f1 >= 0.0 else x2
        xi, phi, step = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2), 0.5
        if phi**2 < xi and (1.0 - phi) ** 2 < 1.0 - xi:
            step = f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
        step = min(max(step, least), 1.0 - least)
