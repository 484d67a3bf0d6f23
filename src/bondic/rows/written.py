"""A policy in columns of a growing log: its probabilities at every row, joined as rows come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.data._arrays import FloatArray
from bondic.data.io.loaded import LoadedLog
from bondic.data.io.probabilities import first_rows
from bondic.data.transitions import Transitions
from bondic.policies.protocol import RowProbabilities
from bondic.rows.inputs import COLUMNS, chosen_policy


@dataclass(frozen=True, eq=False)
class WrittenProbabilities:
    """By row, (n, actions): at the next state, at the state itself, and at the first rows of episodes (0 elsewhere)."""

    next: FloatArray
    start: FloatArray
    logged: FloatArray | None

    @staticmethod
    def of(loaded: LoadedLog) -> WrittenProbabilities:
        """Those of a log that was read; refused where it has none."""
        log = loaded.transitions
        found = chosen_policy(COLUMNS, loaded, first_rows(log).size)
        following = np.asarray(found.next_probs, dtype=np.float64)
        start = np.zeros_like(following)
        start[first_rows(log)] = found.initial_probs
        return WrittenProbabilities(following, start, found.logged_probs)

    def last(self, count: int) -> WrittenProbabilities:
        """Of the last rows."""
        rows = slice(len(self.next) - count, None)
        return WrittenProbabilities(
            self.next[rows], self.start[rows], None if self.logged is None else self.logged[rows]
        )

    def then(self, other: WrittenProbabilities | None) -> WrittenProbabilities:
        """These, and those of the rows after them."""
        if (
            other is None
            or (self.logged is None) != (other.logged is None)
            or self.next.shape[1] != other.next.shape[1]
        ):
            raise InvalidInput(
                "The policy is 'columns', and the new rows have other columns for it than those before: the same columns, for "
                "the same actions, are needed in every file."
            )
        logged = None if self.logged is None or other.logged is None else np.concatenate([self.logged, other.logged])
        following, start = np.concatenate([self.next, other.next]), np.concatenate([self.start, other.start])
        return WrittenProbabilities(following, start, logged)

    def policy(self, log: Transitions) -> RowProbabilities:
        """As the policy of all rows so far."""
        return RowProbabilities(self.next, self.start[first_rows(log)], self.logged)

    def columns(self, rows: slice) -> dict[str, FloatArray]:
        """As arrays to be stored."""
        return {f"written_{name}": one[rows] for name, one in vars(self).items() if one is not None}

    @staticmethod
    def taken(columns: dict[str, Any]) -> WrittenProbabilities | None:
        """From stored arrays, which are taken out; None where there are none."""
        found: Mapping[str, Any] = {name: columns.pop(f"written_{name}", None) for name in ("next", "start", "logged")}
        return None if found["next"] is None else WrittenProbabilities(**found)


def in_columns(policy: Any) -> bool:
    """Whether the policy is named as the one in columns of the log."""
    return isinstance(policy, str) and policy == COLUMNS
