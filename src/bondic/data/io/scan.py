"""Files as record batches of named columns: Parquet, CSV or Feather; one file, a folder of parts, or a pattern (logs/*.csv).

Files come in the natural order of their names (part-2 before part-10), rows in the order of their file: the order of time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.arrow import arrow_table
from bondic.data.io.formats import BROKEN, FORMATS, Format, OpenedFile, unreadable
from bondic.data.io.per_episode import whole_table
from bondic.data.io.table import SourceTable, refuse_twins
from bondic.data.names import natural
from bondic.errors import shown
from bondic.folders import near

Stamp = tuple[str, int, int]
"""Path of a part below the root, its size, the time of its last change in nanoseconds."""


def read_files(path: Path, stated: Mapping[str, Any] | None = None) -> SourceTable:
    """All files, one after the other, in memory."""
    files = Files(path)
    whole = pa.concat_tables(list(files.pieces(RowRange(0, len(files)), files.names)))
    return whole_table(whole, files.label, stated, lists_as_text=files.lists_as_text, notes=files.notes)


class Files:
    """The parts of a log, in the order of time."""

    def __init__(self, path: Path) -> None:
        self.path, self.label = path, one_line(path.name)
        found, self._format, self._root = list_files(path)
        self._files = [self._opened(part) for part in found]
        self.notes = tuple(dict.fromkeys(file.note for file in self._files if file.note))
        self._ends = list(accumulate(file.rows for file in self._files))
        self.names: tuple[str, ...] = tuple(self._files[0].schema.names)

    def __len__(self) -> int:
        return self._ends[-1]

    @property
    def lists_as_text(self) -> bool:
        """A CSV field may hold "[0.1, 2]"."""
        return self._format.name == "CSV"

    def numbers_per_row(self) -> int:
        """How many numbers a row has, judged by the first one."""
        first = next(self.pieces(RowRange(0, min(1, len(self))), self.names), None)
        columns = [] if first is None else first.columns
        return max(1, sum(len(c[0]) if hasattr(c.type, "value_type") and c[0].is_valid else 1 for c in columns))

    def stamps(self) -> tuple[Stamp, ...]:
        """Path below the root, size, and time of the last change of every part."""
        return tuple((file.path.relative_to(self._root).as_posix(), *file.stamp) for file in self._files)

    def refuse_others(self, stamps: tuple[Stamp, ...]) -> None:
        """Refuse parts that are not those that another process, perhaps on another machine, opened."""
        for mine, theirs in zip_longest(self.stamps(), stamps):
            if mine != theirs:
                name = (theirs or mine or ("",))[0]
                raise InvalidInput(
                    f"{one_line(self._root / name, 200)} is not the file that the log was opened with: it is missing, longer, "
                    "shorter, or was changed at another time. All processes need the same files under the same path (shared "
                    "storage, or copies that keep the times of the files)."
                )

    def refuse_changes(self, rows: RowRange) -> None:
        for file, end in zip(self._files, self._ends, strict=True):
            inside = rows.overlaps(RowRange(end - file.rows, end))
            if inside and (not file.path.exists() or _stamp(file.path) != file.stamp):
                raise InvalidInput(f"{file.path} was changed while the log was in use. Open the log again.")

    def tables(self, rows: RowRange, size: int, names: Sequence[str]) -> Iterator[SourceTable]:
        """These columns of these rows, `size` rows at a time."""
        held: list[pa.Table] = []
        room, lists = size, self.lists_as_text
        for piece in self.pieces(rows, names):
            while piece.num_rows:
                held.append(piece.slice(0, room))
                piece, room = piece.slice(room), room - held[-1].num_rows
                if not room:
                    yield arrow_table(pa.concat_tables(held), self.label, lists_as_text=lists)
                    held, room = [], size
        if held:
            yield arrow_table(pa.concat_tables(held), self.label, lists_as_text=lists)

    def pieces(self, rows: RowRange, names: Sequence[str]) -> Iterator[pa.Table]:
        """Short tables of one type, cut to the requested rows; a part without rows gives an empty one."""
        schema = self._schema(names)
        for file, end in zip(self._files, self._ends, strict=True):
            top = end - file.rows
            inside = RowRange(min(max(rows.start - top, 0), file.rows), max(min(rows.stop - top, file.rows), 0))
            if inside.start < inside.stop:
                for batch in self._batches(file, names, inside):
                    yield self._fitted(_with_folder(batch, file, names), schema)
        if not len(rows):
            yield schema.empty_table()

    def _batches(self, file: OpenedFile, names: Sequence[str], rows: RowRange) -> Iterator[pa.RecordBatch]:
        """Batches of one file within these rows; a file whose folder states all of `names` is read for its number of rows."""
        own = [name for name in names if name not in file.folder_values] or file.schema.names[:1]
        ends = list(accumulate(file.groups))
        first, last = bisect_right(ends, rows.start), bisect_right(ends, rows.stop - 1)
        position = ends[first] - file.groups[first]
        try:
            for batch in file.batches(own, range(first, last + 1)):
                low, high = max(rows.start - position, 0), min(rows.stop - position, batch.num_rows)
                if low < high:
                    yield batch.slice(low, high - low)
                position += batch.num_rows
                if position >= rows.stop:
                    return
        except BROKEN as problem:
            raise unreadable(self._format.name, file.path, problem) from problem
        raise InvalidInput(f"{file.path} has fewer rows than when it was opened. Open the log again.")

    def _schema(self, names: Sequence[str]) -> pa.Schema:
        """The types of these columns that all parts can be turned into."""
        for file in self._files:
            present = set(file.schema.names)
            if absent := [name for name in names if name not in present]:
                raise InvalidInput(f"{file.path} lacks the column {shown(absent)}, which the first part has.")
        schemas = [pa.schema([file.schema.field(name) for name in names]) for file in self._files]
        try:
            return pa.unify_schemas([schema.remove_metadata() for schema in schemas], promote_options="permissive")
        except (pa.ArrowException, KeyError) as problem:
            raise self._unfit(problem) from problem

    def _fitted(self, piece: pa.Table, schema: pa.Schema) -> pa.Table:
        try:
            return piece if piece.schema.equals(schema) else piece.cast(schema)
        except (pa.ArrowException, ValueError) as problem:
            raise self._unfit(problem) from problem

    def _unfit(self, problem: Exception) -> InvalidInput:
        return InvalidInput(
            f"The parts of {self.path} do not fit together ({one_line(problem, 200)}). All parts need the same columns and types."
        )

    def _opened(self, path: Path) -> OpenedFile:
        try:
            content = self._format.open(path)
            schema = content.schema
            refuse_twins(one_line(path.name), schema.names)
        except BROKEN as problem:
            raise unreadable(self._format.name, path, problem) from problem
        folders = (part.partition("=") for part in path.relative_to(self._root).parts[:-1])
        stated = {name: value for name, sign, value in folders if sign and name not in schema.names}
        for name, value in stated.items():
            schema = schema.append(pa.field(name, _folder_column(value, 1).type))
        return replace(content, schema=schema, folder_values=stated, stamp=_stamp(path))


def list_files(path: Path) -> tuple[list[Path], Format, Path]:
    """The file, all files below a folder, or those of a pattern, in natural order; their format; and where they lie.

    The order of the files is the order of time; names that begin with a dot or an underscore are left out.
    """
    if path.is_file():
        return [path], next((form for form in FORMATS if form.fits(path)), FORMATS[0]), path.parent
    root, found = path, path.rglob("*")
    if not path.is_dir():
        fixed = next((k for k, part in enumerate(path.parts) if set(part) & set("*?[")), None)
        if fixed is None:
            raise InvalidInput(f"There is no file or folder {one_line(path, 200)}.{near(path)}")
        root = Path(*path.parts[:fixed])
        found = root.glob(str(Path(*path.parts[fixed:])))
    seen = [p for p in found if p.is_file() and not any(n.startswith((".", "_")) for n in p.relative_to(root).parts)]
    for form in FORMATS:
        if inside := [p for p in seen if form.fits(p) and (root is not path or p.suffix != ".txt")]:
            order = sorted(inside, key=lambda p: [natural(part) for part in p.relative_to(root).parts])
            return order, form, root
    what = "The folder" if root is path else "The pattern"
    raise InvalidInput(f"{what} {one_line(path, 200)} holds no *.parquet, *.csv or *.feather file.")


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _with_folder(batch: pa.RecordBatch, file: OpenedFile, names: Sequence[str]) -> pa.Table:
    table = pa.Table.from_batches([batch]).replace_schema_metadata(None)
    for name in names:
        if name in file.folder_values:
            table = table.append_column(name, _folder_column(file.folder_values[name], batch.num_rows))
    return table.select(list(names))


def _folder_column(value: str, rows: int) -> pa.Array:
    """A value that the folder's name states for all rows inside."""
    try:
        return pa.array(np.full(rows, float(value) if "." in value else int(value)))
    except ValueError:
        return pa.array(np.full(rows, value, dtype=object))
