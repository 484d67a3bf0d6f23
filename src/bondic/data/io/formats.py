"""Formats of tables that can be read some rows at a time: Parquet, CSV, Feather. Each opens one file; `scan` reads many.

A Parquet file is entered at the requested row group and read page by page. CSV and Feather are fragments of pyarrow.dataset,
which begin at the first row. All rows settle the type of a CSV column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pyarrow.parquet as pq

from bondic.core.errors import InvalidInput, one_line

ROWS_AT_A_TIME = 65_536
_BLOCK = 2**22
"""Bytes of a CSV file that are parsed at a time."""
_SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_WIDER = {
    pa.null(): pa.int64(), pa.int64(): pa.bool_(), pa.bool_(): pa.float64(), pa.date32(): pa.timestamp("s"),
    pa.timestamp("s"): pa.timestamp("ns"),
}  # fmt: skip
"""What a CSV column is, if it is not what its first rows look like; text in the end. pyarrow's own order."""
_READING = {"batch_size": ROWS_AT_A_TIME, "batch_readahead": 1, "use_threads": False}
BROKEN = (pa.ArrowException, OSError, EOFError, MemoryError, UnicodeDecodeError)
"""What reading damaged files raises."""

Batches = Callable[[Sequence[str], range], Iterator[pa.RecordBatch]]
"""These columns of these row groups, in the order of rows."""


@dataclass(frozen=True, eq=False)
class OpenedFile:
    """One file: its columns, then those of its folder (key=value), and the rows of each of its row groups."""

    path: Path
    schema: pa.Schema
    groups: tuple[int, ...]  # one group where a format has none
    batches: Batches
    note: str = ""
    folder_values: Mapping[str, str] = field(default_factory=dict)
    stamp: tuple[int, int] = (0, 0)  # size and time of the last change

    @property
    def rows(self) -> int:
        return sum(self.groups)


@dataclass(frozen=True)
class Format:
    name: str
    endings: tuple[str, ...]
    open: Callable[[Path], OpenedFile]

    def fits(self, path: Path) -> bool:
        return path.name.lower().endswith(self.endings)


def _open_parquet(path: Path) -> OpenedFile:
    def batches(names: Sequence[str], groups: range) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True, buffer_size=2**20) as opened:
            requested = {"row_groups": list(groups), "columns": list(names)}
            yield from opened.iter_batches(ROWS_AT_A_TIME, use_threads=False, **requested)

    with pq.ParquetFile(path) as file:
        groups = tuple(file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups))
        return OpenedFile(path, file.schema_arrow, groups, batches)


def _open_feather(path: Path) -> OpenedFile:
    fragment = ds.IpcFileFormat().make_fragment(str(path), fs.LocalFileSystem())
    schema = fragment.physical_schema
    return OpenedFile(path, schema, (fragment.count_rows(),), _of_fragment(fragment, schema))


def _of_fragment(fragment: ds.Fragment, schema: pa.Schema) -> Batches:
    def batches(names: Sequence[str], _: range) -> Iterator[pa.RecordBatch]:
        fields = pa.schema([schema.field(name) for name in names])
        yield from fragment.to_batches(schema=fields, columns=list(names), **_READING)

    return batches


def _open_csv(path: Path) -> OpenedFile:
    """The types of its columns are those that all rows have: one pass settles them, and counts the rows."""
    with pa.input_stream(str(path)) as stream:
        sign = _separator(stream.read(_BLOCK), one_line(path.name))
    note = "" if sign == "," else f"{one_line(path.name)} is separated by {_SIGNS[sign]}."
    form = ds.CsvFileFormat(
        pc.ParseOptions(delimiter=sign),
        convert_options=pc.ConvertOptions(strings_can_be_null=True),
        read_options=pc.ReadOptions(block_size=_BLOCK, use_threads=False),  # threads lose the row numbers
    )
    fragment = form.make_fragment(str(path), fs.LocalFileSystem())
    schema = fragment.physical_schema
    while True:
        try:
            count = sum(batch.num_rows for batch in fragment.to_batches(schema=schema, **_READING))
            return OpenedFile(path, schema, (count,), _of_fragment(fragment, schema), note)
        except pa.ArrowInvalid as problem:
            odd = re.search(r"CSV column #(\d+): .*conversion error", str(problem))
            if odd is None or pa.types.is_string(schema.field(int(odd[1])).type):
                raise
            field = schema.field(int(odd[1]))
            schema = schema.set(int(odd[1]), field.with_type(_WIDER.get(field.type, pa.string())))


def _separator(content: bytes, label: str) -> str:
    """The separator with the most hits in the header line."""
    if not content.strip():
        raise InvalidInput(f"{label} is empty. A log needs a header line and at least one row.")
    if b"\x00" in content[:4096]:
        raise InvalidInput(
            f"{label} is not a text file in UTF-8 (it holds zero bytes). Save it as CSV in UTF-8, or give it the ending of its "
            "real format (.parquet, .npz)."
        )
    header = content.lstrip().split(b"\n", 1)[0]
    return max(_SIGNS, key=lambda sign: (header.count(sign.encode()), sign == ","))


def unreadable(kind: str, path: Path, problem: BaseException) -> InvalidInput:
    """What pyarrow says of a damaged file, with the row counted as in the log where it names one."""
    text = " ".join(str(problem).split())
    if (row := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text)) is not None:
        return InvalidInput(  # pyarrow counts the header as row 1
            f"{one_line(path.name)}: row {int(row[1]) - 2} (line {row[1]}) has {row[3]} fields, the header has {row[2]}. "
            "Every line needs the same fields; a comma inside a text needs quotes around the text."
        )
    if (name := re.search(r"multiple columns named (.*)", text)) is not None:
        return InvalidInput(f"{one_line(path.name)}: two columns are called {one_line(name[1])}. Rename one of them.")
    if isinstance(problem, UnicodeDecodeError):
        text = "a column name is not UTF-8"
    return InvalidInput(
        f"{one_line(path, 200)} cannot be read as {kind} ({type(problem).__name__}: {one_line(text, 200)}). The file "
        "is damaged or incomplete, or of another format: write it again. Leaving rows out because of what they contain "
        "would break the guarantee."
    )


FORMATS = (
    Format("Parquet", (".parquet", ".pq"), _open_parquet),
    Format("CSV", (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz"), _open_csv),
    Format("Feather", (".feather", ".arrow", ".ipc"), _open_feather),
)
