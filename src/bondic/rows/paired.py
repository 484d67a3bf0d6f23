"""Rows with the answers of two policies, one after the other, for planners that compare them on a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
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

    def parts(self) -> tuple[Rows, Rows]:
        """The rows of either policy."""
        assert self.other is not None
        return answered_by(self, 0), self.other.restricted(self.rows)

    def _blocks(self, rows: RowRange) -> Iterator[Batch]:
        if self.kept is not None or self.other is None:
            yield from super()._blocks(rows)
            return
        for one, two in zip(super()._blocks(rows), self.other._blocks(rows), strict=True):
            yield both(one, two)


def answered_by(rows: Rows, place: int) -> Rows:
    """Rows with the answers of two policies, with those of one of them alone; named after the first one."""
    own: dict[str, Any] = {field.name: getattr(rows, field.name) for field in fields(Rows)}
    kept = None if rows.kept is None else tuple(answers_of(batch, place) for batch in rows.kept)
    return Rows(**(own | {"initial": apart(rows.initial)[place], "kept": kept}))


def question_rows(rows: Rows) -> tuple[Rows, ...]:
    """The rows of every policy that is asked about."""
    return rows.parts() if isinstance(rows, PairedRows) else (rows,)
