"""The identity behind every bound (2) (4) (5): residuals, the doubly robust value, and the measure that its bias is read off.

R̂q_i = q(x_i) - gamma q(x'_i) - r_i has mean 0 at q = q* given x_i. So for any ω and any q

    J* - Ĵ(q, ω) = <q* - q, μ_ω> + (1/n) sum_i ω_i R̂q*_i,    Ĵ(q, ω) = E_{d_pi,0}[q] - (1/n) sum_i ω_i R̂q_i:

a bias, which a class of functions bounds, and a noise, which a martingale inequality bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic.core.bounded import Enclosure, FloatArray, U, certified_dot, inflate, upper_sum
from bondic.core.columns import Batch, Cloud, Columns
from bondic.core.functions import Function
from bondic.core.sums.forms import Sums
from bondic.core.sums.measure import Measure
from bondic.core.sums.reference import REFERENCE


@dataclass(frozen=True, eq=False)
class FunctionValues:
    """q at logged points and its mean over next actions; `error` bounds the error of each entry."""

    logged: FloatArray  # (n,)
    next: FloatArray  # (n,) 0 where nothing follows
    error: float


def values_at_rows(problem: Batch, function: Function | None, sums: Sums = REFERENCE) -> FunctionValues:
    """q(x_i) and the mean of q(x'_i) over the policy."""
    n = len(problem)
    if function is None:
        return FunctionValues(np.zeros(n), np.zeros(n), 0.0)
    logged, error = function.at(problem.logged, problem.slots, sums)
    following, more = _means(problem.next, n, function, sums)
    return FunctionValues(logged, following, inflate(max(error, more)))


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


def mean_over_starts(question: Columns | Batch, values: FloatArray, error: float) -> Enclosure:
    """sum_j p_j f_j for values f_j that are each off by at most `error`."""
    weights = question.initial_states.weights
    total = certified_dot(weights, values)
    size = upper_sum(np.abs(weights * values))
    # p is defined as the normalized list
    slack = error * 1.000001 + (question.initial_states.weights_error + 8 * U) * size
    return Enclosure(total.mid, inflate(total.rad + slack))


def weighted_residuals(problem: Batch, values: FunctionValues, omega: FloatArray) -> Enclosure:
    """sum_i ω_i R̂q_i: the sum over a log is the sum over its parts."""
    total = certified_dot(omega, bellman_residual(problem, values))
    spread = upper_sum(np.abs(omega)) * residual_error(problem, values)
    return Enclosure(total.mid, inflate(total.rad + spread))


# --- the signed measure (4) -----------------------------------------------------------------------------


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
