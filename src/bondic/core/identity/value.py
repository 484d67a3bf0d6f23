"""Doubly robust value (5)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, certified_dot, inflate, upper_sum
from bondic.core.columns import Batch
from bondic.core.identity.residual import FunctionValues, bellman_residual, initial_value, residual_error

FloatArray = npt.NDArray[np.float64]


def doubly_robust_value(problem: Batch, values: FunctionValues, omega: FloatArray) -> Enclosure:
    """Ĵ(q, ω) = E_{d_pi,0}[q] - (1/n) sum_i ω_i R̂q_i; with q = 0 it is the weighted reward."""
    correction = weighted_residuals(problem, values, omega) / float(len(problem))
    return initial_value(problem, values) - correction


def weighted_residuals(problem: Batch, values: FunctionValues, omega: FloatArray) -> Enclosure:
    """sum_i ω_i R̂q_i: the sum over a log is the sum over its parts."""
    total = certified_dot(omega, bellman_residual(problem, values))
    spread = upper_sum(np.abs(omega)) * residual_error(problem, values)
    return Enclosure(total.mid, inflate(total.rad + spread))
