"""A question whose rows become known one after the other: for a planner that must not see later ones.

A prefix holds no row from its end on: log, answers of the policy, and initial states that were read off the log are cut there. So
what is made from it cannot depend on what was cut off, whatever its maker does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput
from bondic.data._arrays import IntArray
from bondic.data.episodes import episode_starts
from bondic.data.initial import InitialStates
from bondic.rows.batch import NoCloud
from bondic.rows.rows import Rows


@dataclass(frozen=True, eq=False)
class Prefixes:
    """The prefixes of a question: `before(row)` knows the rows before that one."""

    problem: Rows  # all rows of the question

    def __post_init__(self) -> None:
        if self.problem.kept is None:
            raise InvalidInput("A log that is read in batches cannot be cut: load it (leave --with memory out).")

    def before(self, row: int) -> Rows:
        """The rows before this one, as a question of its own."""
        known = self.announced(row)
        return known.restricted(RowRange(known.rows.start, row))

    def announced(self, row: int) -> Rows:
        """The same, with the number of rows that there will be: it was fixed beforehand."""
        problem, cut = self.problem, RowRange(0, row)
        assert problem.kept is not None
        known = replace(
            problem,
            log=problem.log.read(cut),
            kept=tuple(batch.cut(cut) for batch in problem.kept if batch.rows.start < row),
            following=None,
            source=None,
        )
        return self._with_starts(known, int(np.searchsorted(self._start_rows, row))) if self._own_starts else known

    def with_unseen_starts(self, problem: Rows, seen: int) -> Rows:
        """The same question with one known initial state in place of all after the first `seen`: as many as were announced."""
        states = self.problem.initial_states
        count = len(states) if states.count_fixed else max(len(problem.initial_states), seen + 1)
        return self._with_starts(problem, count, np.where(np.arange(count) < seen, np.arange(count), 0))

    @property
    def _own_starts(self) -> bool:
        return self.problem.initial_states.from_rows

    @cached_property
    def _start_rows(self) -> IntArray:
        """The row of the log that shows each of its own starts."""
        return np.concatenate([rows.start + starts for rows, _, starts in episode_starts(self.problem.log)])

    def _with_starts(self, problem: Rows, count: int, which: IntArray | None = None) -> Rows:
        """With the first `count` initial states, or with `which` of them."""
        states, cloud = problem.initial_states, problem.initial
        which = np.arange(min(count, len(states))) if which is None else which
        weights = states.weights if states.kind == "exact" else np.full(which.size, 1.0 / which.size)
        given = InitialStates(states.observations[which], weights, states.kind, states.count_fixed, states.from_rows)
        if isinstance(cloud, NoCloud):
            return replace(problem, initial_states=given)
        order = (which[:, None] * cloud.draws + np.arange(cloud.draws)).reshape(-1)
        rows = np.repeat(np.arange(which.size), cloud.draws)
        return replace(
            problem,
            initial_states=given,
            initial=replace(cloud, points=cloud.points[order], weights=cloud.weights[order], rows=rows),
            answers=replace(problem.answers, initial=problem.answers.initial[which]),
        )
