"""A stretch of rows. There is no shuffle: earlier rows may tune, later rows are certified."""

from __future__ import annotations

from dataclasses import dataclass

from bondic.core.errors import InvalidInput


@dataclass(frozen=True, slots=True, order=True)
class RowRange:
    """Rows start, start + 1, ..., stop - 1 of a log.

    Parameters
    ----------
    start : int
        First row, counted from 0.
    stop : int
        The row after the last.
    """

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise InvalidInput(
                f"Rows {self.start} to {self.stop} are not a range of rows: 0 <= start <= stop is needed."
            )

    def __len__(self) -> int:
        return self.stop - self.start

    def overlaps(self, other: RowRange) -> bool:
        return max(self.start, other.start) < min(self.stop, other.stop)

    def __str__(self) -> str:
        return f"rows {self.start}..{self.stop - 1}" if len(self) else "no rows"
