"""Ordered blocks of rows. There is no shuffle: earlier blocks may tune, later blocks are certified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from bondic.errors import InvalidInput


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


@dataclass(frozen=True, slots=True)
class Blocks:
    """A cut of rows 0..n-1, in order, at ends that were fixed beforehand.

    Parameters
    ----------
    ends : tuple of int
        The row after the last of every block, growing; the first block begins at row 0.
    """

    ends: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.ends or any(a >= b for a, b in pairwise((0, *self.ends))):
            raise InvalidInput(f"Block ends {self.ends} must increase and start above 0.")

    @staticmethod
    def fractions(n: int, *parts: float) -> Blocks:
        """Cut n rows at the given cumulative fractions, e.g. 0.05, 0.25, 1.0."""
        if not all(0 <= part <= 1 for part in parts):
            raise InvalidInput(f"Fractions lie in [0, 1], not {parts}. For row numbers use Blocks((end, end, ...)).")
        ends = [min(n, max(1, round(part * n))) for part in parts]
        return Blocks(tuple(sorted(set(ends))))

    def __iter__(self) -> Iterator[RowRange]:
        return (RowRange(a, b) for a, b in pairwise((0, *self.ends)))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> RowRange:
        return tuple(self)[index]
