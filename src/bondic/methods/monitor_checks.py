"""What a monitor refuses: statements that cannot be followed while a log grows, and rows that it has already."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.data.hygiene.findings import ACCEPTABLE
from bondic.data.hygiene.repeats import SharedRun, known_keys, repeated_run
from bondic.data.transitions import Transitions
from bondic.methods.propensities import Propensities
from bondic.methods.sequential import Sequential
from bondic.methods.table import Table
from bondic.policies.answers import StoredAnswers
from bondic.policies.learned import LearnedPolicy, PolicyMixture
from bondic.policies.protocol import RowProbabilities
from bondic.tuning.defaults import Choices


def refuse_row_answers(policy: Any) -> None:
    if isinstance(policy, LearnedPolicy | PolicyMixture):
        raise InvalidInput(
            "A monitor follows one policy while the log grows. Learn it first, on rows that the monitor does not get."
        )
    if isinstance(policy, RowProbabilities | StoredAnswers):
        raise InvalidInput(
            "Probabilities that are written down row by row belong to one log, and this one grows. Pass the policy itself (an "
            "object with action_probs or sample_action, a function), or 'columns' where every file has a column for them."
        )


def refuse_other_values(stated: Propensities | None) -> None:
    """What the monitor decides itself, or cannot follow."""
    if stated is not None and stated.planned_rows is not None:
        raise InvalidInput(
            "propensities=Propensities(...) of a monitor has no planned_rows=: that of the monitor is used."
        )


def planned_method(method: Sequential | Table, planned_rows: int) -> Sequential:
    if isinstance(method, Table):
        names = Choices(categorical=True)
        method = Sequential(side=method.side, pilot=method.pilot, planned_rows=method.planned_rows, choices=names)
    if not isinstance(method, Sequential):
        raise InvalidInput(
            f"method= is a Sequential or a Table, not {type(method).__name__}: their intervals hold at all times."
        )
    if isinstance(planned_rows, bool) or not isinstance(planned_rows, int | np.integer) or planned_rows < 1:
        raise InvalidInput(
            f"planned_rows={planned_rows!r}: a whole number of rows >= 1 is needed; about as many as will come."
        )
    if method.planned_rows not in (None, planned_rows):
        raise InvalidInput(
            f"planned_rows={planned_rows}, and method.planned_rows is {method.planned_rows}: pass one of them."
        )
    return replace(method, planned_rows=int(planned_rows))


REPEATED = "repeated-batch"
"""The name under which an update that repeats an earlier one is accepted."""
_TWICE = "A row that is logged twice is not new data: the interval would be too short."


def check_accepted(accept: Iterable[str]) -> None:
    """What can be accepted of a single update."""
    assert REPEATED in ACCEPTABLE
    for kind in accept:
        if kind != REPEATED:
            raise InvalidInput(
                f"accept={kind!r} is stated for all updates, when the monitor is made; one update can state {REPEATED!r} only."
            )


def refuse_known_keys(log: Transitions, rows: Transitions, ends: Sequence[int]) -> None:
    """InvalidInput where rows have the (episode, timestep) of earlier ones; `ends` are where updates ended."""
    new, earlier = known_keys(log, rows)
    if not new.size:
        return
    same = bool((rows.row_matrix()[new] == log.row_matrix()[earlier]).all())
    cure = (
        f"{_TWICE} Pass the rows that are new alone, or the whole log as it is now."
        if same
        else "Their values differ: episodes are probably numbered anew in every file. Give every episode its own number."
    )
    raise InvalidInput(
        f"{new.size} of these {len(rows)} rows have the same (episode, timestep) key as earlier ones: row {new[0]} is row "
        f"{earlier[0]} of the log, from update {_update(ends, int(earlier[0]))}. {cure}"
    )


def find_repeated(log: Transitions, rows: Transitions, ends: Sequence[int], level: float) -> str:
    """A warning where rows equal earlier ones and chance may have made them, else nothing; refused where it has not."""
    run = repeated_run(log, rows, ends, level)
    if run is None:
        return ""
    text = _words(run, rows, ends)
    if not run.certain:
        return f"{text} The log repeats itself, so these may be new events; if the rows came twice, the interval is not valid."
    raise InvalidInput(
        f"{text} That is too many to be chance: in the log so far the longest run of rows that occurs twice has {run.usual}. "
        f"{_TWICE} {_way_out(run, log, rows)} If these are new events, state so: accept=[{REPEATED!r}] (--accept {REPEATED})."
    )


def _words(run: SharedRun, rows: Transitions, ends: Sequence[int]) -> str:
    first, last = (_update(ends, row) for row in (run.earlier, run.earlier + run.length - 1))
    which = f"update {first}" if first == last else f"updates {first} to {last}"
    what = "All" if run.length == len(rows) else f"{run.length} of the"
    return (
        f"{what} {len(rows)} new rows came before: rows {run.first} to {run.first + run.length - 1} of them equal rows "
        f"{run.earlier} to {run.earlier + run.length - 1} of the log, from {which}."
    )


def _way_out(run: SharedRun, log: Transitions, rows: Transitions) -> str:
    if run.length == len(rows):
        return "Leave them out."
    if run.first == 0 and run.earlier + run.length == len(log):
        return f"Pass the rows from row {run.length} on."
    if run.first == 0 and run.earlier == 0:
        return (
            f"A file that holds the log as a whole has to begin with all {len(log)} rows that are known, and differs from them "
            f"at row {run.length}: pass the rows that are new alone."
        )
    return "Pass the rows that are new alone."


def _update(ends: Sequence[int], row: int) -> int:
    """The number of the update, from 1 on, that brought a row."""
    return bisect_right(np.asarray(ends).tolist(), row) + 1
