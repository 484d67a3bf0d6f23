"""Minari datasets: a dataset object, or "minari:NAME" of a local dataset (extra `minari`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.mapping import Episode, join_episodes
from bondic.data.io.table import SourceTable
from bondic.errors import MissingExtra

PREFIX = "minari:"


def is_minari_dataset(source: Any) -> bool:
    return hasattr(source, "iterate_episodes") and hasattr(source, "total_episodes")


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
