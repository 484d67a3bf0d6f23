"""Text from files of other people, on the way to a terminal or a page."""

from __future__ import annotations

from typing import Any

from bondic.errors import one_line

LONGEST = 4000


def clean_text(text: Any, longest: int = LONGEST) -> str:
    """One line of printable characters: no control or escape codes, line breaks, zero-width or direction marks.

    A note with escape codes could otherwise rewrite the screen, and with it the interval that was printed before.
    """
    return one_line(text, longest)


def is_clean(text: str) -> bool:
    """Whether a string of a certificate can be printed as it is."""
    return text.isprintable()
