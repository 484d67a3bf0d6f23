"""Rows as proposals see them: coordinates and targets of the rows before some row, and nothing else.

A proposal for row i may use x_i, earlier rows and nothing besides. So every function that proposes takes a `Prefix`, which
holds no later row; `History` alone knows all rows, and `before` is the one way from it to a `Prefix`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from bondic.core.balls import Ball
from bondic.core.bounded import Between
from bondic.core.columns import Batch, RowRange
from bondic.core.identity import values_at_rows
from bondic.core.sequential.embedded import limits_at
from bondic.core.sums.forms import Sums
from bondic.rows import Rows
from bondic.search.sequential.basis import Embedder, PointSlots
from bondic.search.sequential.starts import KnownStarts, StartPath

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EmbeddedRows:
    """Columns of rows, in order; coordinates are those of the pilot's landmarks."""

    log_rows: IntArray  # (k,)
    points: FloatArray  # (k, D)
    slots: IntArray  # (k,)
    coordinates: FloatArray  # (k, m) of k̃(x_i)
    following: FloatArray  # (k, m) of the embedding of x'_i; 0 where nothing follows
    beyond: FloatArray  # (k,) norm of what the landmarks leave of the latter, about
    values: FloatArray  # (k,) q̂(x_i)
    targets: FloatArray  # (k,) r_i + gamma q̂(x'_i)
    limits: Between  # the range of Y_i

    def __len__(self) -> int:
        return int(self.log_rows.size)

    def cut(self, rows: slice | IntArray) -> EmbeddedRows:
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return EmbeddedRows(**columns, limits=Between(self.limits.low[rows], self.limits.high[rows]))

    @staticmethod
    def join(parts: Sequence[EmbeddedRows]) -> EmbeddedRows:
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
        low, high = (np.concatenate([getattr(part.limits, end) for part in parts]) for end in ("low", "high"))
        return EmbeddedRows(**columns, limits=Between(low, high))


_COLUMNS = tuple(field.name for field in fields(EmbeddedRows) if field.name != "limits")
"""Those that are plain arrays."""


@dataclass(frozen=True, eq=False)
class Prefix:
    """What is known before the log's row `row`."""

    begin: int  # the log's row where the stretch begins
    row: int
    rows: EmbeddedRows  # those before `row`
    start: FloatArray  # (m,) ψ_0 as far as it is known
    gamma: float
    radius: float  # r_Q

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def share(self) -> float:
        """How many of the rows of the log count: those within the horizon."""
        return len(self) / max(self.row - self.begin, 1)

    @property
    def width(self) -> float:
        """The widest range of Y among the rows."""
        return float((self.rows.limits.high - self.rows.limits.low).max())


@dataclass(frozen=True, eq=False)
class History:
    """All rows of a log; proposals see it through `before`."""

    begin: int
    stop: int  # the log's row after the last
    rows: EmbeddedRows
    starts: StartPath
    gamma: float
    radius: float

    def before(self, row: int) -> Prefix:
        """The rows before this one, and nothing else."""
        count = int(np.searchsorted(self.rows.log_rows, row))
        known = self.rows.cut(slice(0, count)), self.starts.before(row)
        return Prefix(self.begin, row, *known, self.gamma, self.radius)


def make_history(
    problem: Rows,
    ball: Ball,
    embedder: Embedder,
    starts: KnownStarts,
    limits: tuple[float, float] | None,
    sums: Sums,
    before: History | None = None,
) -> History:
    """Embed all rows on the landmarks of the pilot; those of the history `before` of the same log are not embedded again."""
    known = problem.rows.start if before is None else before.stop
    fresh = problem.restricted(RowRange(known, problem.rows.stop)).batches()
    parts = [_embedded(batch, ball, embedder, limits, sums) for batch in fresh]
    path = StartPath.of(starts, embedder, None if before is None else before.starts)
    rows = EmbeddedRows.join(parts if before is None else [before.rows, *parts])
    return History(problem.rows.start, problem.rows.stop, rows, path, problem.gamma, ball.radius)


def _embedded(
    batch: Batch, ball: Ball, embedder: Embedder, limits: tuple[float, float] | None, sums: Sums
) -> EmbeddedRows:
    following, beyond = embedder.cloud(batch.next, len(batch))
    here = PointSlots(batch.logged, batch.slots)
    coordinates = embedder.pairs(here)
    center = values_at_rows(batch, ball.center, sums)
    return EmbeddedRows(
        batch.log_rows,
        batch.logged,
        batch.slots,
        coordinates,
        following,
        beyond,
        center.logged,
        batch.rewards + batch.gamma * center.next,
        limits_at(batch, limits),
    )
