"""What the rows of a log say about some ω, from one pass: every bound starts here.

For each ω the rows give the sums of (5) and of the allowances, and the measure μ_ω (4) whose size Q bounds. Sums over a log are
sums over its parts, and a log in memory is one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import TypeVar

import numpy as np

from bondic.core.balls import ValueClass
from bondic.core.bounded import TINY, Enclosure, FloatArray, U, certified_dot
from bondic.core.columns import Batch, Columns
from bondic.core.errors import NumericalError
from bondic.core.functions import Function, values_together
from bondic.core.identity import rows_measure, start_measure, values_at_rows, weighted_residuals
from bondic.core.sums.forms import Progress, Sums
from bondic.core.sums.measure import Measure, Stream
from bondic.core.terms import row_widths

T = TypeVar("T")

_SAMPLED_ROWS = 20_000
_AT_ONCE = 16
"""Omegas evaluated together: enough to share the work on features, few enough that values for all slots fit into memory."""


@dataclass(frozen=True)
class Weighing:
    """One ω against the rows."""

    correction: Enclosure  # (1/n) sum_i ω_i R̂q̂_i
    mass: Enclosure  # (1/n) sum_i |ω_i| (1 + gamma 1[a next point exists])
    size: Enclosure  # |μ_ω| in the dual norm of Q, or |μ_ω - μ_0| when the start is left out
    eta: float  # the floats ω_i differ from the function's values by at most this
    squares: float  # sum_i B_i^2 ω(x_i)^2, of the function's own values, rounded up
    effective: float  # (sum |ω_i|)^2 / sum ω_i^2: how many rows carry it (no part of a proof)


@dataclass(frozen=True, eq=False)
class ProposedWeights:
    """An ω to be weighed (None is the function 0), with or without the initial distribution in μ."""

    omega: Function | None
    start: bool = True

    @property
    def idle(self) -> bool:
        """ω = 0: no row carries weight."""
        return self.omega is None or self.omega.is_zero


def weigh(
    question: Columns,
    ball: ValueClass,
    candidates: list[ProposedWeights],
    *,
    sums: Sums,
    progress: Progress | None = None,
) -> list[Weighing]:
    """All candidates in one pass over the rows (a long log may be read again where a plan has to be improved).

    Many candidates of a long log are taken a few at a time: weights of all points are held for each of them.
    """
    idle = [k for k, candidate in enumerate(candidates) if candidate.idle]
    out = dict(zip(idle, _without_rows(question, ball, [candidates[k] for k in idle], sums), strict=True))
    layout, others = question.layout, [k for k in range(len(candidates)) if k not in out]
    count = len(question) * (1 + max(question.next_draws, 1)) + len(question.initial.rows)
    together = sums.together(count, layout.dimension, layout.slots)
    for top in range(0, len(others), together):
        some = others[top : top + together]
        rows = _Pass(question, ball, [candidates[k] for k in some], sums)
        sizes = count, len(some), layout.slots, layout.dimension
        source = Stream(rows.each, lambda: question.some_points(_SAMPLED_ROWS), *sizes)
        out |= zip(some, rows.finish(ball.sizes(source, layout, sums, progress)), strict=True)
    return [out[k] for k in range(len(candidates))]


def _without_rows(question: Columns, ball: ValueClass, candidates: list[ProposedWeights], sums: Sums) -> list[Weighing]:
    """μ is the initial distribution, or nothing."""
    if not candidates:
        return []
    found = ball.sizes(_starts(question, candidates), question.layout, sums, None)
    nothing, tiny = Enclosure(0.0), float(len(question)) * TINY
    return [Weighing(nothing, nothing, size, 0.0, tiny, 0.0) for size in found]


def _starts(question: Columns, candidates: list[ProposedWeights]) -> Measure:
    """The initial distribution, for those that have it in their μ."""
    start = start_measure(question)
    shares = np.array([float(candidate.start) for candidate in candidates])
    return Measure(start.points, start.weights * shares[:, None, None], start.error)


def weights_at_rows(problem: Batch, omegas: list[Function | None], sums: Sums) -> list[tuple[FloatArray, float]]:
    """ω(x_i) as floats for every ω, and a bound of their distance to the function's exact values."""
    out = [(np.zeros(len(problem)), 0.0) for _ in omegas]
    used = [(k, omega) for k, omega in enumerate(omegas) if omega is not None and not omega.is_zero]
    for top in range(0, len(used), _AT_ONCE):
        some = used[top : top + _AT_ONCE]
        found = values_together([omega for _, omega in some], problem.logged, sums)
        for (k, _), (values, error) in zip(some, found, strict=True):
            out[k] = np.ascontiguousarray(values[np.arange(len(problem)), problem.slots]), error
    return out


@dataclass(frozen=True, eq=False)
class PartSums:
    """What the rows of one part add, for every candidate."""

    rows: int
    residuals: tuple[Enclosure, ...]  # sum_i ω_i R̂q̂_i
    masses: tuple[Enclosure, ...]  # sum_i |ω_i| (1 + gamma 1[a next point exists])
    etas: FloatArray
    moments: FloatArray  # (candidates, 3): sums of |ω_i|, ω_i^2 and (B_i |ω(x_i)|)^2

    @staticmethod
    def of(part: Batch, center: Function | None, weights: list[tuple[FloatArray, float]], sums: Sums) -> PartSums:
        values = values_at_rows(part, center, sums)
        factors = np.asarray(1.0 + part.gamma * part.continues, dtype=np.float64)
        widths = row_widths(part.terms, part.times, len(part))
        residuals = tuple(weighted_residuals(part, values, rows) for rows, _ in weights)
        masses = tuple(certified_dot(np.abs(rows), factors) * (1 + 4 * U) for rows, _ in weights)
        moments = [
            (np.abs(rows).sum(), np.sum(rows**2), np.sum(((np.abs(rows) + eta) * widths) ** 2)) for rows, eta in weights
        ]
        return PartSums(len(part), residuals, masses, np.array([eta for _, eta in weights]), np.array(moments))

    def __add__(self, other: PartSums) -> PartSums:
        return PartSums(
            self.rows + other.rows,
            tuple(map(add, self.residuals, other.residuals)),
            tuple(map(add, self.masses, other.masses)),
            np.maximum(self.etas, other.etas),
            self.moments + other.moments,
        )


@dataclass(frozen=True, eq=False)
class Weigher:
    """Makes the measures μ_ω of some ω, part by part; it can be sent to where the parts are."""

    omegas: tuple[Function | None, ...]
    center: Function | None
    count: int  # rows in all
    sums: Sums

    def weigh(self, part: Batch, task: Callable[[Measure], T], *, fresh: bool) -> tuple[T, PartSums | None]:
        """task(the measures of a part), and what its rows add unless that is known."""
        weights = weights_at_rows(part, list(self.omegas), self.sums)
        found = PartSums.of(part, self.center, weights, self.sums) if fresh else None
        return task(rows_measure(part, [rows for rows, _ in weights], self.count)), found


class _Pass:
    """The measures of every candidate, and sums over rows: each row is added once, however often measures are made."""

    def __init__(self, question: Columns, ball: ValueClass, candidates: list[ProposedWeights], sums: Sums) -> None:
        self._question, self._candidates, self._sums = question, candidates, sums
        omegas = tuple(candidate.omega for candidate in candidates)
        self._weigher = Weigher(omegas, ball.center, len(question), sums)
        self._total: PartSums | None = None
        self._fresh = True

    def each(self, task: Callable[[Measure], T]) -> Iterator[T]:
        """task(μ_ω of every candidate), part by part, the initial distribution last."""
        fresh, self._fresh = self._fresh, False
        weigh = partial(self._weigher.weigh, task=task, fresh=fresh)
        for result, found in self._sums.over_rows(weigh, self._question):
            if found is not None:
                self._total = found if self._total is None else self._total + found
            yield result
        yield task(_starts(self._question, self._candidates))

    def finish(self, norms: list[Enclosure]) -> list[Weighing]:
        n, total = len(self._question), self._total
        if total is None or total.rows != n:  # a norm that stops on its way, or looks at no row
            raise NumericalError(
                f"{0 if total is None else total.rows} of {n} rows were added up: the norm of Q must read its source "
                "to the end the first time."
            )
        more = 1 + 2 * (n + 8.0) * U  # a sum of n squares, in whatever order
        out = []
        for k, norm in enumerate(norms):
            size, square, charged = total.moments[k].tolist()
            means = total.residuals[k] / float(n), total.masses[k] / float(n)
            effective = size**2 / square if square > 0 else 0.0
            out.append(Weighing(*means, norm, float(total.etas[k]), charged * more + n * TINY, effective))
        return out
