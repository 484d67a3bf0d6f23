"""Which subgroup a state is in: a column of the observations, several 0/1 columns that a text became, or a function of states.

What divides starts into subgroups has to be known before the first action. Observations are, other columns of a log need not be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bondic.core.bounded import FloatArray, IntArray
from bondic.core.errors import InvalidInput, one_line
from bondic.core.subgroups import Labeling
from bondic.core.terms import in_full
from bondic.errors import did_you_mean, kind_of
from bondic.modules import import_object
from bondic.rows.rows import Rows

MOST = 100
"""Lines of a table that people read."""


def labels_by(by: Any, names: Sequence[str]) -> Labeling:
    """The subgroups that `by` makes of states whose columns have these names: their names in order, with the places of each."""
    if isinstance(by, str) and ":" in by and by not in names:
        by = import_object(by)
    of, title = by if callable(by) else _column(by, tuple(names)), words_by(by)

    def labels(states: FloatArray) -> dict[str, IntArray]:
        values = np.asarray(of(states))
        if values.shape != (states.shape[0],):
            raise InvalidInput(
                f"by= gave {values.shape} labels for {states.shape[0]} states: a function of all states returns a label for each."
            )
        kinds, codes = np.unique(values.astype(str) if values.dtype.kind == "O" else values, return_inverse=True)
        if kinds.size > MOST:
            raise InvalidInput(
                f"{title} has {kinds.size} different values, and a table of subgroups has at most {MOST} lines. Make bands: "
                "a function of states that returns a label for each, by=lambda states: states[:, 0] // 10 (--by "
                "module:function)."
            )
        return {_text(kind): np.flatnonzero(codes.reshape(-1) == k) for k, kind in enumerate(kinds.tolist())}

    return labels


def labels_of(problem: Rows, by: Any) -> Labeling:
    """The same for the states of a problem; that there are such subgroups of its starts is looked at."""
    labels = labels_by(by, problem.names or problem.log.observation_names)
    labels(problem.initial_states.observations)
    return labels


def words_by(by: Any) -> str:
    """What makes the subgroups, for a reader."""
    return str(getattr(by, "__name__", "by")) if callable(by) else str(by)


def _text(value: Any) -> str:
    return in_full(value) if isinstance(value, float) else str(value)


def _column(by: Any, names: tuple[str, ...]) -> Callable[[FloatArray], Any]:
    """The values of a column, by its name or number; the names behind the 0/1 columns of a text."""
    if not isinstance(by, str | int) or isinstance(by, bool):
        raise InvalidInput(
            f"`by` is {kind_of(by)}. It is the name of a column of the observations, its number from 0, or a function of all "
            "states that returns a label for each."
        )
    if by in names:
        place = names.index(by)
        return lambda states: states[:, place]
    coded = {name.removeprefix(f"{by}="): place for place, name in enumerate(names) if name.startswith(f"{by}=")}
    if coded:
        texts, places = np.array([*coded, "none of these"]), list(coded.values())
        return lambda states: texts[
            np.where((states[:, places] > 0).any(axis=1), states[:, places].argmax(axis=1), len(places))
        ]
    if str(by).isdecimal():
        number = int(by)
        return lambda states: _numbered(states, number)
    known = list(dict.fromkeys(name.split("=")[0] for name in names))
    listed = f"; these are {', '.join(known)}" if known else ", and their columns have no names: use numbers, from 0"
    raise InvalidInput(
        f"by={one_line(str(by))} is no column of the observations{listed}.{did_you_mean(str(by), known)} A subgroup has to be "
        "known before the action: make the column part of the observations (columns=, --columns observations=...)."
    )


def _numbered(states: FloatArray, number: int) -> FloatArray:
    if number >= states.shape[1]:
        raise InvalidInput(f"by={number}: observations have {states.shape[1]} columns, counted from 0.")
    return states[:, number]
