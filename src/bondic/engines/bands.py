"""Degrees by distance: a near point needs fewer terms of the series than a far one (theory, sums page).

A band b serves points up to a certain lambda with the set S_b of multi-indices, which holds all of degree below m_b. With a
the exact embedding of all points and ã the one that is made of these terms, a - ã = sum_b rest_b, where rest_b has its
coordinates outside S_b and |rest_b| <= tau_b = sum_{i in b} |u_i| sqrt(T_{m_b}(lambda_i)). Hence

    - sum_b 2 A_b tau_b <= |a|^2 - |ã|^2 <= sum_b 2 A_b tau_b + ( sum_b tau_b )^2,    A_b = | ã outside S_b |.

A_b is computed. The last band has the highest degree: its A_b is 0 (Lemma 20a; with one band it is Lemma 20).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import FloatArray
from bondic.core.kernels.series import poisson_tail

IntArray = npt.NDArray[np.int64]

_MIXED = 1e3
"""A_b is far below the mass: high degrees belong to few points, whose weights cancel. Measured; a poor guess costs a pass."""
_STEP = 2
_LOWEST = 3
_HALVINGS = 50


@dataclass(frozen=True, eq=False)
class Bands:
    """Points with lambda <= cuts[b] that no lower band serves go to degrees[b], all others to the last."""

    cuts: FloatArray  # (bands - 1,), ascending
    degrees: IntArray  # (bands,), ascending

    @staticmethod
    def of(degree: int, root: float) -> Bands:
        """Every other degree up to the highest; a lower one serves points whose tail has at most this root."""
        degrees = np.arange(degree, min(_LOWEST, degree) - 1, -_STEP)[::-1]
        return Bands(np.array([_reach(int(lower), float(root)) for lower in degrees[:-1]]), degrees)

    def places(self, norms: FloatArray) -> IntArray:
        """The band of every point."""
        return np.searchsorted(self.cuts, norms, side="left")


def band_root(aims: FloatArray) -> float:
    """The root that goes with aims relative to (sum |u|)^2."""
    return float(_MIXED * np.min(aims))


@cache
def _reach(degree: int, root: float) -> float:
    """About the largest lambda with sqrt(T_m(lambda)) <= root."""
    low, high = 0.0, float(degree)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if np.sqrt(poisson_tail(np.array([middle]), degree)[0]) <= root:
            low = middle
        else:
            high = middle
    return low
