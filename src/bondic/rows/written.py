"""A policy in columns of a growing log: its probabilities at every row, joined as rows come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.data._arrays import FloatArray
from bondic.data.io.loaded import LoadedLog
from bondic.data.io.probabilities import first_rows
from bondic.data.transitions import Transitions
from bondic.policies.protocol import RowProbabilities
from bondic.rows.inputs import COLUMNS, GivenLog, chosen_policy

_NEXT, _START, _LOGGED = "written_next", "written_start", "written_logged"
"""Names under which they are stored."""


@dataclass(frozen=True, eq=False)
class WrittenProbabilities:
    """Arrays (n, actions): at the next state, at the first rows of episodes (0 elsewhere), and perhaps at the state itself."""

    by_row: dict[str, FloatArray]

    @staticmethod
    def of(loaded: LoadedLog) -> WrittenProbabilities:
        """Those of a log that was read; refused where it has none."""
        first = first_rows(loaded.transitions)
        found = chosen_policy(COLUMNS, GivenLog(loaded.transitions, loaded), first.size)
        following = np.asarray(found.next_probs, dtype=np.float64)
        start = np.zeros_like(following)
        start[first] = found.initial_probs
        logged = {} if found.logged_probs is None else {_LOGGED: found.logged_probs}
        return WrittenProbabilities({_NEXT: following, _START: start, **logged})

    def last(self, count: int) -> WrittenProbabilities:
        """Of the last rows."""
        return WrittenProbabilities(self.columns(slice(len(self.by_row[_NEXT]) - count, None)))

    def then(self, other: WrittenProbabilities | None) -> WrittenProbabilities:
        """These, and those of the rows after them."""
        mine, theirs = self.by_row, {} if other is None else other.by_row
        if mine.keys() != theirs.keys() or mine[_NEXT].shape[1] != theirs[_NEXT].shape[1]:
            raise InvalidInput(
                "The policy is 'columns', and the new rows have other columns for it than those before: the same columns, for "
                "the same actions, are needed in every file."
            )
        return WrittenProbabilities({name: np.concatenate([mine[name], theirs[name]]) for name in mine})

    def policy(self, log: Transitions) -> RowProbabilities:
        """As the policy of all rows so far."""
        return RowProbabilities(self.by_row[_NEXT], self.by_row[_START][first_rows(log)], self.by_row.get(_LOGGED))

    def columns(self, rows: slice) -> dict[str, FloatArray]:
        """As arrays to be stored."""
        return {name: one[rows] for name, one in self.by_row.items()}

    @staticmethod
    def taken(columns: dict[str, Any]) -> WrittenProbabilities | None:
        """From stored arrays, which are taken out; None where there are none."""
        found = {name: columns.pop(name) for name in (_NEXT, _START, _LOGGED) if name in columns}
        return WrittenProbabilities(found) if found else None


def in_columns(policy: Any) -> bool:
    """Whether the policy is named as the one in columns of the log."""
    return isinstance(policy, str) and policy == COLUMNS
