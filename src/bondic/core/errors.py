"""The exceptions of the core, and foreign text made safe to print. `bondic.errors` has those of the rest."""

from __future__ import annotations

from typing import Any


class BondicError(Exception):
    """Base class of every error raised on purpose by this library."""

    def __reduce__(self) -> tuple[Any, ...]:  # by its words: the arguments of a class of its own are not kept
        return _copied, (type(self), self.args, self.__dict__)


def _copied(kind: type[BondicError], args: tuple[Any, ...], fields: dict[str, Any]) -> BondicError:
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    return error


class InvalidInput(BondicError, ValueError):
    """The log, the policy or an argument cannot be used as it is."""


class NoTable(InvalidInput):
    """Rows that are no table: too many states, or several answers of a policy at one of them."""


class NumericalError(BondicError, ArithmeticError):
    """A quantity left its proved error bound; no number is reported rather than a doubtful one."""


class VerificationError(BondicError):
    """A certificate does not match the log, the policy or its own numbers."""


_LONGEST = 60


def printable(text: Any, keep: str = "") -> str:
    """The text with blanks for all that a terminal or a page would obey instead of showing it.

    That is every character that Unicode does not call printable: control and escape codes, line breaks (unless kept),
    zero-width characters, marks that turn the direction of writing, halves of surrogate pairs.
    """
    return "".join(c if c.isprintable() or c in keep else " " for c in str(text))


def printable_lines(text: Any) -> str:
    """The same with its line breaks, and spaces that no line ends at."""
    return printable(text, keep="\n\N{NO-BREAK SPACE}")


def one_line(text: Any, longest: int = _LONGEST) -> str:
    """Foreign text inside a message: one line, printable, not too long."""
    words = " ".join(printable(str(text)[: 4 * longest]).split())
    return words if len(words) <= longest else f"{words[:longest]}..."


def clean_text(text: Any, longest: int = 4000) -> str:
    """Longer foreign text, such as a note of a certificate: escape codes could rewrite the screen, and the interval on it."""
    return one_line(text, longest)


def refuse(condition: bool, message: Any) -> None:
    """VerificationError where the condition holds; foreign text may be part of the message."""
    if condition:
        raise VerificationError(clean_text(message, 600))
