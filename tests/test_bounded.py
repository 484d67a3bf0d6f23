"""Enclosures contain the exact result, and bounds on matrices are on the right side.

Exact results come from `fractions.Fraction` (a float is a fraction) and, for logarithms and matrices, from 50 and 60 digits.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from bondic.core.bounded import (
    EnclosedArray,
    Enclosure,
    U,
    certified_dot,
    certified_sum,
    inflate,
    largest_eigenvalue,
    log_enclosure,
    maximum_on_ball,
    next_down,
    next_up,
    norm,
    power_enclosure,
    product_error,
    row_norms,
    upper_sum,
)
from bondic.core.errors import NumericalError

mp.dps = 50

anything = st.floats(allow_nan=False, allow_infinity=False)
ordinary = st.floats(min_value=1e-140, max_value=1e140) | st.floats(min_value=-1e140, max_value=-1e-140) | st.just(0.0)
radii = st.just(0.0) | st.floats(min_value=0.0, max_value=1e-9) | st.floats(min_value=1e-140, max_value=1e140)
places = st.fractions(min_value=-1, max_value=1, max_denominator=64)
many = settings(max_examples=60)


def member(x: Enclosure, place: Fraction) -> Fraction:
    """A number inside the enclosure: mid + place * rad."""
    return Fraction(x.mid) + place * Fraction(x.rad)


def contains(x: Enclosure, exact: Fraction) -> bool:
    inside = abs(exact - Fraction(x.mid)) <= Fraction(x.rad)
    above = not math.isfinite(x.upper) or exact <= Fraction(x.upper)
    below = not math.isfinite(x.lower) or Fraction(x.lower) <= exact
    return inside and above and below


def enclosures(numbers):
    return st.builds(Enclosure, numbers, radii)


# ------------------------------------------------------------------------------------------------- arithmetic


@many
@given(enclosures(anything), enclosures(anything), places, places)
def test_sum_and_difference_contain_the_exact_result(x, y, s, t):
    exact_x, exact_y = member(x, s), member(y, t)
    for operation in (lambda a, b: a + b, lambda a, b: a - b):
        try:
            result = operation(x, y)
        except NumericalError:
            assert abs(x.mid) + abs(y.mid) + x.rad + y.rad > 1e307  # only an overflow may refuse
            continue
        assert contains(result, operation(exact_x, exact_y))


@many
@given(enclosures(anything), enclosures(anything), places, places)
@example(Enclosure(5e-324, 5e-324), Enclosure(0.5, 0.0), Fraction(1), Fraction(0))
@example(Enclosure(1e-200), Enclosure(1e-200), Fraction(0), Fraction(0))
@example(Enclosure(0.0, 1.0), Enclosure(0.0, 1.0), Fraction(1), Fraction(1))
@example(Enclosure(0.49, 0.49), Enclosure(5e-324, 5e-324), Fraction(1), Fraction(1))
def test_product_contains_the_exact_result(x, y, s, t):
    try:
        result = x * y
    except NumericalError:
        assert (abs(x.mid) + x.rad) * (abs(y.mid) + y.rad) > 1e307
        return
    assert contains(result, member(x, s) * member(y, t))


@many
@given(enclosures(ordinary), enclosures(ordinary), places, places)
@example(Enclosure(1.0), Enclosure(1.0, 0.5), Fraction(0), Fraction(-1))
@example(Enclosure(3.0, 2.0), Enclosure(-1.0, 0.9), Fraction(1), Fraction(1))
def test_quotient_contains_the_exact_result(x, y, s, t):
    if abs(y.mid) <= y.rad:
        with pytest.raises(NumericalError, match="contains zero"):
            x / y
        return
    try:
        result = x / y
    except NumericalError:
        assert (abs(Fraction(x.mid)) + Fraction(x.rad)) / (abs(Fraction(y.mid)) - Fraction(y.rad)) > Fraction(1e290)
        return
    assert contains(result, member(x, s) / member(y, t))


@many
@given(ordinary, enclosures(ordinary), places)
def test_floats_mix_with_enclosures(number, x, t):
    exact, left = member(x, t), Fraction(number)
    assert contains(number + x, left + exact)
    assert contains(x + number, left + exact)
    assert contains(number - x, left - exact)
    assert contains(x - number, exact - left)
    assert contains(number * x, left * exact)
    assert contains(-x, -exact)
    assert contains(abs(x), abs(exact))


@many
@given(st.floats(min_value=0.0, max_value=1e300), radii, places)
@example(0.0, 0.0, Fraction(0))
@example(5e-324, 0.0, Fraction(0))
@example(1e-30, 1e-9, Fraction(1))
def test_square_root_contains_the_exact_root(mid, rad, place):
    x = Enclosure(mid, rad)
    square = member(x, place)
    if square < 0:
        return
    root = x.sqrt()
    assert root.mid - root.rad <= root.mid + root.rad
    assert Fraction(root.upper) ** 2 >= square
    assert root.lower <= 0 or Fraction(root.lower) ** 2 <= square
    high, low = Fraction(root.mid) + Fraction(root.rad), Fraction(root.mid) - Fraction(root.rad)
    assert high**2 >= square
    assert low <= 0 or low**2 <= square


def test_square_root_of_a_negative_number_is_an_error_only_beyond_its_radius():
    with pytest.raises(NumericalError, match="error bound"):
        Enclosure(-1e-10, 1e-11).sqrt()
    root = Enclosure(-1e-10, 2e-10).sqrt()  # the exact number may be anything in [0, 1e-10]
    assert root.lower <= 0
    assert root.upper >= 1e-5


@many
@given(st.floats(min_value=1e-300, max_value=1e300), st.floats(min_value=0.0, max_value=0.99), st.floats(-1, 1))
@example(1.0, 0.0, 0.0)
@example(math.nextafter(1.0, 2.0), 0.0, 0.0)
@example(2.0, 0.9, -1.0)
@example(1.0, 1e-38, 1.0)
def test_logarithm_contains_the_exact_one(mid, share, place):
    x = Enclosure(mid, mid * share)
    result = log_enclosure(x)
    exact = mp.log(mpf(x.mid)) + mp.log1p(mpf(place) * mpf(x.rad) / mpf(x.mid))  # 50 digits of a sum lose a small part
    assert abs(exact - mpf(result.mid)) <= mpf(result.rad)
    assert mpf(result.lower) <= exact <= mpf(result.upper)


@pytest.mark.parametrize("bad", [Enclosure(0.0), Enclosure(-1.0), Enclosure(1.0, 1.0)])
def test_logarithm_refuses_what_reaches_zero(bad):
    with pytest.raises(NumericalError, match="Logarithm"):
        log_enclosure(bad)


@many
@given(st.floats(0.0, 1.0), st.integers(0, 1000))
@example(1 - 2.0**-53, 1000)
@example(1e-200, 2)
def test_powers(base, exponent):
    assert contains(power_enclosure(base, exponent), Fraction(base) ** exponent)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_are_not_finite_are_refused(value):
    with pytest.raises(NumericalError, match="not finite"):
        Enclosure(value)
    with pytest.raises(NumericalError, match="not finite"):
        Enclosure(0.0, value)


def test_overflow_is_refused_and_never_becomes_a_bound():
    with pytest.raises(NumericalError):
        Enclosure(1.5e308) + 1.5e308
    with pytest.raises(NumericalError):
        Enclosure(1e200) * 1e200
    with pytest.raises(NumericalError):
        Enclosure(1e200) / 1e-200
    with pytest.raises(NumericalError):
        certified_sum(np.array([1e308, 1e308]))
    with pytest.raises(NumericalError):
        certified_sum([math.inf, -math.inf])


@many
@given(anything)
def test_one_step_outwards(x):
    assert next_up(x) > x
    assert next_down(x) < x
    assert Fraction(inflate(abs(x))) >= Fraction(abs(x)) * (1 + 15 * Fraction(U)) if abs(x) < 1e308 else True


# -------------------------------------------------------------------------------------------- sums of many


vectors = st.lists(st.floats(min_value=-1e120, max_value=1e120), min_size=0, max_size=30)


@many
@given(vectors)
@example([1e100, 1.0, -1e100])
@example([5e-324] * 7)
def test_certified_sum(values):
    exact = sum(map(Fraction, values), Fraction(0))
    assert contains(certified_sum(values), exact)
    assert contains(certified_sum(np.array(values, dtype=float)), exact)


@many
@given(st.lists(st.tuples(*[st.floats(min_value=-1e120, max_value=1e120)] * 2), max_size=30))
@example([(1e100, 1.0), (1.0, 1.0), (-1e100, 1.0)])
@example([(1e-170, 1e-170), (1e-162, 1e-162)])
@example([(0.1, 0.1), (-0.1, 0.1), (1 / 3, 3.0)])
@example([(0.1, 0.1), (-(0.1 * 0.1), 1.0)])
def test_certified_dot(pairs):
    a, b = np.array(pairs, dtype=float).reshape(-1, 2).T
    exact = sum((Fraction(x) * Fraction(y) for x, y in pairs), Fraction(0))
    assert contains(certified_dot(np.ascontiguousarray(a), np.ascontiguousarray(b)), exact)


@many
@given(st.lists(st.floats(min_value=0, max_value=1e120), max_size=40))
def test_upper_sum(values):
    assert Fraction(upper_sum(np.array(values, dtype=float))) >= sum(map(Fraction, values), Fraction(0))


def test_upper_sum_survives_absorbed_terms():
    """One big number swallows many small ones in every order of summation that keeps it first."""
    values = np.concatenate([[1.0], np.full(100_000, 0.49 * 2 * U)])
    assert Fraction(upper_sum(values)) >= Fraction(1) + 100_000 * Fraction(values[1])


# -------------------------------------------------------------------------------------------------- arrays


def exactly(array, place):
    """Exact members of an enclosed array: mid + place * rad, as fractions."""
    return [
        [Fraction(m) + place * Fraction(r) for m, r in zip(*rows, strict=True)]
        for rows in zip(array.mid.tolist(), array.rad.tolist(), strict=True)
    ]


@many
@given(
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(0, 10_000),
    st.sampled_from([1e-170, 1e-3, 1.0, 1e90]),
    places,
    places,
)
def test_arrays_contain_the_exact_results(rows, columns, seed, scale, s, t):
    """Entry by entry: sums, differences, products, products of matrices and sums along an axis."""
    rng = np.random.default_rng(seed)
    mids = scale * rng.normal(size=(3, rows, columns)) * 10.0 ** rng.integers(-9, 9, size=(3, rows, columns))
    x, y, z = (EnclosedArray(mid, np.abs(mid) * rng.choice([0.0, 1e-9, 0.5])) for mid in mids)
    a, b, c = exactly(x, s), exactly(y, t), exactly(z, s)
    every = [(i, j) for i in range(rows) for j in range(columns)]
    transposed = EnclosedArray(z.mid.T, z.rad.T)
    cases = (
        (x + y, {(i, j): a[i][j] + b[i][j] for i, j in every}),
        (2.0 - x, {(i, j): 2 - a[i][j] for i, j in every}),
        (x * y, {(i, j): a[i][j] * b[i][j] for i, j in every}),
        (
            x @ transposed,
            {(i, k): sum(a[i][j] * c[k][j] for j in range(columns)) for i in range(rows) for k in range(rows)},
        ),
        (
            x.mid @ transposed,
            {
                (i, k): sum(Fraction(x.mid[i, j]) * c[k][j] for j in range(columns))
                for i in range(rows)
                for k in range(rows)
            },
        ),
        (x.sum(axis=1), {(i,): sum(a[i]) for i in range(rows)}),
    )
    for found, truth in cases:
        for place, exact in truth.items():
            assert abs(Fraction(found.mid[place]) - exact) <= Fraction(found.rad[place])
            assert Fraction(found.lower[place]) <= exact <= Fraction(found.upper[place])


# --- Every bound of `bondic.core.bounded` against 60 digits, on inputs of all sizes and conditions: never on the wrong side.

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


@pytest.mark.parametrize("seed", range(20))
def test_long_sums_are_those_of_exact_summation(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=1500) * 2.0 ** rng.integers(-int(rng.integers(1, 1000)), int(rng.integers(1, 800)), 1500)
    cancelling = np.concatenate([values, -values[::-1][1:]])
    for one in (values, cancelling, np.zeros(2000), np.full(2000, 5e-324), np.log1p(0.01 * values / np.abs(values))):
        assert certified_sum(one).mid == math.fsum(one.tolist())
    with pytest.raises(NumericalError):
        certified_sum(np.append(values, np.nan))
