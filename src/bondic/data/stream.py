"""Logs larger than memory: read in batches of rows, in order, as often as needed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput
from bondic.data import _arrays
from bondic.data.compact import CompactColumns
from bondic.data.content_hash import COLUMNS, ContentHash
from bondic.data.episodes import KeyCheck
from bondic.data.hygiene.inspection import Inspection
from bondic.data.hygiene.single_rows import SingleRowsInspection
from bondic.data.log import Log
from bondic.data.memory import keep_freed_memory
from bondic.data.transitions import Transitions

RawColumns = Mapping[str, Any]
T = TypeVar("T")
_READ = 2**16
"""Rows that are read at once, where fewer at a time are worked on."""


class LogStream(Log):
    """A log that is read in batches; it must not change while it is in use.

    Opening it reads everything once: all checks of `Transitions`, the content hash (equal to that of the same log in
    memory) and the number of rows.
    """

    batch_rows: int  # read at a time by default
    held: ClassVar[bool] = False

    def __init__(self, batch_rows: int, progress: Callable[[float], None] | None = None, held_bytes: int = 0) -> None:
        """`held_bytes`: rows that fit into so many, in their shortest exact form, are read from files once."""
        self.batch_rows = _checked_rows(batch_rows)
        keep_freed_memory()
        self._compact, self._held_bytes = CompactColumns(), held_bytes
        self.content_hash = ""
        self._inspection: Inspection = SingleRowsInspection()
        self._check_everything(progress)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _raw(self, rows: RowRange, size: int) -> Iterator[RawColumns]:
        """The columns of these rows, `size` rows at a time."""

    @abstractmethod
    def _still_the_same(self, rows: RowRange) -> None:
        """Raise when the log was changed since it was opened, where these rows stand."""

    def _check_everything(self, progress: Callable[[float], None] | None) -> None:
        if len(self) == 0:
            raise InvalidInput("The log is empty. An interval needs at least one transition.")
        digest, keys, first = ContentHash(), KeyCheck(), None
        done, span, beside = 0, (np.inf, -np.inf), list[Future[None]]()
        with ThreadPoolExecutor(2) as threads:  # looked at while the next rows are read
            try:
                for columns in ahead(self._raw(RowRange(0, len(self)), self.batch_rows)):
                    part = Transitions.part(columns, done, "")
                    first = part if first is None else first
                    first.refuse_other_form(part, done)
                    _finish(beside)
                    beside = [
                        threads.submit(keys.add, part, done),
                        threads.submit(self._look, part, done),
                        threads.submit(digest.add, part.columns()),
                    ]
                    (least, most), (low, high) = span, part.reward_span
                    span = min(least, low), max(most, high)
                    done += len(part)
                    if progress is not None:
                        progress(done / len(self))
            finally:
                _finish(beside)  # what is wrong with earlier rows comes first
        assert first is not None
        first = first.cut(RowRange(0, 1))  # the form that all parts have
        self.unrecorded = first.unrecorded
        self._first, self.content_hash = first, digest.hexdigest()
        self._reward_span = span
        self._single_rows = isinstance(self._inspection, SingleRowsInspection)

    def _look(self, part: Transitions, first_row: int) -> None:
        """The next rows for the findings, and for later passes."""
        if not self._inspection.fits(part):
            self._inspection = self._inspected(first_row)
        self._inspection.add(part, first_row)
        self._hold(part)

    def _hold(self, part: Transitions) -> None:
        """Keep the rows for later passes, unless they are too many, or single decisions, which are read once more at most."""
        if self._held_bytes and not isinstance(self._inspection, SingleRowsInspection):
            self._compact.add(part.columns())
        if self._compact.bytes > self._held_bytes:
            self._compact, self._held_bytes = CompactColumns(), 0

    def _inspected(self, rows: int) -> Inspection:
        """So many first rows once more, as rows that may follow each other."""
        found, done = Inspection(), 0
        for columns in self._raw(RowRange(0, rows), self.batch_rows) if rows else ():
            part = Transitions.part(columns, done, "")
            found.add(part, done)
            done += len(part)
        return found

    @property
    def form(self) -> Transitions:
        return self._first

    @property
    def reward_span(self) -> tuple[float, float]:
        return self._reward_span

    @property
    def single_rows(self) -> bool:
        return self._single_rows

    @property
    def inspection(self) -> Inspection:
        return self._inspection

    def batches(self, rows: RowRange | None = None, size: int | None = None) -> Iterator[tuple[RowRange, Transitions]]:
        """The rows in order, `size` at a time. They were checked when the log was opened."""
        requested = RowRange(0, len(self)) if rows is None else rows
        self._still_the_same(requested)
        first, step = requested.start, self.batch_rows if size is None else size
        if len(self._compact) == len(self):
            for top in range(requested.start, requested.stop, step):
                rows = RowRange(top, min(top + step, requested.stop))
                yield rows, self._first.of_columns(self._compact.cut(rows), self.content_hash)
            return
        several = step * max(1, min(self.batch_rows, _READ) // step)  # small batches are cut from larger ones
        for columns in ahead(self._raw(requested, several)):
            part = self._first.like(columns, self.content_hash)
            for top in range(0, len(part), step):
                own = RowRange(top, min(top + step, len(part)))
                yield RowRange(first + own.start, first + own.stop), part if len(own) == len(part) else part.cut(own)
            first += len(part)
        self._still_the_same(requested)

    def read(self, rows: RowRange | None = None) -> Transitions:
        """These rows as transitions in memory (with the hash of the whole log)."""
        requested = RowRange(0, len(self)) if rows is None else rows
        for _, part in self.batches(requested, max(1, len(requested))):
            return part
        raise InvalidInput(f"There is nothing to read: {requested}.")

    def __repr__(self) -> str:
        kind = "discrete" if self.action_dim == 0 else f"{self.action_dim}-d"
        return (
            f"{type(self).__name__}(n={len(self)}, observation_dim={self.observation_dim}, actions={kind}, "
            f"batch_rows={self.batch_rows}, hash={self.content_hash[:12]})"
        )


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items; each is made while the one before it is worked on."""
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, items, None)
        while (found := following.result()) is not None:
            following = thread.submit(next, items, None)
            yield found


def _finish(tasks: list[Future[None]]) -> None:
    """Wait for all of them; what one of them raises is raised here."""
    for task in tasks:
        task.result()


def _checked_rows(batch_rows: int) -> int:
    if int(batch_rows) < 1:
        raise InvalidInput(f"batch_rows={batch_rows}: at least one row must be read at a time.")
    return int(batch_rows)


class ArrayStream(LogStream):
    """Columns that are arrays, usually memory-mapped files (`np.load(path, mmap_mode="r")`, `np.memmap`)."""

    def __init__(
        self, columns: RawColumns, *, batch_rows: int, progress: Callable[[float], None] | None = None
    ) -> None:
        unknown = set(columns) - set(COLUMNS)
        if unknown or "rewards" not in columns:
            raise InvalidInput(
                f"Columns {sorted(unknown)} are not known." if unknown else "The column `rewards` is missing."
            )
        self._columns = {name: column for name, column in columns.items() if column is not None}
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput(f"The columns have different lengths: {lengths}. Every column needs one entry per row.")
        self._codes: dict[str, int] = {}
        super().__init__(batch_rows, progress)

    def __getstate__(self) -> dict[str, Any]:
        raise InvalidInput(
            "Other processes read the log themselves, so it has to be CSV, Feather or Parquet files that all of them see: "
            "stream_log(path) (--with memory). Arrays are worked on in this process."
        )

    def __len__(self) -> int:
        return len(self._columns["rewards"])

    def _raw(self, rows: RowRange, size: int) -> Iterator[RawColumns]:
        for top in range(rows.start, rows.stop, size):
            cut = slice(top, min(top + size, rows.stop))
            batch = {name: np.asarray(column[cut]) for name, column in self._columns.items()}
            if "episode_ids" in batch:
                batch["episode_ids"] = code_identifiers(batch["episode_ids"], self._codes)
            yield batch

    def _still_the_same(self, rows: RowRange) -> None:
        """Arrays are the caller's: a change shows in their length only."""
        del rows
        if len({len(column) for column in self._columns.values()}) != 1:
            raise InvalidInput("The arrays of the log changed their lengths while it was in use.")


def code_identifiers(values: npt.NDArray[Any], codes: dict[str, int]) -> npt.NDArray[Any]:
    """Strings become numbers in the order of first appearance, across batches; numbers stay as they are."""
    if values.dtype.kind in "biuf" or any(value is None or value != value for value in values.tolist()):
        return values  # a missing id is refused, with its row, where columns are checked
    return _arrays.coded(values, codes)
