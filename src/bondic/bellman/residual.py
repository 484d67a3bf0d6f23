"""Values of a function at the points of a problem, and its Bellman residual (2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.problem import Problem
from bondic.rounding import Enclosure, U, certified_dot, inflate, upper_sum
from bondic.spaces.functions import Function

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FunctionValues:
    """q at logged points, its mean over next actions, and its mean at each initial state; `error` bounds each entry."""

    logged: FloatArray  # (n,)
    next: FloatArray  # (n,) 0 where nothing follows
    initial: FloatArray  # (n_0,)
    error: float


def function_values(problem: Problem, function: Function | None) -> FunctionValues:
    """Evaluate q(x_i), the mean of q(x'_i) over the policy, and q at the initial states."""
    n, n0 = len(problem), len(problem.initial_states)
    if function is None:
        return FunctionValues(np.zeros(n), np.zeros(n), np.zeros(n0), 0.0)
    at_logged, error = function.values(problem.logged)
    logged = np.take_along_axis(at_logged, problem.slots[:, None], axis=1)[:, 0]
    parts = {"next": (problem.next, n), "initial": (problem.initial, n0)}
    means = {}
    for name, (cloud, count) in parts.items():
        values, extra = function.values(cloud.points) if cloud.points.shape[0] else (np.zeros_like(cloud.weights), 0.0)
        # probabilities are defined up to their normalisation: one more factor (1 + slots U)
        size = float(np.abs(values).max(initial=0.0))
        error = max(error, extra + 2 * (cloud.roundings + cloud.weights.shape[1]) * U * (size + extra))
        means[name] = cloud.per_row(values, count)
    return FunctionValues(logged, means["next"], means["initial"], inflate(error))


def bellman_residual(problem: Problem, values: FunctionValues) -> FloatArray:
    """R_i = q(x_i) - gamma q(x'_i) - r_i."""
    return np.asarray(values.logged - problem.gamma * values.next - problem.rewards)


def residual_error(problem: Problem, values: FunctionValues) -> float:
    """A bound of the error of each computed residual."""
    size = float((np.abs(values.logged) + np.abs(values.next) + np.abs(problem.rewards)).max())
    return inflate(values.error * (1 + problem.gamma) + 4 * U * size)


def initial_value(problem: Problem, values: FunctionValues) -> Enclosure:
    """E_{d_pi,0}[q] = sum_j p_j q(s_j, pi)."""
    weights = problem.initial_states.weights
    total = certified_dot(weights, values.initial)
    size = upper_sum(np.abs(weights * values.initial))
    # p is defined as the normalised list: floats divided by their float sum, which is off by at most n_0 U
    slack = values.error * 1.000001 + (weights.size + 8) * U * size
    return Enclosure(total.mid, inflate(total.rad + slack))
