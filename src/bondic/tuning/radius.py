"""Radius of Q: every value that the range allows, and ten times what the rows show (sections 5 and 8).

    r_Q^2 = (B/2)^2 + ( factor |q^ - center| )^2,   center the middle of the value range

The first part holds every constant value, seen or not; the second every deviation from it up to `factor` times that of the q
which predicts held-out rows best. Where the rows cannot tell (no reward seen, one action, few rows) B/2 stands in for
|q^ - center|. A radius is a choice: no log proves it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.bellman.residual import bellman_residual, values_at_rows
from bondic.kernels.base import Kernel
from bondic.problem import Problem
from bondic.solvers.basis import make_basis
from bondic.solvers.model import build_model
from bondic.spaces.functions import Function

FloatArray = npt.NDArray[np.float64]

_FEWEST_ROWS = 20
_AS_GOOD = 1.05
_COORDINATES = 1000


@dataclass(frozen=True)
class FittedRadius:
    """r_Q with the norm it rests on and the ridge that won on later rows."""

    radius: float
    fitted_norm: float
    ridge: float
    held_out_loss: float
    weak: str = ""  # why the rows could not tell; empty when they could


def held_out_radius(
    pilot: Problem,
    values: Kernel,
    instruments: Kernel,
    *,
    factor: float,
    half_range: float,
    center: Function | None = None,
    rank: int = 200,
) -> FittedRadius:
    """Fit q^ on the first half of the rows for a path of ridges, score L_W on the second half, keep the best.

    The order of rows is time: the later half judges. A short log may prefer q^ = center, so |q^ - center| is at least
    max |R^center_i| / ((1 + gamma) sqrt(K~_max)): a mean residual is e(x) - gamma E e(x') and |e(x)| <= sqrt(K~_max) |e|.
    """
    weak = weakness(pilot)
    if weak:
        return _joined(FittedRadius(0.0, half_range, 0.0, float("nan"), weak), factor, half_range)
    cut = int(pilot.log_rows[len(pilot) // 2])  # half of the rows that count: the others lie beyond the horizon
    fit, judge = pilot.select(pilot.rows.start, cut), pilot.select(cut)
    rank = max(20, min(rank, _COORDINATES // pilot.layout.slots))
    q_basis = make_basis(
        values, pilot.layout, np.concatenate([pilot.logged, pilot.initial.points]), rank=rank, tolerance=1e-9
    )
    w_basis = make_basis(instruments, pilot.layout, pilot.logged, rank=rank, tolerance=1e-9)
    first = build_model(fit, w_basis, q_basis, center)
    second = build_model(judge, w_basis, q_basis, center)
    u, sigma, right = np.linalg.svd(first.balance, full_matrices=False)
    target = right @ first.gradient
    top = max(float(sigma.max(initial=0.0)) ** 2, 1e-300)
    path: list[FittedRadius] = []
    for ridge in top * np.geomspace(1e-10, 10.0, 23):
        theta = u @ (-sigma * target / (sigma**2 + ridge))
        loss = float(np.linalg.norm(second.gradient + second.balance.T @ theta))
        path.append(FittedRadius(0.0, float(np.linalg.norm(theta)), float(ridge), loss))
    least = min(fit.held_out_loss for fit in path)
    # the path is flat near its minimum and noise picks there: take the smoothest fit that is as good
    best = max((fit for fit in path if fit.held_out_loss <= _AS_GOOD * least), key=lambda fit: fit.ridge)
    residual = bellman_residual(pilot, values_at_rows(pilot, center))
    floor = float(np.abs(residual).max()) / ((1 + pilot.gamma) * math.sqrt(values.sup_diag))  # 0 if unbounded
    return _joined(replace(best, fitted_norm=max(best.fitted_norm, floor)), factor, half_range)


def _joined(fitted: FittedRadius, factor: float, half_range: float) -> FittedRadius:
    return replace(fitted, radius=max(math.hypot(half_range, factor * fitted.fitted_norm), 1e-300))


def weakness(pilot: Problem) -> str:
    """Why these rows say too little about the size of q*; empty when they do not."""
    if len(pilot) < _FEWEST_ROWS:
        return f"only {len(pilot)} rows"
    ends = 1.0 - float(np.mean(pilot.continues))
    if np.ptp(pilot.rewards) == 0.0 and ends in (0.0, 1.0):
        return f"every reward among the {len(pilot)} rows is {pilot.rewards[0]:g}"
    if pilot.layout.discrete and pilot.layout.slots > 1 and np.unique(pilot.slots).size == 1:
        return f"only the action {int(pilot.slots[0])} was taken in the {len(pilot)} rows"
    if len(pilot) < pilot.layout.dimension:
        return f"{len(pilot)} rows are fewer than the {pilot.layout.dimension} columns of a state"
    return ""
