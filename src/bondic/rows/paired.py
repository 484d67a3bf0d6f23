"""Rows with the answers of two policies, one after the other, for planners that compare them on a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from bondic.core.cells.paired import Paired, answers_of, apart, beside, both
from bondic.core.columns import Batch, RowRange
from bondic.rows.rows import Rows


@dataclass(frozen=True, eq=False, repr=False)
class PairedRows(Rows):
    """The rows of the first policy; weights of next and initial points hold the answers of both."""

    other: Rows | None = None  # of the second policy, as they were given

    @staticmethod
    def of(first: Rows, second: Rows) -> PairedRows:
        Paired(first, second)  # refuses what cannot be compared
        own: dict[str, Any] = {field.name: getattr(first, field.name) for field in fields(Rows)}
        own["initial"], kept = beside(first.initial, second.initial), None
        if first.kept is not None and second.kept is not None:
            kept = tuple(both(one, two) for one, two in zip(first.kept, second.kept, strict=True))
        return PairedRows(**(own | {"kept": kept}), other=second)

    def policies(self) -> tuple[Rows, Rows]:
        assert self.other is not None
        return answered_by(self, 0), self.other.restricted(self.rows)

    def without_starts(self) -> Rows:
        assert self.other is not None
        return PairedRows.of(answered_by(self, 0).without_starts(), self.other.without_starts())

    def _blocks(self, rows: RowRange) -> Iterator[Batch]:
        if self.kept is not None or self.coded is not None or self.other is None:
            yield from super()._blocks(rows)
            return
        for one, two in zip(super()._blocks(rows), self.other._blocks(rows), strict=True):
            yield replace(one, next=beside(one.next, two.next))  # its starts have the answers of both


def answered_by(rows: Rows, place: int) -> Rows:
    """Rows with the answers of two policies, with those of one of them alone.

    Where answers are held they are taken, and the rows are named after the first policy: a replay knows no others.
    """
    held = rows.kept is not None or rows.coded is not None
    if place and not held and isinstance(rows, PairedRows) and rows.other is not None:
        return rows.other.restricted(rows.rows)
    own: dict[str, Any] = {field.name: getattr(rows, field.name) for field in fields(Rows)}
    own["kept"] = None if rows.kept is None else tuple(answers_of(batch, place) for batch in rows.kept)
    own["coded"] = None if rows.coded is None else rows.coded.answered_by(place)
    return Rows(**(own | {"initial": apart(rows.initial)[place]}))
