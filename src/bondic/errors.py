"""The exceptions, warnings and notes that a user can meet outside the core, and the words they are made of.

Each message says what is wrong, why it matters and the way out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from bondic.core.errors import BondicError, InvalidInput, one_line

_SHOWN = 12


class PolicyError(InvalidInput):
    """The policy raised, or returned something that is not an action distribution."""


class TooFewRows(InvalidInput):
    """The log is shorter than its pilot: more rows are needed."""


class TunedOnCertifiedRows(InvalidInput):
    """Instruments W were tuned on certified rows."""


class NoInterval(BondicError, ValueError):
    """The log contradicts the assumptions: there is no interval to look at."""

    def __init__(self) -> None:
        super().__init__(
            "There is no interval: the log contradicts what was assumed (`status` is REJECTED). `rejection` has the p-value, "
            "next_steps() says what to look at, and `value_range` is what the stated ranges alone imply. Check the status "
            "before the interval: if result.status is bondic.Status.REJECTED: ..."
        )


class MissingExtra(BondicError, ImportError):
    """An optional library is needed for this method."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the optional library `{library}`; install it with `pip install 'bondic[{extra}]'`."
        )


class ExecutorError(BondicError, RuntimeError):
    """Work for other processes could not be sent, or did not come back."""


class ValidityNote(str):
    """A note on the input that touches validity: a type of its own among other notes."""

    __slots__ = ()


class Listing(str):
    """A note that lists values of single rows; it is left out where rows are withheld."""

    __slots__ = ()


class ValidityWarning(UserWarning):
    """Something in the input makes an assumption of the interval doubtful."""

    def __str__(self) -> str:
        return ValidityNote(super().__str__())


def command_words(text: str) -> str:
    """`columns={'rewards': 'name'} (--columns rewards=NAME)` as the command line says it: `--columns rewards=NAME`."""
    return _in_words(text, command=True)


def python_words(text: str) -> str:
    """The same as Python says it: `columns={'rewards': 'name'}`."""
    return _in_words(text, command=False)


_OPENING = " (--"


def _in_words(text: str, *, command: bool) -> str:
    """Messages name a way out as an argument, and as an option in parentheses after it: one of the two."""
    place = text.find(_OPENING)
    while place >= 0:
        begin, end = _argument_before(text, place), _closing(text, place + 1)
        if end is not None and re.search(r"=|\)$", text[begin:place]):
            kept = text[place + 2 : end] if command else text[begin:place]
            text = text[:begin] + kept + text[end + 1 :]
            place = begin + len(kept) - 1
        place = text.find(_OPENING, place + 1)
    return text


def _argument_before(text: str, place: int) -> int:
    """Where the word before a place begins; blanks inside of brackets and quotes are part of it."""
    depth, begin = 0, place
    while begin > 0:
        letter = text[begin - 1]
        depth += (letter in ")]}") - (letter in "([{")
        if depth < 0 or (letter == " " and depth == 0):
            break
        begin -= 1
    return begin


def _closing(text: str, place: int) -> int | None:
    """Where the parenthesis that opens at a place closes."""
    depth = 0
    for at in range(place, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    return None


def shown(names: Iterable[Any]) -> str:
    """Names as they appear in a message: the first ones, cut to a readable length, with nothing a terminal would obey."""
    listed = list(names)
    words = ", ".join(one_line(name) or "(without a name)" for name in listed[:_SHOWN])
    return words + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")


def counted_names(names: Iterable[Any]) -> str:
    """ "column age", "2 columns, age, dose": how many there are, and the first of them."""
    listed = list(names)
    return f"column {shown(listed)}" if len(listed) == 1 else f"{len(listed)} columns, {shown(listed)}"


def kind_of(value: Any) -> str:
    """ "an int", "a list", "None": the type of an argument, in a sentence."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"


def did_you_mean(word: Any, known: Iterable[Any]) -> str:
    """ " Did you mean `x`?", or nothing where no known word is close; to stand after a sentence."""
    words = {str(name).lower(): str(name) for name in known}
    close = get_close_matches(str(word).lower(), words, n=1, cutoff=0.6)
    return f" Did you mean `{one_line(words[close[0]])}`?" if close else ""
