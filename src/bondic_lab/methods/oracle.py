"""Oracle bound: how tight any method could be that uses Q and what the log could tell at best (paper, section 3).

    sup / inf { E[q] : q in Q, R̂q(x_i, y_i) = R̂q*(x_i, y_i) on every row }

It needs the true q*, so it is a reference for problems with known answers, not a method. A linear functional is maximized
over a ball cut by an affine subspace, which has a closed form: with rho_i the representer of constraint i,
q = q_m + sqrt(r^2 - |q_m - center|^2) * (part of μ_0 orthogonal to all rho_i).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.balls import Ball
from bondic.core.columns import Batch
from bondic.core.functions import Function
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.normal_form import normal_form
from bondic.engines.sums import STANDARD
from bondic.rows import Rows
from bondic_lab.identity.formulas import function_values

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class OracleInterval:
    """Plain floats: a reference is not certified. An empty one (low > high) means that Q excludes q*."""

    low: float
    high: float


def slice_of_ball(
    gram_rows: FloatArray, cross: FloatArray, square: float, targets: FloatArray, offset: float, radius: float
) -> OracleInterval:
    """Range of <μ_0, e> over |e| <= radius with <rho_i, e> = targets_i; Gram matrices of the rho_i and μ_0."""
    values, vectors = np.linalg.eigh(gram_rows)
    keep = values > 1e-11 * max(float(values.max(initial=0.0)), 1e-300)
    inverse = (vectors[:, keep] / values[keep]) @ vectors[:, keep].T
    least = float(targets @ inverse @ targets)
    if least > radius**2 * (1 + 1e-9):
        return OracleInterval(math.inf, -math.inf)
    middle = offset + float(cross @ inverse @ targets)
    free = max(0.0, square - float(cross @ inverse @ cross))
    half = math.sqrt(max(0.0, radius**2 - least) * free)
    return OracleInterval(middle - half, middle + half)


def _gram(kernel: Kernel, problem: Batch, points: FloatArray, weights: FloatArray) -> FloatArray:
    """Inner products of signed measures; points (N, D), weights (measures, N, slots)."""
    total = np.zeros((weights.shape[0], weights.shape[0]))
    for term in normal_form(kernel, problem.layout):
        block = term.block(points, points)
        embedded = weights @ term.embedding  # (measures, N, p)
        for column in range(embedded.shape[2]):
            total += embedded[:, :, column] @ block @ embedded[:, :, column].T
    return total


def oracle_interval(rows: Rows, ball: Ball, q_star: Function) -> OracleInterval:
    """The interval of somebody who knows the noise of every row exactly; for up to some thousand rows."""
    problem = rows.whole()
    n, slots = len(problem), problem.layout.slots
    points = np.concatenate([problem.logged, problem.next.points, problem.initial.points])
    weights = np.zeros((n + 1, points.shape[0], slots))
    weights[np.arange(n), np.arange(n), problem.slots] = 1.0
    positions = n + np.arange(problem.next.rows.size)
    weights[problem.next.rows, positions] = -problem.gamma * problem.next.weights
    starts = n + problem.next.rows.size
    weights[n, starts:] = problem.initial.weights * problem.initial_states.weights[problem.initial.rows, None]
    gram = _gram(ball.kernel, problem, points, weights)
    truth, center = function_values(problem, q_star, STANDARD), function_values(problem, ball.center, STANDARD)
    targets = (truth.logged - problem.gamma * truth.next) - (center.logged - problem.gamma * center.next)
    offset = float(problem.initial_states.weights @ center.initial)
    return slice_of_ball(gram[:n, :n], gram[:n, n], float(gram[n, n]), targets, offset, ball.radius)
