"""Ellipsoids (18), suprema and quadratic forms against 60 digits and against points of the sets, at all sizes."""

import numpy as np
import pytest
from mpmath import mp, mpf

from bondic.core.sequential.ellipsoids import Cylinder, Quadratic, enclose, supremum, whole_ball
from bondic.core.sequential.landmarks import Embedding

DIGITS, M = 60, 4
SIZES = [1e-8, 1.0, 1e8]


def exact(array):
    return mp.matrix(np.asarray(array).tolist())


def points_of(rng, radius, cylinders, count=400):
    """(ẽ, |e_perp|) in the ball and in every cylinder, some of them on the border."""
    found = []
    while len(found) < count:
        e = rng.normal(size=M + 1)
        e *= radius * rng.uniform(0, 1) ** 0.2 / np.linalg.norm(e)
        shrink = 1.0
        for one in cylinders:  # a point between 0, which is inside, and e
            at, step = one.offset, one.matrix @ e[:M]
            a, b, c = step @ step, at @ step, at @ at - one.size**2
            shrink = min(shrink, (-b + np.sqrt(b * b - a * c)) / a if a > 0 else 1.0)
        found.append(e * min(1.0, shrink) * (1 - 1e-12))
    return np.array(found)


def cylinder(rng, radius, tightness, rows=3):
    matrix = rng.normal(size=(rows, M)) * 10.0 ** rng.uniform(-3, 3)
    size = np.linalg.norm(matrix) * radius * tightness
    offset = rng.normal(size=rows)
    return Cylinder(matrix, 0.9 * size * offset / np.linalg.norm(offset), float(size))


@pytest.mark.parametrize("radius", SIZES)
@pytest.mark.parametrize("tightness", [1e-6, 1e-2, 1.0])
def test_ellipsoids_contain_what_they_must(radius, tightness):
    rng = np.random.default_rng(0)
    for taus in ([0.5], [0.98], [1 - 1e-9], [0.6, 0.35], [np.nextafter(1.0, 0.0)]):
        sets = [cylinder(rng, radius, tightness, rows) for rows in (3, 1)][: len(taus)]
        found = enclose(radius, sets, taus)
        if found is None:  # allowed: one set less to choose from
            assert max(taus) > 0.999 or tightness < 1e-3
            continue
        assert not found.empty
        for e in points_of(rng, radius, sets):
            y = np.linalg.solve(found.shape, e[:M] - found.center)
            assert (1 - found.skew) * (y @ y) + found.alpha * e[M] ** 2 <= found.rho_square * (1 + 1e-9) + 1e-9
        e = points_of(rng, radius, sets)
        rows = rng.normal(size=(6, M)) * 10.0 ** rng.uniform(-4, 4, size=(6, 1))
        given = Embedding(rows, np.abs(rng.normal(size=6)), np.abs(rng.normal(size=6)) * radius)
        bounds = found.products(given)
        extreme = np.abs(e[:, [M]]) * given.perp + given.extra
        values = e[:, :M] @ rows.T
        tiny = 1e-12 * (np.abs(e[:, :M]) @ np.abs(rows.T))
        assert np.all(values + extreme <= bounds.high + tiny)
        assert np.all(values - extreme >= bounds.low - tiny)


@pytest.mark.parametrize("radius", SIZES)
@pytest.mark.parametrize("tightness", [1e-5, 1.0])
def test_skew_and_rho_are_above(radius, tightness):
    """S^T P S and rho^2 in 60 digits, from the floats that the ellipsoid holds."""
    rng = np.random.default_rng(1)
    one, tau = cylinder(rng, radius, tightness), 0.9
    found = enclose(radius, [one], [tau])
    with mp.workdps(DIGITS):
        alpha, size = mpf(found.alpha), mpf(one.size)
        weight = (1 - alpha * mpf(radius) ** 2) / size**2  # all that the ball leaves: more than was used
        used = mpf(tau) / size**2
        assert alpha * mpf(radius) ** 2 + mpf(tau) * (1 - mpf(2) ** -50) <= 1
        shape, matrix, center = exact(found.shape), exact(one.matrix), exact(found.center)
        metric = alpha * mp.eye(M) + used * matrix.T * matrix
        assert mp.mnorm(shape.T * metric * shape - mp.eye(M), "f") <= mpf(found.skew) + mpf(1e-14)
        value = exact(one.offset) + matrix * center
        least = alpha * (center.T * center)[0] + weight * (value.T * value)[0]
        assert found.rho_square >= 1 - least  # the gradient only adds
        ideal = 1 - alpha * (center.T * center)[0] - used * (value.T * value)[0]
        assert found.rho_square <= ideal + 1e-6


def test_contradictions_are_empty_and_touching_sets_are_not():
    line = np.eye(1, M)
    assert enclose(1.0, [Cylinder(line, np.array([2.0]), 0.5)], [0.3]).empty
    assert not enclose(1.0, [Cylinder(line, np.array([1.5]), 0.5)], [0.5]).empty  # e = -1 is left


def test_sizes_of_zero_can_be_divided_by():
    found = enclose(1.0, [Cylinder(np.eye(1, M), np.zeros(1), 0.0)], [0.5])
    assert found is None or not found.empty


def true_form(weights, offsets, rows, outside, e):
    """sum_i w_i (|t_i + f_i . ẽ| + outside_i)^2, the worst that the rest can do."""
    total = mpf(0)
    for w, t, f, b in zip(weights, offsets, rows, outside, strict=True):
        inner = mpf(t) + mp.fsum(mpf(x) * mpf(y) for x, y in zip(f, e, strict=True))
        total += mpf(w) * (abs(inner) + mpf(b)) ** 2
    return total


@pytest.mark.parametrize("radius", SIZES)
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_suprema_of_quadratic_forms(radius, size):
    """No point of the ellipsoid is above; and the bound is near the best of many points when nothing is left over."""
    rng = np.random.default_rng(2)
    n = 12
    rows = rng.normal(size=(n, M)) * size
    offsets = rng.normal(size=n) * size * radius
    weights = rng.uniform(0, 1, n) * 10.0 ** rng.uniform(-3, 3, n)
    linear = rng.normal(size=M) * size**2 * radius
    for perp in (np.zeros(n), np.abs(rng.normal(size=n)) * size * 0.01):
        given = Embedding(rows, perp, perp * radius)
        form = Quadratic.of(weights, offsets, given, radius)
        for ellipsoid in (whole_ball(radius, M), enclose(radius, [cylinder(rng, radius, 1e-2)], [0.9])):
            bound, _ = supremum(ellipsoid, linear, 0.0, form)
            y = rng.normal(size=(300, M))
            y *= (ellipsoid.rho / np.sqrt(1 - ellipsoid.skew)) / np.linalg.norm(y, axis=1)[:, None]
            inside = ellipsoid.center + y @ ellipsoid.shape.T
            outside = perp * radius + given.extra
            values = inside @ linear + ((np.abs(offsets + inside @ rows.T) + outside) ** 2) @ weights
            best = inside[np.argmax(values)]
            with mp.workdps(DIGITS):
                value = mp.fsum(mpf(a) * mpf(b) for a, b in zip(linear, best, strict=True))
                value += true_form(weights, offsets, rows, outside, best)
                assert value <= mpf(bound) * (1 + mpf(1e-13))
                if not perp.any():
                    assert mpf(bound) <= 2 * value


@pytest.mark.parametrize("seed", range(5))
def test_zero_weight_on_the_ball_center(seed):
    """Where linear and quadratic parts cancel at the center, roundings of large terms are paid for."""
    rng = np.random.default_rng(seed)
    center = 1e6 * rng.normal(size=M)
    one = Cylinder(np.eye(M), -center, 1.0)
    found = enclose(1e8, [one], [0.9])
    rows, n = rng.normal(size=(8, M)), 8
    given, offsets = Embedding(rows, np.zeros(n), np.zeros(n)), -rows @ center
    form = Quadratic.of(np.ones(n), offsets, given, 1e8)
    bound, _ = supremum(found, np.zeros(M), 0.0, form)
    with mp.workdps(DIGITS):
        for direction in (*np.eye(M), *-np.eye(M)):
            assert true_form(np.ones(n), offsets, rows, np.zeros(n), center + direction) <= mpf(bound)
