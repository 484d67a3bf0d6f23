"""Border control for arrays: convert, check, freeze, and name the row that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, one_line

Setter = Callable[[str, Any], None]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_MAX_EXACT = 2**53
MAX_ACTIONS = 2**24
"""Counts and tables have an entry for every number up to the largest: larger ones are names of something."""
_FIRST = 1024
_LARGEST = 1e120
"""Squares and sums of squares of larger numbers overflow float64 somewhere on the way to an interval."""


_first_row: ContextVar[int] = ContextVar("first row", default=0)


@contextmanager
def counting_from(first_row: int) -> Iterator[None]:
    """While a part of a longer log is checked, messages count rows from the beginning of the log."""
    token = _first_row.set(first_row)
    try:
        yield
    finally:
        _first_row.reset(token)


def numbered(row: int) -> int:
    """The row's number in the whole log."""
    return int(row) + _first_row.get()


def setter(target: object) -> Setter:
    """Assign to a frozen dataclass while it is being built; arrays become read-only."""

    def put(name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(target, name, value)

    return put


def first(mask: npt.NDArray[np.bool_]) -> int | None:
    """Index of the first true entry."""
    hits = np.flatnonzero(mask)
    return int(hits[0]) if hits.size else None


def looks_whole(values: Any) -> bool:
    """Whether every value is a whole number: then observations are taken to be discrete."""
    array = np.asarray(values)
    if array.dtype.kind in "biu":
        return True
    return bool(
        array.dtype.kind == "f"
        and array.size
        and np.all(array[:_FIRST] == np.rint(array[:_FIRST]))  # most others are known by few
        and np.all(np.abs(array) <= _MAX_EXACT)  # beyond, every float is whole
        and np.all(array == np.rint(array))
    )


def _array(name: str, values: Any) -> npt.NDArray[Any]:
    if np.ma.is_masked(values):
        raise InvalidInput(
            f"`{name}` has masked entries. A missing value cannot be used: fill it with what was observed."
        )
    try:
        return np.asarray(values)
    except ValueError as problem:
        raise InvalidInput(f"`{name}` cannot be read as an array ({problem}). Pass rows of equal length.") from problem


def _floats(name: str, values: Any) -> FloatArray:
    array = _array(name, values)
    if array.dtype.kind in "iu" and array.size and max(abs(int(array.max())), abs(int(array.min()))) > _MAX_EXACT:
        raise InvalidInput(
            f"`{name}` holds integers beyond 2**53, which float64 cannot represent exactly. Rescale them."
        )
    if array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"`{name}` has dtype {array.dtype}; numbers are needed{_first_other(array)}. Encode categories as numbers first."
        )
    return np.array(array, dtype=np.float64, order="C", copy=True)


def _first_other(array: npt.NDArray[Any]) -> str:
    """Where an array of texts or objects has its first entry that is no number."""
    for row, entries in enumerate(array.reshape(array.shape[0], -1).tolist() if array.ndim else ()):
        other = next((entry for entry in entries if isinstance(entry, bool) or not isinstance(entry, Real)), entries)
        if other is not entries:
            return f", not {one_line(repr(other))} at row {numbered(row)}"
    return ""


def _finite(
    name: str, array: FloatArray, allowed: npt.NDArray[np.bool_] | None = None, *, lowest_ok: bool = False
) -> FloatArray:
    if array.min(initial=0.0) >= -_LARGEST and array.max(initial=0.0) <= _LARGEST:  # nor is any of them not a number
        return array
    bad = np.asarray(~np.isfinite(array if array.ndim == 2 else array[:, None]).all(axis=1))
    if lowest_ok:
        bad &= array != -np.inf
    if allowed is not None:
        array[bad & allowed] = 0.0
        bad &= ~allowed
    if (row := first(bad)) is not None:
        raise InvalidInput(
            f"`{name}` is not finite at row {numbered(row)} ({array[row]}). The bound cannot be evaluated there; repair the "
            "value. Never drop a row because of its reward or its next observation: that selection breaks the guarantee."
        )
    large = np.asarray((np.abs(array if array.ndim == 2 else array[:, None]) > _LARGEST).any(axis=1))
    if lowest_ok:
        large &= array != -np.inf
    if (row := first(large)) is not None:
        raise InvalidInput(
            f"`{name}` is {array[row]} at row {numbered(row)}: beyond {_LARGEST:g} squares overflow. Rescale it."
        )
    return array


def vector(name: str, values: Any, n: int | None = None, *, lowest_ok: bool = False) -> FloatArray:
    """One number per row, finite; with `lowest_ok` also -inf."""
    array = _floats(name, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0].copy()
    if array.ndim != 1:
        raise InvalidInput(f"`{name}` has shape {array.shape}; one number per row is needed.")
    _length(name, array, n)
    return _finite(name, array, lowest_ok=lowest_ok)


def matrix(name: str, values: Any, n: int | None = None, missing_ok: npt.NDArray[np.bool_] | None = None) -> FloatArray:
    """Rows of numbers; a 1-d array is read as one column. Rows flagged `missing_ok` may be NaN and become 0."""
    array = _floats(name, values)
    if array.ndim == 1:
        array = array[:, None].copy()
    if array.ndim != 2 or (array.shape[1] == 0 and array.shape[0] > 0):
        raise InvalidInput(f"`{name}` has shape {array.shape}; an array of shape (rows, dimensions) is needed.")
    if missing_ok is not None:
        _length(name, array, missing_ok.shape[0])
    _length(name, array, n)
    return _finite(name, array, missing_ok)


def _length(name: str, array: npt.NDArray[Any], n: int | None) -> None:
    if n is not None and array.shape[0] != n:
        raise InvalidInput(
            f"`{name}` has {array.shape[0]} rows, the observations have {n}. Every column needs one entry per row."
        )


def _one_per_row(name: str, values: Any, n: int, what: str) -> npt.NDArray[Any]:
    array = _array(name, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidInput(f"`{name}` has shape {array.shape}; one {what} per row is needed.")
    _length(name, array, n)
    return array


def flags(name: str, values: Any, n: int) -> npt.NDArray[np.bool_]:
    array = _one_per_row(name, values, n, "flag")
    numeric = array.dtype.kind in "biuf"
    row = first((array != 0) & (array != 1)) if numeric else None
    if row is not None or not numeric:
        where = f" (row {numbered(row)}: {array[row]})" if row is not None else _first_other(array)
        raise InvalidInput(f"`{name}` must be true/false (or 1/0) in every row{where}.")
    return np.array(array, dtype=np.bool_, copy=True)


def integers(name: str, values: Any, n: int) -> npt.NDArray[np.int64]:
    array = _one_per_row(name, values, n, "whole number")
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"`{name}` has dtype {array.dtype}; whole numbers are needed.")
    fraction, inexact = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    if array.dtype.kind == "f":
        fraction = ~np.isfinite(array) | (array != np.rint(array))
        inexact = np.abs(array.astype(np.float64)) > _MAX_EXACT
    elif array.dtype.kind == "u":
        inexact = array > np.uint64(2**63 - 1)
    for wrong, words in (
        (fraction, "; whole numbers are needed."),
        (inexact, ": too large to be kept exactly. Number them anew."),
    ):
        if (row := first(wrong)) is not None:
            raise InvalidInput(f"`{name}` is {array[row]} at row {numbered(row)}{words}")
    return np.array(array, dtype=np.int64, copy=True)


def identifiers(name: str, values: Any, n: int) -> npt.NDArray[np.int64]:
    """Episode ids: whole numbers as they are, strings coded by first appearance."""
    array = _array(name, values)
    if array.dtype.kind in "biuf":
        return integers(name, array, n)
    array = _one_per_row(name, array, n, "id")
    if (row := first(np.array([value is None or value != value for value in array.tolist()]))) is not None:
        raise InvalidInput(
            f"`{name}` is missing at row {numbered(row)}. Every row belongs to an episode; otherwise leave out the column."
        )
    return coded(array, {})


def coded(values: npt.NDArray[Any], codes: dict[str, int]) -> npt.NDArray[np.int64]:
    """Texts as numbers in the order of first appearance; `codes` are those of earlier parts, and grow."""
    return np.array([codes.setdefault(str(value), len(codes)) for value in values.tolist()], dtype=np.int64)


def actions(name: str, values: Any, n: int) -> npt.NDArray[Any]:
    """Integers of shape (n,) are discrete actions, floats are continuous ones."""
    array = _array(name, values)
    if array.dtype.kind in "biu" and (array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)):
        chosen = integers(name, array, n)
        if (row := first(chosen < 0)) is not None:
            raise InvalidInput(
                f"`{name}` is {chosen[row]} at row {numbered(row)}. Discrete actions are numbered 0, 1, 2, ..."
            )
        if (row := first(chosen >= MAX_ACTIONS)) is not None:
            raise InvalidInput(
                f"`{name}` is {chosen[row]} at row {numbered(row)}. Discrete actions are numbered 0, 1, 2, ..., and tables have "
                f"an entry for every number up to the largest, at most {MAX_ACTIONS}. Number them anew: names, actions = "
                "np.unique(actions, return_inverse=True); files and tables that read_log has read take such numbers for names."
            )
        return chosen
    return matrix(name, values, n)
