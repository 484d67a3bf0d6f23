"""What the rows of a log say about omega, from one pass: every bound starts here.

Sums over the log are sums over its parts; a log in memory is one part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.classes.ball import Ball
from bondic.classes.box import Box
from bondic.classes.value_class import ValueClass
from bondic.functions.functions import Function, values_together
from bondic.identity.measure import discrepancies, rows_measure, start_measure
from bondic.identity.residual import values_at_rows
from bondic.identity.value import weighted_residuals
from bondic.kernels.normal_form import normal_form
from bondic.rounding import Enclosure, U, certified_dot
from bondic.rows import Batch as RowBatch
from bondic.rows import Rows
from bondic.sums.quadratic import Engine
from bondic.sums.reference import Progress
from bondic.sums.streamed import Batch, PointStream, streamed_forms
from bondic.sums.total_variation import total_variations

FloatArray = npt.NDArray[np.float64]

_SAMPLED_ROWS = 20_000
_STREAMED_TOGETHER = 4
"""What the memory plan of streamed logs allows for (benchmarks/streaming.py)."""
_MOST_BYTES, _COPIES = 1.2e9, 5
"""Weights of all points exist about five times on the way through a sum."""
_HELD_NUMBERS = 2**24
_AT_ONCE = 8
"""Omegas evaluated together: enough to share the work on features, few enough that values for all slots fit into memory."""


@dataclass(frozen=True)
class Weighing:
    """One omega against the rows."""

    correction: Enclosure  # (1/n) sum_i omega_i R^q^_i
    reach: Enclosure  # (1/n) sum_i |omega_i| (1 + gamma 1[a next point exists])
    size: Enclosure  # |mu_omega| in the dual norm of Q, or |mu_omega - mu_0| when the start is left out
    eta: float  # the floats omega_i differ from the function's values by at most this
    effective: float  # (sum |omega_i|)^2 / sum omega_i^2: how many rows carry it (no part of a proof)


@dataclass(frozen=True, eq=False)
class Candidate:
    """An omega to be weighed (None is the function 0), with or without the initial distribution in mu."""

    omega: Function | None
    start: bool = True


def weights_at_rows(problem: RowBatch, omega: Function | None) -> tuple[FloatArray, float]:
    """omega(x_i) as floats, and a bound of their distance to the function's exact values."""
    return all_weights_at_rows(problem, [omega])[0]


def all_weights_at_rows(problem: RowBatch, omegas: list[Function | None]) -> list[tuple[FloatArray, float]]:
    """The same for several omegas."""
    out = [(np.zeros(len(problem)), 0.0) for _ in omegas]
    used = [(k, omega) for k, omega in enumerate(omegas) if omega is not None and not omega.is_zero]
    for top in range(0, len(used), _AT_ONCE):
        some = used[top : top + _AT_ONCE]
        found = values_together([omega for _, omega in some], problem.logged)
        for (k, _), (values, error) in zip(some, found, strict=True):
            out[k] = np.ascontiguousarray(values[np.arange(len(problem)), problem.slots]), error
    return out


def weigh(
    question: Rows,
    ball: ValueClass,
    candidates: list[Candidate],
    *,
    engine: Engine = "auto",
    progress: Progress | None = None,
) -> list[Weighing]:
    """All candidates in one pass over the rows (a streamed log may be read again where a plan has to be improved).

    Many candidates of a long log are taken a few at a time: weights of all points are held for each of them.
    """
    together = _at_once(question)
    if len(candidates) > together:
        return [
            weighing
            for top in range(0, len(candidates), together)
            for weighing in weigh(question, ball, candidates[top : top + together], engine=engine, progress=progress)
        ]
    sums = _RowSums(question, ball, candidates)
    if isinstance(ball, Box):
        return sums.finish(total_variations(_batches(question, candidates, sums), len(candidates)))
    assert isinstance(ball, Ball)
    if _holds(question, len(candidates)):
        by_batch = [sums.add(batch) for batch in question.batches()]
        weights = [np.concatenate(parts) for parts in zip(*by_batch, strict=True)]
        pairs = [(rows, candidate.start) for rows, candidate in zip(weights, candidates, strict=True)]
        sizes = discrepancies(question.whole(), ball.kernel, pairs, engine=engine, progress=progress)
    else:
        stream = PointStream(
            batches=lambda: _batches(question, candidates, sums),
            count=2 * len(question),
            sample=question.some_points(_SAMPLED_ROWS),
            groups=len(candidates),
            slots=question.layout.slots,
        )
        terms = normal_form(ball.kernel, question.layout)
        squares = streamed_forms(terms, stream, engine=engine, progress=progress)
        sizes = [square.sqrt() for square in squares]
    return sums.finish(sizes)


def _at_once(question: Rows) -> int:
    """How many candidates may be weighed together."""
    if not _holds(question, 2):
        return _STREAMED_TOGETHER
    return max(2, int(_MOST_BYTES // (_COPIES * 8 * _most_points(question) * question.layout.slots)))


def _most_points(question: Rows) -> int:
    return len(question) * (1 + question.answers.draws) + len(question.initial.rows)


def _holds(question: Rows, candidates: int) -> bool:
    """Whether all points are summed at once: their number alone decides."""
    numbers = question.layout.dimension + candidates * question.layout.slots
    return _most_points(question) * numbers <= _HELD_NUMBERS


def _batches(question: Rows, candidates: list[Candidate], sums: _RowSums) -> Iterator[Batch]:
    """mu_omega of every candidate, part by part, the initial distribution first."""
    start = start_measure(question)
    groups = np.array([start.weights if candidate.start else np.zeros_like(start.weights) for candidate in candidates])
    yield Batch(start.points, groups, start.error)
    count, first_time = len(question), sums.fresh
    for part in question.batches():
        omegas = [candidate.omega for candidate in candidates]
        weights = sums.add(part) if first_time else [rows for rows, _ in all_weights_at_rows(part, omegas)]
        measures = [rows_measure(part, rows, count) for rows in weights]
        yield Batch(measures[0].points, np.array([measure.weights for measure in measures]), measures[0].error)


class _RowSums:
    """Sums over rows for every candidate; each row is added once."""

    def __init__(self, question: Rows, ball: ValueClass, candidates: list[Candidate]) -> None:
        self._question, self._ball, self._candidates = question, ball, candidates
        zero = [Enclosure(0.0)] * len(candidates)
        self._residuals, self._reaches = list(zero), list(zero)
        self._etas = [0.0] * len(candidates)
        self._moments = np.zeros((len(candidates), 2))
        self.fresh = True

    def add(self, part: RowBatch) -> list[FloatArray]:
        """omega_i of every candidate at these rows."""
        self.fresh = False
        center = values_at_rows(part, self._ball.center)
        factors = np.asarray(1.0 + part.gamma * part.continues, dtype=np.float64)
        out = []
        omegas = [candidate.omega for candidate in self._candidates]
        for k, (rows, eta) in enumerate(all_weights_at_rows(part, omegas)):
            self._residuals[k] = self._residuals[k] + weighted_residuals(part, center, rows)
            self._reaches[k] = self._reaches[k] + certified_dot(np.abs(rows), factors) * (1 + 4 * U)
            self._etas[k] = max(self._etas[k], eta)
            self._moments[k] += float(np.abs(rows).sum()), float(np.sum(rows**2))
            out.append(rows)
        return out

    def finish(self, sizes: list[Enclosure]) -> list[Weighing]:
        n = float(len(self._question))
        return [
            Weighing(residual / n, reach / n, size, eta, float(total**2 / square) if square > 0 else 0.0)
            for residual, reach, size, eta, (total, square) in zip(
                self._residuals, self._reaches, sizes, self._etas, self._moments, strict=True
            )
        ]
