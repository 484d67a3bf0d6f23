"""One small Parquet file per trial, written under another name and moved: an interrupted run leaves whole files only.

A file's name holds a hash of everything that determines its content (figure, cell, trial, seed, recipe version), so a
run with other parameters in the same folder never mistakes an old file for its own.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bondic.saving import write_atomically

Row = dict[str, Any]
_KEY = b"bondic.trial"


def fingerprint(identity: Mapping[str, Any]) -> str:
    """16 hexadecimal digits of the SHA-256 of the identity as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def trial_path(folder: Path, identity: Mapping[str, Any]) -> Path:
    return folder / f"{int(identity['trial']):04d}-{fingerprint(identity)}.parquet"


def write_trial(folder: Path, identity: Mapping[str, Any], rows: Iterable[Row]) -> Path:
    """The rows, with the identity in the file's metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(list(rows))
    table = table.replace_schema_metadata({_KEY: json.dumps(identity, sort_keys=True).encode()})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    target = trial_path(folder, identity)
    write_atomically(target, buffer.getvalue())
    return target


def read_trial(folder: Path, identity: Mapping[str, Any]) -> list[Row] | None:
    """The rows of this very trial, or None when it was not run or its file cannot be read."""
    path = trial_path(folder, identity)
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return None
    metadata = table.schema.metadata or {}
    if metadata.get(_KEY) != json.dumps(identity, sort_keys=True).encode():
        return None
    return [dict(row) for row in table.to_pylist()]
