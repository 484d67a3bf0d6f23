"""A file of initial states, with weights if it has a column for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bondic.core.errors import InvalidInput, one_line
from bondic.data._arrays import FloatArray
from bondic.data.io.read import read_table
from bondic.data.io.table import SourceTable
from bondic.data.names import ALIASES, match_one

_WEIGHTS = ("weight", "weights", "probability", "probabilities", "prob", "p")


def read_states(path: str | Path, names: Sequence[str], dimension: int) -> tuple[FloatArray, FloatArray | None]:
    """(states (n_0, d), weights (n_0,) or None).

    Columns are those of the log's observations by name, else a list or numbered columns under a usual name for
    observations, else all columns in order besides the weights.
    """
    table = read_table(path)
    lower = {name.lower(): name for name in table.names}
    weight = next((lower[name] for name in _WEIGHTS if name in lower), None)
    others = [name for name in table.names if name != weight]
    if names and all(name in others for name in names):
        chosen: Sequence[str] = names
    else:
        chosen = match_one("observations", ALIASES["observations"], others) or others
    states = np.column_stack([_numbers(table, name) for name in chosen]) if chosen else np.zeros((0, 0))
    if states.shape[1] != dimension:
        raise InvalidInput(
            f"{table.source}: initial states have {states.shape[1]} dimension(s) ({one_line(', '.join(chosen), 120)}), the "
            f"log's observations {dimension}. They need the columns of the observations, one row per state."
        )
    return states, None if weight is None else _numbers(table, weight).ravel()


def _numbers(table: SourceTable, name: str) -> FloatArray:
    column = table.load(name)
    if column.text:
        raise InvalidInput(
            f"{table.source}: column {one_line(name)} holds text. Initial states are numbers, encoded as the log's observations."
        )
    if (row := column.first_gap) is not None:
        raise InvalidInput(f"{table.source}: column {one_line(name)} is missing at row {row}. States must be complete.")
    return np.asarray(column.values, dtype=np.float64).reshape(len(column.values), -1)
