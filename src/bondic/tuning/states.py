"""How many rows tune, and whether states are names or numbers: those that come again are names.

Steps with a density never lead from two states to the same one, bit for bit; names come again sooner or later. The two mistakes
are not alike: names taken for numbers give a wrong interval, numbers taken for names a long one.
One function decides for `check`, for `evaluate` and for every method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.core.kernels.normal_form import Layout
from bondic.errors import shown

PILOT_SHARE = 0.2
"""Of the dual method."""
PILOT, LONG_PILOT = 0.05, 0.1
"""Of the sequential one: where states come again within the first, and where they do not."""
_ENOUGH = 200
"""Its pilot has at least so many rows, or a fifth of the log."""
MIN_PILOT = 20
MAX_PILOT = 5000


def share_of_rows(share: float, rows: int) -> int:
    """Rows that a share stands for; fewer than MIN_PILOT tune nothing."""
    return min(int(share * rows), MAX_PILOT)


def pilot_length(share: float, rows: int) -> int:
    """Rows that the sequential method sets aside for a share of so many, but enough to fit something."""
    return max(share_of_rows(share, rows), fewest_of_share(rows))


def rows_set_aside(pilot: float | int, planned: int) -> int:
    """Rows of a pilot for cells: a share of the planned number, but enough to fit something; or a number."""
    return max(math.ceil(pilot * planned), fewest_of_share(planned)) if isinstance(pilot, float) else int(pilot)


def fewest_of_share(rows: int) -> int:
    """Rows that are enough to fit something, or a fifth of those there are."""
    return min(_ENOUGH, rows // 5)


FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Categorical = bool | tuple[int, ...] | None
"""True: every column holds names; False: none does; numbers of columns; None: look at the states."""

STATED = "as you stated"
"""How a description of states ends that the user stated."""
_FEW_NAMES = 50
"""Different whole numbers in one column, beside columns that are not whole, that are taken for names."""


@dataclass(frozen=True)
class StateKind:
    """What the states of a log were taken for, and why."""

    table: bool  # every distinct state has values of its own: nothing relates them
    columns: tuple[int, ...]  # columns of names inside states that are otherwise numbers
    text: str
    question: str = ""  # what a reader may want to state instead

    @property
    def description(self) -> str:
        return self.text + (f"; {self.question}" if self.question else "")


@dataclass(frozen=True, eq=False)
class ObservedStates:
    """The states of some rows, in their order."""

    logged: FloatArray  # (n, d)
    following: FloatArray  # (k, d) those that steps led to
    origins: FloatArray  # (k, d) the states in which these steps began

    @cached_property
    def has_repeats(self) -> bool:
        """Whether states are names: in one-step logs if any comes again.

        Where steps follow each other, starts do not count: they may come from a list whatever states are. Steps that meet (from
        different states to the same one, or back to their own) must outnumber those that are repeated (from the same state to
        the same one, as near such a start if the noise has few values); or both together must be most of all steps.
        """
        if not len(self.following):
            return bool(np.unique(self.logged, axis=0).shape[0] < len(self.logged))
        stays = np.all(self.following == self.origins, axis=1)
        places, steps = _counts(self.following), _counts(np.hstack([self.origins, self.following]))
        meet = int(np.count_nonzero(stays | (places > steps)))
        repeated = int(np.count_nonzero(~stays & (places == steps) & (steps > 1)))
        return meet > repeated or 2 * (meet + repeated) > len(self.following)

    @cached_property
    def all(self) -> FloatArray:
        return np.concatenate([self.logged, self.following])


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


def state_kind(observed: ObservedStates, layout: Layout, categorical: Categorical) -> StateKind:
    """Decide from the statement, or else from these states alone; InvalidInput where it has to be stated."""
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
    return _kind_observed(observed, layout)


def kind_of_pilot(
    first: Callable[[int], ObservedStates], rows: int, layout: Layout, categorical: Categorical
) -> tuple[StateKind, int]:
    """What the states of a log of so many rows are taken for, and the rows that are set aside: names need the fewest.

    `first` gives the states of the first rows. Where these are too few for a pilot, all are looked at.
    """
    short, long = (pilot_length(share, rows) for share in (PILOT, LONG_PILOT))
    seen = first(short if short >= MIN_PILOT else rows)
    if categorical is not None or seen.has_repeats:
        kind = state_kind(seen, layout, categorical)
        if kind.table:
            return kind, short
    return state_kind(first(long if long >= MIN_PILOT else rows), layout, categorical), long


def unstated(layout: Layout) -> str:
    """Why there is no interval where a table is impossible and nothing was stated; one sentence, without its full stop."""
    return (
        f"{'states' if layout.discrete else 'actions'} are numbers: without a statement on how values vary nothing can be proved "
        "from rows that never repeat"
    )


WAY_OUT = "state radius= (--with radius) or ball="
"""For methods with a class of value functions."""


def refuse_unstated(layout: Layout) -> NoReturn:
    """The same as an error, for a method that was named."""
    raise InvalidInput(
        f"{unstated(layout)}; {WAY_OUT}, or radius='paper', the radius rule of the paper. Groups of states (method=Groups(), "
        "--method groups) need no such class."
    )


def _kind_observed(states: ObservedStates, layout: Layout) -> StateKind:
    observed, count = states.all, len(states.logged)
    whole = [int(c) for c in np.flatnonzero(np.all(observed == np.round(observed), axis=0))]
    numbers = [c for c in whole if np.unique(observed[:, c]).size > 2]
    if not layout.discrete:
        return _line(observed, numbers, "actions are numbers, so a table is impossible")
    distinct, column = int(np.unique(observed, axis=0).shape[0]), layout.observation_dim == 1 and whole
    if not states.has_repeats and distinct > 1:
        if column:
            raise InvalidInput(
                f"States are one column of whole numbers, and do not come again in the first {count} rows: are they names, or a "
                "quantity? Names are compared for equality only, numbers by their distance, and the wrong choice gives a wrong "
                "interval. State it: categorical=True (--categorical obs) for names, categorical=False (--categorical none) for "
                "numbers."
            )
        return _line(observed, numbers, f"they do not come again in the first {count} rows")
    if column:
        few = f"states are whole numbers in one column ({distinct} different values) and are treated as names: a table"
        return StateKind(True, (), few, "if they are quantities, state categorical=False (--categorical none)")
    text = f"states come again ({distinct} different ones in the first {count} rows), so they are names: a table"
    return StateKind(True, (), text, "categorical=False (--categorical none) compares states by their distance instead")


def _line(observed: FloatArray, numbers: list[int], why: str) -> StateKind:
    """Numbers; columns of few whole numbers beside others that are not whole are taken for names, and the note says so."""
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
        + (", categorical=False (--categorical none) that none is" if few else ""),
    )


def _counts(points: FloatArray) -> IntArray:
    """How many rows are equal to each."""
    _, place, counts = np.unique(points + 0.0, axis=0, return_inverse=True, return_counts=True)
    return np.asarray(counts[place.reshape(-1)])


def _hold(columns: Sequence[int]) -> str:
    """ "column 1 holds", "columns 1, 3 hold"."""
    return f"column {columns[0]} holds" if len(columns) == 1 else f"columns {shown(columns)} hold"


def _are(columns: Sequence[int]) -> str:
    return "is" if len(columns) == 1 else "are"
