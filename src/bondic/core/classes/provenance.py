"""Where a choice came from: fixed beforehand, or tuned on certain rows of a log."""

from __future__ import annotations

from dataclasses import dataclass

from bondic.core.errors import InvalidInput, one_line

_LONGEST_NOTE = 300


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a choice comes from: which rows were looked at, of which log.

    It is a statement, checked against the certified rows of the *same* log. Whoever tunes on a copy of the rows under
    another hash, or by hand, and calls it fixed beforehand, is not found out by any program.

    Parameters
    ----------
    note : str, default "fixed beforehand"
        In words, for the reader of the result.
    rows : (int, int), default None
        First row that was looked at and the row after the last; None when no row was.
    log_hash : str, default ""
        `content_hash` of the log that they are rows of; "" when no row was looked at.
    """

    note: str = "fixed beforehand"
    rows: tuple[int, int] | None = None
    log_hash: str = ""

    def __post_init__(self) -> None:
        # printed on terminals and pages of other people: one printable line, whatever was written
        object.__setattr__(self, "note", one_line(self.note, _LONGEST_NOTE))
        object.__setattr__(self, "log_hash", one_line(self.log_hash, _LONGEST_NOTE))
        if self.rows is not None and not 0 <= self.rows[0] < self.rows[1]:
            raise InvalidInput(
                f"Rows {self.rows} are no stretch of a log: (first, one after the last), at least one row."
            )

    def saw(self, rows: tuple[int, int], log_hash: str) -> bool:
        """Whether any of these rows, or one after them, was used for the choice (an unknown log counts as the same log).

        Rows after them count because what happened later depends on what happened in them.
        """
        if self.rows is None or (self.log_hash and log_hash and self.log_hash != log_hash):
            return False
        return self.rows[0] < self.rows[1] and self.rows[1] > rows[0]

    def __str__(self) -> str:
        return self.note if self.rows is None else f"{self.note} on rows {self.rows[0]}..{self.rows[1] - 1}"
