"""JSON lines (plain or .gz): an object per row, or an object per episode with a list entry for every step.

Not read by the scanner of the other files: pyarrow.json gives a column one type, and refuses a file in which a column that
nobody uses changes its type (a message that is a text here and a list of parts there). Here columns are converted when they
are used.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.arrow import arrays_table
from bondic.data.io.per_episode import NamedValues, parts_of, spread_episodes, telling
from bondic.data.io.table import SourceTable
from bondic.documents import parse_json
from bondic.errors import kind_of

SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")


def read_jsonl(path: Path, stated: Mapping[str, Any] | None = None) -> SourceTable:
    """Named columns; `stated` says which of them hold what, where their names do not tell."""
    label = one_line(path.name)
    numbers, lines = [], []
    for number, line in _objects(path, label):
        numbers.append(number)
        lines.append(_flat(line, f"{label}: line {number}"))
    if not lines:
        raise InvalidInput(f"{label} is empty. A log needs at least one line.")
    names = dict.fromkeys(name for line in lines for name in line)
    part_of = parts_of(names, stated or {})
    if any(isinstance(lines[0].get(name), list) for name in telling(part_of)):
        return spread_episodes(lines, part_of, label, lambda row: f"line {numbers[row]}")
    columns = {name: [line.get(name) for line in lines] for name in names}
    return arrays_table(label, columns, place=lambda row: f"line {numbers[row]}", placed=len(numbers))


def _objects(path: Path, label: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Every object with the number of its line, from 1."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    found = parse_json(line)
                except ValueError as problem:
                    raise InvalidInput(
                        f"{label}: line {number} is not JSON ({one_line(problem, 120)}). Every line needs one object."
                    ) from problem
                if not isinstance(found, dict):
                    raise InvalidInput(
                        f'{label}: line {number} is {kind_of(found)}, not an object with names: {{"reward": 1.0, ...}}.'
                    )
                yield number, found
    except (OSError, EOFError, zlib.error) as problem:
        raise InvalidInput(f"{label} cannot be read ({one_line(problem, 200)}). Write the file again.") from problem


def _flat(line: Mapping[str, Any], where: str, prefix: str = "") -> NamedValues:
    """Objects inside objects under dotted names; a list of objects is a list of each of their values."""
    out: NamedValues = {}
    for name, value in line.items():
        if isinstance(value, dict):
            found = _flat(value, where, f"{prefix}{name}.")
        elif isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
            entries = [_flat(entry, where, f"{prefix}{name}.") for entry in value]
            inner = dict.fromkeys(key for entry in entries for key in entry)
            found = {key: [entry.get(key) for entry in entries] for key in inner}
        else:
            found = {f"{prefix}{name}": value}
        if twice := found.keys() & out.keys():
            raise InvalidInput(f"{where} has two values called {one_line(min(twice))}. Rename one of them.")
        out |= found
    return out
