"""Rows are in the order of time: a column that keeps time, and is used for nothing else, tells where they are not."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.data.io.table import BoolArray, SourceTable
from bondic.errors import Doubt, one_line

NAMES = (
    "timestamp", "timestamps", "time_stamp", "time", "date", "datetime", "date_time", "ts", "t", "event_time", "event_timestamp",
    "created_at", "logged_at",
)  # fmt: skip
"""Names that say time, whatever their case."""
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]|$)")
"""Dates that stand in the order of their letters."""


def backwards(table: SourceTable, used: Collection[str], joined: BoolArray) -> Doubt | None:
    """A doubt where time goes back from one row to the next; `joined[i]` says that rows i and i + 1 can be compared."""
    for name in table.names:
        if name in used or name.lower() not in NAMES:
            continue
        ticks = _ticks(table, name)
        if ticks is None or ticks.shape != (joined.size + 1,):
            continue
        back = np.flatnonzero(joined & (ticks[1:] < ticks[:-1]))
        if back.size:
            row = int(back[0]) + 1
            return Doubt(
                f"The rows are not in the order of time: column {one_line(name)} goes back {back.size} times (first: at row "
                f"{row}, {one_line(ticks[row])} after {one_line(ticks[row - 1])}). That rows are in the order in which they were "
                "made is a condition of the guarantee, and equal times are fine. Sort them first: table.sort_values("
                f"{one_line(name)!r}, kind='stable'); if the column is something else, rename it."
            )
    return None


def _ticks(table: SourceTable, name: str) -> npt.NDArray[Any] | None:
    """Values that can be put in order: numbers, dates, or texts in the order year, month, day."""
    found = table.ticks(name)
    if found is not None:
        return found
    column = table.load(name)
    if column.missing is not None:
        return None
    if column.text and not all(_ISO.match(text) for text in column.values.ravel().tolist()):
        return None
    return column.values
