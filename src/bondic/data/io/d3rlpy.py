"""d3rlpy datasets: objects with `episodes` (`MDPDataset`, `ReplayBuffer`), of the first and of later versions.

An episode has T observations, actions and rewards, and one flag that says whether it terminated; the observation after its
last step is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bondic.data.io.episodes import Episode, join_episodes
from bondic.data.io.table import SourceTable
from bondic.errors import InvalidInput

_PARTS = ("observations", "actions", "rewards")


def is_d3rlpy_dataset(source: Any) -> bool:
    episodes = getattr(source, "episodes", None)
    if not isinstance(episodes, list | tuple) or not episodes:
        return False
    return all(hasattr(episodes[0], name) for name in _PARTS) and _flag(episodes[0]) is not None


def read_d3rlpy_dataset(source: Any, label: str = "The d3rlpy dataset") -> SourceTable:
    return join_episodes(label, _episodes(source.episodes, label), ("The layout is d3rlpy's.",))


def _flag(episode: Any) -> Any:
    """`terminated` of later versions, `terminal` of the first."""
    return getattr(episode, "terminated", getattr(episode, "terminal", None))


def _episodes(episodes: Any, label: str) -> Iterator[Episode]:
    for index, item in enumerate(episodes):
        if isinstance(item.observations, list | tuple):
            raise InvalidInput(f"{label}: episode {index} has several kinds of observations; one array is needed.")
        yield d3rlpy_episode(label, index, item.observations, item.actions, item.rewards, bool(_flag(item)))


def d3rlpy_episode(label: str, index: int, states: Any, actions: Any, rewards: Any, terminated: bool) -> Episode:
    """One episode; whatever ended without terminating was truncated."""
    paid = np.asarray(rewards)
    paid = paid.reshape(paid.shape[0], -1)
    if paid.shape[1] != 1:
        raise InvalidInput(f"{label}: episode {index} has {paid.shape[1]} rewards per step; one is needed.")
    last = np.arange(paid.shape[0]) == paid.shape[0] - 1
    cut = last & (not terminated)
    return Episode(f"episode {index}", states, _one_column(actions), paid[:, 0], last & terminated, cut)


def _one_column(values: Any) -> Any:
    """Discrete actions of shape (T, 1) as (T,)."""
    array = np.asarray(values)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 and array.dtype.kind in "biu" else array
