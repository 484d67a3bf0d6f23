"""Arrays by name, as Gymnasium-style loggers keep them, structured arrays, and logs kept episode by episode.

Nested observations (Dict and Tuple spaces) are flattened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.arrow import arrays_table
from bondic.data.io.npz import load_arrays
from bondic.data.io.table import SourceTable
from bondic.data.names import held_by
from bondic.errors import shown


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
        if len(leaves) > 1 and (part := held_by(key)) is not None:
            groups[part] = tuple(leaves)
    return arrays_table(label, arrays, groups=groups, **more)


def read_npz(path: Path) -> SourceTable:
    """Arrays by name, or one structured array."""
    arrays = load_arrays(path)
    return (read_mapping if isinstance(arrays, dict) else read_records)(arrays, one_line(path.name))


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


@dataclass(frozen=True, eq=False)
class Episode:
    """T steps. Observations number T + 1 when the last one is recorded, else T."""

    label: str
    observations: Any  # array, or nested mapping of arrays
    actions: Any
    rewards: Any  # (T,)
    terminations: Any  # (T,)
    truncations: Any  # (T,)


def join_episodes(source: str, episodes: Iterable[Episode], notes: tuple[str, ...] = ()) -> SourceTable:
    """One row per step. Next observations are left to be built when an episode does not record its last one."""
    columns: dict[str, list[Any]] = {}
    complete = True
    count = 0
    for count, episode in enumerate(episodes, start=1):
        steps = int(np.shape(episode.rewards)[0]) if np.ndim(episode.rewards) else 0
        leaves = {name: np.asarray(value) for name, value in flatten("observations", episode.observations)}
        extra = {value.shape[0] - steps if value.ndim else -1 for value in leaves.values()}
        if extra not in ({0}, {1}):
            raise InvalidInput(
                f"{source}, {one_line(episode.label)}: {steps} rewards need {steps} or {steps + 1} observations, not "
                f"{shown(sorted(step + steps for step in extra))}."
            )
        complete &= extra == {1}
        for name, value in leaves.items():
            columns.setdefault(name, []).append(value[:steps])
            if extra == {1}:
                columns.setdefault(f"next_{name}", []).append(value[1:])
        for name in ("actions", "rewards", "terminations", "truncations"):
            for leaf, value in flatten(name, getattr(episode, name)):
                columns.setdefault(leaf, []).append(_steps(source, episode.label, leaf, np.asarray(value), steps))
        columns.setdefault("episode_ids", []).append(np.full(steps, count - 1))
        columns.setdefault("timesteps", []).append(np.arange(steps))
    if not count:
        raise InvalidInput(f"{source} holds no episodes.")
    kept = {name: parts for name, parts in columns.items() if complete or not name.startswith("next_")}
    whole = {name: _joined(source, name, parts, count) for name, parts in kept.items()}
    groups = {}
    for part in ("observations", "next_observations", "actions"):
        members = tuple(name for name in whole if name == part or name.startswith(f"{part}."))
        if members:
            groups[part] = members
    table = read_mapping(whole, source, notes=notes)
    return replace(table, groups=groups)


def _steps(source: str, label: str, name: str, values: Any, steps: int) -> Any:
    if values.ndim == 0 or values.shape[0] != steps:
        shape = values.shape[0] if values.ndim else "no"
        raise InvalidInput(f"{source}, {one_line(label)}: {one_line(name)} has {shape} entries for {steps} rewards.")
    return values


def _joined(source: str, name: str, parts: list[Any], episodes: int) -> Any:
    if len(parts) != episodes:
        raise InvalidInput(f"{source}: only {len(parts)} of {episodes} episodes have {one_line(name)}.")
    try:
        return np.concatenate(parts)
    except (ValueError, TypeError) as problem:
        raise InvalidInput(
            f"{source}: the episodes do not agree on the shape of {one_line(name)} ({one_line(problem, 200)})."
        ) from problem
