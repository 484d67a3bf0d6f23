"""The identity on a whole problem: all values of a function, Ĵ(q, ω) (5), μ_ω (4) and its norm (7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure
from bondic.core.columns import Batch, Columns
from bondic.core.functions import Function
from bondic.core.identity import (
    FunctionValues,
    mean_over_starts,
    rows_measure,
    start_measure,
    values_at_rows,
    values_at_starts,
    weighted_residuals,
)
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.normal_form import normal_form
from bondic.core.sums.forms import Progress, Sums
from bondic.core.sums.measure import Measure
from bondic.engines.sums import STANDARD

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WholeValues(FunctionValues):
    """With the mean of q at each initial state."""

    initial: FloatArray  # (n_0,)


def function_values(problem: Batch, function: Function | None, sums: Sums = STANDARD) -> WholeValues:
    """Evaluate q(x_i), the mean of q(x'_i) over the policy, and q at the initial states."""
    rows = values_at_rows(problem, function, sums)
    initial, error = values_at_starts(problem, function, sums)
    return WholeValues(rows.logged, rows.next, max(rows.error, error), initial)


def initial_value(question: Columns | Batch, values: WholeValues) -> Enclosure:
    """E_{d_pi,0}[q] = sum_j p_j q(s_j, pi)."""
    return mean_over_starts(question, values.initial, values.error)


def doubly_robust_value(problem: Batch, values: WholeValues, omega: FloatArray) -> Enclosure:
    """Ĵ(q, ω) = E_{d_pi,0}[q] - (1/n) sum_i ω_i R̂q_i; with q = 0 it is the weighted reward."""
    correction = weighted_residuals(problem, values, omega) / float(len(problem))
    return initial_value(problem, values) - correction


def signed_measure(problem: Batch, omega: FloatArray, *, start: bool = True) -> Measure:
    """μ_ω = d_{pi,0} + (1/n) sum_i ω_i ( gamma delta_{x'_i} - delta_{x_i} ).

    The floats ω_i are taken as the weights. With `start=False` the initial part is left out (μ_ω - μ_0).
    """
    rows = rows_measure(problem, [omega], len(problem))
    return Measure.joined([rows, start_measure(problem)]) if start else rows


def discrepancy(
    problem: Batch,
    kernel: Kernel,
    omega: FloatArray,
    *,
    start: bool = True,
    sums: Sums = STANDARD,
    progress: Progress | None = None,
) -> Enclosure:
    """|μ_ω| in the RKHS of `kernel`; times the radius of Q it bounds the bias."""
    measure = signed_measure(problem, omega, start=start)
    return sums.squares(normal_form(kernel, problem.layout), measure, progress)[0].sqrt()
