"""Coordinates of W's kernel that a matrix can be summed in: explicit features, or a projection on landmarks.

For landmarks l and any matrix T, psi(x) = T k(l, x) are the coordinates of k(x, .) under a map whose square has norm
|T K_ll T^T|. Divided by that they are a contraction, so that k(x, y) - psi(x) . psi(y) is again a kernel: nothing is
assumed of T, and its quality costs length alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from bondic.core.bounded import TINY, U, inflate, upper_sum
from bondic.core.functions import term_feature_bounds, term_features
from bondic.core.kernels.base import FeatureLeaf
from bondic.core.kernels.normal_form import Term
from bondic.search.basis import pivots

FloatArray = npt.NDArray[np.float64]

POOL = 2000
"""Rows, spread over the log, that landmarks are picked from."""
_RANK = 300
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class TermCoordinates:
    """psi for one term, its action embedding left out."""

    term: Term
    landmarks: FloatArray | None = None  # (m, D); None: explicit features
    mix: FloatArray | None = None  # (m, m) T
    stretch: float = 0.0  # |T K_ll T^T| is at most 1 + stretch

    @property
    def exact(self) -> bool:
        """Whether nothing of the kernel is left out."""
        return self.landmarks is None

    def values(self, points: FloatArray) -> FloatArray:
        """(n, D) -> (n, m)."""
        if self.landmarks is None or self.mix is None:
            return term_features(self.term, points)
        return np.asarray(self.term.block(points, self.landmarks) @ self.mix.T)

    def error(self, points: FloatArray) -> float:
        """A bound of |computed - exact| over the entries of `values`."""
        if self.landmarks is None or self.mix is None:
            return term_feature_bounds(self.term, points)[0]
        if self.mix.size == 0:  # the term is 0 wherever it was looked at
            return 0.0
        size, off = self.term.bounds(points, self.landmarks)
        longest = float(np.abs(self.mix).sum(axis=1).max()) * (1 + 1e-9)
        roundings = (self.mix.shape[0] + 4) * U * (size + off)
        return float(longest * (off + roundings) * (1 + 1e-9) + self.mix.size * TINY)


def has_features(term: Term) -> bool:
    return all(isinstance(leaf, FeatureLeaf) for leaf, _ in term.factors)


def coordinates_of(term: Term, pool: FloatArray) -> TermCoordinates:
    """Explicit features where the term has them, else landmarks from the pool."""
    if has_features(term):
        return TermCoordinates(term)
    chosen, factor = pivots(term, pool, _RANK, _TOLERANCE)
    landmarks = np.ascontiguousarray(pool[chosen])
    if not chosen:
        return TermCoordinates(term, landmarks, np.zeros((0, 0)))
    mix = np.asarray(solve_triangular(factor, np.eye(len(chosen)), trans="T"))
    return TermCoordinates(term, landmarks, mix, _stretch(term, landmarks, mix))


def _stretch(term: Term, landmarks: FloatArray, mix: FloatArray) -> float:
    """|T K T^T - I| in Frobenius norm, rounded up: T K T^T as computed, the error of K, and of two matrix products."""
    gram = term.block(landmarks, landmarks)
    size, off = term.bounds(landmarks, landmarks)
    count, square = mix.shape[0], upper_sum(mix * mix)
    seen = mix @ gram @ mix.T - np.eye(count)
    missed = count * (off + 2 * (count + 4) * U * (size + off)) * square
    return inflate((math.sqrt(upper_sum(seen * seen)) + missed + 4 * U * count) * (1 + 1e-9))
