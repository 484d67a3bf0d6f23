"""Instruments φ = T̄ W of the vector event, the set that the planned rows may leave, and the clip of the tails."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from bondic.core.bounded import row_norms
from bondic.search.sequential.feasible import FeasibleSet
from bondic.search.sequential.history import Prefix
from bondic.search.sequential.models import Fitted, Predictions, sample_of
from bondic.search.sequential.starts import FULL_BET

FloatArray = npt.NDArray[np.float64]

SMALL_BET = 0.2
"""Largest bet on rows unlike all that were seen before, as a share of what would lose everything."""
_RIDGE = 0.001
"""Of the trace, in the whitening: rare directions are not blown up."""
_STRANGE = 1.3
"""Times the largest |φ| so far: a row beyond it is like nothing before."""
_MARGIN, _QUANTILE = 1.4, 0.95
_MAX_OFF = 3.0
_WIDE = 0.3
"""A clip wider than this share of the range gains little: the whole range is taken then."""


@dataclass(frozen=True, eq=False)
class VectorBets:
    """What a block says about the vector event."""

    whitening: FloatArray  # (m, m) W: whitened by C = mean T̄ T̄'
    rate: float  # lambda
    typical: float  # |φ| beyond this is strange

    def bets(self, sample: Predictions) -> FloatArray:
        """The largest bet at each row, as a share of what would lose everything."""
        return np.where(row_norms(sample.toward @ self.whitening) > self.typical, SMALL_BET, FULL_BET)


def whitening(spread: FloatArray) -> FloatArray:
    """(C + 0.001 tr C)^(-1/2)."""
    values, vectors = np.linalg.eigh(spread)
    values = np.maximum(values, 0.0)
    return np.asarray((vectors / np.sqrt(values + _RIDGE * values.sum() + 1e-300)) @ vectors.T)


def propose_instruments(
    prefix: Prefix, fitted: Fitted, sample: Predictions, feasible: FeasibleSet, noise: float, rows_by_then: float
) -> VectorBets:
    """lambda = sqrt(2 log(2/delta_1) / (n mean |φ|^2 U^2)) with the U that the sets of the prefix allow, capped by the range.

    Early blocks bet little, so that the event can start from the whole ball; later ones more.
    """
    white = whitening(fitted.spread)
    sizes = np.linalg.norm(sample.toward @ white, axis=1)
    if feasible.kept is None:
        known, weight, deviations = sizes, np.ones(sizes.size), feasible.over_the_ball(sample)
    else:
        rows = sample_of(prefix.rows.cut(feasible.kept.index), fitted.model, prefix.gamma)
        known, weight = np.linalg.norm(rows.toward @ white, axis=1), feasible.kept.weight
        deviations = feasible.kept.deviation_bound()
    squares = np.average(known**2 * np.maximum(deviations**2, noise), weights=weight)
    rate = math.sqrt(2 * feasible.log_term / (rows_by_then * max(float(squares), 1e-300)))
    cap = FULL_BET / max(float(np.median(sizes * sample.width)), 1e-300)
    return VectorBets(white, min(rate, cap), _STRANGE * float(sizes.max()))


@dataclass(frozen=True, eq=False)
class Forecast:
    """The set (e - ē)' P (e - ē) <= 1 that so many rows may leave, if they are like those of the prefix."""

    metric: FloatArray  # (m, m) P = (1/r^2 + G'G/eps^2) / 2
    factor: FloatArray  # lower, P = factor factor'

    def widths(self, rows: FloatArray) -> FloatArray:
        """sup <e - ē, f> for rows f (k, m)."""
        turned = solve_triangular(self.factor, rows.T, lower=True, check_finite=False)
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", turned, turned)))


def forecast(
    sample: Predictions, white: FloatArray, radius: float, log_term: float, noise: float, rows: float
) -> Forecast:
    """The set after `rows` rows with the noise of predictions, once the fixed point has converged."""
    features = sample.toward @ white
    sizes = np.linalg.norm(features, axis=1)
    free = math.sqrt(2 * log_term / max(rows * float(np.mean(sizes**2)) * noise, 1e-300))
    rates = np.minimum(free, FULL_BET / np.maximum(sizes * sample.width, 1e-300))
    matrix = (features * rates[:, None]).T @ sample.toward / rates.sum()
    eps = (log_term + rows * 0.5 * float(np.mean((rates * sizes) ** 2)) * noise) / (rows * float(rates.mean()))
    metric = 0.5 / radius**2 * np.eye(white.shape[0]) + 0.5 / eps**2 * matrix.T @ matrix
    return Forecast(metric, np.linalg.cholesky(metric))


def propose_margin(
    sample: Predictions, final: Forecast, today: Forecast | None, feasible: FeasibleSet, noise: float, rows: int
) -> float:
    """Half width of the clip: what the final set leaves of the predicted value, times how far such forecasts were off so far."""
    gamma = feasible.gamma
    margin = _MARGIN * gamma * _high(final.widths(sample.embedding)) + 3 * math.sqrt(noise / max(rows, 1))
    if today is not None:
        actual, predicted = _high(feasible.widths(sample.embedding)), _high(today.widths(sample.embedding))
        margin *= min(max(actual / max(predicted, 1e-300), 1.0), _MAX_OFF)
    return math.inf if margin > _WIDE * float(np.median(sample.width)) else margin


def _high(widths: FloatArray) -> float:
    return float(np.quantile(widths, _QUANTILE))
