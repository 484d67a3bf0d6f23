"""Kernel Bellman loss (8)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, U, inflate
from bondic.core.columns import Batch
from bondic.core.functions import Function
from bondic.core.identity import bellman_residual, residual_error
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.normal_form import normal_form
from bondic.core.sums.forms import Sums
from bondic.core.sums.measure import Measure
from bondic.engines.sums import STANDARD
from bondic.rows import Rows
from bondic_lab.identity.formulas import function_values

FloatArray = npt.NDArray[np.float64]


def slot_weights(problem: Batch, values: FloatArray) -> FloatArray:
    """Row weights (n,) placed at the slots of the logged actions: (n, slots)."""
    out = np.zeros((len(problem), problem.layout.slots))
    out[np.arange(len(problem)), problem.slots] = values
    return out


def kernel_bellman_loss(problem: Rows, kernel: Kernel, q: Function | None, sums: Sums = STANDARD) -> Enclosure:
    """L_W(q) (8): how far a function q (None: 0) is from fitting the rows, as the instruments of `kernel` see it.

    About eps_n for q*, by (9); 0 only for a q whose residual is orthogonal to all of them. All rows are held in memory.
    """
    rows = problem.whole()
    values = function_values(rows, q, sums)
    return residual_loss(rows, kernel, bellman_residual(rows, values), residual_error(rows, values), sums)


def residual_loss(
    problem: Batch, kernel: Kernel, residuals: FloatArray, error: float = 0.0, sums: Sums = STANDARD
) -> Enclosure:
    """L_W(q) = sqrt( (1/n^2) sum_ij R_i k(x_i, x_j) R_j ); each residual is good to `error`.

    |L_W(R) - L_W(R~)| <= mean |R_i - R~_i| sqrt(K_max), by the triangle inequality in the RKHS.
    """
    n = len(problem)
    measure = Measure(problem.logged, slot_weights(problem, residuals / n)[None], 2 * U)
    root = sums.squares(normal_form(kernel, problem.layout), measure)[0].sqrt()
    return Enclosure(root.mid, inflate(root.rad + error * float(np.sqrt(kernel.sup_diag)) * 1.000001))
