"""Matrix arithmetic that stays a bound: norms rounded up, and a-priori errors of products and of factorizations.

A product of float matrices, summed in any order over k terms, is off by at most gamma_k |A| |B| entry by entry
(gamma_k = k u / (1 - k u)); by Cauchy-Schwarz a row of the error is no longer than gamma_k |a_i| |B|_F.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bondic.core.errors import NumericalError
from bondic.core.rounding import U, inflate

FloatArray = npt.NDArray[np.float64]

SMALL = 1e-140
"""Added to norms: squares of numbers below 1e-154 underflow."""
LEAST = 1e-60
"""Radii and sizes of sets are at least this: a larger set is a valid one, and its square can be divided by."""


def gamma(terms: int) -> float:
    """gamma_k for sums of `terms` products, a little too large: it also pays for what is computed with it."""
    return 1.01 * (terms + 8) * U


def norm(array: FloatArray) -> float:
    """An upper bound of the Euclidean (Frobenius) norm."""
    flat = array.ravel()
    size = float(math.sqrt(float(flat @ flat)) * (1 + gamma(flat.size)) + SMALL) if flat.size else 0.0
    if not math.isfinite(size):
        raise NumericalError(
            "A norm is not finite: the inputs are too large for float64. Rescale rewards or observations."
        )
    return size


def row_norms(array: FloatArray) -> FloatArray:
    """Upper bounds of the norms of the rows."""
    squares = np.einsum("ij,ij->i", array, array)
    return np.asarray(np.sqrt(squares) * (1 + gamma(array.shape[1])) + SMALL)


def product_error(terms: int, left: float, right: float) -> float:
    """A bound of |fl(A B) - A B|_F from bounds of |A|_F and |B|_F (or of a row of it, from the norm of a row)."""
    return inflate(gamma(terms) * left * right + SMALL)


def largest_eigenvalue(matrix: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """An upper bound of the largest eigenvalue of a symmetric float matrix; approximate eigenvalues and vectors with it.

    M = V L V^T + E gives  lambda_max(M) <= max(L, 0) |V|_2^2 + |E|_F,   |V|_2^2 <= 1 + |V^T V - I|_F.
    """
    try:
        values, vectors = np.linalg.eigh(matrix)
    except (np.linalg.LinAlgError, ValueError) as problem:
        raise NumericalError(
            f"The eigenvalues of a {matrix.shape[0]} x {matrix.shape[0]} matrix were not found."
        ) from problem
    size, length = matrix.shape[0], norm(vectors)
    scaled = vectors * values
    # the product with the eigenvalues is rounded once more; sizes of both factors bound the error of their product
    error = norm(matrix - scaled @ vectors.T) + product_error(size + 2, norm(scaled), length) + U * norm(matrix)
    skew = norm(vectors.T @ vectors - np.eye(size)) + product_error(size, length, length) + 4 * U * size
    top = float(values.max(initial=0.0))
    return inflate(top * (1 + skew) + error), values, vectors


def maximum_on_ball(matrix: FloatArray, linear: FloatArray) -> float:
    """An upper bound of max { z^T M z + 2 b^T z : |z| <= 1 } for symmetric M: nu + b^T (nu - M)^-1 b at one nu > lambda_max.

    Every nu gives a bound; a good one is found by bisection. For any z, with r = b - (nu - M) z,

        b^T (nu - M)^-1 b  <=  z^T b + |z| |r| + |r|^2 / (nu - lambda_max).
    """
    size = matrix.shape[0]
    top, values, vectors = largest_eigenvalue(matrix)
    along = vectors.T @ linear
    nu = _good_nu(values, along**2, top)
    inverse = vectors @ (along / (nu - values))
    shifted = nu * inverse - matrix @ inverse
    length, scale = norm(inverse), norm(matrix)
    left_over = norm(linear - shifted) + product_error(size, scale, length) + 4 * U * (nu * length + norm(linear))
    gap = (nu - top) * (1 - 4 * U)
    value = float(inverse @ linear) + product_error(size, length, norm(linear))
    return inflate(nu + value + length * left_over + left_over * left_over / gap + 4 * U * (nu + abs(value)))


def _good_nu(values: FloatArray, squares: FloatArray, top: float) -> float:
    """Near the minimum of nu + sum_j c_j / (nu - l_j), safely above the largest eigenvalue."""
    scale = float(np.sqrt(squares.sum()))
    low = top * (1 + 1e-9) + 1e-12 * scale + SMALL
    high = low + scale
    if float(np.sum(squares / (low - values) ** 2)) <= 1.0:
        return low
    for _ in range(60):
        middle = 0.5 * (low + high)
        if float(np.sum(squares / (middle - values) ** 2)) > 1.0:
            low = middle
        else:
            high = middle
    return high
