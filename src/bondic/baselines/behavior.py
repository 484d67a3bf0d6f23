"""Behavior probabilities estimated from the log: whatever uses them has no guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_FEW_STATES = 256
_RIDGE = 1e-3
"""Penalty of the logistic fit per row: keeps separable data from running away."""


def estimate_behavior(observations: FloatArray, actions: npt.NDArray[Any], slots: int) -> FloatArray:
    """beta^(a_i | s_i): frequencies when few distinct states repeat, else a linear logistic regression; (n,)."""
    distinct, state = np.unique(observations, axis=0, return_inverse=True)
    chosen = actions.astype(np.int64)
    if distinct.shape[0] <= min(_FEW_STATES, max(1, chosen.size // 4)):
        counts = np.zeros((distinct.shape[0], slots))
        np.add.at(counts, (state.reshape(-1), chosen), 1.0)
        return np.asarray((counts / counts.sum(axis=1, keepdims=True))[state.reshape(-1), chosen])
    return _logistic(observations, chosen, slots)


def _logistic(observations: FloatArray, chosen: IntArray, slots: int) -> FloatArray:
    spread = observations.std(axis=0)
    inputs = (observations - observations.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    inputs = np.column_stack([np.ones(chosen.size), inputs])
    hot = np.eye(slots)[chosen]

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(inputs.shape[1], slots)
        scores = inputs @ weights
        value = -float(np.sum(hot * log_softmax(scores, axis=1))) / chosen.size + 0.5 * _RIDGE * float(flat @ flat)
        gradient = inputs.T @ (softmax(scores, axis=1) - hot) / chosen.size + _RIDGE * weights
        return value, gradient.ravel()

    found = minimize(loss, np.zeros(inputs.shape[1] * slots), jac=True, method="L-BFGS-B")
    probs = softmax(inputs @ found.x.reshape(inputs.shape[1], slots), axis=1)
    return np.asarray(probs[np.arange(chosen.size), chosen])
