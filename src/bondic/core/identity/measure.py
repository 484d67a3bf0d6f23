"""The signed measure μ_ω and its norm: how badly ω balances the log against the policy (4), (7)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, U
from bondic.core.columns import Batch, Columns
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.normal_form import normal_form
from bondic.core.sums.forms import Progress, Sums
from bondic.core.sums.measure import Measure
from bondic.core.sums.reference import REFERENCE

FloatArray = npt.NDArray[np.float64]


def signed_measure(problem: Batch, omega: FloatArray, *, start: bool = True) -> Measure:
    """μ_ω = d_{pi,0} + (1/n) sum_i ω_i ( gamma delta_{x'_i} - delta_{x_i} ).

    The floats ω_i are taken as the weights. With `start=False` the initial part is left out (μ_ω - μ_0).
    """
    rows = rows_measure(problem, [omega], len(problem))
    return Measure.joined([rows, start_measure(problem)]) if start else rows


def rows_measure(problem: Batch, omegas: list[FloatArray], count: int) -> Measure:
    """(1/n) sum_i ω_i ( gamma delta_{x'_i} - delta_{x_i} ) over these rows, n = `count` rows in the whole log."""
    n, slots = len(problem), problem.layout.slots
    points = np.concatenate([problem.logged, problem.next.points])
    weights = np.zeros((len(omegas), points.shape[0], slots))
    for group, omega in zip(weights, omegas, strict=True):
        share = omega / count
        group[np.arange(n), problem.slots] = -share
        group[n:] = problem.next.weights * (problem.gamma * share)[problem.next.rows, None]
    # ω / n, times gamma, times pi: three roundings. pi is defined as the normalized row: floats that were divided
    # by their float sum, which is off by at most (number of terms) U
    return Measure(points, weights, (12 + slots) * U)


def start_measure(question: Columns | Batch) -> Measure:
    """d_{pi,0}; its weights p_j, too, are defined as a normalized list."""
    cloud = question.initial
    weights = cloud.weights * question.initial_states.weights[cloud.rows, None]
    error = (12 + question.layout.slots) * U + question.initial_states.weights_error
    return Measure(cloud.points, weights[None], error)


def discrepancy(
    problem: Batch,
    kernel: Kernel,
    omega: FloatArray,
    *,
    start: bool = True,
    sums: Sums = REFERENCE,
    progress: Progress | None = None,
) -> Enclosure:
    """|μ_ω| in the RKHS of `kernel`; times the radius of Q it bounds the bias."""
    measure = signed_measure(problem, omega, start=start)
    return sums.squares(normal_form(kernel, problem.layout), measure, progress)[0].sqrt()
