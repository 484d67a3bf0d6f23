"""Ratios π/β of the logged actions, β as the log states it or estimated from it: whatever uses an estimate has no guarantee."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from bondic.core.errors import InvalidInput
from bondic.data.transitions import Transitions
from bondic.policies.answers import logged_action_probs
from bondic.policies.logged_target import LoggedTarget
from bondic.rows import Rows
from bondic.rows.decisions import logged_ratios

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Behavior = Literal["logged", "estimated"]

_FEW_STATES = 256
_RIDGE = 1e-3
"""Penalty of the logistic fit per row: keeps separable data from running away."""


def behavior_ratios(problem: Rows, behavior: Behavior) -> tuple[FloatArray, bool]:
    """π/β of the rows that count, (n,), and whether β is an estimate."""
    if behavior not in ("logged", "estimated"):
        raise InvalidInput(f"behavior={behavior!r}; choose 'logged' or 'estimated'.")
    part, rows = problem.log.read(problem.rows), problem.whole().log_rows - problem.rows.start
    if behavior == "logged":
        _need_behavior(part)
        return logged_ratios(part, _target(problem, part, rows), problem.layout.slots).values[rows], False
    target = _target(problem, part, rows)
    if target is None or not problem.layout.discrete:
        raise InvalidInput(
            "Behavior can be estimated for discrete actions and a policy that can be asked only; pass `behavior_action_probs`."
        )
    found = estimate_behavior(part.observations[rows], part.actions[rows], problem.layout.slots)
    return np.asarray(target[rows] / found), True


def _target(problem: Rows, part: Transitions, rows: IntArray) -> FloatArray | None:
    """π(a_i|s_i) as the policy says it; 1 at or beyond the horizon, where it is not asked. None: the log's own columns say it."""
    if isinstance(problem.policy, LoggedTarget):
        return None
    whole, said = problem.whole(), np.ones(len(part))
    said[rows] = logged_action_probs(
        problem.policy,
        part.observations[rows],
        part.actions[rows],
        whole.times,
        slots=problem.layout.slots,
        log_rows=whole.log_rows,
    )
    return said


def _need_behavior(log: Transitions) -> None:
    if log.behavior_action_probs is None and log.behavior_log_probs is None:
        raise InvalidInput(
            "Importance weights need `behavior_action_probs`, the probability with which each logged action was taken (or "
            "`behavior_log_probs`), and the log has none. Pass them to Transitions, estimate them with "
            "behavior='estimated' (--with behavior=estimated; no guarantee), or use Dual(), which does not need them."
        )


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
