"""64-bit marks of rows and sequences of rows: equal content gives equal marks, other content as good as never."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Marks = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def fingerprints(rows: npt.NDArray[np.float64]) -> Marks:
    """A 64-bit hash of every row: multiply and fold, column by column."""
    out = np.full(rows.shape[0], _GOLDEN, dtype=np.uint64)
    for column in np.ascontiguousarray(rows.T).view(np.uint64):
        out ^= column
        out *= _FIRST
        out ^= out >> np.uint64(29)
    return out


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
