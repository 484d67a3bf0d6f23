"""CSV files (comma, semicolon or tab), with a header line. Row 0 is the first line after the header."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc

from bondic.data.io.arrow import arrow_table
from bondic.data.io.table import SourceTable
from bondic.errors import InvalidInput, one_line

SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
_BLOCK = 2**31 - 1
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}


def read_csv(path: Path) -> SourceTable:
    """All columns; types are settled by the whole file, not by its first rows."""
    label = path.name
    try:
        with pa.input_stream(str(path)) as stream:
            content = stream.read()
    except (pa.ArrowException, OSError, EOFError) as problem:
        raise InvalidInput(f"{one_line(label)} cannot be read ({one_line(problem, 200)}).") from problem
    delimiter = _delimiter(content, label)
    read = pc.ReadOptions(use_threads=False, block_size=min(len(content) + 1, _BLOCK))  # threads lose the row numbers
    parse = pc.ParseOptions(delimiter=delimiter)
    convert = pc.ConvertOptions(strings_can_be_null=True)
    try:
        table = pc.read_csv(pa.BufferReader(content), read_options=read, parse_options=parse, convert_options=convert)
    except (pa.ArrowException, UnicodeDecodeError) as problem:
        raise InvalidInput(_explain(label, str(problem))) from problem
    notes = () if delimiter == "," else (f"{one_line(label)} is separated by {_NAMES[delimiter]}.",)
    return arrow_table(table, one_line(label), lists_as_text=True, notes=notes)


def _delimiter(content: bytes, label: str) -> str:
    """The separator with the most hits in the header line."""
    if not content.strip():
        raise InvalidInput(f"{one_line(label)} is empty. A log needs a header line and at least one row.")
    if b"\x00" in content[:4096]:
        raise InvalidInput(
            f"{one_line(label)} is not a text file in UTF-8 (it holds zero bytes). Save it as CSV in UTF-8, or give it the "
            "ending of its real format (.parquet, .npz, .hdf5)."
        )
    header = content.lstrip().split(b"\n", 1)[0]
    return max(_NAMES, key=lambda sign: (header.count(sign.encode()), sign == ","))


def _explain(label: str, problem: str) -> str:
    text = " ".join(problem.split())
    row = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text)
    if row:  # pyarrow counts the header as row 1
        return (
            f"{one_line(label)}: row {int(row[1]) - 2} (line {row[1]}) has {row[3]} fields, the header has {row[2]}. Every line "
            "needs the same fields; a comma inside a text needs quotes around the text."
        )
    return f"{one_line(label)} cannot be read as CSV ({text[:300]}). Write it again in UTF-8, one header line, one line per row."
