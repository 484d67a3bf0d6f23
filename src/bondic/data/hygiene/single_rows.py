"""The inspection of a log whose rows are all episodes of one step: nothing follows a row, so what is left are copies and columns.

8 bytes are held for each row, marks of its content. The same state and action with another reward is no copy: users come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bondic.data._arrays import IntArray
from bondic.data.hygiene.copies import EqualRows, copied_blocks
from bondic.data.hygiene.findings import Finding
from bondic.data.hygiene.inspection import Inspection
from bondic.data.hygiene.marks import row_marks

if TYPE_CHECKING:
    from bondic.data.transitions import Transitions


class SingleRowsInspection(Inspection):
    """Same findings as `Inspection` has for such rows."""

    def __init__(self) -> None:
        super().__init__()
        self._rows = self.truncations = 0

    def fits(self, part: Transitions) -> bool:
        return part.single_rows

    def add(self, part: Transitions, first_row: int) -> None:
        del first_row
        self._discrete &= bool(part.discrete_observations)
        self._equal.add(*row_marks(part), np.column_stack([part.actions, part.rewards]))
        self._rows += len(part)
        self.truncations += int(np.asarray(part.truncations).sum())
        self._add_columns(part)

    @property
    def episode_lengths(self) -> IntArray:
        return np.broadcast_to(np.int64(1), (self._rows,))

    @property
    def one_step(self) -> bool:
        return True

    def findings(self, *, gamma: float | None = None, horizon: int | None = None) -> tuple[Finding, ...]:
        del gamma, horizon
        return self._findings

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        found = self._sorted([*self._copies(), *self._of_columns()])
        self._equal = EqualRows()  # the rows do not change: nothing is looked for twice
        return found

    def _copies(self) -> Iterator[Finding]:
        blocks = list(copied_blocks(self._equal.contents(), int, "rows"))
        yield from blocks
        if not blocks and not self._discrete:
            yield from self._equal.findings("episode_ids")


def inspection_of(log: Transitions) -> Inspection:
    """The inspection of a log in memory."""
    found = SingleRowsInspection() if log.single_rows else Inspection()
    found.add(log, 0)
    return found
