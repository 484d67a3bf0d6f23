"""Open Bandit Pipeline: its bandit feedback (a dict of arrays), and tables with the columns of the Open Bandit Dataset.

Every round is an episode of one step. A target policy may come along as `action_dist`, the pipeline's form of a policy:
(rounds, actions, positions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.data.io.table import SourceTable, arrays_table
from bondic.data.names import natural
from bondic.errors import InvalidInput, one_line

_KEYS = {"n_rounds", "n_actions", "context", "action", "reward"}
_COLUMNS = {"item_id": "actions", "click": "rewards", "propensity_score": "behavior_action_probs"}
_DATASET = {"timestamp", "position", *_COLUMNS}


def is_bandit_feedback(source: Any) -> bool:
    return isinstance(source, Mapping) and set(source) >= _KEYS


def read_bandit_feedback(source: Mapping[str, Any], label: str = "The bandit feedback") -> SourceTable:
    """Contexts are the observations, with the position as a last column where items were shown at several."""
    if not isinstance(source["n_rounds"], int | np.integer):
        raise InvalidInput(f"{label}: n_rounds is {one_line(repr(source['n_rounds']))}; a whole number is needed.")
    rounds = int(source["n_rounds"])
    arrays: dict[str, Any] = {"context": np.asarray(source["context"]), "actions": source["action"]}
    arrays["rewards"] = source["reward"]
    notes = ["The layout is bandit feedback of the Open Bandit Pipeline: every round is an episode of one step."]
    if source.get("pscore") is not None:
        arrays["behavior_action_probs"] = source["pscore"]
    positions = None if source.get("position") is None else np.asarray(source["position"])
    several = positions is not None and np.unique(positions).size > 1
    if several:
        arrays["position"] = positions
        notes.append("Items were shown at several positions: the position is the last dimension of the observations.")
    if source.get("action_dist") is not None:
        probs = _at_positions(np.asarray(source["action_dist"]), positions, rounds, label)
        arrays["logged_action_probs"] = probs
        arrays["target_action_probs"] = _of_taken(probs, np.asarray(source["action"]), label)
    for name, values in arrays.items():
        if np.shape(values)[:1] != (rounds,):
            raise InvalidInput(
                f"{label}: {name} has shape {np.shape(values)}; n_rounds is {rounds}. One row per round."
            )
    groups = {"observations": ("context", "position") if several else ("context",)}
    return arrays_table(label, arrays, groups=groups, notes=tuple(notes), one_step=True)


def _at_positions(probs: npt.NDArray[Any], positions: Any, rounds: int, label: str) -> npt.NDArray[Any]:
    """The policy's probabilities of all actions at the position of each round."""
    if probs.ndim == 2:
        return probs
    if probs.ndim != 3 or probs.shape[0] != rounds or (probs.shape[2] > 1 and positions is None):
        raise InvalidInput(
            f"{label}: action_dist has shape {probs.shape}; (rounds, actions, positions) with {rounds} rounds is needed, and "
            "`position` where there are several."
        )
    places = np.zeros(rounds, dtype=np.int64) if probs.shape[2] == 1 else np.asarray(positions, dtype=np.int64)
    if places.min(initial=0) < 0 or places.max(initial=0) >= probs.shape[2]:
        raise InvalidInput(
            f"{label}: `position` goes up to {places.max()}, action_dist has {probs.shape[2]} positions."
        )
    return np.asarray(probs[np.arange(rounds), :, places])


def _of_taken(probs: npt.NDArray[Any], actions: npt.NDArray[Any], label: str) -> npt.NDArray[Any]:
    if actions.dtype.kind not in "iu" or actions.min(initial=0) < 0 or actions.max(initial=0) >= probs.shape[1]:
        raise InvalidInput(
            f"{label}: actions are whole numbers from 0 to {probs.shape[1] - 1}, as action_dist has them."
        )
    return np.asarray(probs[np.arange(actions.size), actions])


def recognized(table: SourceTable) -> SourceTable:
    """A table with the columns of the Open Bandit Dataset, understood as such; others as they are."""
    if not set(table.names) >= _DATASET or table.groups:
        return table
    features = tuple(sorted((name for name in table.names if name.startswith("user_feature_")), key=natural))
    if not features:
        return table
    groups = {part: (name,) for name, part in _COLUMNS.items()} | {"observations": (*features, "position")}
    note = (
        f"{one_line(table.source)} has the columns of the Open Bandit Dataset: item_id is the action, click the reward, "
        "propensity_score the behavior's probability; user features and position are observed; every row ends."
    )
    return replace(table, groups=groups, notes=(*table.notes, note), one_step=True)
