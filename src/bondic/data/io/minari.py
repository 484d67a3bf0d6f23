"""Minari datasets: a folder (HDF5 storage), a dataset object, or "minari:NAME" of a local dataset (extra `minari`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.hdf5 import read_hdf5
from bondic.data.io.mapping import Episode, join_episodes
from bondic.data.io.table import SourceTable
from bondic.documents import read_json
from bondic.errors import MissingExtra

PREFIX = "minari:"
_MAIN = "main_data.hdf5"


def is_minari_folder(path: Path) -> bool:
    return any((place / "metadata.json").is_file() or (place / _MAIN).is_file() for place in (path, path / "data"))


def is_minari_dataset(source: Any) -> bool:
    return hasattr(source, "iterate_episodes") and hasattr(source, "total_episodes")


def read_minari_folder(path: Path) -> SourceTable:
    """The folder of a dataset, or its folder `data`; the library itself is not needed."""
    for place in (path, path / "data"):
        if (place / _MAIN).is_file():
            return read_hdf5(place / _MAIN)
    for place in (path, path / "data"):
        if (place / "metadata.json").is_file():
            raise InvalidInput(
                f"{one_line(path, 200)} is a Minari dataset in the format {one_line(_format(place))}; only its HDF5 storage "
                "is read directly. Load it with minari and pass the dataset: read_log(minari.load_dataset(name))."
            )
    raise InvalidInput(f"{one_line(path, 200)} is not a Minari dataset: it holds no {_MAIN}.")


def _format(place: Path) -> str:
    try:
        return str(read_json(place / "metadata.json").get("data_format", "unknown"))
    except (InvalidInput, OSError):
        return "unknown"


def read_minari_name(name: str) -> SourceTable:
    """A dataset of the local Minari store; nothing is downloaded."""
    try:
        import minari
    except ImportError as problem:
        raise MissingExtra("minari", "minari", "Reading Minari datasets by name") from problem
    try:
        dataset = minari.load_dataset(name, download=False)
    except Exception as problem:  # the library raises many kinds
        raise InvalidInput(
            f"Minari has no local dataset {one_line(name)} ({type(problem).__name__}: {one_line(problem, 200)}). Download it."
        ) from problem
    return read_minari_dataset(dataset)


def read_minari_dataset(dataset: Any) -> SourceTable:
    """A dataset that was loaded by the caller."""
    name = one_line(getattr(getattr(dataset, "spec", None), "dataset_id", "The Minari dataset"))
    return join_episodes(name, _episodes(dataset), ("The log is a Minari dataset.",))


def _episodes(dataset: Any) -> Iterator[Episode]:
    for e in dataset.iterate_episodes():
        yield Episode(f"episode {e.id}", e.observations, e.actions, e.rewards, e.terminations, e.truncations)
