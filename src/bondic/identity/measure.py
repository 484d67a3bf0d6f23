"""The signed measure mu_omega and its norm: how badly omega balances the log against the policy (4), (7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.kernels.base import Kernel
from bondic.kernels.normal_form import normal_form
from bondic.rounding import Enclosure, U
from bondic.rows import Batch, Rows
from bondic.sums.quadratic import Engine, quadratic_forms
from bondic.sums.reference import Progress

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SignedMeasure:
    """Points with slot weights; `error` is the relative error of each weight."""

    points: FloatArray
    weights: FloatArray
    error: float


def signed_measure(problem: Batch, omega: FloatArray, *, start: bool = True) -> SignedMeasure:
    """mu_omega = d_{pi,0} + (1/n) sum_i omega_i ( gamma delta_{x'_i} - delta_{x_i} ).

    The floats omega_i are taken as the weights. With `start=False` the initial part is left out (mu_omega - mu_0).
    """
    rows = rows_measure(problem, omega, len(problem))
    if not start:
        return rows
    first = start_measure(problem)
    points, weights = np.concatenate([rows.points, first.points]), np.concatenate([rows.weights, first.weights])
    return SignedMeasure(points, weights, max(rows.error, first.error))


def rows_measure(problem: Batch, omega: FloatArray, count: int) -> SignedMeasure:
    """(1/n) sum_i omega_i ( gamma delta_{x'_i} - delta_{x_i} ) over these rows, n = `count` rows in the whole log."""
    n = len(problem)
    share = omega / count
    logged = np.zeros((n, problem.layout.slots))
    logged[np.arange(n), problem.slots] = -share
    following = problem.next.weights * (problem.gamma * share)[problem.next.rows, None]
    # omega / n, times gamma, times pi: three roundings. pi is defined as the normalised row: floats that were divided
    # by their float sum, which is off by at most (number of terms) U
    error = (12 + problem.layout.slots) * U
    points, weights = (problem.logged, problem.next.points), (logged, following)
    return SignedMeasure(np.concatenate(points), np.concatenate(weights), error)


def start_measure(question: Rows | Batch) -> SignedMeasure:
    """d_{pi,0}; its weights p_j, too, are defined as a normalised list."""
    cloud = question.initial
    weights = cloud.weights * question.initial_states.weights[cloud.rows, None]
    error = (12 + question.layout.slots + len(question.initial_states)) * U
    return SignedMeasure(cloud.points, weights, error)


def discrepancy(
    problem: Batch,
    kernel: Kernel,
    omega: FloatArray,
    *,
    start: bool = True,
    engine: Engine = "auto",
    progress: Progress | None = None,
) -> Enclosure:
    """|mu_omega| in the RKHS of `kernel`; times the radius of Q it bounds the bias."""
    return discrepancies(problem, kernel, [(omega, start)], engine=engine, progress=progress)[0]


def discrepancies(
    problem: Batch,
    kernel: Kernel,
    omegas: list[tuple[FloatArray, bool]],
    *,
    engine: Engine = "auto",
    progress: Progress | None = None,
) -> list[Enclosure]:
    """|mu_omega| for several (omega, start) in one pass over the points."""
    points = np.concatenate([problem.logged, problem.next.points, problem.initial.points])
    groups = np.zeros((len(omegas), points.shape[0], problem.layout.slots))
    error = 0.0
    for group, (omega, start) in zip(groups, omegas, strict=True):
        measure = signed_measure(problem, omega, start=start)
        group[: measure.weights.shape[0]] = measure.weights
        error = max(error, measure.error)
    terms = normal_form(kernel, problem.layout)
    squares = quadratic_forms(terms, points, groups, weight_error=error, engine=engine, progress=progress)
    return [square.sqrt() for square in squares]
