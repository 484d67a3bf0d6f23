"""Primal bound: J^+ = sup { E[q] : q in Q, L_W(q) <= eps } (section 5).

It is a valid bound only at its global optimum, so it serves to *check* the dual: every feasible q has
E[q] <= F+(ω) for every ω (weak duality). This module evaluates a proposed q, outward rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic.core.bounded import Enclosure, U, inflate
from bondic.core.dual.bound import Setting
from bondic.core.functions import Function
from bondic.core.identity import bellman_residual, residual_error
from bondic.rows.rows import rows_of
from bondic_lab.identity.formulas import WholeValues, function_values, initial_value
from bondic_lab.identity.loss import residual_loss


@dataclass(frozen=True)
class PrimalPoint:
    """A function q = center + shift and the numbers that decide whether it is feasible."""

    value: Enclosure  # E_{d_pi,0}[q]
    distance: Enclosure  # |q - center|
    loss: Enclosure  # L_W(q)

    def feasible(self, radius: float, epsilon: float) -> bool:
        """Certainly feasible: upper bounds of both constraints are met."""
        return self.distance.upper <= radius and self.loss.upper <= epsilon


def sum_of_values(first: WholeValues, second: WholeValues) -> WholeValues:
    logged, following, initial = first.logged + second.logged, first.next + second.next, first.initial + second.initial
    size = max(float(np.abs(values).max(initial=0.0)) for values in (logged, following, initial))
    return WholeValues(logged, following, inflate(first.error + second.error + 2 * U * size), initial)


def primal_point(setting: Setting, shift: Function | None) -> PrimalPoint:
    """Evaluate q = center + shift: its value, its distance from the center and its kernel Bellman loss.

    `result.proof.setting(problem.select(*result.rows))` is the setting of an interval. A `feasible` q has a value that no
    upper end can be below, and no lower end above: how much of an interval is the class Q, and how much the search for ω.
    """
    problem = rows_of(setting.problem).whole()
    center = function_values(problem, setting.ball.center, setting.sums)
    values = sum_of_values(center, function_values(problem, shift, setting.sums))
    residual = bellman_residual(problem, values)
    error = residual_error(problem, values)
    loss = residual_loss(problem, setting.instruments.kernel, residual, error, setting.sums)
    distance = Enclosure(0.0) if shift is None or shift.is_zero else shift.norm(setting.sums)
    return PrimalPoint(initial_value(problem, values), distance, loss)
