"""Parquet: a file, a folder of parts, or folders named key=value; as a whole, or some rows at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bondic.data.blocks import RowRange
from bondic.data.io.arrow import arrow_table, whole_table
from bondic.data.io.table import SourceTable
from bondic.data.names import natural
from bondic.data.opened import Stamp
from bondic.errors import InvalidInput, one_line, shown

SUFFIXES = (".parquet", ".pq")
_READ_ROWS = 65_536


def read_parquet(path: Path, stated: Mapping[str, Any] | None = None) -> SourceTable:
    """All parts in their natural order, one after the other."""
    files = ParquetFiles(path)
    whole = pa.concat_tables(list(files.pieces(RowRange(0, len(files)), files.names)))
    return whole_table(whole, files.label, stated)


@dataclass(frozen=True)
class _File:
    """One part: where it is, how long, and the columns that it or its folder (key=value) has."""

    path: Path
    rows: int
    groups: tuple[int, ...]  # rows of each row group
    schema: pa.Schema  # columns of the file, then those of its folder
    folder_values: dict[str, str]
    stamp: tuple[int, int]  # size and time of the last change


class ParquetFiles:
    """The parts of a log, in the order of time."""

    def __init__(self, path: Path) -> None:
        self.path, self.label = path, one_line(path.name)
        self._files = [_open(part, path) for part in list_parts(path)]
        self._ends = list(accumulate(file.rows for file in self._files))
        self.names: tuple[str, ...] = tuple(self._files[0].schema.names)

    def __len__(self) -> int:
        return self._ends[-1]

    def numbers_per_row(self) -> int:
        """How many numbers a row has, judged by the first one."""
        first = next(self.pieces(RowRange(0, min(1, len(self))), self.names), None)
        columns = [] if first is None else first.columns
        return max(1, sum(len(c[0]) if hasattr(c.type, "value_type") and c[0].is_valid else 1 for c in columns))

    def stamps(self) -> tuple[Stamp, ...]:
        """Path below the root, size, and time of the last change of every part."""
        return tuple((_below(file.path, self.path), *file.stamp) for file in self._files)

    def refuse_others(self, stamps: tuple[Stamp, ...]) -> None:
        """Refuse parts that are not those that somebody else opened: another process, perhaps on another machine."""
        for mine, theirs in zip_longest(self.stamps(), stamps):
            if mine != theirs:
                name = (theirs or mine or ("",))[0]
                raise InvalidInput(
                    f"{one_line(self.path / name, 200)} is not the file that the log was opened with: it is missing, longer, "
                    "shorter, or was changed at another time. All processes need the same files under the same path (shared "
                    "storage, or copies that keep the times of the files)."
                )

    def refuse_changes(self, rows: RowRange) -> None:
        for file, end in zip(self._files, self._ends, strict=True):
            if not rows.overlaps(RowRange(end - file.rows, end)):
                continue
            if not file.path.exists() or _stamp(file.path) != file.stamp:
                raise InvalidInput(f"{file.path} was changed while the log was in use. Open the log again.")

    def tables(self, rows: RowRange, size: int, names: Sequence[str]) -> Iterator[SourceTable]:
        """These columns of these rows, `size` rows at a time."""
        held: list[pa.Table] = []
        room = size
        for piece in self.pieces(rows, names):
            while piece.num_rows:
                held.append(piece.slice(0, room))
                piece, room = piece.slice(room), room - held[-1].num_rows
                if not room:
                    yield arrow_table(pa.concat_tables(held), self.label)
                    held, room = [], size
        if held:
            yield arrow_table(pa.concat_tables(held), self.label)

    def pieces(self, rows: RowRange, names: Sequence[str]) -> Iterator[pa.Table]:
        """Short tables of one type, cut to the wanted rows; a part without rows gives an empty one."""
        schema = self._schema(names)
        for file, end in zip(self._files, self._ends, strict=True):
            top = end - file.rows
            inside = RowRange(min(max(rows.start - top, 0), file.rows), max(min(rows.stop - top, file.rows), 0))
            if inside.start < inside.stop:
                for batch in _batches(file, names, inside):
                    yield self._fitted(_with_folder(batch, file, names), schema)
        if not len(rows):
            yield schema.empty_table()

    def _schema(self, names: Sequence[str]) -> pa.Schema:
        """The types of these columns that all parts can be turned into."""
        for file in self._files:
            absent = [name for name in names if name not in file.schema.names]
            if absent:
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


def list_parts(path: Path) -> list[Path]:
    """The file itself, or all Parquet files below a folder, in the natural order of their names (part-2 before part-10).

    The order of the files is the order of time; names that begin with a dot or an underscore are left out.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InvalidInput(f"There is no file or folder {path}.")
    inside = [
        p for p in path.rglob("*.parquet") if not any(n.startswith((".", "_")) for n in p.relative_to(path).parts)
    ]
    if not inside:
        raise InvalidInput(f"The folder {path} holds no *.parquet file.")
    return sorted(inside, key=lambda p: [natural(part) for part in p.relative_to(path).parts])


def _open(path: Path, root: Path) -> _File:
    try:
        with pq.ParquetFile(path) as file:
            meta = file.metadata
            groups = tuple(meta.row_group(k).num_rows for k in range(meta.num_row_groups))
            schema, rows = file.schema_arrow, meta.num_rows
            names = schema.names
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise _broken(path, problem) from problem
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{one_line(path.name)}: two columns are called {one_line(twice)}. Rename one of them.")
    stated = {name: value for name, value in _folder_values(path, root) if name not in names}
    for name, value in stated.items():
        schema = schema.append(pa.field(name, pa.array(_folder_column(value, 1)).type))
    return _File(path, rows, groups, schema, stated, _stamp(path))


def _folder_values(path: Path, root: Path) -> tuple[tuple[str, str], ...]:
    """What the folders between the root and the file state: key=value."""
    folders = path.relative_to(root).parts[:-1] if root.is_dir() else ()
    return tuple((name, value) for name, sign, value in (part.partition("=") for part in folders) if sign)


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _broken(path: Path, problem: Exception) -> InvalidInput:
    return InvalidInput(
        f"{one_line(path, 200)} cannot be read as Parquet ({type(problem).__name__}: {one_line(problem, 200)}). The "
        "file is damaged or incomplete: write it again. Leaving rows out because of what they contain would break the guarantee."
    )


def _batches(file: _File, names: Iterable[str], rows: RowRange) -> Iterator[pa.RecordBatch]:
    """Batches of one file within these rows; a file whose folder states all of `names` is read for its number of rows."""
    own = [name for name in names if name not in file.folder_values] or file.schema.names[:1]
    ends = list(accumulate(file.groups))
    first, last = bisect_right(ends, rows.start), bisect_right(ends, rows.stop - 1)
    position = ends[first] - file.groups[first]
    try:
        with pq.ParquetFile(file.path, pre_buffer=False, page_checksum_verification=True) as opened:
            groups = list(range(first, last + 1))
            for batch in opened.iter_batches(_READ_ROWS, row_groups=groups, columns=own, use_threads=False):
                low, high = max(rows.start - position, 0), min(rows.stop - position, batch.num_rows)
                if low < high:
                    yield batch.slice(low, high - low)
                position += batch.num_rows
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as problem:
        raise _broken(file.path, problem) from problem


def _with_folder(batch: pa.RecordBatch, file: _File, names: Sequence[str]) -> pa.Table:
    table = pa.Table.from_batches([batch]).replace_schema_metadata(None)
    for name in names:
        if name in file.folder_values:
            table = table.append_column(name, pa.array(_folder_column(file.folder_values[name], batch.num_rows)))
    return table.select(list(names))


def _folder_column(value: str, rows: int) -> npt.NDArray[Any]:
    """A value that the folder's name states for all rows inside."""
    try:
        return np.full(rows, float(value) if "." in value else int(value))
    except ValueError:
        return np.full(rows, value, dtype=object)
