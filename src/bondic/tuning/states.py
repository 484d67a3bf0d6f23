"""Are states names or numbers? Whole numbers in one column are taken for names; many of them are asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.errors import InvalidInput, shown
from bondic.kernels.normal_form import Layout

FloatArray = npt.NDArray[np.float64]
Categorical = bool | tuple[int, ...] | None
"""True: every column holds names; False: none does; numbers of columns; None: look at the states."""

STATED = "as you stated"
"""Ends what is said of states that the user described."""
_FEW = 1000
"""Distinct states that are certainly few enough for a table."""
_FEW_NAMES = 50
"""Different whole numbers in one column, beside columns that are not whole, that are taken for names."""
_VISITS = 5
"""States of several columns are a table if each was seen this often on average."""


@dataclass(frozen=True)
class StateKind:
    """What the states of a log were taken for, and why."""

    table: bool  # every distinct state has values of its own: nothing relates them
    columns: tuple[int, ...]  # columns of names inside states that are otherwise numbers
    text: str
    question: str = ""  # what a reader may want to state instead


def check_categorical(categorical: Categorical | Sequence[int], observation_dim: int) -> Categorical:
    """The statement in one form; columns that do not exist are refused."""
    if categorical is None or isinstance(categorical, bool):
        return categorical
    columns = tuple(sorted({int(column) for column in categorical}))
    wrong = [column for column in columns if not 0 <= column < observation_dim]
    if wrong:
        raise InvalidInput(
            f"categorical names the column {wrong[0]}; observations have columns 0..{observation_dim - 1}."
        )
    return columns


def state_kind(points: FloatArray, layout: Layout, categorical: Categorical) -> StateKind:
    """Decide from the statement, or else from these points alone (columns: observation, time, continuous action)."""
    observed = points[:, : layout.observation_dim]
    if categorical is False:
        return StateKind(False, (), f"states are numbers, {STATED}")
    if isinstance(categorical, tuple):
        everything = len(categorical) == layout.observation_dim
        if not (everything and layout.discrete):
            return StateKind(False, categorical, f"{_hold(categorical)} names, {STATED}")
        categorical = True
    if categorical:
        if not layout.discrete:
            return StateKind(False, tuple(range(layout.observation_dim)), f"states are names, {STATED}")
        return StateKind(True, (), f"states are names, {STATED}: a table")
    return _kind_seen(observed, points[:, : layout.observation_dim + int(layout.has_time)], layout)


def _kind_seen(observed: FloatArray, states: FloatArray, layout: Layout) -> StateKind:
    count = observed.shape[0]
    whole = [int(c) for c in np.flatnonzero(np.all(observed == np.round(observed), axis=0))]
    distinct = int(np.unique(states, axis=0).shape[0])
    numbers = [c for c in whole if np.unique(observed[:, c]).size > 2]
    if not layout.discrete:
        return _line(observed, numbers, "actions are numbers, so a table is impossible")
    if layout.observation_dim == 1 and whole:
        names = int(np.unique(observed).size)
        if names > max(_FEW, count / _VISITS):
            raise InvalidInput(
                f"States are one column of whole numbers, {names} different values among {count} states: are they names, or a "
                "quantity? Names are compared for equality only, numbers by their distance, and the wrong choice gives a wrong "
                "interval. State it: categorical=True (--categorical obs) for names, categorical=False (--numeric) for numbers."
            )
        few = f"states are whole numbers in one column ({names} different values) and are treated as names: a table"
        return StateKind(True, (), few, "if they are quantities, state categorical=False (--numeric)")
    if distinct <= _FEW and distinct * _VISITS <= count:
        text = f"the first {count} states of the log have only {distinct} different values: a table"
        return StateKind(True, (), text, "categorical=False (--numeric) compares states by their distance instead")
    return _line(observed, numbers, f"{distinct} different values among {count} states are too many for a table")


def _line(observed: FloatArray, numbers: list[int], why: str) -> StateKind:
    """Numbers; columns of few whole numbers beside others that are not whole are taken for names, and it is said."""
    if not numbers:
        return StateKind(False, (), f"states are numbers ({why})")
    if observed.shape[1] == 1:
        return StateKind(False, (0,), f"states are whole numbers and are treated as names ({why})")
    mixed = not np.all(observed == np.round(observed))
    few = [c for c in numbers if mixed and np.unique(observed[:, c]).size <= _FEW_NAMES]
    taken = [f"{_hold(few)} few different whole numbers and {_are(few)} treated as names"] if few else []
    others = [c for c in numbers if c not in few]
    taken += [f"{_hold(others)} whole numbers and {_are(others)} treated as quantities"] if others else []
    return StateKind(
        False,
        tuple(few),
        f"states are numbers ({why}); {'; '.join(taken)}",
        "categorical=[...] (--categorical COLUMN) says which are names"
        + (", categorical=False (--numeric) that none is" if few else ""),
    )


def _hold(columns: Sequence[int]) -> str:
    """ "column 1 holds", "columns 1, 3 hold"."""
    return f"column {columns[0]} holds" if len(columns) == 1 else f"columns {shown(columns)} hold"


def _are(columns: Sequence[int]) -> str:
    return "is" if len(columns) == 1 else "are"
