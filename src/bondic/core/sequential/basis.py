"""Functions b_j = sum_l M_jl k̃(z_l, .) on landmarks: the coordinates of everything in section 9, and kernel values at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic.core.bounded import FloatArray, IntArray, U, inflate
from bondic.core.errors import InvalidInput
from bondic.core.kernels.normal_form import Layout, Term

GROUP = 256
"""Rows that are multiplied at once where the bits must not depend on how many there are: libraries sum by shape."""


@dataclass(frozen=True, eq=False)
class LandmarkBasis:
    """b_j = sum_l M_jl k̃(z_l, .).

    Parameters
    ----------
    points : array of float, (m, D)
        Landmarks, without discrete actions.
    slots : array of int, (m,)
        Their discrete actions; 0 where actions are continuous.
    matrix : array of float, (m, m)
        M, such that M K M^T is about 1: the inverse of a Cholesky factor, lower triangular, so that the first j functions
        are made of the first j landmarks.
    """

    points: FloatArray
    slots: IntArray
    matrix: FloatArray

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "points", np.ascontiguousarray(self.points, dtype=np.float64))
        put(self, "slots", np.ascontiguousarray(self.slots, dtype=np.int64))
        put(self, "matrix", np.ascontiguousarray(self.matrix, dtype=np.float64))
        m = self.points.shape[0]
        fine = self.points.ndim == 2 and self.slots.shape == (m,) and self.matrix.shape == (m, m) and m > 0
        if not (fine and np.all(np.isfinite(self.points)) and np.all(np.isfinite(self.matrix))):
            raise InvalidInput(f"A basis needs finite landmarks (m, D), slots (m,) and a matrix (m, m); m = {m}.")

    def __len__(self) -> int:
        return int(self.points.shape[0])


def landmark_values(
    terms: tuple[Term, ...], points: FloatArray, weights: FloatArray, basis: LandmarkBasis
) -> FloatArray:
    """sum_a w_ia k̃((x_i, a), z_l) for points with slot weights, (n, m)."""
    out = np.zeros((points.shape[0], len(basis)))
    for term in terms:
        factor = term.columns(weights) @ term.embedding[basis.slots].T
        out += term.block(points, basis.points) * factor
    return out


def kernel_sizes(
    terms: tuple[Term, ...], points: FloatArray, basis: LandmarkBasis, layout: Layout
) -> tuple[float, float]:
    """Largest kernel value between these points and the landmarks, and the error of a computed one, per unit of mass."""
    size = error = 0.0
    for term in terms:
        largest, own = term.bounds(points, basis.points)
        weight = term.embedding_norm * float(np.abs(term.embedding).max())
        error += weight * (own + largest * (term.embedding.shape[1] + layout.slots + len(terms) + 8) * U)
        size += weight * largest
    return inflate(size), inflate(error)


def one_hot(slots: IntArray, layout: Layout) -> FloatArray:
    """Weight 1 on one action each, (n, slots)."""
    out = np.zeros((slots.shape[0], layout.slots))
    out[np.arange(slots.shape[0]), slots] = 1.0
    return out
