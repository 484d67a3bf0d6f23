"""Numbers as they are printed: three digits, rounded outward. Verification compares claims in these digits."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

_DIGITS, _MAX_DIGITS = 3, 12  # at most as many as `_HAIR` leaves
_LOSS = 0.05
"""Share of its length by which an end may move when an interval is rounded for a sentence."""
_ROUNDING = {-1: ROUND_FLOOR, 0: ROUND_HALF_EVEN, 1: ROUND_CEILING}
_HAIR = 1e-12
"""Rounding that the arithmetic itself has added to an end: not worth a digit in a sentence."""


def number(value: float) -> str:
    return "0" if value == 0 else f"{value:.6g}"


def interval_text(low: float, high: float) -> str:
    """[low, high] for a sentence, rounded outward: three digits, more where the interval is short."""
    return f"[{', '.join(ends_text(low, high))}]"


def ends_text(low: float, high: float) -> tuple[str, str]:
    """Both ends of it, down to the same decimal: every digit that is printed is one of the end, rounded outward."""
    return placed_text(low, -1, low, high), placed_text(high, 1, low, high)


def placed_text(value: float, direction: int, low: float, high: float) -> str:
    """A number with the decimals of [low, high]; whole numbers stay round. Direction as in `bound_text`."""
    place = _common_place(low, high)
    if place is None or value == 0 or not math.isfinite(value):
        return number(value)
    whole = round(value)
    if abs(value - whole) <= _HAIR * max(abs(value), min(high - low, 1.0)):  # an end that only rounding keeps from it
        value = float(whole)
    text = _rounded(value, direction, place) if value else "0"
    return text if "e" in text or float(text) == value == whole else f"{float(text):.{max(-place, 0)}f}"


def bound_text(value: float, direction: int, length: float = math.inf) -> str:
    """An end with three significant digits, rounded down (-1) or up (1) by at most a twentieth of `length`.

    Direction 0 is for a number beside such an end that is no end itself: the nearest one with as many digits.
    """
    if value == 0 or not math.isfinite(value):
        return number(value)
    return _rounded(value, direction, _last_place(value, length))


def _rounded(value: float, direction: int, place: int) -> str:
    exact = Decimal(value) - direction * Decimal(_HAIR) * abs(Decimal(value))
    rounded = exact.quantize(Decimal(1).scaleb(place), _ROUNDING[direction])
    return "0" if rounded == 0 else f"{float(rounded):.{_MAX_DIGITS}g}"


def _last_place(value: float, length: float) -> int:
    """The power of ten of the last digit that is printed of a number other than 0."""
    first = math.floor(math.log10(abs(value)))
    place = first - _DIGITS + 1
    if 0 < _LOSS * length < math.inf:
        place = max(min(place, math.floor(math.log10(_LOSS * length))), first - _MAX_DIGITS + 1)
    return place


def _common_place(low: float, high: float) -> int | None:
    """That of both ends: three digits of the larger one, more where the interval is short."""
    return max((_last_place(end, high - low) for end in (low, high) if end and math.isfinite(end)), default=None)


def last_digit(low: float, high: float) -> float:
    """One unit of the last digit that `interval_text` prints."""
    place = _common_place(low, high)
    return 0.0 if place is None else 10.0**place
