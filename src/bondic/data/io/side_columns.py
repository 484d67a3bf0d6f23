"""Columns that no part of a transition needs, and that tell of it: times that go back, times of feedback, users who come back."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, one_line
from bondic.data._arrays import BoolArray, IntArray
from bondic.data.io.table import SourceTable
from bondic.data.names import CLOCKS
from bondic.errors import ValidityNote

_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]|$)")
"""Dates that stand in the order of their letters."""
_TIME = re.compile(r"(^|_)(time|date|datetime|ts|at|timestamp|time_stamp|day)$", re.IGNORECASE)
_FEEDBACK = re.compile(
    r"feedback|reward|outcome|conver|click|purchas|order|paid|payment|observ|label|return|finish|complet|respon|deliver|result|end|"
    r"receiv|arriv|updat|log",
    re.IGNORECASE,
)
"""Words in the name of a time at which something came back."""
_FOLLOWED = 0.5
"""Rank correlation of a time with the rows from which on the decisions were in its order, but for the feedback."""
_PERSON = re.compile(
    r"(^|_)(user|customer|client|visitor|member|account|patient|subject|person|participant|household|device|session|player|student|"
    r"driver|cookie|uid)s?(_?(id|key|hash|no|number|code|name))?$"
)


def order_notes(table: SourceTable, used: Collection[str], joined: BoolArray) -> list[ValidityNote]:
    """A warning where time goes back from one row to the next; `joined[i]` says that rows i and i + 1 can be compared."""
    names = [name for name in table.names if name not in used and (name.lower() in CLOCKS or _TIME.search(name))]
    ticks = {
        name: found
        for name in names
        if (found := _ticks(table, name)) is not None and found.shape == (joined.size + 1,)
    }
    back = {name: np.flatnonzero(joined & (found[1:] < found[:-1])) for name, found in ticks.items()}
    for late in (name for name in ticks if not back[name].size and _FEEDBACK.search(name)):
        for name in (name for name in ticks if back[name].size and ticks[name].dtype.kind == ticks[late].dtype.kind):
            if not (ticks[name] <= ticks[late]).all() or _rank_correlation(ticks[name]) < _FOLLOWED:
                continue
            row = int(back[name][0]) + 1
            return [
                ValidityNote(
                    f"The rows are in the order of column {one_line(late)}, which is never before {one_line(name)}: in the "
                    f"order in which the feedback came, and not in that of the decisions (first: row {row}, decided before "
                    f"row {row - 1}). What came back late then decides where a row stands, and the guarantee does not hold. "
                    f"Sort them first: table.sort_values({one_line(name)!r}, kind='stable')."
                )
            ]
    for name in (name for name in ticks if back[name].size and name.lower() in CLOCKS):
        row = int(back[name][0]) + 1
        return [
            ValidityNote(
                f"The rows are not in the order of time: column {one_line(name)} goes back {back[name].size} times (first: "
                f"at row {row}, {one_line(ticks[name][row])} after {one_line(ticks[name][row - 1])}). That rows are in the "
                "order in which they were made is a condition of the guarantee, and equal times are fine. Sort them first: "
                f"table.sort_values({one_line(name)!r}, kind='stable'); if the column is something else, rename it."
            )
        ]
    return []


def returning_notes(table: SourceTable, episodes: Collection[str], numbers: IntArray | None) -> Iterator[ValidityNote]:
    """A warning where one user has several rows, or several episodes; `numbers` are those of the episodes, (n,)."""
    for name in table.names:
        if name in episodes or not _PERSON.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()):
            continue
        users = _ids(table, name)
        if users is None:
            continue
        if numbers is not None:
            users = np.unique(np.stack([users, numbers]), axis=1)[0]
        values, counts = np.unique(users, return_counts=True)
        if values.size < users.size:
            what = "rows" if numbers is None else "episodes"
            yield ValidityNote(
                f"Users come back: column {one_line(name)} has {values.size} values in {users.size} {what}, and up to "
                f"{counts.max()} {what} of one. Rows of one user are not new users: this interval is about these users in "
                f"these {what}. For a statement about other users keep the first of the {what} of each."
            )
            return


def _ids(table: SourceTable, name: str) -> IntArray | None:
    """Numbers that stand for the values of a column; None where it is not a column of single values."""
    try:
        column = table.load(name)
    except InvalidInput:  # dates, lists of unequal length: no ids
        return None
    if column.values.ndim > 1 or column.missing is not None:
        return None
    return np.unique(column.values.astype(str) if column.text else column.values, return_inverse=True)[1].astype(
        np.int64
    )


def _rank_correlation(ticks: npt.NDArray[Any]) -> float:
    """Of a time with the place in the log."""
    return float(np.corrcoef(np.argsort(np.argsort(ticks, kind="stable")), np.arange(ticks.size))[0, 1])


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
