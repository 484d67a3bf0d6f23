"""64-bit marks of rows and sequences of rows: equal content gives equal marks, other content as good as never."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bondic.data.propensities import PROPENSITIES

if TYPE_CHECKING:
    from bondic.data.transitions import Transitions

Marks = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def fingerprints(rows: npt.NDArray[np.float64]) -> Marks:
    """A 64-bit hash of every row: multiply and fold, column by column."""
    return column_marks(np.ascontiguousarray(rows.T), np.full(rows.shape[0], _GOLDEN, dtype=np.uint64))


def column_marks(columns: Iterable[npt.NDArray[np.float64]], before: Marks | None = None) -> Marks:
    """The same of columns that are not side by side, after those whose marks are given; -0.0 counts as 0.0."""
    out = None if before is None else before.copy()
    for column in columns:
        out = np.full(column.shape[0], _GOLDEN, dtype=np.uint64) if out is None else out
        out ^= (column + 0.0).view(np.uint64)
        out *= _FIRST
        out ^= out >> np.uint64(29)
    assert out is not None
    return out


def row_marks(part: Transitions) -> tuple[Marks, Marks]:
    """Marks of every row's state, and of all its numbers."""
    actions = np.asarray(part.actions, dtype=np.float64).reshape(len(part), -1)
    known = [column for name in PROPENSITIES if (column := getattr(part, name)) is not None]
    states = column_marks(part.observations.T)
    return states, column_marks([*actions.T, *part.next_observations.T, part.rewards, *known], states)


def state_marks(states: npt.NDArray[np.float64]) -> Marks:
    """Marks of states as float32, so that a state and its copy in single precision have the same."""
    with np.errstate(over="ignore"):  # beyond the range of float32 all are infinite: equal only where nothing is judged
        single = states.astype(np.float32).astype(np.float64)
    return mixed(fingerprints(single + 0.0))


def mixed(values: npt.NDArray[Any]) -> Marks:
    """Every bit of the input reaches every bit of the output (the finalizer of splitmix64)."""
    out = values.astype(np.uint64) + _GOLDEN
    out ^= out >> np.uint64(30)
    out *= _FIRST
    out ^= out >> np.uint64(27)
    out *= _SECOND
    return np.asarray(out ^ (out >> np.uint64(31)))


def placed(marks: Marks, places: npt.NDArray[np.int64]) -> Marks:
    """Marks that know their place in a sequence: their sum (mod 2^64) is the mark of the sequence."""
    return mixed(marks ^ mixed(places))
