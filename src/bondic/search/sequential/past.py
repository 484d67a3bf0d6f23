"""Rows as proposals see them: coordinates and targets of the rows before some row, and nothing else.

A proposal for row i may use x_i, earlier rows and nothing besides. So every function that proposes takes a `Past`, which
holds no later row; `History` alone knows all rows, and `before` is the one way from it to a `Past`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.classes.ball import Ball
from bondic.classes.value_class import constant_value
from bondic.data.initial import episode_starts
from bondic.identity.residual import values_at_rows
from bondic.kernels.normal_form import normal_form
from bondic.rows import Batch, Cloud, Rows
from bondic.search.sequential._types import LandmarkBasis
from bondic.search.sequential.basis import Embedder, Pairs
from bondic.sums.forms import STANDARD, Sums
from bondic.terms import Terms, range_of

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Seen:
    """Columns of rows, in order; coordinates are those of the pilot's landmarks."""

    log_rows: IntArray  # (k,)
    points: FloatArray  # (k, D)
    slots: IntArray  # (k,)
    coordinates: FloatArray  # (k, m) of k̃(x_i)
    following: FloatArray  # (k, m) of the embedding of x'_i; 0 where nothing follows
    beyond: FloatArray  # (k,) norm of what the landmarks leave of the latter, about
    values: FloatArray  # (k,) q̂(x_i)
    targets: FloatArray  # (k,) r_i + gamma q̂(x'_i)
    low: FloatArray  # (k,) of the range of Y_i
    high: FloatArray  # (k,)

    def __len__(self) -> int:
        return int(self.log_rows.size)

    def cut(self, rows: slice | IntArray) -> Seen:
        return Seen(*(getattr(self, field.name)[rows] for field in fields(Seen)))


@dataclass(frozen=True, eq=False)
class Past:
    """What is known before the log's row `row`."""

    begin: int  # the log's row where the stretch begins
    row: int
    rows: Seen  # those before `row`
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
        return float((self.rows.high - self.rows.low).max())


@dataclass(frozen=True, eq=False)
class Starts:
    """Embeddings of the initial states, with the row of the log that tells each; -1 if it was known beforehand."""

    embeddings: FloatArray  # (n_0, m)
    weights: FloatArray  # (n_0,)
    told_by: IntArray  # (n_0,)

    def before(self, row: int) -> FloatArray:
        """ψ_0 of the states that are known before a row, with their weights made to sum to 1."""
        weights = np.where(self.told_by < row, self.weights, 0.0)
        return np.asarray(weights @ self.embeddings / weights.sum())


@dataclass(frozen=True, eq=False)
class History:
    """All rows of a log; proposals see it through `before`."""

    begin: int
    rows: Seen
    starts: Starts
    gamma: float
    radius: float

    def before(self, row: int) -> Past:
        count = int(np.searchsorted(self.rows.log_rows, row))
        return Past(self.begin, row, self.rows.cut(slice(0, count)), self.starts.before(row), self.gamma, self.radius)

    @cached_property
    def stop(self) -> int:
        return int(self.rows.log_rows[-1]) + 1


def make_history(
    problem: Rows, ball: Ball, basis: LandmarkBasis, starts: Cloud, told_by: IntArray, sums: Sums = STANDARD
) -> History:
    """Embed all rows on the landmarks of the pilot; `starts` with the rows that tell them, as `known_starts` gives them."""
    embedder = Embedder(normal_form(ball.kernel, problem.layout), basis)
    parts = [_embedded(batch, ball, embedder, sums) for batch in problem.batches()]
    columns = (np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Seen))
    embeddings, _ = embedder.cloud(starts, told_by.size)
    given = problem.initial_states.weights
    weights = given if given.size == told_by.size else np.full(told_by.size, 1.0 / told_by.size)
    return History(problem.rows.start, Seen(*columns), Starts(embeddings, weights, told_by), problem.gamma, ball.radius)


def _embedded(batch: Batch, ball: Ball, embedder: Embedder, sums: Sums) -> Seen:
    following, beyond = embedder.cloud(batch.next, len(batch))
    center = values_at_rows(batch, ball.center, sums)
    low, high = ranges(batch.terms, batch.times, len(batch), ball)
    return Seen(
        batch.log_rows,
        batch.logged,
        batch.slots,
        embedder.pairs(Pairs(batch.logged, batch.slots)),
        following,
        beyond,
        center.logged,
        batch.rewards + batch.gamma * center.next,
        low,
        high,
    )


def ranges(terms: Terms, times: IntArray | None, count: int, ball: Ball) -> tuple[FloatArray, FloatArray]:
    """[low_i, high_i] of Y_i = r_i + gamma q*(x'_i): the range in force, cut by what Q leaves of q*(x'_i)."""
    distinct, place = np.unique(np.zeros(count, np.int64) if times is None else times, return_inverse=True)
    limits = [range_of(terms, int(time)) for time in distinct]
    low, high = np.array([at.low for at in limits])[place], np.array([at.high for at in limits])[place]
    middle = constant_value(ball.center)
    if middle is None:
        return low, high
    reach = ball.radius * ball.kernel.sup_diag**0.5
    least, most = min(middle - reach, 0.0), max(middle + reach, 0.0)  # nothing may follow
    bottom, top = terms.reward_range[0] + terms.gamma * least, terms.reward_range[1] + terms.gamma * most
    return np.maximum(low, bottom), np.minimum(high, top)


def known_starts(problem: Rows) -> IntArray:
    """For each initial state the row of the log that told it; -1 for states that were given."""
    states = problem.initial_states
    if not states.from_rows:
        return np.full(len(states), -1)
    found = [rows.start + starts for rows, _, starts in episode_starts(problem.log)]
    return np.asarray(np.concatenate(found)[: len(states)])
