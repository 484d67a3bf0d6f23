"""The rows as section 9 sees them: coordinates of x_i, x'_i and T_i with what they leave over, values of the center, ranges."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from bondic.core.balls import Ball, constant_value
from bondic.core.bounded import Between, Enclosure, FloatArray, IntArray, U, inflate
from bondic.core.columns import Batch, Columns
from bondic.core.errors import InvalidInput
from bondic.core.identity import mean_over_starts, rows_measure, start_measure, values_at_rows, values_at_starts
from bondic.core.sequential.basis import one_hot
from bondic.core.sequential.landmarks import Coordinates, Embedding
from bondic.core.sums.forms import Sums
from bondic.core.sums.measure import Measure, RowMeasures, Source, Stream
from bondic.core.sums.reference import REFERENCE
from bondic.core.terms import Terms, ValueRange, range_of

MAX_NUMBERS = 100_000_000
"""Coordinates of all rows are held in memory, plan and evaluation hold several copies: about 10 GB at most."""


@dataclass(frozen=True, eq=False)
class Start:
    """The initial distribution: coordinates of ψ_0, their remainder (in units of value), and the mean of q̂."""

    coordinates: FloatArray  # (m,)
    left: float
    value: Enclosure


@dataclass(frozen=True, eq=False)
class Embedded:
    """Rows in order; a stretch of them is a stretch of every array."""

    gamma: float
    log_rows: IntArray  # (n,) where each row stands in the log
    points: FloatArray  # (n, D) of x_i
    slots: IntArray  # (n,)
    outcome: FloatArray  # (n,) r_i + gamma q̂(x'_i): Y_i if the center were q*
    residual: FloatArray  # (n,) R̂q̂_i
    value_error: float  # of every outcome and residual
    after: RowMeasures  # x'_i with the policy's weights
    here: FloatArray  # (n, m) coordinates of x_i
    next: Embedding  # of x'_i
    step: Embedding  # of T_i
    limits: Between  # [lo_i, hi_i]: the range of Y_i = r_i + gamma q*(x'_i), known before the row

    def __len__(self) -> int:
        return int(self.outcome.shape[0])

    def stretch(self, part: slice) -> Embedded:
        """Consecutive rows, by position."""
        cut = {name: getattr(self, name)[part] for name in _ROWS}
        after = self.after.stretch(*part.indices(len(self))[:2])
        embedded = self.next.some(part), self.step.some(part)
        return replace(self, **cut, after=after, next=embedded[0], step=embedded[1], limits=self.limits.take(part))


_ROWS = ("log_rows", "points", "slots", "outcome", "residual", "here")


def embed(
    rows: Columns, coordinates: Coordinates, limits: tuple[float, float] | None = None, sums: Sums = REFERENCE
) -> Embedded:
    """All rows, batch by batch of the log."""
    m = len(coordinates.basis)
    if len(rows) * m > MAX_NUMBERS:
        raise InvalidInput(
            f"{len(rows)} rows with {m} coordinates each do not fit into memory. Use fewer landmarks (rank=), fewer rows, or "
            "the dual method (method=Dual()), which reads a log in batches."
        )
    check_limits(limits, coordinates.ball, rows.terms)
    parts = [_embed(batch, coordinates, limits, sums) for batch in rows.batches()]
    if not parts:
        raise InvalidInput("There are no rows within the horizon.")
    return parts[0] if len(parts) == 1 else _join(parts)


def _embed(batch: Batch, coordinates: Coordinates, limits: tuple[float, float] | None, sums: Sums) -> Embedded:
    n, cloud = len(batch), batch.next
    logged = RowMeasures(batch.logged, one_hot(batch.slots, batch.layout), np.arange(n), n)
    following = RowMeasures(cloud.points, cloud.weights, cloud.rows, n, (12 + batch.layout.slots) * U)
    here, there, step = coordinates.pairs(logged, following, batch.gamma)
    values, rewards, gamma = values_at_rows(batch, coordinates.ball.center, sums), batch.rewards, batch.gamma
    outcome, size = rewards + gamma * values.next, np.abs(values.logged) + np.abs(values.next) + np.abs(rewards)
    error = inflate(values.error * (1 + gamma) + 8 * U * float(size.max(initial=0.0)))
    residual = values.logged - gamma * values.next - rewards
    places = (batch.log_rows, batch.logged, batch.slots, outcome, residual)
    return Embedded(gamma, *places, error, following, here.coordinates, there, step, limits_at(batch, limits))


def limits_at(batch: Batch, limits: tuple[float, float] | None) -> Between:
    """The range of Y_i, row by row: the one in force, cut by what Q says about it."""
    n = len(batch)
    if batch.terms.horizon is None or batch.times is None:
        low, high = range_of(batch.terms).cut(*(limits or (-math.inf, math.inf)))
        if low > high:
            raise InvalidInput(
                f"Outcomes cannot lie in {list(limits or ())} and in the value range: Q and the ranges exclude each other."
            )
        return Between(np.full(n, low), np.full(n, high))
    distinct, place = np.unique(batch.times, return_inverse=True)
    ranges = [range_of(batch.terms, int(time)) for time in distinct]
    return Between(np.array([r.low for r in ranges])[place], np.array([r.high for r in ranges])[place])


def _join(parts: Sequence[Embedded]) -> Embedded:
    rows: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ROWS}
    limits = reduce(Between.then, (part.limits for part in parts))
    error = max(part.value_error for part in parts)
    following, step = (Embedding.joined([getattr(part, name) for part in parts]) for name in ("next", "step"))
    after = RowMeasures.joined([part.after for part in parts])
    return replace(parts[0], **rows, after=after, next=following, step=step, limits=limits, value_error=error)


def limits_from_class(ball: Ball, terms: Terms) -> ValueRange | None:
    """The range of r + gamma q(x') over q in Q, where it is known: a ball around a constant, no horizon.

    |q(x) - c| <= r sup |k̃(x, .)|. A row that ends has r alone.
    """
    level = constant_value(ball.center)
    if level is None or terms.horizon is not None or not math.isfinite(ball.kernel.sup_diag):
        return None
    extent = Enclosure(ball.radius) * Enclosure(ball.kernel.sup_diag).sqrt()
    low, high = (Enclosure(terms.gamma) * (Enclosure(level) + sign * extent) for sign in (-1.0, 1.0))
    least, most = terms.reward_range
    ends = (
        min(low.lower, 0.0) if terms.may_terminate else low.lower,
        max(high.upper, 0.0) if terms.may_terminate else high.upper,
    )
    return ValueRange((Enclosure(least) + ends[0]).lower, (Enclosure(most) + ends[1]).upper)


def check_limits(limits: tuple[float, float] | None, ball: Ball, terms: Terms) -> None:
    """A plan may use a narrower range of outcomes only if Q implies it."""
    if limits is None:
        return
    implied = limits_from_class(ball, terms)
    if implied is None or not (limits[0] <= implied.low and limits[1] >= implied.high):
        raise InvalidInput(f"Q does not imply that outcomes lie in {list(limits)}.")


def embed_start(rows: Columns, space: Coordinates, sums: Sums = REFERENCE) -> Start:
    """ψ_0 = E k̃(x_0, .) over initial states and the policy's actions."""
    measure = start_measure(rows)
    coordinates = space.approximate(measure.points, measure.weights[0])
    (left,) = space.remainder_bounds(measure, [coordinates], sums)
    return Start(coordinates, left, mean_over_starts(rows, *values_at_starts(rows, space.ball.center, sums)))


def balance(rows: Columns, weights: Sequence[FloatArray], rates: Sequence[float]) -> Source:
    """Λ ψ_0 - sum_i v_i T_i for all weights v with their Λ, as measures on points; read batch by batch."""
    layout = rows.layout
    count = len(rows) * (1 + max(rows.next_draws, 1)) + len(rows.initial.rows)

    def measures() -> Iterator[Measure]:
        first = 0
        for batch in rows.batches():
            own = [v[first : first + len(batch)] for v in weights]
            first += len(batch)
            yield rows_measure(batch, own, 1)
        start = start_measure(rows)
        yield Measure(start.points, start.weights * np.asarray(rates)[:, None, None], start.error)

    return Stream(
        lambda task: map(task, measures()),
        lambda: rows.some_points(4096),
        count,
        len(weights),
        layout.slots,
        layout.dimension,
    )
