"""Replay buffers of stable-baselines3: rings of (steps, environments, ...), unrolled from the oldest step on.

`dones` marks every end, `timeouts` those by a time limit, where the buffer was told to keep them apart. Learners store actions
of a Box space scaled to [-1, 1]; they are scaled back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.data.io.mapping import read_mapping
from bondic.data.io.table import SourceTable
from bondic.errors import Doubt, InvalidInput

_NEEDED = ("observations", "actions", "rewards", "dones", "pos", "full", "n_envs")
BoolArray = npt.NDArray[np.bool_]


def is_replay_buffer(source: Any) -> bool:
    return all(hasattr(source, name) for name in _NEEDED) and not isinstance(source, Mapping)


def read_replay_buffer(buffer: Any, label: str = "The replay buffer") -> SourceTable:
    """One row per step and environment, in the order of time."""
    shapes = {name: np.shape(getattr(buffer, name))[:2] for name in ("rewards", "dones", "actions")}
    if len(set(shapes.values())) > 1 or len(shapes["rewards"]) < 2 or shapes["rewards"][1] != buffer.n_envs:
        raise InvalidInput(
            f"{label} has arrays of (steps, environments) {shapes} for {buffer.n_envs} environments: they do not fit together."
        )
    size = len(buffer.rewards)
    ring = np.arange(buffer.pos, buffer.pos + size) % size if buffer.full else np.arange(buffer.pos)
    if not ring.size:
        raise InvalidInput(f"{label} is empty.")
    dones = _unrolled(buffer.dones, ring) != 0
    timeouts = dones & (_unrolled(buffer.timeouts, ring) != 0) if hasattr(buffer, "timeouts") else np.zeros_like(dones)
    actions, notes = _actions(buffer, ring)
    columns: dict[str, Any] = {
        "observations": _tree(buffer.observations, ring),
        "actions": actions,
        "rewards": _unrolled(buffer.rewards, ring),
        "next_observations": _tree(*_following(buffer, ring, size)),
        "terminations": dones & ~timeouts,
        "truncations": timeouts,
        "episode_ids": _episodes(dones, int(buffer.n_envs)),
    }
    return read_mapping(columns, label, notes=(*_notes(buffer, dones), *notes))


def _unrolled(values: Any, ring: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """(steps, environments, ...) -> (rows, ...), all environments of a step one after the other."""
    array = np.asarray(values)[ring]
    return array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])


def _tree(values: Any, ring: npt.NDArray[np.int64]) -> Any:
    """Observations, or a mapping of several kinds of them."""
    if isinstance(values, Mapping):
        return {key: _tree(part, ring) for key, part in values.items()}
    rows = _unrolled(values, ring)
    return rows.reshape(rows.shape[0], -1) if rows.ndim > 2 else rows


def _following(buffer: Any, ring: npt.NDArray[np.int64], size: int) -> tuple[Any, npt.NDArray[np.int64]]:
    """Next observations; a buffer that saves memory keeps them as the observations of the next place of its ring."""
    if getattr(buffer, "optimize_memory_usage", False):
        return buffer.observations, (ring + 1) % size
    return buffer.next_observations, ring


def _episodes(dones: BoolArray, environments: int) -> npt.NDArray[np.int64]:
    """A number for every episode, told apart within each environment by its ends."""
    ends = dones.reshape(-1, environments)
    within = np.concatenate([np.zeros((1, environments), dtype=np.int64), np.cumsum(ends, axis=0)[:-1]])
    return np.asarray(within * environments + np.arange(environments)).ravel()


def _actions(buffer: Any, ring: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], list[str]]:
    values = _unrolled(buffer.actions, ring)
    space = getattr(buffer, "action_space", None)
    if values.dtype.kind in "biu":
        return (values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values), []
    low, high = (getattr(space, name, None) for name in ("low", "high"))
    if low is None or high is None or not np.all(np.isfinite(low) & np.isfinite(high)):
        return values, []
    low, high = np.ravel(low).astype(np.float64), np.ravel(high).astype(np.float64)
    if np.all(low == -1) and np.all(high == 1):
        return values, []
    if np.abs(values).max() > 1:
        return values, ["Actions beyond [-1, 1] show that they were stored in the units of the action space."]
    return low + 0.5 * (values.astype(np.float64) + 1.0) * (high - low), [
        Doubt(
            "Actions were scaled back from [-1, 1], as learners store them, to the range of the action space. If you filled the "
            "buffer with unscaled actions yourself, the interval is not valid: pass the arrays by name."
        )
    ]


def _notes(buffer: Any, dones: BoolArray) -> list[str]:
    notes = [
        f"The layout is a replay buffer of stable-baselines3: {dones.size} rows of {buffer.n_envs} environments, oldest first."
    ]
    if not getattr(buffer, "handle_timeout_termination", False) and dones.any():
        notes.append(
            Doubt(
                "The buffer does not tell time limits from terminations (handle_timeout_termination=False): every end is read as "
                "a termination, after which the value is 0. If some were time limits, the interval is not valid."
            )
        )
    if buffer.full:
        notes.append(
            Doubt(
                "The buffer is full: the oldest steps were overwritten, so the first episode of every environment has lost its "
                "beginning, and its first row is no initial state. Pass initial states of your own (InitialStates, --initial)."
            )
        )
    return notes
