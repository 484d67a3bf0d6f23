"""Rows of a table as whole numbers: states and pairs in the order in which they became known.

What is planned for a row may use earlier rows alone. `Codes.before` cuts everything to what was known before a row, the lists
of states and pairs too: sums over them would round differently if later ones stood among their zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.core.classes.balls import Box
from bondic.core.classes.basis import positions
from bondic.core.identity import values_at_rows
from bondic.core.sequential.embedded import limits_at
from bondic.core.sequential.table_plan import repeats
from bondic.core.sums.forms import Sums
from bondic.engines.sums import STANDARD
from bondic.rows import Rows
from bondic.search.sequential.starts import Starts, known_starts

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Codes:
    """Rows in order, and what was known before each of them."""

    begin: int  # the log's row where the stretch begins
    row: int  # everything is from before this row of the log
    states: FloatArray  # (S, D)
    told: IntArray  # (S,) the log's row that tells each state, ascending
    answers: FloatArray  # (S, A) the policy's weights there; 0 where nobody asked
    log_rows: IntArray  # (n,)
    pairs: IntArray  # (n,) state A + action
    after: IntArray  # (n,) the state that follows; -1: none
    targets: FloatArray  # (n,) r + gamma q̂(x')
    widths: FloatArray  # (n,) B_i
    earlier: IntArray  # (n,) rows before with the same pair
    same: IntArray  # (n,) of these, rows with the same outcome
    starts: tuple[
        IntArray, FloatArray, IntArray
    ]  # pairs of the initial states, their weights, and the row that tells each

    def __len__(self) -> int:
        return int(self.pairs.size)

    @property
    def slots(self) -> int:
        return int(self.answers.shape[1])

    @property
    def size(self) -> int:
        """Pairs of known states, visited or not."""
        return int(self.answers.size)

    @property
    def visited(self) -> IntArray:
        """Pairs of the rows, in the order of their first ones."""
        return np.asarray(self.pairs[self.earlier == 0])

    def before(self, row: int) -> Codes:
        """What is known before a row of the log, and nothing else."""
        count, states = int(np.searchsorted(self.log_rows, row)), int(np.searchsorted(self.told, row))
        rows = {name: getattr(self, name)[:count] for name in _ROWS}
        known = self.starts[2] < max(row, int(self.starts[2].min(initial=row)) + 1)
        starts = (self.starts[0][known], self.starts[1][known], self.starts[2][known])
        cut = {name: getattr(self, name)[:states] for name in ("states", "told", "answers")}
        return replace(self, row=row, **rows, **cut, starts=starts)

    @property
    def start(self) -> FloatArray:
        """ψ_0 as far as it is known, (S A,)."""
        pairs, weights, _ = self.starts
        found = np.bincount(pairs, weights, minlength=self.size)
        return np.asarray(found / max(float(found.sum()), 1e-300))


_ROWS = ("log_rows", "pairs", "after", "targets", "widths", "earlier", "same")


def make_codes(problem: Rows, pilot: Rows, box: Box, sums: Sums = STANDARD) -> Codes:
    """All rows of a log, and the initial states with the rows that tell them."""
    starts, slots = known_starts(problem, pilot), problem.layout.slots
    seen = _told_by(problem, starts)
    points, told = _different([part[0] for part in seen], [part[1] for part in seen])
    answers = np.zeros((len(points), slots))
    answers[positions(points, starts.cloud.points)] = starts.cloud.weights
    columns: list[tuple[npt.NDArray[np.generic], ...]] = []
    for batch in problem.batches():
        after = np.full(len(batch), -1)
        after[batch.next.rows] = positions(points, batch.next.points)
        fresh = after[batch.next.rows]
        unasked = ~np.any(answers[fresh] != 0, axis=1)
        answers[fresh[unasked][::-1]] = batch.next.weights[unasked][::-1]  # the first row that asks answers
        values, limits = values_at_rows(batch, box.center, sums), limits_at(batch, None)
        pairs = positions(points, batch.logged) * slots + batch.slots
        targets = batch.rewards + batch.gamma * values.next
        columns.append((batch.log_rows, pairs, after, targets, limits.high - limits.low))
    log_rows, pairs, after, targets, widths = (np.concatenate(column) for column in zip(*columns, strict=True))
    outcome = pairs * (len(points) + 1) + after + 1
    return Codes(
        problem.rows.start,
        problem.rows.stop,
        points,
        told,
        answers,
        log_rows,
        pairs,
        after,
        targets,
        widths,
        repeats(pairs),
        repeats(outcome),
        _start_pairs(problem, starts, points),
    )


def _told_by(problem: Rows, starts: Starts) -> list[tuple[FloatArray, IntArray]]:
    """Points of states, with the row of the log that tells each: every state of a batch once."""
    found = [(starts.cloud.points, starts.told_by[starts.cloud.rows])]
    for batch in problem.batches():
        points = np.concatenate([batch.logged, batch.next.points])
        found.append(_different([points], [np.concatenate([batch.log_rows, batch.log_rows[batch.next.rows]])]))
    return found


def _different(points: list[FloatArray], rows: list[IntArray]) -> tuple[FloatArray, IntArray]:
    """Different points with the first row that tells each, in the order of these rows."""
    every, told = np.concatenate(points) + 0.0, np.concatenate(rows)
    order = np.argsort(told, kind="stable")
    _, first = np.unique(every[order], axis=0, return_index=True)
    kept = order[np.sort(first)]
    return every[kept], told[kept]


def _start_pairs(problem: Rows, starts: Starts, states: FloatArray) -> tuple[IntArray, FloatArray, IntArray]:
    """Pairs of the initial states with their weights. The evaluation leaves none of a given sample out."""
    cloud, given = starts.cloud, problem.initial_states
    own = given.weights if given.count_fixed and not given.from_rows else starts.weights
    at, slots = np.nonzero(cloud.weights)
    pairs = positions(states, cloud.points)[at] * problem.layout.slots + slots
    rows = cloud.rows[at]
    return pairs, own[rows] * cloud.weights[at, slots], starts.told_by[rows]
