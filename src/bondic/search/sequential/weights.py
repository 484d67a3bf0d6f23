"""Weights v_i = clip(theta . T̄_i, -c_i-, c_i+) that balance ψ_0 at little noise, and their correction between sub-blocks.

theta minimizes the dual of "least s v^2 / 2 with mean v T̄ = lambda ψ_0 and v inside its caps", a Huber function:

    mean_i h_i(theta . T̄_i) - λ theta . ψ_0 + L / (2 N) theta' P theta,   h_i(t) = max_{-c- <= v <= c+} ( v t - s v^2 / 2 ).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, solve_triangular

from bondic.search.sequential.instruments import Forecast

FloatArray = npt.NDArray[np.float64]

_GAINS = (0.7, 1.0, 1.5, 2.0, 3.0, 4.5)
"""Rates, in units of the one at which plain least-squares weights meet the caps."""
_STEPS = 30
_STIFF = 10.0
_FACE = 0.999
_FAR = 1e3
"""Rates end at so many times the largest one that could be balanced: where no row leaves a start state, any would be proposed."""
_RIDGE = 1e-8


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows of the prefix, and what the weights of one end have to balance."""

    toward: FloatArray  # (k, m) T̄
    above: FloatArray  # (k,) c+
    below: FloatArray  # (k,) c-
    start: FloatArray  # (m,) ψ_0
    noise: float
    final: Forecast
    log_term: float  # L = log(1/delta) of this end
    rows: float  # N, planned


@dataclass(frozen=True, eq=False)
class Aim:
    """Weights for the rows of a block, before any correction."""

    rate: float  # lambda per row
    theta: FloatArray  # (m,)
    smoothing: float  # s
    imbalance: FloatArray  # (m,) λ ψ_0 - mean v T̄, what the caps do not allow to balance
    curvature: FloatArray  # (m, m) how fast the balance answers to theta: the Hessian of the mean
    length: float  # predicted, from the doubly robust value to this end


def _clipped(scores: FloatArray, problem: Problem) -> FloatArray:
    return np.asarray(np.clip(scores, -problem.below, problem.above))


def _hessian(weights: FloatArray, problem: Problem, smoothing: float) -> FloatArray:
    free = problem.toward[(weights < problem.above) & (weights > -problem.below)]
    return np.asarray(free.T @ free / (weights.size * smoothing))


def _minimize(
    problem: Problem, target: FloatArray, smoothing: float, stiff: FloatArray, theta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Newton steps with halving: (theta, weights)."""
    count, size = problem.toward.shape

    def at(point: FloatArray) -> tuple[float, FloatArray]:
        scores = problem.toward @ point
        weights = _clipped(scores / smoothing, problem)
        mean = float(weights @ scores - 0.5 * smoothing * weights @ weights) / count
        return mean - float(point @ target) + 0.5 * float(point @ stiff @ point), weights

    value, weights = at(theta)
    for _ in range(_STEPS):
        slope = problem.toward.T @ weights / count - target + stiff @ theta
        hessian = _hessian(weights, problem, smoothing) + stiff
        hessian[np.diag_indices(size)] += 1e-12 * np.trace(hessian) / size + 1e-300
        step = np.linalg.solve(hessian, slope)
        share, gain = 1.0, float(slope @ step)
        new, found = at(theta - step)
        while new > value - 1e-4 * share * gain and share > 1e-5:
            share *= 0.5
            new, found = at(theta - share * step)
        if share <= 1e-5:
            break
        done = value - new < 1e-9 * (1e-12 + abs(value))
        theta, value, weights = theta - share * step, new, found
        if done:
            break
    return theta, weights


def _reach(problem: Problem) -> float:
    """No larger rate can be balanced by weights within their caps, whatever the rows are: |mean v T̄| >= λ |ψ_0|."""
    caps = float(max(problem.above.max(), problem.below.max()))
    longest = float(np.sqrt(np.max(np.einsum("ij,ij->i", problem.toward, problem.toward))))
    return caps * longest / max(float(np.linalg.norm(problem.start)), 1e-300)


def propose_aim(problem: Problem) -> Aim:
    """The rate of least predicted length, (L + N mean v^2 noise / 2 + N |imbalance|_P^-1) / (N lambda), over a small grid."""
    count, size = problem.toward.shape
    second = problem.toward.T @ problem.toward / count
    second[np.diag_indices(size)] += _RIDGE * np.trace(second) + 1e-300
    least = problem.toward @ np.linalg.solve(second, problem.start)
    full = float(np.quantile(np.maximum(least / problem.above, -least / problem.below), _FACE))
    top = min(1.0 / max(full, 1e-300), _FAR * _reach(problem))
    quiet = math.sqrt(2 * problem.log_term / max(problem.rows * float(np.mean(least**2)) * problem.noise, 1e-300))
    typical = 1.0 / max(float(np.mean(1.0 / problem.above)), 1e-300)
    smoothing = problem.noise + problem.log_term / (problem.rows * typical**2)
    stiff = problem.log_term / problem.rows * problem.final.metric
    best, theta = None, np.zeros(size)
    for rate in sorted({min(quiet, top * gain) for gain in _GAINS}):
        target = rate * problem.start
        theta, weights = _minimize(problem, target, smoothing, stiff, theta)
        off = target - problem.toward.T @ weights / count
        imbalance = float(np.linalg.norm(solve_triangular(problem.final.factor, off, lower=True)))
        spread = 0.5 * float(np.mean(weights**2)) * problem.noise
        length = (problem.log_term / problem.rows + spread + imbalance) / rate
        if best is None or length < best[0]:
            best = (length, rate, theta, weights, off)
    assert best is not None
    length, rate, theta, weights, off = best
    return Aim(rate, theta, smoothing, off, _hessian(weights, problem, smoothing), length)


class Balance:
    """theta + (left H + stiff P)^-1 μ: a correction that a linear-quadratic regulator would make, sub-block by sub-block.

    Solving H^-1 μ / left instead swings from cap to cap.
    """

    def __init__(self, aim: Aim, final: Forecast) -> None:
        values, self._vectors = eigh(aim.curvature, final.metric)
        self._values, self._aim = np.maximum(values, 0.0), aim

    def direction(self, imbalance: FloatArray, left: float) -> FloatArray:
        """The theta, divided by s, for the next rows of a block that has so many rows left."""
        answer = self._vectors.T @ imbalance / (left * self._values + _STIFF)
        return np.asarray((self._aim.theta + self._vectors @ answer) / self._aim.smoothing)
