"""Datasets of Hugging Face, told by what they offer: rows as they were selected, filtered or shuffled last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bondic.errors import InvalidInput, shown


def is_dataset(source: Any) -> bool:
    return hasattr(source, "column_names") and hasattr(source, "with_format") and hasattr(source, "to_dict")


def dataset_rows(source: Any) -> Any:
    """An Arrow table, or arrays by name; the table that a dataset keeps inside may hold other rows in another order."""
    rows = source.with_format("arrow")[:]
    return rows if hasattr(rows, "column_names") else source.to_dict()


def refuse_splits(source: Any, label: str) -> None:
    """Several datasets by the names of their splits are no log."""
    if isinstance(source, Mapping) and source and all(is_dataset(part) for part in source.values()):
        raise InvalidInput(
            f"{label} has the splits {shown(source)}. A log is one of them, or all in the order of time: pass dataset['name']."
        )
