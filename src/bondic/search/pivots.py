"""Landmarks by pivoted Cholesky: the point that the span represents worst first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bondic.core.kernels.normal_form import Term

FloatArray = npt.NDArray[np.float64]


def pivots(term: Term, pool: FloatArray, rank: int, tolerance: float) -> tuple[list[int], FloatArray]:
    """Chosen rows of the pool and an upper triangular R, K_ll = R^T R in plain floats, until all points are represented.

    A point is represented when at most `tolerance` of the largest k(x, x) is left of its own.
    """
    own = term.diag(pool)
    chosen, columns = greedy_pivots(
        own, lambda pivot: term.block(pool[pivot : pivot + 1], pool)[0], rank, tolerance * float(own.max())
    )
    return chosen, np.triu(columns[:, chosen])


def greedy_pivots(
    diagonal: FloatArray,
    column: Callable[[int], FloatArray],
    most: int,
    floor: float,
    start: FloatArray | None = None,
) -> tuple[list[int], FloatArray]:
    """Points of a kernel matrix, until no more than `floor` is left of any diagonal entry, and their coordinates.

    `column(i)` is the i-th column of the matrix whose diagonal is given (N,); `start` (s, N) holds coordinates that the
    points have already. Returns the points and their new coordinates (steps, N): the columns of the triangular factor.
    """
    given = np.zeros((0, diagonal.size)) if start is None else start
    residual = np.maximum(diagonal - np.einsum("ij,ij->j", given, given), 0.0)
    columns = np.zeros((min(most, diagonal.size), diagonal.size))
    chosen: list[int] = []
    for step in range(columns.shape[0]):
        pivot = int(np.argmax(residual))
        if residual[pivot] <= floor:
            break
        left = column(pivot) - columns[:step].T @ columns[:step, pivot] - given.T @ given[:, pivot]
        columns[step] = left / np.sqrt(residual[pivot])
        residual = np.maximum(residual - columns[step] ** 2, 0.0)
        residual[pivot] = 0.0
        chosen.append(pivot)
    return chosen, columns[: len(chosen)]
