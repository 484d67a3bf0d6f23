"""What the rows of a log say about ω, from one pass: every bound starts here.

Sums over the log are sums over its parts; a log in memory is one part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.classes.value_class import SupportAt, Uncertainty
from bondic.errors import NumericalError
from bondic.functions.functions import Function, values_together
from bondic.identity.measure import rows_measure, start_measure
from bondic.identity.residual import values_at_rows
from bondic.identity.value import weighted_residuals
from bondic.rounding import TINY, Enclosure, U, certified_dot
from bondic.rows import Batch, Rows
from bondic.sums.engine import Progress
from bondic.sums.forms import STANDARD, Sums
from bondic.sums.measure import Measure, Stream
from bondic.terms import row_widths

FloatArray = npt.NDArray[np.float64]

_SAMPLED_ROWS = 20_000
_AT_ONCE = 8
"""Omegas evaluated together: enough to share the work on features, few enough that values for all slots fit into memory."""


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


def weights_at_rows(problem: Batch, omega: Function | None, sums: Sums = STANDARD) -> tuple[FloatArray, float]:
    """ω(x_i) as floats, and a bound of their distance to the function's exact values."""
    return all_weights_at_rows(problem, [omega], sums)[0]


def all_weights_at_rows(
    problem: Batch, omegas: list[Function | None], sums: Sums = STANDARD
) -> list[tuple[FloatArray, float]]:
    """The same for several ω."""
    out = [(np.zeros(len(problem)), 0.0) for _ in omegas]
    used = [(k, omega) for k, omega in enumerate(omegas) if omega is not None and not omega.is_zero]
    for top in range(0, len(used), _AT_ONCE):
        some = used[top : top + _AT_ONCE]
        found = values_together([omega for _, omega in some], problem.logged, sums)
        for (k, _), (values, error) in zip(some, found, strict=True):
            out[k] = np.ascontiguousarray(values[np.arange(len(problem)), problem.slots]), error
    return out


def weigh(
    question: Rows,
    ball: Uncertainty,
    candidates: list[Candidate],
    *,
    sums: Sums = STANDARD,
    progress: Progress | None = None,
) -> list[Weighing]:
    """All candidates in one pass over the rows (a long log may be read again where a plan has to be improved).

    Many candidates of a long log are taken a few at a time: weights of all points are held for each of them.
    """
    layout = question.layout
    count = len(question) * (1 + max(question.next_draws, 1)) + len(question.initial.rows)
    together = sums.together(count, layout.dimension, layout.slots)
    out = []
    for top in range(0, len(candidates), together):
        some = candidates[top : top + together]
        rows = _RowSums(question, ball, some, sums)
        source = Stream(
            rows.measures,
            lambda: question.some_points(_SAMPLED_ROWS),
            count,
            len(some),
            layout.slots,
            layout.dimension,
        )
        out += rows.finish(ball.support(source, layout, sums, progress))
    return out


class _RowSums:
    """Sums over rows for every candidate; each row is added once."""

    def __init__(self, question: Rows, ball: Uncertainty, candidates: list[Candidate], sums: Sums) -> None:
        self._question, self._ball, self._candidates, self._sums = question, ball, candidates, sums
        self._omegas = [candidate.omega for candidate in candidates]
        zero = [Enclosure(0.0)] * len(candidates)
        self._residuals, self._masses = list(zero), list(zero)
        self._etas = [0.0] * len(candidates)
        self._moments = np.zeros((len(candidates), 3))
        self._fresh, self._rows = True, 0

    def measures(self) -> Iterator[Measure]:
        """μ_ω of every candidate, part by part, the initial distribution last."""
        first_time, self._fresh = self._fresh, False
        for part in self._question.batches():
            weights = all_weights_at_rows(part, self._omegas, self._sums)
            if first_time:
                self._add(part, weights)
            yield rows_measure(part, [rows for rows, _ in weights], len(self._question))
        start = start_measure(self._question)
        shares = np.array([float(candidate.start) for candidate in self._candidates])
        yield Measure(start.points, start.weights * shares[:, None, None], start.error)

    def _add(self, part: Batch, weights: list[tuple[FloatArray, float]]) -> None:
        center = values_at_rows(part, self._ball.center, self._sums)
        factors = np.asarray(1.0 + part.gamma * part.continues, dtype=np.float64)
        widths = row_widths(part.terms, part.times, len(part))
        self._rows += len(part)
        for k, (rows, eta) in enumerate(weights):
            self._residuals[k] = self._residuals[k] + weighted_residuals(part, center, rows)
            self._masses[k] = self._masses[k] + certified_dot(np.abs(rows), factors) * (1 + 4 * U)
            self._etas[k] = max(self._etas[k], eta)
            charged = float(np.sum(((np.abs(rows) + eta) * widths) ** 2))
            self._moments[k] += float(np.abs(rows).sum()), float(np.sum(rows**2)), charged

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
