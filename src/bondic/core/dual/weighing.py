"""What the rows of a log say about ω, from one pass: every bound starts here.

Sums over the log are sums over its parts; a log in memory is one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from bondic.core.classes.balls import SupportAt, ValueClass
from bondic.core.columns import Columns
from bondic.core.dual.elsewhere import parts_from_others
from bondic.core.dual.part_sums import PartSums, Weigher
from bondic.core.errors import NumericalError
from bondic.core.functions import Function
from bondic.core.identity import start_measure
from bondic.core.rounding import TINY, Enclosure, U
from bondic.core.sums.account import Added, Order
from bondic.core.sums.engine import Progress
from bondic.core.sums.forms import STANDARD, Sums
from bondic.core.sums.measure import Measure, Stream
from bondic.executors.remote import Remote
from bondic.executors.threads import in_order
from bondic.rows.rows import rows_of

_SAMPLED_ROWS = 20_000


@dataclass(frozen=True)
class Weighing:
    """One ω against the rows."""

    correction: Enclosure  # (1/n) sum_i ω_i R̂q̂_i
    mass: Enclosure  # (1/n) sum_i |ω_i| (1 + gamma 1[a next point exists])
    support: SupportAt  # of Q at μ_ω, or at μ_ω - μ_0 when the start is left out
    eta: float  # the floats ω_i differ from the function's values by at most this
    squares: float  # sum_i B_i^2 ω(x_i)^2, of the function's own values, rounded up
    effective: float  # (sum |ω_i|)^2 / sum ω_i^2: how many rows carry it (no part of a proof)


@dataclass(frozen=True, eq=False)
class Candidate:
    """An ω to be weighed (None is the function 0), with or without the initial distribution in μ."""

    omega: Function | None
    start: bool = True


def weigh(
    question: Columns,
    ball: ValueClass,
    candidates: list[Candidate],
    *,
    sums: Sums = STANDARD,
    progress: Progress | None = None,
) -> list[Weighing]:
    """All candidates in one pass over the rows (a long log may be read again where a plan has to be improved).

    Many candidates of a long log are taken a few at a time: weights of all points are held for each of them.
    """
    idle = [k for k, candidate in enumerate(candidates) if candidate.omega is None or candidate.omega.is_zero]
    out = dict(zip(idle, _without_rows(question, ball, [candidates[k] for k in idle], sums), strict=True))
    layout, others = question.layout, [k for k in range(len(candidates)) if k not in out]
    count = len(question) * (1 + max(question.next_draws, 1)) + len(question.initial.rows)
    together = sums.together(count, layout.dimension, layout.slots)
    for top in range(0, len(others), together):
        some = others[top : top + together]
        rows = _RowSums(question, ball, [candidates[k] for k in some], sums)
        source = Stream(
            rows.measures,
            lambda: question.some_points(_SAMPLED_ROWS),
            count,
            len(some),
            layout.slots,
            layout.dimension,
            rows.away(),
        )
        out |= zip(some, rows.finish(ball.support(source, layout, sums, progress)), strict=True)
    return [out[k] for k in range(len(candidates))]


def _without_rows(question: Columns, ball: ValueClass, candidates: list[Candidate], sums: Sums) -> list[Weighing]:
    """ω = 0: no row carries weight, and μ is the initial distribution, or nothing."""
    if not candidates:
        return []
    measure = _starts(question, candidates)
    found = ball.support(measure, question.layout, sums, None)
    nothing, tiny = Enclosure(0.0), float(len(question)) * TINY
    return [Weighing(nothing, nothing, support, 0.0, tiny, 0.0) for support in found]


def _starts(question: Columns, candidates: list[Candidate]) -> Measure:
    """The initial distribution, for those that have it in their μ."""
    start = start_measure(question)
    shares = np.array([float(candidate.start) for candidate in candidates])
    return Measure(start.points, start.weights * shares[:, None, None], start.error)


class _RowSums:
    """Sums over rows for every candidate; each row is added once."""

    def __init__(self, question: Columns, ball: ValueClass, candidates: list[Candidate], sums: Sums) -> None:
        self._question, self._candidates, self._sums = question, candidates, sums
        omegas = tuple(candidate.omega for candidate in candidates)
        self._weigher = Weigher(omegas, ball.center, len(question), sums)
        zero = [Enclosure(0.0)] * len(candidates)
        self._residuals, self._masses = list(zero), list(zero)
        self._etas = [0.0] * len(candidates)
        self._moments = np.zeros((len(candidates), 3))
        self._fresh, self._rows = True, 0

    def measures(self) -> Iterator[Measure]:
        """μ_ω of every candidate, part by part, the initial distribution last."""
        fresh, self._fresh = self._fresh, False
        weighed = partial(self._weigher.weigh, fresh=fresh)
        for measure, found in in_order(weighed, self._question.batches(), self._sums.workers):
            self._take(found)
            yield measure
        yield _starts(self._question, self._candidates)

    def away(self) -> Callable[[Order | None], Iterator[Measure | Added]] | None:
        """The same from other processes, where the executor has some and the rows are read from files."""
        executor = self._sums.executor
        return self._from_others if isinstance(executor, Remote) and rows_of(self._question).kept is None else None

    def _from_others(self, order: Order | None) -> Iterator[Measure | Added]:
        executor, fresh = self._sums.executor, self._fresh
        assert isinstance(executor, Remote)
        self._fresh = False
        for piece, found in parts_from_others(executor, self._question, self._weigher, order, fresh=fresh):
            self._take(found)
            yield piece
        yield _starts(self._question, self._candidates)

    def _take(self, found: PartSums | None) -> None:
        if found is None:
            return
        self._rows += found.rows
        self._moments += found.moments
        for k, eta in enumerate(found.etas):
            self._residuals[k] = self._residuals[k] + found.residuals[k]
            self._masses[k] = self._masses[k] + found.masses[k]
            self._etas[k] = max(self._etas[k], eta)

    def finish(self, supports: list[SupportAt]) -> list[Weighing]:
        if self._rows != len(self._question):  # a support function that stops on its way, or looks at no row
            raise NumericalError(
                f"{self._rows} of {len(self._question)} rows were added up: the support function of Q must read its source "
                "to the end the first time."
            )
        n = float(len(self._question))
        more = 1 + 2 * (n + 8) * U  # a sum of n squares, in whatever order
        out = []
        for k, support in enumerate(supports):
            total, square, charged = self._moments[k].tolist()
            effective = total**2 / square if square > 0 else 0.0
            sums = self._residuals[k] / n, self._masses[k] / n
            out.append(Weighing(*sums, support, self._etas[k], charged * more + n * TINY, effective))
        return out
