"""Conic reference (Clarabel): slow, general, independent of the spectral method. Optional extra `conic`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from bondic.core.dual.bound import Setting
from bondic.core.functions import Function
from bondic.errors import MissingExtra
from bondic.search.model import SearchModel

try:
    import clarabel
except ImportError:  # pragma: no cover - exercised by a test that hides the library
    clarabel = None

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConicSolution:
    """`status` is the solver's own word; -inf with status DualInfeasible means unbounded."""

    point: FloatArray
    value: float
    status: str


def _solve(cost: FloatArray, matrix: Any, right: FloatArray, cones: list[Any], tolerance: float) -> ConicSolution:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    settings.max_iter = 200
    empty = sparse.csc_matrix((cost.size, cost.size))
    answer = clarabel.DefaultSolver(empty, cost, sparse.csc_matrix(matrix), right, cones, settings).solve()
    status = str(answer.status)
    if "DualInfeasible" in status:
        return ConicSolution(np.zeros(cost.size), -math.inf, status)
    if "PrimalInfeasible" in status:
        return ConicSolution(np.zeros(cost.size), math.inf, status)
    return ConicSolution(np.array(answer.x), float(answer.obj_val), status)


def _require_clarabel(purpose: str) -> None:
    if clarabel is None:
        raise MissingExtra("clarabel", "conic", purpose)


def solve_dual(
    model: SearchModel, *, sign: float, radius: float, kappa: float, tolerance: float = 1e-10
) -> ConicSolution:
    """min_w sign g.w + r |psi_0 + A w| + kappa |w| as a second-order cone program in (w, t, s)."""
    _require_clarabel("The conic reference solver")
    rows, columns = model.balance.shape
    cost = np.concatenate([sign * model.gradient, [radius, kappa]])
    # (t, psi_0 + A w) and (s, w) lie in second-order cones; Clarabel wants  right - matrix x  in the cone
    first = sparse.lil_matrix((1 + rows, columns + 2))
    first[0, columns] = -1.0
    first[1:, :columns] = -model.balance
    second = sparse.lil_matrix((1 + columns, columns + 2))
    second[0, columns + 1] = -1.0
    second[1:, :columns] = -sparse.identity(columns)
    right = np.concatenate([[0.0], model.start, np.zeros(1 + columns)])
    cones = [clarabel.SecondOrderConeT(1 + rows), clarabel.SecondOrderConeT(1 + columns)]
    found = _solve(cost, sparse.vstack([first, second]), right, cones, tolerance)
    return ConicSolution(found.point[:columns], found.value, found.status)


def solve_primal(
    model: SearchModel, *, sign: float, radius: float, kappa: float, tolerance: float = 1e-10
) -> ConicSolution:
    """max { psi_0 . theta : |theta| <= r, |g + sign A^T theta| <= kappa }; value for sign = +1 is E[q - center].

    With sign = -1 it is max of -E[q - center] over the same set, written for theta = -(coordinates of q - center).
    """
    _require_clarabel("The primal bound")
    rows, columns = model.balance.shape
    first = sparse.vstack([sparse.csc_matrix((1, rows)), -sparse.identity(rows)])
    second = sparse.vstack([sparse.csc_matrix((1, rows)), -sparse.csc_matrix(model.balance.T)])
    right = np.concatenate([[radius], np.zeros(rows), [kappa], sign * model.gradient])
    cones = [clarabel.SecondOrderConeT(1 + rows), clarabel.SecondOrderConeT(1 + columns)]
    found = _solve(-model.start, sparse.vstack([first, second]), right, cones, tolerance)
    return ConicSolution(sign * found.point, -found.value, found.status)


def solve_finite_class(
    model: SearchModel, costs: FloatArray, *, sign: float, radius: float, tolerance: float = 1e-10
) -> ConicSolution:
    """min_w sign g.w + r |psi_0 + A w| + sum_j c_j |w_j|, for a finite class with noise c_j per member."""
    _require_clarabel("A finite class of instruments")
    rows, columns = model.balance.shape
    cost = np.concatenate([sign * model.gradient, costs, [radius]])
    eye, none = sparse.identity(columns), sparse.csc_matrix((columns, 1))
    bounds = sparse.vstack([sparse.hstack([eye, -eye, none]), sparse.hstack([-eye, -eye, none])])
    cone = sparse.lil_matrix((1 + rows, 2 * columns + 1))
    cone[0, 2 * columns] = -1.0
    cone[1:, :columns] = -model.balance
    right = np.concatenate([np.zeros(2 * columns), [0.0], model.start])
    cones = [clarabel.NonnegativeConeT(2 * columns), clarabel.SecondOrderConeT(1 + rows)]
    found = _solve(cost, sparse.vstack([bounds, cone]), right, cones, tolerance)
    return ConicSolution(found.point[:columns], found.value, found.status)


@dataclass(frozen=True)
class ConicSearch:
    """A search for `Dual(solver=...)`: proposes the conic optimum at both ends.

    Parameters
    ----------
    tolerance : float, default 1e-9
        Where the conic solver stops: gap and infeasibility.
    """

    tolerance: float = 1e-9

    def __call__(self, model: SearchModel, setting: Setting) -> list[Function]:
        out, radius = [], setting.ball.radius
        costs = setting.gauge.costs(setting.facts, setting.noise_probability)
        for sign in (1.0, -1.0):
            options = {"sign": sign, "radius": radius, "tolerance": self.tolerance}
            if costs is None:
                found = solve_dual(model, kappa=setting.epsilon().upper, **options)
            else:
                found = solve_finite_class(model, costs, **options)
            if math.isfinite(found.value) and np.any(found.point):
                out.append(model.function(found.point))
        return out
