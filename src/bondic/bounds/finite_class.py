"""Dual bound with a finite class of instruments and a union bound instead of an RKHS (section 4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.bounds.dual import add_up, misspecification_allowance
from bondic.bounds.weighing import weights_at_rows
from bondic.claims import Claim, End
from bondic.classes.ball import Ball
from bondic.errors import InvalidInput
from bondic.functions.functions import Function
from bondic.identity.measure import discrepancy
from bondic.identity.residual import function_values
from bondic.identity.value import doubly_robust_value
from bondic.noise.finite_class import FiniteClass
from bondic.rounding import Enclosure, U, certified_dot, inflate, upper_sum
from bondic.rows import Batch
from bondic.sums.forms import STANDARD, Sums
from bondic.terms import row_widths

FloatArray = npt.NDArray[np.float64]


def finite_class_bound(
    problem: Batch,
    ball: Ball,
    members: tuple[Function, ...],
    gauge: FiniteClass,
    weights: FloatArray,
    *,
    probability: float,
    initial: Enclosure | None = None,
    ends: tuple[End, ...] = ("lower", "upper"),
    sums: Sums = STANDARD,
) -> tuple[Claim, ...]:
    """F+-(omega) for omega = sum_j w_j omega_j; the members were fixed without the rows, w may be found on them.

    Valid with probability 1 - `probability` for all w at once, at every stopping time n. `initial` is the term of a
    sampled initial distribution, whose error probability the caller has set aside.
    """
    if len(members) != weights.size or len(members) != gauge.rates.size:
        raise InvalidInput(
            f"{len(members)} members, {weights.size} weights and {gauge.rates.size} rates do not fit together."
        )
    pairs = [weights_at_rows(problem, member, sums) for member in members]
    values = np.array([row for row, _ in pairs])  # (p, n)
    widths = row_widths(problem.terms, problem.times, len(problem))
    bounds = gauge.bounds(values, widths, probability)
    noise = gauge.noise(weights, bounds)
    rows = np.asarray(weights @ values)
    # float rows against the functions they stand for: errors of the members and of the combination
    size = float(np.abs(values).max(initial=0.0))
    eta = float(np.abs(weights) @ np.array([error for _, error in pairs])) * 1.01
    eta += float(np.abs(weights).sum()) * size * (weights.size + 2) * U
    noise = Enclosure(noise.mid, inflate(noise.rad + eta * upper_sum(widths) / len(problem)))
    value = doubly_robust_value(problem, function_values(problem, ball.center, sums), rows)
    start = Enclosure(0.0) if initial is None else initial
    balance = discrepancy(problem, ball.kernel, rows, sums=sums)
    factors = np.asarray(1.0 + problem.gamma * problem.continues, dtype=np.float64)
    reach = certified_dot(np.abs(rows), factors) * (1 + 4 * U) / float(len(problem))
    allowance = misspecification_allowance(ball.misspecification, reach)
    norm = Enclosure(float(np.abs(weights).sum()))
    return add_up(ball.radius, value, balance, norm, noise, start, allowance, ends)
