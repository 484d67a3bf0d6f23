"""Values of a function at the points of a problem, and its Bellman residual (2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, U, certified_dot, inflate, upper_sum
from bondic.core.columns import Batch, Cloud, Columns
from bondic.core.functions import Function
from bondic.core.sums.forms import Sums
from bondic.core.sums.reference import REFERENCE

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FunctionValues:
    """q at logged points, its mean over next actions, and its mean at each initial state; `error` bounds each entry."""

    logged: FloatArray  # (n,)
    next: FloatArray  # (n,) 0 where nothing follows
    initial: FloatArray  # (n_0,)
    error: float


def function_values(problem: Batch, function: Function | None, sums: Sums = REFERENCE) -> FunctionValues:
    """Evaluate q(x_i), the mean of q(x'_i) over the policy, and q at the initial states."""
    rows = values_at_rows(problem, function, sums)
    initial, error = values_at_starts(problem, function, sums)
    return FunctionValues(rows.logged, rows.next, initial, max(rows.error, error))


def values_at_rows(problem: Batch, function: Function | None, sums: Sums = REFERENCE) -> FunctionValues:
    """The same without the initial states, which a part of a log has no business with."""
    n = len(problem)
    nobody = np.zeros(0)
    if function is None:
        return FunctionValues(np.zeros(n), np.zeros(n), nobody, 0.0)
    logged, error = function.at(problem.logged, problem.slots, sums)
    following, more = _means(problem.next, n, function, sums)
    return FunctionValues(logged, following, nobody, inflate(max(error, more)))


def values_at_starts(
    question: Columns | Batch, function: Function | None, sums: Sums = REFERENCE
) -> tuple[FloatArray, float]:
    """The mean of q over the policy at each initial state, and a bound of the error."""
    n0 = len(question.initial_states)
    if function is None:
        return np.zeros(n0), 0.0
    means, error = _means(question.initial, n0, function, sums)
    return means, inflate(error)


def _means(cloud: Cloud, count: int, function: Function, sums: Sums) -> tuple[FloatArray, float]:
    values, extra = np.zeros_like(cloud.weights), 0.0
    if cloud.points.shape[0]:
        values, extra = function.values(cloud.points, sums)
    # probabilities are defined up to their normalization: one more factor (1 + slots U)
    size = float(np.abs(values).max(initial=0.0))
    error = extra + 2 * (cloud.roundings + cloud.weights.shape[1]) * U * (size + extra)
    return cloud.per_row(values, count), error


def bellman_residual(problem: Batch, values: FunctionValues) -> FloatArray:
    """R_i = q(x_i) - gamma q(x'_i) - r_i."""
    return np.asarray(values.logged - problem.gamma * values.next - problem.rewards)


def residual_error(problem: Batch, values: FunctionValues) -> float:
    """A bound of the error of each computed residual."""
    size = float((np.abs(values.logged) + np.abs(values.next) + np.abs(problem.rewards)).max())
    return inflate(values.error * (1 + problem.gamma) + 4 * U * size)


def initial_value(question: Columns | Batch, values: FunctionValues) -> Enclosure:
    """E_{d_pi,0}[q] = sum_j p_j q(s_j, pi)."""
    return mean_over_starts(question, values.initial, values.error)


def mean_over_starts(question: Columns | Batch, values: FloatArray, error: float) -> Enclosure:
    """sum_j p_j f_j for values f_j that are each off by at most `error`."""
    weights = question.initial_states.weights
    total = certified_dot(weights, values)
    size = upper_sum(np.abs(weights * values))
    # p is defined as the normalized list
    slack = error * 1.000001 + (question.initial_states.weights_error + 8 * U) * size
    return Enclosure(total.mid, inflate(total.rad + slack))
