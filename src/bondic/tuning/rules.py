"""A simple rule that does mostly what a policy does: centers of Q look several steps ahead with it.

Scores are polynomials of the state, fitted by logistic regression to the policy's probabilities at simulated states. The rule
takes the action with the largest score: it stands for policies that are sure of themselves, and a center that uses it for
another one has large residuals, which cost radius and make nothing wrong.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax

from bondic.functions.lookahead import PolicyRule, monomial_values
from bondic.policies.protocol import discrete_probabilities
from bondic.rows import Rows
from bondic.search.sequential.simulator import monomials_of

FloatArray = npt.NDArray[np.float64]

_DEGREES = (1, 2, 3)
_GAIN = 0.8
"""What a higher degree has to make of the probability that is given away on the states that judge, at most."""
_FIRST = 0.75
_MOST = 4000
"""States that are asked at."""
_RIDGE = 1e-5
_ROUNDS = 200
_TERMS = 20
"""Rows for every coefficient of an action, at least."""
_MOST_ACTIONS = 20
"""With more of them, several steps from every state and action take too long."""


def fit_rule(pilot: Rows, states: FloatArray, rng: np.random.Generator) -> PolicyRule | None:
    """The rule that gives away least of the policy's probability; None where actions are numbers, one, or very many."""
    if not (pilot.layout.discrete and 2 <= pilot.layout.slots <= _MOST_ACTIONS) or len(states) < 2 * _TERMS:
        return None
    states = states[rng.permutation(len(states))[:_MOST]]
    probs = discrete_probabilities(pilot.policy, states, None, "simulated state", pilot.layout.slots)
    spread = states.std(axis=0)
    mean, scale = states.mean(axis=0), np.where(spread > 1e-9, spread, 1.0)
    inputs, cut = (states - mean) / scale, int(_FIRST * len(states))
    best, found = np.inf, None
    for degree in _DEGREES:
        monomials = monomials_of(inputs.shape[1], degree)
        if len(monomials) * _TERMS > cut and degree > 1:
            break
        coefficients = _logistic(monomial_values(inputs[:cut], monomials), probs[:cut])
        rule = PolicyRule(mean, scale, monomials, coefficients)
        lost = _given_away(rule, states[cut:], probs[cut:])
        if lost < _GAIN * best:
            best, found = lost, rule
    return found


def _given_away(rule: PolicyRule, states: FloatArray, probs: FloatArray) -> float:
    """How much more likely the policy's favorite is than the rule's action, on average."""
    taken = probs[np.arange(len(probs)), rule.actions(states)]
    return float(np.mean(probs.max(axis=1) - taken))


def _logistic(terms: FloatArray, probs: FloatArray) -> FloatArray:
    """Coefficients (slots, M) that minimize the cross-entropy, with a small ridge."""
    count, shape = len(terms), (probs.shape[1], terms.shape[1])

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(shape)
        logs = log_softmax(terms @ weights.T, axis=1)
        value = -float(np.sum(probs * logs)) / count + 0.5 * _RIDGE * float(flat @ flat)
        slope = (np.exp(logs) - probs).T @ terms / count
        return value, slope.ravel() + _RIDGE * flat

    return np.asarray(
        minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _ROUNDS}).x
    ).reshape(shape)
