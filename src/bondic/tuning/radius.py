"""The radius rule of the paper: every value that the range allows, and ten times what the rows show (sections 5 and 8).

    r_Q^2 = (B/2)^2 + ( factor |q̂ - level| )^2,   around the middle of the value range

The first part holds every constant value, seen or not; the second every deviation from one up to `factor` times that of the q
which predicts held-out rows best. Where the rows cannot tell (no reward seen, one action, few rows) B/2 stands in for
|q̂ - level|. No log proves a radius: naming the rule states it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.core.balls import constant_function, constant_value
from bondic.core.columns import Cloud
from bondic.core.functions import Function
from bondic.core.identity import bellman_residual, values_at_rows
from bondic.core.kernels.base import Kernel
from bondic.engines.sums import STANDARD
from bondic.rows import Rows
from bondic.search.actions import Cap
from bondic.search.basis import Basis, capped_basis
from bondic.search.model import build_model, cloud_coordinates

FloatArray = npt.NDArray[np.float64]

_MIN_ROWS = 20
_AS_GOOD = 1.05
CAP = Cap(1000, 20)


@dataclass(frozen=True)
class FittedRadius:
    """r_Q with the norm it rests on and the ridge that won on later rows."""

    radius: float
    fitted_norm: float
    ridge: float
    held_out_loss: float
    weak: str = ""  # why the rows could not tell; empty when they could


def held_out_radius(
    pilot: Rows,
    values: Kernel,
    instruments: Kernel,
    *,
    factor: float,
    half_range: float,
    center: Function | None = None,
    rank: int = 200,
) -> FittedRadius:
    """Fit q̂ on the first half of the rows for a path of ridges, score L_W on the second half, keep the best.

    The order of rows is time: the later half judges. A first fit, around the constant `center`, finds the level of q̂, its
    mean over the rows; the norm is that of a second fit around this level, since a level anywhere in the range is in Q
    already. A short log may prefer q̂ = level, so |q̂ - level| is at least max |R̂level_i| / ((1 + gamma) sqrt(K̃_max)): a
    mean residual is e(x) - gamma E e(x') and |e(x)| <= sqrt(K̃_max) |e|.
    """
    weak = weakness(pilot)
    if weak:
        return _joined(FittedRadius(0.0, half_range, 0.0, float("nan"), weak), factor, half_range)
    fits = _HeldOut.of(pilot, values, instruments, rank)
    level = fits.level(center, fits.best(center)[1])
    return _joined(fits.floored(level), factor, half_range)


def held_out_norm(
    pilot: Rows, values: Kernel, instruments: Kernel, *, center: Function | None = None, rank: int = 200
) -> float:
    """|q̂ - center| of the same fit; ten times that around 0 is the radius of the paper."""
    return _HeldOut.of(pilot, values, instruments, rank).floored(center).fitted_norm


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """The two halves of a log and the coordinates in which q̂ is fitted."""

    pilot: Rows
    fit: Rows
    judge: Rows
    values: Basis
    weights: Basis

    @staticmethod
    def of(pilot: Rows, values: Kernel, instruments: Kernel, rank: int) -> _HeldOut:
        rows = pilot.whole()
        cut = int(rows.log_rows[len(rows) // 2])  # half of the rows that count: the others lie beyond the horizon
        points = np.concatenate([rows.logged, pilot.initial.points])
        return _HeldOut(
            pilot,
            pilot.select(pilot.rows.start, cut),
            pilot.select(cut),
            capped_basis(values, pilot, points, rank=rank, cap=CAP, tolerance=1e-9),
            capped_basis(instruments, pilot, rows.logged, rank=rank, cap=CAP, tolerance=1e-9),
        )

    def best(self, center: Function | None) -> tuple[FittedRadius, FloatArray]:
        """The smoothest fit around `center` whose later loss is as good as any, and its coordinates."""
        first, second = (build_model(rows, self.weights, self.values, center) for rows in (self.fit, self.judge))
        u, sigma, right = np.linalg.svd(first.balance, full_matrices=False)
        target = right @ first.gradient
        top = max(float(sigma.max(initial=0.0)) ** 2, 1e-300)
        path: list[tuple[FittedRadius, FloatArray]] = []
        for ridge in top * np.geomspace(1e-10, 10.0, 23):
            theta = u @ (-sigma * target / (sigma**2 + ridge))
            loss = float(np.linalg.norm(second.gradient + second.balance.T @ theta))
            path.append((FittedRadius(0.0, float(np.linalg.norm(theta)), float(ridge), loss), theta))
        least = min(found.held_out_loss for found, _ in path)
        # the path is flat near its minimum and noise picks there: take the smoothest fit that is as good
        return max((pair for pair in path if pair[0].held_out_loss <= _AS_GOOD * least), key=lambda pair: pair[0].ridge)

    def floored(self, center: Function | None) -> FittedRadius:
        """The best fit around `center`, its norm at least what the residuals ask for."""
        best, _ = self.best(center)
        rows = self.pilot.whole()
        residual = bellman_residual(rows, values_at_rows(rows, center, STANDARD))
        top = self.values.kernel.sup_diag
        floor = float(np.abs(residual).max()) / ((1 + self.pilot.gamma) * math.sqrt(top))  # 0 if unbounded
        return replace(best, fitted_norm=max(best.fitted_norm, floor))

    def level(self, center: Function | None, theta: FloatArray) -> Function | None:
        """The mean of a fit around a constant over the rows, as a constant."""
        rows = self.pilot.whole()
        one = np.eye(rows.layout.slots)[rows.slots]
        cloud = Cloud(rows.logged, one, np.zeros(len(rows), dtype=np.int64))
        mean = cloud_coordinates(self.values, cloud, np.array([1.0 / len(rows)]))
        return constant_function((constant_value(center) or 0.0) + float(mean @ theta), rows.layout)


def _joined(fitted: FittedRadius, factor: float, half_range: float) -> FittedRadius:
    return replace(fitted, radius=max(math.hypot(half_range, factor * fitted.fitted_norm), 1e-300))


def weakness(pilot: Rows) -> str:
    """Why these rows say too little about the size of q*; empty when they do not."""
    if len(pilot) < _MIN_ROWS:
        return f"only {len(pilot)} rows"
    rows = pilot.whole()
    ends = 1.0 - float(np.mean(rows.continues))
    if np.ptp(rows.rewards) == 0.0 and ends in (0.0, 1.0):
        return f"every reward among the {len(pilot)} rows is {rows.rewards[0]:g}"
    if pilot.layout.discrete and pilot.layout.slots > 1 and np.unique(rows.slots).size == 1:
        return f"only the action {int(rows.slots[0])} was taken in the {len(pilot)} rows"
    if len(pilot) < pilot.layout.dimension:
        return f"{len(pilot)} rows are fewer than the {pilot.layout.dimension} columns of a state"
    return ""
