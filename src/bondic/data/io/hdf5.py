"""HDF5 files: arrays by name (D4RL and others), or Minari episodes. Read by h5py, extra `hdf5`.

Only arrays are read, never Python objects. Names are looked up at the top level of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.mapping import Episode, join_episodes, read_mapping
from bondic.data.io.table import SourceTable
from bondic.errors import MissingExtra, shown

SUFFIXES = (".hdf5", ".h5", ".hdf")
_BROKEN = (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError, UnicodeDecodeError)
"""What h5py raises on damaged files."""


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as problem:
        raise MissingExtra("h5py", "hdf5", "Reading HDF5 files") from problem
    return h5py


def read_hdf5(path: Path) -> SourceTable:
    """Recognize the layout by the names inside."""
    h5py = _h5py()
    label = one_line(path.name)
    try:
        with h5py.File(path, "r") as file:
            names = set(file)
            if {"columns", "num_episodes"} <= names:
                raise InvalidInput(
                    f"{label} is a replay buffer of d3rlpy. Load it with d3rlpy and pass its rows: see the page on logs."
                )
            if "episode_0" in names:
                return join_episodes(label, list(_minari_episodes(file, label)), ("The layout is Minari's.",))
            arrays = {name: _value(file[name]) for name in file if isinstance(_inside(file, name), h5py.Dataset)}
    except _BROKEN as problem:
        if isinstance(problem, InvalidInput):
            raise
        raise InvalidInput(
            f"{label} cannot be read as HDF5 ({type(problem).__name__}: {one_line(problem, 200)}). The file is damaged or "
            "incomplete, or is no HDF5 file: write it again."
        ) from problem
    return read_mapping({name: value for name, value in arrays.items() if np.ndim(value)}, label)


def _inside(group: Any, name: str) -> Any:
    """The entry, unless it leads to another file: a log must not pull in what lies elsewhere on the machine."""
    if type(group.get(name, getlink=True)).__name__ == "ExternalLink":
        raise InvalidInput(
            f"{one_line(name)} is a link to another file, which is not followed. Copy the data into one file."
        )
    return group[name]


def _value(dataset: Any) -> Any:
    """The array; text comes as bytes and is decoded where columns are read."""
    if getattr(dataset, "external", None) or getattr(dataset, "is_virtual", False):
        raise InvalidInput(
            f"{one_line(dataset.name)} keeps its data in another file, which is not read. Copy the data into one file."
        )
    return dataset[()]


def _minari_episodes(file: Any, label: str) -> Iterator[Episode]:
    """Groups episode_0, episode_1, ... with T + 1 observations and T of everything else."""
    count = sum(name.startswith("episode_") for name in file)
    for index in range(count):
        name = f"episode_{index}"
        if name not in file:
            raise InvalidInput(f"{label}: {count} episodes, but {name} is missing: the file is incomplete.")
        group = _inside(file, name)
        tree = {key: _tree(_inside(group, key)) for key in group if key != "infos"}
        lacking = [
            key for key in ("observations", "actions", "rewards", "terminations", "truncations") if key not in tree
        ]
        if lacking:
            raise InvalidInput(f"{label}, {name}: {shown(lacking)} missing.")
        yield Episode(name, *(tree[k] for k in ("observations", "actions", "rewards", "terminations", "truncations")))


def _tree(node: Any) -> Any:
    """Nested groups are Dict and Tuple spaces."""
    return {key: _tree(_inside(node, key)) for key in node} if hasattr(node, "keys") else _value(node)
