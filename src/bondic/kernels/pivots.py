"""Landmarks of a kernel's term: pivoted Cholesky, the point that the span represents worst first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.kernels.normal_form import Term

FloatArray = npt.NDArray[np.float64]


def pivots(term: Term, pool: FloatArray, rank: int, tolerance: float) -> tuple[list[int], FloatArray]:
    """Chosen rows of the pool and an upper triangular R, K_ll = R^T R in plain floats, until all points are represented.

    A point is represented when at most `tolerance` of the largest k(x, x) is left of its own.
    """
    residual = term.diag(pool).copy()
    floor = tolerance * float(residual.max())
    columns = np.zeros((min(rank, pool.shape[0]), pool.shape[0]))
    chosen: list[int] = []
    for step in range(columns.shape[0]):
        pivot = int(np.argmax(residual))
        if residual[pivot] <= floor:
            break
        column = term.block(pool[pivot : pivot + 1], pool)[0] - columns[:step].T @ columns[:step, pivot]
        columns[step] = column / np.sqrt(residual[pivot])
        residual = np.maximum(residual - columns[step] ** 2, 0.0)
        residual[pivot] = 0.0
        chosen.append(pivot)
    return chosen, np.triu(columns[: len(chosen)][:, chosen])
