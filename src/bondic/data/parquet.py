"""Parquet logs, one file or a folder of parts, read in batches (pyarrow)."""

from __future__ import annotations

import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bondic.data.blocks import RowRange
from bondic.data.names import ColumnMap, find_columns
from bondic.data.stream import LogStream, RawColumns, code_identifiers
from bondic.errors import InvalidInput, ValidityWarning, one_line

_READ_ROWS = 65_536


@dataclass(frozen=True)
class _File:
    """One part: where it is, how long, and the columns that its folder names (key=value)."""

    path: Path
    rows: int
    groups: tuple[int, ...]  # rows of each row group
    columns: tuple[str, ...]
    folder_values: tuple[tuple[str, str], ...]
    stamp: tuple[int, int]  # size and time of the last change


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
    return sorted(inside, key=lambda p: [_natural(part) for part in p.relative_to(path).parts])


def _natural(name: str) -> list[tuple[int, int | str]]:
    return [(0, int(piece)) if piece.isdigit() else (1, piece) for piece in re.split(r"(\d+)", name) if piece]


def _open(path: Path, root: Path) -> _File:
    try:
        with pq.ParquetFile(path) as file:
            meta = file.metadata
            groups = tuple(meta.row_group(k).num_rows for k in range(meta.num_row_groups))
            columns, rows = tuple(file.schema_arrow.names), meta.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise broken(path, problem) from problem
    return _File(path, rows, groups, columns, folder_values(path, root), _stamp(path))


def folder_values(path: Path, root: Path) -> tuple[tuple[str, str], ...]:
    """What the folders between the root and the file state: key=value."""
    folders = path.relative_to(root).parts[:-1] if root.is_dir() else ()
    return tuple((name, value) for name, sign, value in (part.partition("=") for part in folders) if sign)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def broken(path: Path, problem: Exception) -> InvalidInput:
    return InvalidInput(
        f"{one_line(path, 200)} cannot be read as Parquet ({type(problem).__name__}: {one_line(problem, 200)}). The "
        "file is damaged or incomplete: write it again. Leaving rows out because of what they contain would break the guarantee."
    )


def row_numbers(path: Path) -> int:
    """How many numbers a row of the log has, from its first row."""
    for part in list_parts(path):
        try:
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches(1):
                    return sum(
                        len(c[0]) if hasattr(c.type, "value_type") and c[0].is_valid else 1 for c in batch.columns
                    )
        except (pa.ArrowException, OSError, TypeError) as problem:
            raise broken(part, problem) from problem
    return 1


class ParquetStream(LogStream):
    """A Parquet file, or a folder of parts whose natural order is the order of time."""

    def __init__(
        self,
        path: str | Path,
        *,
        batch_rows: int,
        columns: Mapping[str, str | Iterable[str]] | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self._files = [_open(part, self.path) for part in list_parts(self.path)]
        self._ends = list(accumulate(file.rows for file in self._files))
        self.column_map = self._find_columns(columns)
        for note in self.column_map.notes:
            warnings.warn(note, ValidityWarning, stacklevel=2)
        self._codes: dict[str, int] = {}
        self._numeric_ids: bool | None = None
        super().__init__(batch_rows, progress)

    def _find_columns(self, given: Mapping[str, str | Iterable[str]] | None) -> ColumnMap:
        first = self._files[0]
        names = [*first.columns, *(name for name, _ in first.folder_values if name not in first.columns)]
        found = find_columns(names, given)
        for file in self._files:
            here = {*file.columns, *(name for name, _ in file.folder_values)}
            absent = [name for name in found.all if name not in here]
            if absent:
                raise InvalidInput(f"{file.path} lacks the column {absent[0]}, which {first.path.name} has.")
        return found

    def __len__(self) -> int:
        return self._ends[-1]

    def _still_the_same(self) -> None:
        for file in self._files:
            if not file.path.exists() or _stamp(file.path) != file.stamp:
                raise InvalidInput(f"{file.path} was changed while the log was in use. Open the log again.")

    def _raw(self, rows: RowRange, size: int, names: tuple[str, ...] | None = None) -> Iterator[RawColumns]:
        wanted = {part: self.column_map.columns[part] for part in names or tuple(self.column_map.columns)}
        pieces: list[dict[str, npt.NDArray[Any]]] = []
        held = 0
        for piece in self._pieces(rows, wanted):
            while piece is not None:
                here = len(next(iter(piece.values())))
                room = size - held
                rest = None if here <= room else {name: column[room:] for name, column in piece.items()}
                pieces.append(piece if rest is None else {name: column[:room] for name, column in piece.items()})
                held += min(here, room)
                piece = rest
                if held == size:
                    yield _join(pieces)
                    pieces, held = [], 0
        if held:
            yield _join(pieces)

    def _pieces(
        self, rows: RowRange, wanted: Mapping[str, tuple[str, ...]]
    ) -> Iterator[dict[str, npt.NDArray[Any]] | None]:
        """Decoded columns of small batches, cut to the wanted rows."""
        if not len(rows):
            return
        for index in range(bisect_right(self._ends, rows.start), len(self._files)):
            file, top = self._files[index], self._ends[index] - self._files[index].rows
            if top >= rows.stop:
                return
            if not file.rows:
                continue
            for batch, first in _batches(
                file, wanted, RowRange(max(rows.start - top, 0), min(rows.stop - top, file.rows))
            ):
                yield self._decode(batch, wanted, file, top + first)

    def _decode(
        self, batch: pa.RecordBatch, wanted: Mapping[str, tuple[str, ...]], file: _File, first_row: int
    ) -> dict[str, npt.NDArray[Any]]:
        out: dict[str, npt.NDArray[Any]] = {}
        inside = dict(file.folder_values)
        for part, group in wanted.items():
            values = [
                _to_numpy(batch.column(name), part, name, file.path, first_row)
                if name in file.columns
                else folder_column(inside[name], batch.num_rows)
                for name in group
            ]
            if len(values) > 1 and any(value.ndim != 1 for value in values):
                raise InvalidInput(f"{file.path}: the columns of `{part}` must each hold one number per row.")
            joined = values[0] if len(values) == 1 else np.column_stack(values)
            out[part] = self._coded(joined, file) if part == "episode_ids" else joined
        _widen_missing(out)
        return out

    def _coded(self, ids: npt.NDArray[Any], file: _File) -> npt.NDArray[Any]:
        """Episode ids as numbers; codes of strings must not meet numbers of other parts."""
        numeric = ids.dtype.kind in "biuf"
        if self._numeric_ids not in (None, numeric):
            raise InvalidInput(
                f"{file.path}: episode ids are {'numbers' if numeric else 'text'} here, {'text' if numeric else 'numbers'} "
                "in earlier parts. An episode could not be told from another: write all of them in one way."
            )
        self._numeric_ids = numeric
        return code_identifiers(ids, self._codes)


def _batches(
    file: _File, wanted: Mapping[str, tuple[str, ...]], rows: RowRange
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches of one file within these rows, each with its first row in the file."""
    names = [name for group in wanted.values() for name in group if name in file.columns]
    ends = list(accumulate(file.groups))
    first = bisect_right(ends, rows.start)
    last = bisect_right(ends, rows.stop - 1)
    position = ends[first] - file.groups[first]
    try:
        with pq.ParquetFile(file.path, pre_buffer=False, page_checksum_verification=True) as opened:
            groups = list(range(first, last + 1))
            for batch in opened.iter_batches(_READ_ROWS, row_groups=groups, columns=names, use_threads=False):
                low, high = max(rows.start - position, 0), min(rows.stop - position, batch.num_rows)
                if low < high:
                    yield batch.slice(low, high - low), position + low
                position += batch.num_rows
    except (pa.ArrowException, OSError) as problem:
        raise broken(file.path, problem) from problem


def folder_column(value: str, rows: int) -> npt.NDArray[Any]:
    """A value that the folder's name states for all rows inside."""
    try:
        return np.full(rows, float(value) if "." in value else int(value))
    except ValueError:
        return np.full(rows, value, dtype=object)


def _to_numpy(column: pa.Array, part: str, name: str, path: Path, first_row: int) -> npt.NDArray[Any]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _list_column(column, part, name, path, first_row)
    if column.null_count and part != "next_observations":
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidInput(
            f"{path}: column {name} is missing at row {first_row + row} of the log. A missing value cannot be used: fill it "
            "with what was observed. Never drop a row because of its reward or its next observation."
        )
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _list_column(column: pa.Array, part: str, name: str, path: Path, first_row: int) -> npt.NDArray[Any]:
    """Lists of one length as a matrix; a missing next observation becomes NaN (it is needed unless terminated)."""
    missing = column.is_null().to_numpy(zero_copy_only=False)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    present = lengths[~missing]
    width = int(present[0]) if present.size else 1
    odd = ~missing & (lengths != width)
    if odd.any() or (missing.any() and part != "next_observations"):
        row = int(np.flatnonzero(odd if odd.any() else missing)[0])
        what = f"a list of {int(lengths[row])} numbers, {width} before" if odd.any() else "missing"
        raise InvalidInput(
            f"{path}: column {name} is {what} at row {first_row + row} of the log. Every row needs a list of one length."
        )
    flat = column.flatten()
    if flat.null_count:
        flat = flat.cast(pa.float64())
    values = np.asarray(flat.to_numpy(zero_copy_only=False))
    out = np.full((len(column), width), np.nan) if missing.any() else np.empty((len(column), width), dtype=values.dtype)
    out[~missing] = values.reshape(-1, width)
    return out


def _widen_missing(columns: dict[str, npt.NDArray[Any]]) -> None:
    """Where every next observation is missing nothing tells their length: it is that of the observations."""
    states, following = columns.get("observations"), columns.get("next_observations")
    if states is None or following is None or states.ndim != 2 or following.dtype.kind != "f":
        return
    if following.ndim == 2 and following.shape[1] == 1 and np.all(np.isnan(following)):
        columns["next_observations"] = np.full(states.shape, np.nan)


def _join(pieces: list[dict[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
