"""SCOPE-RL's `logged_dataset`: a dict of flat arrays, `step_per_trajectory` rows per trajectory, no next states.

`done` marks every end, `terminal` those by the step limit. A row that reached the limit is taken as truncated: its
next state was not kept, so it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bondic.data.io.table import SourceTable, arrays_table
from bondic.errors import Doubt, InvalidInput, one_line

_KEYS = {"size", "n_trajectories", "step_per_trajectory", "state", "action", "reward", "done"}


def is_scope_rl(source: Any) -> bool:
    return isinstance(source, Mapping) and set(source) >= _KEYS


def read_scope_rl(source: Mapping[str, Any], label: str = "The logged dataset") -> SourceTable:
    """Columns under the usual names; trajectories become episodes, cut again where `done` is set before their end."""
    size, steps = _whole(source, "size", label), _whole(source, "step_per_trajectory", label)
    count = _whole(source, "n_trajectories", label)
    if size != steps * count or len(source["reward"]) != size:
        raise InvalidInput(
            f"{label}: size {size}, {count} trajectories of {steps} steps and {len(source['reward'])} rewards do not fit."
        )
    done = _flag(source, "done", size, label)
    limit = _flag(source, "terminal", size, label) if source.get("terminal") is not None else np.zeros(size, dtype=bool)
    last = np.arange(size) % steps == steps - 1
    terminations = done & ~limit
    starts = np.concatenate([[True], (done | limit | last)[:-1]])
    first = np.flatnonzero(starts)[np.cumsum(starts) - 1]
    states = _states(source)
    arrays: dict[str, Any] = {
        **states,
        "actions": _actions(source),
        "rewards": source["reward"],
        "terminations": terminations,
        "truncations": (limit | last) & ~terminations,
        "episode_ids": np.cumsum(starts) - 1,
    }
    if done[last].all() and not (limit & ~last).any():  # trajectories are whole episodes, from their first step
        arrays["timesteps"] = np.arange(size) - first
    if source.get("pscore") is not None:
        scores = np.asarray(source["pscore"], dtype=np.float64)
        arrays["behavior_action_probs"] = scores if scores.ndim == 1 else scores.prod(axis=1)
    notes: tuple[str, ...] = (
        "The layout is SCOPE-RL's: `done` without `terminal` is a termination, `terminal` is the step limit and read as a "
        "truncation. If the task itself ends at the limit, its last rows are needed: pass arrays with terminations yourself.",
    )
    if "behavior_action_probs" in arrays and _clipped(arrays["actions"]):
        notes = (*notes, _CLIPPED)
    return arrays_table(label, arrays, groups={"observations": tuple(states)}, notes=notes)


_CLIPPED = Doubt(
    "Several actions lie exactly at the ends of their range: they look clipped, and `pscore` is the density of actions before "
    "that. Weights made of it are then wrong; record the data with record_unclipped_action=True, or leave pscore out."
)


def _clipped(actions: Any) -> bool:
    """Whether continuous actions pile up at their smallest or largest value, where each value has probability 0."""
    values = np.asarray(actions)
    if values.dtype.kind != "f" or np.unique(values, axis=0).shape[0] * 2 < values.shape[0]:
        return False  # discrete, or drawn from a few values
    rows = values.reshape(values.shape[0], -1)
    ends = np.stack([rows == rows.min(axis=0), rows == rows.max(axis=0)])
    return bool((ends.sum(axis=1) > 1).any())


def _states(source: Mapping[str, Any]) -> dict[str, Any]:
    """One column per state variable under its own name, where the names are known."""
    state, keys = np.asarray(source["state"]), source.get("state_keys")
    if state.ndim != 2 or keys is None or len(keys) != state.shape[1] or len(set(map(str, keys))) < len(keys):
        return {"state": state}
    return {f"state.{key}": state[:, k] for k, key in enumerate(keys)}


def _whole(source: Mapping[str, Any], key: str, label: str) -> int:
    try:
        value = int(source[key])
    except (TypeError, ValueError) as problem:
        raise InvalidInput(f"{label}: {key} is {one_line(repr(source[key]))}; a whole number is needed.") from problem
    if value < 1:
        raise InvalidInput(f"{label}: {key} is {value}; at least 1 is needed.")
    return value


def _flag(source: Mapping[str, Any], key: str, size: int, label: str) -> Any:
    values = np.asarray(source[key])
    if values.shape != (size,) or values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        raise InvalidInput(f"{label}: {key} needs one flag (0/1) for each of {size} rows.")
    return values != 0


def _actions(source: Mapping[str, Any]) -> Any:
    """Discrete actions are sometimes kept as floats; the dict says which kind they are."""
    actions = np.asarray(source["action"])
    if source.get("action_type") == "discrete" and actions.dtype.kind == "f":
        if actions.ndim != 1 or not np.all(actions == np.rint(actions)):
            raise InvalidInput("`action` is said to be discrete but holds fractions.")
        return actions.astype(np.int64)
    return actions
