"""What a bound uses of a log and a policy: checked columns in the order of time. Nothing is read or queried here.

Points are rows z = (observation | time? | continuous action?). A discrete action is a *slot*: next and initial points carry a row
of slot weights pi(. | s'), so that means over next actions are exact sums. A continuous next action is represented by m draws
with weight 1/m each. There is no shuffle: earlier rows may tune, later rows are certified.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol, Self

import numpy as np

from bondic.core.bounded import BoolArray, FloatArray, IntArray, U
from bondic.core.errors import InvalidInput
from bondic.core.kernels.normal_form import Layout
from bondic.core.terms import Terms

if TYPE_CHECKING:
    from bondic.core.propensities.decisions import Decisions
    from bondic.core.propensities.ratios import Target
    from bondic.core.propensities.sampling import SamplingCheck


@dataclass(frozen=True, slots=True, order=True)
class RowRange:
    """Rows start, start + 1, ..., stop - 1 of a log.

    Parameters
    ----------
    start : int
        First row, counted from 0.
    stop : int
        The row after the last.
    """

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise InvalidInput(
                f"Rows {self.start} to {self.stop} are not a range of rows: 0 <= start <= stop is needed."
            )

    def __len__(self) -> int:
        return self.stop - self.start

    def overlaps(self, other: RowRange) -> bool:
        return max(self.start, other.start) < min(self.stop, other.stop)

    def __str__(self) -> str:
        return f"rows {self.start} to {self.stop - 1}" if len(self) else "no rows"


Kind = Literal["log", "exact", "sample"]
"""What starts are; the estimand follows from it."""


@dataclass(frozen=True, eq=False)
class Starts:
    """States that carry d_0, with weights that sum to 1; `InitialStates` is where users state them, and what checks them.

    "log": the starts of the log, known at its end: the value is a mean over them, and no probability is spent on them. "exact":
    d_0 *is* this weighted list. "sample": independent draws of d_0, on which part of alpha is spent.
    """

    observations: FloatArray  # (n_0, d)
    weights: FloatArray  # (n_0,)
    kind: Kind
    count_fixed: bool = True  # of a sample: whether n_0 was fixed beforehand
    from_rows: bool = False  # read off the log: certified rows are among them

    def __len__(self) -> int:
        return int(self.observations.shape[0])

    @cached_property
    def weights_error(self) -> float:
        """Relative error of the weights: they stand for the list divided by its sum, which the floats miss by so much."""
        return abs(1.0 - math.fsum(self.weights.tolist())) * (1 + 1e-12) + 2 * U

    def same(self, other: Starts) -> bool:
        """Whether both are the same list, or sample."""
        same = (self.kind, self.count_fixed) == (other.kind, other.count_fixed)
        same = same and np.array_equal(self.observations, other.observations)
        return same and np.array_equal(self.weights, other.weights)

    def later(self, skipped: int) -> Self:
        """A sample without its first states."""
        count = len(self) - skipped
        return replace(self, observations=self.observations[skipped:], weights=np.full(count, 1.0 / count))

    def pick(self, states: IntArray) -> Self:
        """Some of the states, ascending: d_0 given that a start is among them."""
        weights = self.weights[states]
        return replace(self, observations=self.observations[states], weights=weights / math.fsum(weights.tolist()))


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points with slot weights; `rows[j]` is the row (or initial state) of point j, in ascending order."""

    points: FloatArray  # (N, D)
    weights: FloatArray  # (N, slots)
    rows: IntArray  # (N,)
    draws: int = 1  # points of one state, one after the other

    def per_row(self, values: FloatArray, count: int) -> FloatArray:
        """sum over the points of a row of weights . values; values (N, slots) -> (count,)."""
        means = np.einsum("ij,ij->i", self.weights, values)
        return np.asarray(np.bincount(self.rows, weights=means, minlength=count))

    def cut(self, first: int, last: int) -> Cloud:
        """The points of rows first..last-1, which are then counted from 0."""
        there = slice(*(int(k) for k in np.searchsorted(self.rows, [first, last])))
        return replace(self, points=self.points[there], weights=self.weights[there], rows=self.rows[there] - first)

    @property
    def roundings(self) -> int:
        """Float operations behind one entry of `per_row`."""
        longest = int(np.bincount(self.rows).max()) if self.rows.size else 0
        return int(longest + self.weights.shape[1] + 2)

    def joined(self, clouds: Sequence[Cloud], tops: IntArray) -> Cloud:
        """All of them, of which this is the first; the rows of cloud k count from tops[k]."""
        return Cloud(
            np.concatenate([cloud.points for cloud in clouds]),
            np.concatenate([cloud.weights for cloud in clouds]),
            np.concatenate([cloud.rows + top for cloud, top in zip(clouds, tops, strict=False)]),
            self.draws,
        )

    def pick(self, rows: IntArray) -> Cloud:
        """The points of these rows, ascending, which are then counted from 0."""
        place = np.searchsorted(rows, self.rows)
        there = np.flatnonzero((place < rows.size) & (rows[np.minimum(place, rows.size - 1)] == self.rows))
        return replace(self, points=self.points[there], weights=self.weights[there], rows=place[there])


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that count, in order, with the policy's answers at their next states."""

    terms: Terms
    layout: Layout
    initial: Cloud
    initial_states: Starts
    logged: FloatArray  # (n, D)
    slots: IntArray  # (n,) slot of the logged action
    rewards: FloatArray  # (n,)
    continues: BoolArray  # (n,) the transition has a next point
    next: Cloud  # next points of continuing rows
    times: IntArray | None  # (n,)
    log_rows: IntArray  # (n,) where each row stands in the log
    rows: RowRange  # the stretch of the log, rows beyond the horizon included

    def __len__(self) -> int:
        return int(self.rewards.shape[0])

    @property
    def gamma(self) -> float:
        return self.terms.gamma

    @property
    def next_answers(self) -> FloatArray:
        """The policy's answers at the next states: (states, slots), or (states, m, k)."""
        if self.layout.discrete:
            return self.next.weights
        dimension = self.layout.action_dim
        return self.next.points[:, -dimension:].reshape(-1, self.next.draws, dimension)

    def cut(self, rows: RowRange) -> Batch:
        """Those of the rows that lie in the stretch."""
        if rows.start <= self.rows.start and self.rows.stop <= rows.stop:
            return self
        part = RowRange(max(rows.start, self.rows.start), min(rows.stop, self.rows.stop))
        first, last = (int(k) for k in np.searchsorted(self.log_rows, [part.start, part.stop]))
        here = slice(first, last)
        return replace(
            self,
            logged=self.logged[here],
            slots=self.slots[here],
            rewards=self.rewards[here],
            continues=self.continues[here],
            next=self.next.cut(first, last),
            times=None if self.times is None else self.times[here],
            log_rows=self.log_rows[here],
            rows=part,
        )

    def pick(self, rows: IntArray) -> Batch:
        """Some of the rows, by their places in this batch, ascending: for searches, which may look at fewer."""
        return replace(
            self,
            logged=self.logged[rows],
            slots=self.slots[rows],
            rewards=self.rewards[rows],
            continues=self.continues[rows],
            next=self.next.pick(rows),
            times=None if self.times is None else self.times[rows],
            log_rows=self.log_rows[rows],
        )


def join(batches: Sequence[Batch]) -> Batch:
    """Several batches as one."""
    if len(batches) == 1:
        return batches[0]
    tops = np.cumsum([0, *map(len, batches)])
    times = [batch.times for batch in batches if batch.times is not None]
    return replace(
        batches[0],
        logged=np.concatenate([batch.logged for batch in batches]),
        slots=np.concatenate([batch.slots for batch in batches]),
        rewards=np.concatenate([batch.rewards for batch in batches]),
        continues=np.concatenate([batch.continues for batch in batches]),
        log_rows=np.concatenate([batch.log_rows for batch in batches]),
        next=batches[0].next.joined([batch.next for batch in batches], tops),
        times=np.concatenate(times) if times else None,
        rows=RowRange(batches[0].rows.start, batches[-1].rows.stop),
    )


class AnsweredRows(Protocol):
    """Rows of a log with a policy's answers at next states and starts: what bounds on cells and starts need.

    Rows come in batches whose borders depend on the row numbers alone, so that nothing depends on how the log is read.
    """

    @property
    def terms(self) -> Terms:
        """What was stated: discount, ranges, horizon."""
        ...

    @property
    def layout(self) -> Layout:
        """How the columns of a point are arranged."""
        ...

    @property
    def initial(self) -> Cloud:
        """Points of the initial states, with the probabilities of their actions."""
        ...

    @property
    def rows(self) -> RowRange:
        """The stretch of the log, rows beyond the horizon included."""
        ...

    def __len__(self) -> int:
        """Rows that count: those within the horizon."""
        ...

    @property
    def initial_states(self) -> Starts: ...

    @property
    def gamma(self) -> float: ...

    @property
    def exact_answers(self) -> bool:
        """Whether means over the policy's actions are exact sums, not draws."""
        ...

    @property
    def next_draws(self) -> int:
        """Draws per next state; 0 when means over actions are exact."""
        ...

    @property
    def initial_draws(self) -> int: ...

    def batches(self) -> Iterator[Batch]:
        """The rows that count, in order."""
        ...

    def later_starts(self, skipped: int) -> Self:
        """The same question without the first starts of a sample."""
        ...


class Columns(AnsweredRows, Protocol):
    """A policy-evaluation question over a stretch of a log, as columns: all that proofs know of it."""

    @property
    def seed(self) -> int:
        """Draws the actions of a policy without probabilities."""
        ...

    @property
    def time_counts(self) -> dict[int, int] | None:
        """How many rows there are at each time before the horizon."""
        ...

    @property
    def log_hash(self) -> str: ...

    @property
    def dropped(self) -> int:
        """Rows of the stretch that lie at or beyond the horizon."""
        ...

    def logged_rows(self) -> Iterator[tuple[FloatArray, IntArray, IntArray | None]]:
        """Logged points, slots and times of the rows that count, in order."""
        ...

    def some_points(self, most_rows: int) -> FloatArray:
        """Logged and next points of rows spread over the stretch, initial points first: to judge what a sum costs."""
        ...

    def restricted(self, rows: RowRange) -> Self:
        """The same question on these rows."""
        ...

    def pick_starts(self, states: IntArray) -> Self:
        """The same question from some of the starts, by their places, ascending."""
        ...

    # -- rows with propensities

    @property
    def policy_in_log(self) -> bool:
        """Whether the policy is known by the log's own columns alone: its probabilities of the logged actions."""
        ...

    @property
    def own_starts(self) -> bool:
        """Whether the initial states are the first starts of the log's own episodes."""
        ...

    @property
    def states_recorded(self) -> bool:
        """Whether the log holds observations; else others stand in for them."""
        ...

    def single_rows(self, *, drawn: bool) -> bool:
        """Whether every row is a decision of its own; `drawn` where its state is to be a draw of d_0."""
        ...

    def sampling(self, factor: float) -> SamplingCheck | None:
        """The check of the propensities of all rows up to the last one of the stretch; None where actions are no names."""
        ...

    def decisions(self, target: Target | None, *, every_action: bool, drawn: bool, states: bool) -> Decisions:
        """Rewards, ratios and units of the rows; `target` are stored answers of the policy at the logged states.

        Without `states` they may be left out, and actions, too.
        """
        ...
