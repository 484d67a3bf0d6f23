"""Radius of Q: ten times the norm of the q that predicts held-out rows best (sections 5 and 8)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.concentration.value_range import range_of
from bondic.kernels.base import Kernel
from bondic.problem import Problem
from bondic.solvers.basis import make_basis
from bondic.solvers.model import build_model

FloatArray = npt.NDArray[np.float64]

_FEWEST_ROWS = 20
_AS_GOOD = 1.05


@dataclass(frozen=True)
class FittedRadius:
    """r_Q = factor * |q^|, with the ridge that won on later rows."""

    radius: float
    fitted_norm: float
    ridge: float
    held_out_loss: float


def held_out_radius(
    pilot: Problem, values: Kernel, instruments: Kernel, *, factor: float, rank: int = 200
) -> FittedRadius:
    """Fit q^ on the first half of the rows for a path of ridges, score L_W on the second half, keep the best.

    The order of rows is time: the later half judges. A short log may prefer q^ = 0, and ten times nothing is not a
    ball. So |q^| is at least max |r_i| / ((1 + gamma) sqrt(K~_max)), because a mean reward is q*(x) - gamma E q*(x')
    and |q*(x)| <= sqrt(K~_max) |q*|; and with fewer than 20 rows the edge of the value range stands in for |q^|.
    """
    if len(pilot) < _FEWEST_ROWS:
        return _stand_in(pilot, factor)
    cut = int(pilot.log_rows[len(pilot) // 2])  # half of the rows that count: the others lie beyond the horizon
    fit, judge = (pilot.select(pilot.rows.start, cut), pilot.select(cut)) if len(pilot) > 1 else (pilot, pilot)
    q_basis = make_basis(
        values, pilot.layout, np.concatenate([pilot.logged, pilot.initial.points]), rank=rank, tolerance=1e-9
    )
    w_basis = make_basis(instruments, pilot.layout, pilot.logged, rank=rank, tolerance=1e-9)
    first = build_model(fit, w_basis, q_basis, None)
    second = build_model(judge, w_basis, q_basis, None)
    u, sigma, right = np.linalg.svd(first.balance, full_matrices=False)
    target = right @ first.gradient
    top = max(float(sigma.max(initial=0.0)) ** 2, 1e-300)
    path: list[FittedRadius] = []
    for ridge in top * np.geomspace(1e-10, 10.0, 23):
        theta = u @ (-sigma * target / (sigma**2 + ridge))
        loss = float(np.linalg.norm(second.gradient + second.balance.T @ theta))
        norm = float(np.linalg.norm(theta))
        path.append(FittedRadius(factor * norm, norm, float(ridge), loss))
    least = min(fit.held_out_loss for fit in path)
    # the path is flat near its minimum and noise picks there: take the smoothest fit that is as good
    best = max((fit for fit in path if fit.held_out_loss <= _AS_GOOD * least), key=lambda fit: fit.ridge)
    top_value = values.sup_diag
    floor = (
        float(np.abs(pilot.rewards).max()) / ((1 + pilot.gamma) * np.sqrt(top_value)) if np.isfinite(top_value) else 0.0
    )
    norm = max(best.fitted_norm, float(floor))
    return replace(best, radius=factor * norm, fitted_norm=norm) if norm > 0 else _stand_in(pilot, factor)


def _stand_in(pilot: Problem, factor: float) -> FittedRadius:
    size = max(range_of(pilot.terms).largest, 1e-300)
    return FittedRadius(factor * size, size, 0.0, float("nan"))
