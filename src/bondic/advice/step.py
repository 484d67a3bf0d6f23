"""One way out, as plain data: what was found, what to do about it, and how far that is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["overlap", "rejected", "term", "rows", "discount", "start", "range", "method"]
KnownBy = Literal["counted", "extrapolated", "yours"]
_LABELS: dict[KnownBy, str] = {"counted": "", "extrapolated": " (extrapolated, not guaranteed)", "yours": ""}


@dataclass(frozen=True)
class NextStep:
    """What would help, and how far that is known. It is advice, never a guarantee.

    Parameters
    ----------
    kind : str
        What it is about: "overlap", "rejected", "term", "rows", "discount", "start", "range" or "method".
    text : str
        What was found and what to do, in a sentence or two.
    basis : {"counted", "extrapolated", "yours"}
        Counted in log and result; extrapolated from them; or a statement that only you can make.
    loud : bool, default False
        Whether nothing else helps before this is done.
    numbers : dict of str to float
        The numbers in the text, for programs.
    """

    kind: Kind
    text: str
    basis: KnownBy = "counted"
    loud: bool = False
    numbers: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """The text with its label."""
        return f"{self.text.removesuffix('.')}{_LABELS[self.basis]}."

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "kind": self.kind,
            "text": str(self),
            "basis": self.basis,
            "loud": self.loud,
            "numbers": {name: float(value) for name, value in self.numbers.items()},
        }
