"""States as a table: for a function whose argument is called `frame`, with the columns of the log by name, text as text.

A column that the log gains later is one more column, and shifts no other.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.data._arrays import FloatArray
from bondic.data.io.loaded import Encoding
from bondic.errors import MissingExtra

NAME = "frame"
"""The argument that asks for a table."""


def asks_for_frame(function: Any) -> bool:
    """Whether the first argument of a function says that it takes a table."""
    try:
        return next(iter(inspect.signature(function).parameters), "") == NAME
    except (TypeError, ValueError):
        return False


def as_frame(observations: FloatArray, names: Sequence[str], encodings: Mapping[str, Encoding]) -> Any:
    """(n,) rows with the columns of the log; what became codes or 0/1 columns is text again."""
    if len(names) != observations.shape[1]:
        raise InvalidInput(
            "The policy's argument is called `frame`, so it takes a table with the names of the log's columns, and this log "
            "has none: it was given as arrays. Give a file or a table, or call the argument otherwise: it is an array then."
        )
    if find_spec("pandas") is None:
        raise MissingExtra("pandas", "pandas", "A policy that takes a frame")
    return import_module("pandas").DataFrame(named_columns(observations, names, encodings))


def named_columns(
    observations: FloatArray, names: Sequence[str], encodings: Mapping[str, Encoding]
) -> dict[str, npt.NDArray[Any]]:
    """The columns of the log, text as text."""
    place, columns = {name: index for index, name in enumerate(names)}, dict[str, npt.NDArray[Any]]()
    text = {column: name for name, coding in encodings.items() if coding.kind != "actions" for column in coding.columns}
    for name in names:
        if name not in text:
            columns[name] = observations[:, place[name]]
        elif text[name] not in columns:
            columns[text[name]] = _texts(observations, encodings[text[name]], place)
    return columns


def _texts(observations: FloatArray, coding: Encoding, place: Mapping[str, int]) -> npt.NDArray[Any]:
    """The values that codes or 0/1 columns stand for; None where they stand for none."""
    values = np.array([*coding.values, None], dtype=object)
    if coding.kind == "codes":
        codes = observations[:, place[coding.columns[0]]].astype(np.int64)
    else:
        marks = observations[:, [place[column] for column in coding.columns]]
        codes = np.where(marks.any(axis=1), marks.argmax(axis=1), -1)
    return values[np.where((codes >= 0) & (codes < len(coding.values)), codes, len(coding.values))]
