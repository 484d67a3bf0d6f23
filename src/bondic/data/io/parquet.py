"""Parquet: a file, a folder of parts, or folders named key=value, held in memory. See `stream_log` for larger logs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bondic.data.io.arrow import arrow_table
from bondic.data.io.table import Table
from bondic.data.parquet import broken, folder_column, folder_values, list_parts
from bondic.errors import InvalidInput, one_line, shown

SUFFIXES = (".parquet", ".pq")


def read_parquet(path: Path) -> Table:
    """All parts in their natural order, one after the other."""
    tables = [_read(part, path) for part in list_parts(path)]
    first = tables[0].column_names
    for part, table in zip(list_parts(path), tables, strict=True):
        absent = [name for name in first if name not in table.column_names]
        if absent:
            raise InvalidInput(f"{part} lacks the column {shown(absent)}, which the first part has.")
    try:
        whole = pa.concat_tables([table.select(first) for table in tables], promote_options="permissive")
    except (pa.ArrowException, KeyError) as problem:
        raise InvalidInput(
            f"The parts of {path} do not fit together ({one_line(problem, 200)}). All parts need the same columns and types."
        ) from problem
    return arrow_table(whole, one_line(path.name))


def _read(part: Path, root: Path) -> pa.Table:
    try:
        with pq.ParquetFile(part, page_checksum_verification=True) as file:
            table = file.read()
            names = set(table.column_names)
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as problem:
        raise broken(part, problem) from problem
    for name, value in folder_values(part, root):
        if name not in names:
            table = table.append_column(name, pa.array(folder_column(value, table.num_rows)))
    return table
