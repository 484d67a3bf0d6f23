"""Least-squares temporal differences in features: theta, and the weights that go with it.

A = Phi' C (Phi - gamma Phi_next) + ridge I,  b = Phi' C r,  theta = A^-1 b,  u = A^-T phi_0,  w_i = n phi_i . u,

so that phi_0 . theta = (1/n) sum_i c_i w_i r_i: the value of the fitted q is also a weighted mean of rewards.

The interval is value +- z sqrt( sum over units ( sum_i phi_i . u delta_i )^2 ), the sandwich variance of a solution of
moment equations (Bradtke and Barto 1996; Luckett et al. 2020 for intervals).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, NumericalError
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.features import Design
from bondic_lab.baselines.units import OverFeatures, Sample

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LinearFit:
    """theta (D,) of q and u (D,) of the weights."""

    theta: FloatArray
    dual: FloatArray
    value: float  # phi_0 . theta

    def differences(self, design: Design) -> FloatArray:
        """delta_i = r_i + gamma q(x'_i) - q(x_i), (n,)."""
        return np.asarray(design.rewards + design.gamma * (design.following @ self.theta) - design.logged @ self.theta)

    def parts(self, design: Design) -> FloatArray:
        """phi_i . u delta_i: what row i adds to the error of the value, (n,)."""
        return np.asarray((design.logged @ self.dual) * self.differences(design))


def fit_lstd(
    design: Design,
    counts: FloatArray | None = None,
    *,
    ridge: float,
    start: FloatArray | None = None,
    prior: FloatArray | None = None,
) -> LinearFit:
    """Solve for theta and u; counts (n,) weigh the rows, the ridge draws theta towards `prior` (0 unless given)."""
    if not ridge > 0:
        raise InvalidInput(f"ridge={ridge}; a positive number (in rows) is needed.")
    weighted = design.counted(counts)
    matrix = weighted.T @ (design.logged - design.gamma * design.following) + ridge * np.eye(design.dimension)
    phi = design.start if start is None else start
    try:
        right = weighted.T @ design.rewards
        theta = np.linalg.solve(matrix, right if prior is None else right + ridge * prior)
        dual = np.linalg.solve(matrix.T, phi)
    except np.linalg.LinAlgError as problem:
        raise NumericalError(
            "The linear system of temporal differences is singular: pass a larger ridge=."
        ) from problem
    return LinearFit(np.asarray(theta), np.asarray(dual), float(phi @ theta))


def restrict(design: Design, rows: BoolArray) -> Design:
    """The same features on some of the rows."""
    logged, following, rewards = design.logged[rows], design.following[rows], design.rewards[rows]
    return replace(design, logged=logged, following=following, rewards=rewards)


@dataclass(frozen=True)
class Lstd(OverFeatures, name="lstd", words="temporal differences, sandwich variance"):
    """Asymptotic: fixed features that hold q*, many independent units (episodes when the log names them, else rows)."""

    def fit_ends(self, sample: Sample, design: Design, ridge: float) -> out.Outcome:
        fit = fit_lstd(design, ridge=ridge)
        return sample.normal(fit.value, sample.error(design, fit.theta, fit.parts(design)), ridge=f"{ridge:g} rows")
