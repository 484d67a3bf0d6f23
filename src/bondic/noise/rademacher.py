"""The paper's bound for general classes. Stated there without a proof that covers dependent rows: labeled so."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bondic.claims import Guarantee

FloatArray = npt.NDArray[np.float64]

GUARANTEE: Guarantee = "none"


def unproved_rademacher_radius(
    values: FloatArray, variance: float, probability: float, *, rng: np.random.Generator, draws: int = 1000
) -> float:
    """2 Rad^_n(W) + sqrt( 2 c_W log(2/delta) / n ), UNPROVED for adaptively collected rows; for comparison only.

    `values` (p, n): the members of a finite class at the rows. The empirical Rademacher complexity
    Rad^_n = E_sigma max_j |(1/n) sum_i sigma_i omega_j(x_i)| is estimated with `draws` random sign vectors.
    Use `FiniteClass` for a bound that holds.
    """
    count = values.shape[1]
    signs = rng.integers(0, 2, size=(draws, count)) * 2.0 - 1.0
    complexity = float(np.abs(signs @ values.T).max(axis=1).mean()) / count
    return float(2.0 * complexity) + math.sqrt(2.0 * variance * math.log(2.0 / probability) / count)
