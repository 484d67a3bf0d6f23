"""Logs in which every row is an episode of its own: contexts, actions, rewards, and nothing that follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bondic.data import _arrays
from bondic.data._arrays import numbered
from bondic.data.io.table import SourceTable
from bondic.errors import InvalidInput, one_line

UNUSED = ("next_observations", "timesteps")
"""Parts that say nothing in such a log: they are not read."""


def refuse_long_lines(table: SourceTable) -> None:
    """Lines that hold several steps are no episodes of one."""
    if table.longest > 1:
        raise InvalidInput(
            f"{table.source}: one_step=True (--one-step) states that every row is an episode of one step, but its lines are "
            f"episodes of up to {table.longest} steps, with a list entry for each. Leave it out; or make every line one step, "
            "with the sum of the log-probabilities of its steps in place of each list (behavior and target alike)."
        )


def end_every_row(source: str, columns: Mapping[str, tuple[str, ...]], parts: dict[str, Any], rows: int) -> None:
    """Every row terminates, and no row may say otherwise."""
    for part, ends in (("terminations", True), ("truncations", False)):
        given = parts[part]
        if given is None:
            continue
        wrong = _arrays.flags(part, given, rows) != ends
        if (row := _arrays.first(wrong)) is not None:
            raise InvalidInput(
                f"{source}: one_step=True (--one-step) states that every row ends, but column {one_line(columns[part][0])} "
                f"(`{part}`) is {str(not ends).lower()} at row {numbered(row)}. Leave out one_step if rows follow each other, or "
                f"columns={{'{part}': None}} (--columns {part}=none) if that column means something else."
            )
    _refuse_shared_ids(source, columns, parts["episode_ids"], rows)
    parts["terminations"], parts["truncations"] = np.ones(rows, dtype=bool), np.zeros(rows, dtype=bool)
    parts["next_observations"] = np.zeros(np.shape(parts["observations"]))


def _refuse_shared_ids(source: str, columns: Mapping[str, tuple[str, ...]], ids: Any, rows: int) -> None:
    if ids is None:
        return
    codes = _arrays.identifiers("episode_ids", ids, rows)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    earlier = first[inverse.reshape(-1)]
    if (row := _arrays.first(earlier != np.arange(rows))) is not None:
        raise InvalidInput(
            f"{source}: rows {numbered(int(earlier[row]))} and {numbered(row)} have the same id in column "
            f"{one_line(columns['episode_ids'][0])} (`episode_ids`), but one_step=True (--one-step) states that every row is an "
            "episode of its own. Leave out one_step if rows of an episode follow each other; "
            "columns={'episode_ids': None} (--columns episode_ids=none) leaves the ids out."
        )
