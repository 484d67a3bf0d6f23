"""Columns with the target policy's own probabilities, so that no policy code is needed: pi(. | s'), pi(. | s_0), pi(. | s)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput, one_line
from bondic.data._arrays import FloatArray, IntArray
from bondic.data.episodes import episode_starts
from bondic.data.io.table import SourceTable
from bondic.data.transitions import Transitions


def lists_of_all_actions(table: SourceTable, columns: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether the column for π(a_i | s_i) holds lists: then it is π(. | s_i)."""
    group = columns.get("target_action_probs", ())
    return len(group) == 1 and table.load(group[0]).values.ndim == 2 and table.load(group[0]).values.shape[1] > 1


def read_probabilities(table: SourceTable, part: str, group: tuple[str, ...], rows: int) -> FloatArray:
    """(rows, actions) as floats; missing entries are NaN and are judged where it is known which rows count.

    Arrays by name may hold initial probabilities with one row per episode instead.
    """
    blocks = []
    for name in group:
        column = table.load(name)
        count = column.values.shape[0]
        if column.text or column.values.ndim > 2 or (count != rows and part != "initial_action_probs"):
            raise InvalidInput(
                f"{table.source}: {one_line(name)} (`{part}`) has shape {column.values.shape} and dtype {column.values.dtype}; "
                f"{rows} rows of probabilities are needed."
            )
        values = np.array(column.values, dtype=np.float64).reshape(count, -1)
        if column.missing is not None:
            values[column.missing.reshape(count, -1)] = np.nan
        blocks.append(values)
    if len({block.shape[0] for block in blocks}) > 1:
        raise InvalidInput(f"{table.source}: the columns of `{part}` have different lengths.")
    return np.concatenate(blocks, axis=1)


def refuse_gaps(source: str, part: str, probs: FloatArray, rows: Any, log: Transitions) -> None:
    """The probabilities of the rows that count are all there and cover every logged action."""
    bad = np.flatnonzero(~np.isfinite(probs).all(axis=1))
    if bad.size:
        raise InvalidInput(
            f"{source}: `{part}` is missing or not finite at row {rows[int(bad[0])]}. The policy's probabilities are needed "
            "there; fill them in."
        )
    if not log.discrete_actions:
        raise InvalidInput(
            f"{source}: `{part}` holds probabilities of actions, but the log has continuous actions (floats). Store "
            "discrete actions as integers."
        )
    largest = int(np.max(log.actions))
    if largest >= probs.shape[1]:
        row = int(np.argmax(log.actions))
        raise InvalidInput(
            f"{source}: `{part}` has {probs.shape[1]} actions, but action {largest} was logged at row {row}. One column per "
            "action 0, 1, ... is needed."
        )


def first_rows(log: Transitions) -> IntArray:
    """The first row of every episode, in the order of `InitialStates.from_log`."""
    if not log.has_episode_ids and not (log.terminations | np.asarray(log.truncations)).any():
        raise InvalidInput(
            "`initial_action_probs` belong to the first rows of episodes, but the log has neither episode ids nor episode "
            "ends. Give a column for `episode_ids`."
        )
    ((_, _, starts),) = episode_starts(log)
    return starts
