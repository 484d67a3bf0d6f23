"""Fitted Q evaluation with linear features, and its bootstrap over episodes (Kostrikov and Nachum 2020).

theta_{k+1} = argmin_theta sum_i c_i ( r_i + gamma theta_k . phi'_i - theta . phi_i )^2 + ridge |theta|^2,  theta_0 = 0,

with c_i the number of times row i's episode is in the (bootstrap) sample; the value is theta_K . phi_0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bondic.core.claims import Assumption
from bondic.core.errors import NumericalError
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.features import Design
from bondic_lab.baselines.units import OverFeatures, Sample, Unit

FloatArray = npt.NDArray[np.float64]


def fit_q(
    design: Design, counts: FloatArray | None = None, *, ridge: float, iterations: int | None = None
) -> FloatArray:
    """theta_K, (D,). K regressions of a linear function are powers of one matrix: log2(K) products suffice.

    With M = gamma (Phi'C Phi + ridge)^-1 Phi'C Phi_next and c its reward part, theta_K = (I + M + ... + M^(K-1)) c.
    """
    power, total = _regression(design, counts, ridge)
    requested = default_iterations(design.gamma) if iterations is None else iterations
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(max(0, math.ceil(math.log2(requested)))):
            total = total + power @ total
            power = power @ power
    return _finite(total)


def fit_steps(design: Design, *, ridge: float, steps: int) -> FloatArray:
    """theta_0 = 0, ..., theta_K: the values of the next k steps alone, by k regressions; (K + 1, D)."""
    power, rewards = _regression(design, None, ridge)
    found = np.zeros((steps + 1, design.dimension))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(steps):
            found[k + 1] = rewards + power @ found[k]
    return _finite(found)


def _regression(design: Design, counts: FloatArray | None, ridge: float) -> tuple[FloatArray, FloatArray]:
    """M (D, D) and c (D,) of theta_{k+1} = c + M theta_k."""
    weighted = design.counted(counts)
    gram = weighted.T @ design.logged + ridge * np.eye(design.dimension)
    right = np.column_stack([design.gamma * (weighted.T @ design.following), weighted.T @ design.rewards])
    solved: FloatArray = np.asarray(np.linalg.solve(gram, right), dtype=np.float64)
    return solved[:, :-1], solved[:, -1]


def _finite(theta: FloatArray) -> FloatArray:
    if not np.all(np.isfinite(theta)):
        raise NumericalError(
            "Fitted Q evaluation diverges: the regression expands values from step to step. Pass a larger ridge=, fewer "
            "features (rank=), or another kernel=."
        )
    return np.asarray(theta)


def default_iterations(gamma: float) -> int:
    """Regressions until gamma^K is 1e-10, rounded up to a power of 2; at least 16 (finite horizons need their length)."""
    requested = 16 if gamma == 0 else (4096 if gamma >= 1 else math.log(1e-10) / math.log(gamma))
    return int(2 ** math.ceil(math.log2(max(requested, 16))))


@dataclass(frozen=True)
class FittedQ(OverFeatures, name="dm", words="fitted Q evaluation, bootstrap over episodes", needs=("episode_ids",)):
    """The direct method `dm`: FQE, with a percentile interval from resampled episodes.

    Asymptotic: many independent episodes, and features whose span is closed under the policy's Bellman operator (else
    the interval shrinks around the wrong number). Default features: a table for few states, else kernel landmarks.
    `unit="rows"` resamples rows instead, for logs of independent rows.
    """

    iterations: int | None = None
    replicates: int = 200
    seed: int = 0
    unit: Unit = field(default="episodes", kw_only=True)
    _values: ClassVar[Assumption] = out.stated(
        "values", "The span of the features is closed under the Bellman operator of the policy."
    )

    def fit_ends(self, sample: Sample, design: Design, ridge: float) -> out.Outcome:
        def fit(counts: FloatArray | None) -> FloatArray:
            return fit_q(design, counts, ridge=ridge, iterations=self.iterations)

        found = sample.bootstrap(design, fit, self.replicates, self.seed)
        return replace(found, choices={"ridge": f"{ridge:g} rows", **found.choices})
