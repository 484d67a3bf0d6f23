"""Numbers as text, and tables of text: what every view, message and certificate prints."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from bondic.core.errors import printable

STATE_WORDS = {
    "stated": "stated by you",
    "chosen": "chosen by the baseline",
    "checked": "checked",
    "rejected": "rejected",
}
"""Where an assumption comes from, in the words of every view."""
STATE_COLORS = {"stated": "blue", "chosen": "yellow", "checked": "green", "rejected": "red"}
_DIGITS, _MOST_DIGITS = 3, 15
_LOSS = 0.05
"""Share of its length by which an end may move when an interval is rounded for a sentence."""
_ROUNDING = {-1: ROUND_FLOOR, 0: ROUND_HALF_EVEN, 1: ROUND_CEILING}
_HAIR = 1e-12
"""Rounding that the arithmetic itself has added to an end: not worth a digit in a sentence."""


@dataclass(frozen=True)
class Grid:
    """A table; `states` says where the statement of each row comes from, if rows are statements."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    states: tuple[str, ...] = ()


def number(value: float) -> str:
    return "0" if value == 0 else f"{value:.6g}"


def three(value: float) -> str:
    """Three significant digits, large numbers written out: 1260, not 1.26e+03."""
    return f"{float(f'{value:.3g}'):g}"


def grouped(count: int) -> str:
    """A count with a space between groups of three digits that no line break can split: 50 000."""
    return f"{count:,}".replace(",", "\N{NO-BREAK SPACE}")


def unbroken(text: str) -> str:
    """The same text with the spaces inside of numbers (1 300), and those after ±, safe from line breaks."""
    return re.sub(r"(?<=\d) (?=\d{3}(?!\d))|(?<=±) ", "\N{NO-BREAK SPACE}", text)


def interval_text(low: float, high: float) -> str:
    """[low, high] for a sentence, rounded outward: three digits, more where the interval is short."""
    return f"[{', '.join(ends_text(low, high))}]"


def ends_text(low: float, high: float) -> tuple[str, str]:
    """Both ends of it, with as many decimals each; whole numbers stay round."""
    texts = bound_text(low, -1, high - low), bound_text(high, 1, high - low)
    return padded(texts[0], texts), padded(texts[1], texts)


def padded(text: str, beside: Sequence[str]) -> str:
    """A number with zeros at its end, up to the decimals of those beside it; whole numbers and powers of ten stay as they are."""
    if "." not in text or any("e" in other for other in (text, *beside)):
        return text
    decimals = max(len(other.partition(".")[2]) for other in beside)
    return f"{text:0<{text.index('.') + 1 + decimals}}"


def bound_text(value: float, direction: int, length: float = math.inf) -> str:
    """An end with three significant digits, rounded down (-1) or up (1) by at most a twentieth of `length`.

    Direction 0 is for a number beside such an end that is no end itself: the nearest one with as many digits.
    """
    if value == 0 or not math.isfinite(value):
        return number(value)
    exact = Decimal(value) - direction * Decimal(_HAIR) * abs(Decimal(value))
    rounded = exact.quantize(Decimal(1).scaleb(_last_place(value, length)), _ROUNDING[direction])
    return "0" if rounded == 0 else f"{float(rounded):.{_MOST_DIGITS}g}"


def _last_place(value: float, length: float) -> int:
    """The power of ten of the last digit that is printed of a number other than 0."""
    first = math.floor(math.log10(abs(value)))
    place = first - _DIGITS + 1
    if 0 < _LOSS * length < math.inf:
        place = max(min(place, math.floor(math.log10(_LOSS * length))), first - _MOST_DIGITS + 1)
    return place


def last_digit(low: float, high: float) -> float:
    """One unit of the last digit that `interval_text` prints, of the end with the larger unit."""
    return max((10.0 ** _last_place(end, high - low) for end in (low, high) if end and math.isfinite(end)), default=0.0)


def counted(number: float, thing: str) -> str:
    """ "1 step", "3 steps"."""
    return f"{three(number)} {thing}{'' if number == 1 else 's'}"


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def escape(text: object) -> str:
    """Text of any origin inside a page: no markup, no control characters, nothing that turns the direction of writing."""
    return html.escape(printable(text, keep="\n\N{NO-BREAK SPACE}"))
