"""The exceptions a user can meet. Each message says what is wrong, why it matters and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class BondicError(Exception):
    """Base class of every error raised on purpose by this library."""


class InvalidInput(BondicError, ValueError):
    """The log, the policy or an argument cannot be used as it is."""


class PolicyError(InvalidInput):
    """The policy raised, or returned something that is not an action distribution."""


class TunedOnCertifiedRows(InvalidInput):
    """Instruments W were tuned on rows that they are asked to certify."""


class NoInterval(BondicError, ValueError):
    """The log contradicts the assumptions: there is no interval to look at."""

    def __init__(self) -> None:
        super().__init__(
            "There is no interval: the log contradicts what was assumed (`status` is REJECTED). `rejection` has the p-value, "
            "next_steps() says what to look at, and `value_range` is what the stated ranges alone imply. Ask for the status "
            "before the interval: if result.status is bondic.Status.REJECTED: ..."
        )


class NumericalError(BondicError, ArithmeticError):
    """A quantity left its proved error bound; no number is reported rather than a doubtful one."""


class VerificationError(BondicError):
    """A certificate does not match the log, the policy or its own numbers."""


class MissingExtra(BondicError, ImportError):
    """An optional library is needed for this method."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the optional library `{library}`; install it with `pip install 'bondic[{extra}]'`."
        )


class ExecutorError(BondicError, RuntimeError):
    """Work that was given to other processes did not come back, or could not be sent."""


class Doubt(str):
    """A note on the input that touches validity; it is told apart from other notes wherever they travel together."""

    __slots__ = ()


class Listing(str):
    """A note that lists values of single rows; it is left out where rows are withheld."""

    __slots__ = ()


class ValidityWarning(UserWarning):
    """Something in the input makes an assumption of the interval doubtful."""

    def __str__(self) -> str:
        return Doubt(super().__str__())


_SHOWN = 12
_LONGEST = 60


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
    """ "an int", "a list", "None": what somebody passed, in a sentence."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"


def printable(text: Any, keep: str = "") -> str:
    """The text with blanks for all that a terminal or a page would obey instead of showing it.

    That is every character that Unicode does not call printable: control and escape codes, line breaks (unless kept),
    zero-width characters, marks that turn the direction of writing, halves of surrogate pairs.
    """
    return "".join(c if c.isprintable() or c in keep else " " for c in str(text))


def one_line(text: Any, longest: int = _LONGEST) -> str:
    """Foreign text inside a message: one line, printable, not too long."""
    words = " ".join(printable(str(text)[: 4 * longest]).split())
    return words if len(words) <= longest else f"{words[:longest]}..."


def did_you_mean(word: Any, known: Iterable[Any]) -> str:
    """ " Did you mean `x`?", or nothing where no known word is close; to stand after a sentence."""
    words = {str(name).lower(): str(name) for name in known}
    close = get_close_matches(str(word).lower(), words, n=1, cutoff=0.6)
    return f" Did you mean `{one_line(words[close[0]])}`?" if close else ""


def clean_text(text: Any, longest: int = 4000) -> str:
    """Longer foreign text, such as a note of a certificate: escape codes could rewrite the screen, and the interval on it."""
    return one_line(text, longest)


def refuse(condition: bool, message: Any) -> None:
    """VerificationError where the condition holds; foreign text may be part of the message."""
    if condition:
        raise VerificationError(clean_text(message, 600))
