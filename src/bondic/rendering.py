"""Numbers as text, and tables of text: what every view, message and certificate prints."""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass

from bondic.core.errors import printable_lines

STATE_WORDS = {
    "stated": "stated by you",
    "chosen": "chosen by the baseline",
    "checked": "checked",
    "rejected": "rejected",
}
"""Where an assumption comes from, in the words of every view."""
STATE_COLORS = {"stated": "blue", "chosen": "yellow", "checked": "green", "rejected": "red"}


_LONG = 6
"""Length of a percentage that the user did not state: 96.6667."""


@dataclass(frozen=True)
class Grid:
    """A table; `states` says where the statement of each row comes from, if rows are statements."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    states: tuple[str, ...] = ()


def three(value: float) -> str:
    """Three significant digits, large numbers written out: 1260, not 1.26e+03."""
    return f"{float(f'{value:.3g}'):g}"


def confidence(alpha: float) -> str:
    """ "90% confidence": never more than was proved."""
    percent = 100 * (1 - alpha)
    return f"{percent if len(f'{percent:g}') < _LONG else math.floor(100 * percent) / 100:g}% confidence"


def grouped(count: int) -> str:
    """A count with a space between groups of three digits that no line break can split: 50 000."""
    return f"{count:,}".replace(",", "\N{NO-BREAK SPACE}")


def unbroken(text: str) -> str:
    """The same text with the spaces inside of numbers (1 300), and those after ±, safe from line breaks."""
    return re.sub(r"(?<=\d) (?=\d{3}(?!\d))|(?<=±) ", "\N{NO-BREAK SPACE}", text)


def counted(number: float, thing: str) -> str:
    """ "1 step", "3 steps"."""
    return f"{three(number)} {thing}{'' if number == 1 else 's'}"


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def escape(text: object) -> str:
    """Text of any origin inside a page: no markup, no control characters, nothing that turns the direction of writing."""
    return html.escape(printable_lines(text))
