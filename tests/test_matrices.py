"""Every bound of `bondic.core.bounded` against 60 digits, on inputs of all sizes and conditions: never on the wrong side."""

import numpy as np
import pytest
from mpmath import mp, mpf

from bondic.core.bounded import largest_eigenvalue, maximum_on_ball, norm, product_error, row_norms
from bondic.core.errors import NumericalError

DIGITS = 60
SCALES = [1e-8, 1e-3, 1.0, 1e8]


def exact(array):
    return mp.matrix(array.tolist())


def exact_norm(array):
    return mp.sqrt(mp.fsum(mpf(float(value)) ** 2 for value in np.ravel(array)))


def ill(rng, rows, columns, scale):
    """Singular values from 1 down to 1e-14, times a scale."""
    u, v = np.linalg.qr(rng.normal(size=(rows, rows)))[0], np.linalg.qr(rng.normal(size=(columns, columns)))[0]
    small = min(rows, columns)
    return scale * (u[:, :small] * 10.0 ** -np.linspace(0, 14, small)) @ v[:small]


@pytest.mark.parametrize("scale", [1e-200, 1e-158, *SCALES, 1e150])
def test_norms_are_above(scale):
    rng = np.random.default_rng(0)
    array = scale * rng.normal(size=(7, 5))
    with mp.workdps(DIGITS):
        assert norm(array) >= exact_norm(array)
        assert all(found >= exact_norm(row) for found, row in zip(row_norms(array), array, strict=True))
        assert norm(array) <= exact_norm(array) * (1 + 1e-13) + mpf(1e-139)


def test_numbers_that_are_not_finite_have_no_norm():
    for bad in (np.nan, np.inf, 1e200):
        with np.errstate(over="ignore"), pytest.raises(NumericalError):
            norm(np.array([1.0, bad]))


@pytest.mark.parametrize("scale", SCALES)
def test_products(scale):
    rng = np.random.default_rng(1)
    a, b = ill(rng, 6, 12, scale), ill(rng, 12, 5, 1 / scale)
    with mp.workdps(DIGITS):
        error = exact(a @ b) - exact(a) * exact(b)
        assert mp.mnorm(error, "f") <= product_error(12, norm(a), norm(b))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seed", range(3))
def test_largest_eigenvalue(scale, seed):
    rng = np.random.default_rng(seed)
    root = ill(rng, 6, 6, scale)
    for matrix in (root @ root.T, -(root @ root.T), 0.5 * (root + root.T), np.zeros((6, 6)), scale * np.ones((6, 6))):
        symmetric = 0.5 * (matrix + matrix.T)
        top, _, _ = largest_eigenvalue(symmetric)
        with mp.workdps(DIGITS):
            true = max(mp.eigsy(exact(symmetric), eigvals_only=True))
        assert top >= true
        assert top <= max(true, 0) + 1e-12 * np.linalg.norm(symmetric) + 1e-130


def test_a_matrix_of_no_numbers_has_no_eigenvalue():
    with pytest.raises(NumericalError):
        largest_eigenvalue(np.full((2, 2), np.nan))


def best_on_ball(matrix, linear):
    """min over nu of nu + b^T (nu - M)^-1 b, which is the maximum itself (strong duality of the trust region)."""
    size = matrix.shape[0]
    values, vectors = mp.eigsy(exact(matrix))
    along = [mp.fsum(vectors[i, j] * mpf(float(linear[i])) for i in range(size)) for j in range(size)]
    top, length = max(values), mp.sqrt(mp.fsum(c * c for c in along))
    low, high = max(top, mpf(0)), max(top, mpf(0)) + length + mpf(10) ** -200

    def slope(nu):
        return mp.fsum((c / (nu - v)) ** 2 for c, v in zip(along, values, strict=True) if c != 0) - 1

    low += mpf(10) ** -50 * (high + 1)
    if slope(low) > 0:
        for _ in range(180):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return low + mp.fsum(c * c / (low - v) for c, v in zip(along, values, strict=True) if c != 0)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("ratio", [1e-8, 1.0, 1e8])
def test_maximum_on_ball(scale, ratio):
    rng = np.random.default_rng(3)
    root = ill(rng, 5, 5, np.sqrt(scale))
    linear = scale * ratio * rng.normal(size=5)
    for matrix in (root @ root.T, -(root @ root.T)):
        symmetric = 0.5 * (matrix + matrix.T)
        for b in (linear, 0 * linear, linear * (np.arange(5) == 0)):
            with mp.workdps(DIGITS):
                true = best_on_ball(symmetric, b)
                found = mpf(maximum_on_ball(symmetric, b))
                # 1e-45: the twin stops just above the largest eigenvalue
                assert found >= true - mpf(10) ** -45 * (1 + true)
                assert found <= true * (1 + 1e-7) + mpf(1e-9) * (scale + norm(b))


def test_no_point_of_the_ball_is_above():
    rng = np.random.default_rng(4)
    for _ in range(20):
        matrix, b = rng.normal(size=(4, 4)), rng.normal(size=4) * 10.0 ** rng.integers(-8, 9)
        matrix = matrix + matrix.T
        z = rng.normal(size=(200, 4))
        z /= np.maximum(np.linalg.norm(z, axis=1), 1.0)[:, None]
        assert np.all(np.einsum("ij,jk,ik->i", z, matrix, z) + 2 * z @ b <= maximum_on_ball(matrix, b) * (1 + 1e-14))
