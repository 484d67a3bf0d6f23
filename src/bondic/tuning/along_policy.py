"""Does the chosen Q see what the policy sees? A look at the log along the policy, before Q is fixed.

A policy may act on a pattern (the hour of a time stamp, a threshold) that is far too fine for the bandwidth of Q. Every q in
Q then misses what the policy gains by it, and instruments that are as smooth as Q do not notice. With u_i = pi(a_i | s_i) and
e_i the part of u_i that functions of Q's space do not explain, every q in Q has

    | mean e_i R̂q_i - mean e_i R̂center_i | <= r_Q | mean e_i T_i |,   T_i = k̃(x_i) - gamma k̃(x'_i),

while the mean of e_i R̂q*_i is noise. Q may look at the log in any way, so this costs no error probability: it is how Q is
chosen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.classes.ball import Ball
from bondic.identity.measure import rows_measure
from bondic.identity.residual import bellman_residual, values_at_rows
from bondic.kernels.normal_form import normal_form
from bondic.policies.logged import logged_action_probs
from bondic.policies.protocol import RowProbabilities
from bondic.rows import Batch, Rows
from bondic.search.actions import Cap
from bondic.search.basis import Basis, capped_basis
from bondic.search.model import cloud_coordinates
from bondic.sums.forms import STANDARD

FloatArray = npt.NDArray[np.float64]

_MOST_ROWS = 8000
_FEWEST_ROWS = 100
_CAP = Cap(400, 10)
_RIDGE = 1e-6
_ERRORS = 5.0
"""Standard errors by which the log has to contradict Q."""


def contradiction(question: Rows, ball: Ball) -> float:
    """By how many standard errors the log contradicts Q along the policy; 0 where that cannot be asked."""
    policy = _policy(question)
    if policy is None or not question.layout.discrete or question.layout.slots < 2:
        return 0.0
    some = question.load(question.rows.start, question.rows.start + _MOST_ROWS)
    if some is None or len(some) < _FEWEST_ROWS:
        return 0.0
    rows = some.whole()
    basis = capped_basis(ball.kernel, some, rows.logged, rank=200, cap=_CAP, tolerance=1e-9)
    features, taken = _row_features(rows, basis), _taken(rows, policy)
    return _errors(rows, basis, features, taken, ball)


def refuted(question: Rows, ball: Ball) -> str:
    """Why this Q is no answer to the question; empty when nothing speaks against it."""
    errors = contradiction(question, ball)
    if errors < _ERRORS:
        return ""
    return (
        f"the log contradicts it along the policy, by {errors:.3g} standard errors: what the policy acts on is finer than "
        "this class can follow"
    )


def _policy(question: Rows) -> Any:
    """The policy, if it can be asked at logged states."""
    policy = question.policy
    return None if isinstance(policy, RowProbabilities) or not hasattr(policy, "action_probs") else policy


def _taken(rows: Batch, policy: Any) -> FloatArray:
    """pi(a_i | s_i)."""
    states, size = rows.logged[:, : rows.layout.observation_dim], rows.layout.slots
    return logged_action_probs(policy, states, rows.slots, rows.times, slots=size, log_rows=rows.log_rows)


def _row_features(rows: Batch, basis: Basis) -> FloatArray:
    """Coordinates of k̃(x_i), one row each."""
    columns = [part.term.embedding[rows.slots] for part in basis.parts]
    values = [part.finish(part.raw(rows.logged)) for part in basis.parts]
    return np.hstack(
        [(v[:, :, None] * c[:, None, :]).reshape(len(rows), -1) for v, c in zip(values, columns, strict=True)]
    )


def _errors(rows: Batch, basis: Basis, features: FloatArray, taken: FloatArray, ball: Ball) -> float:
    """( |mean e R̂center| - r_Q |mean e T| ) in standard errors of the first mean.

    e knows states and actions only, so it may be made from the rows that it is used on: given those, R̂q* has mean 0.
    """
    count = len(rows)
    gram = features.T @ features
    gram[np.diag_indices_from(gram)] += _RIDGE * count
    weights = taken - features @ np.linalg.solve(gram, features.T @ taken)
    products = weights * bellman_residual(rows, values_at_rows(rows, ball.center))
    spread = float(products.std()) / math.sqrt(count)
    here = features.T @ weights / count
    following = cloud_coordinates(basis, rows.next, weights / count) if len(rows.next.points) else np.zeros_like(here)

    def beyond(norm: float) -> float:
        return max(abs(float(products.mean())) - ball.radius * norm, 0.0) / spread if spread > 0 else 0.0

    errors = beyond(float(np.linalg.norm(here - rows.gamma * following)))
    if errors < _ERRORS:
        return errors
    # the landmarks may miss most of the norm, as with many actions: all of it counts
    (square,) = STANDARD.squares(normal_form(ball.kernel, rows.layout), rows_measure(rows, [weights], count))
    return beyond(square.sqrt().upper)
