"""Arrays by name, as Gymnasium-style loggers keep them, and structured arrays; nested observations are flattened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bondic.data.io.table import SourceTable, arrays_table
from bondic.data.names import ALIASES
from bondic.errors import InvalidInput, one_line


def read_mapping(source: Mapping[Any, Any], label: str = "The log", **more: Any) -> SourceTable:
    """{name: array}; a part that is itself a mapping or tuple (Dict and Tuple spaces) becomes several columns."""
    arrays: dict[str, Any] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for key, value in source.items():
        if not isinstance(key, str):
            raise InvalidInput(
                f"{label} has a key that is not a text: {one_line(repr(key))}. Columns go by their names."
            )
        if value is None:
            continue
        leaves = dict(flatten(key, value))
        arrays |= leaves
        if part := next((p for p, aliases in ALIASES.items() if key.lower() in aliases and len(leaves) > 1), None):
            groups[part] = tuple(leaves)
    return arrays_table(label, arrays, groups=groups, **more)


def flatten(name: str, tree: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of nested mappings and tuples of arrays, in the order of sorted keys."""
    if isinstance(tree, Mapping):
        for key in sorted(tree, key=str):
            yield from flatten(f"{name}.{key}", tree[key])
    elif isinstance(tree, tuple) and tree and all(isinstance(part, np.ndarray | Mapping | tuple) for part in tree):
        for index, part in enumerate(tree):
            yield from flatten(f"{name}.{index}", part)
    else:
        yield name, tree


def read_records(source: np.ndarray[Any, Any], label: str = "The log") -> SourceTable:
    """A structured array: one field per column."""
    if source.dtype.names is None or source.ndim != 1:
        raise InvalidInput(
            f"{label} is one array of shape {source.shape} without column names. Pass a mapping of arrays by name, such as "
            "{'observations': ..., 'actions': ..., 'rewards': ...}."
        )
    return arrays_table(label, {name: source[name] for name in source.dtype.names})
