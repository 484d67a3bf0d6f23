"""The series engine: its enclosure holds the exact sum, its tail bound is a bound, and it knows when to give up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
from bondic.core.kernels import series
from bondic.core.kernels.leaves import Dirac
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.sums.forms import enclose
from bondic.engines import moments
from bondic.engines.moments import Bands
from forms import quadratic_form, series_form


def exact(points: np.ndarray, columns: np.ndarray) -> mpf:
    """sum_p u_p^T K u_p in 50 digits at the float coordinates."""
    total = mpf(0)
    with mp.workdps(50):
        z = [[mpf(float(v)) for v in row] for row in points]
        u = [[mpf(float(v)) for v in row] for row in columns]
        for i in range(len(z)):
            for j in range(i + 1):
                square = mp.fsum((a - b) ** 2 for a, b in zip(z[i], z[j], strict=True))
                weight = mp.fsum(a * b for a, b in zip(u[i], u[j], strict=True))
                total += (1 if i == j else 2) * mp.exp(-square / 2) * weight
    return total


SETS = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)) * 0.5,
    "all equal": lambda rng, n, d: np.tile(rng.normal(size=d), (n, 1)),
    "collinear": lambda _, n, d: np.outer(np.linspace(-2, 2, n), np.ones(d)) / math.sqrt(d),
    "one outlier": lambda rng, n, d: np.vstack([rng.normal(size=(n - 1, d)) * 0.3, np.full((1, d), 3.0)]),
    "zero coordinates": lambda rng, n, d: rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("dimension", "tolerance"), [(1, 1e-13), (2, 1e-3), (3, 1e-9)])
def test_the_enclosure_holds_the_exact_sum(name, dimension, tolerance):
    rng = np.random.default_rng(len(name) * 7 + dimension)
    points = SETS[name](rng, 40, dimension)
    columns = rng.normal(size=(40, 2))
    norms, masses = series.squared_norms(points), np.abs(columns)
    size = masses.sum(axis=0) ** 2
    degree = moments.fitting_degree(norms, masses, dimension, tolerance * size)
    assert degree is not None
    assert np.all(moments.tail_error(norms, masses, degree) <= tolerance * size)
    for p, found in enumerate(series_form(points, columns, norms, degree)):
        truth = exact(points, columns[:, [p]])
        assert abs(mpf(found.mid) - truth) <= mpf(found.rad)
        assert found.rad <= (tolerance + 1e-12) * size[p]


def banded(points, columns, degree, root):
    """u_p^T K u_p of every column, near points with fewer terms; and how many bands serve points."""
    bands, norms = Bands.of(degree, root), series.squared_norms(points)
    sums, roots = (
        moments.Moments(degree, points.shape[1], columns.shape[1]),
        np.zeros((bands.degrees.size, columns.shape[1])),
    )
    places = bands.places(norms)
    for band in np.unique(places):
        mine, lower = places == band, int(bands.degrees[band])
        sums.add(points[mine], np.ascontiguousarray(columns[mine]), lower)
        roots[band] = moments.tail_roots(norms[mine], np.abs(columns[mine]), lower)
    masses = moments.column_masses(columns)
    share = moments.near_share(sums, masses, roots, bands, float(norms.max()), points.shape)
    return enclose([share], columns.shape[1]), np.unique(places).size


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("dimension", "root"), [(1, 1e-9), (2, 0.5), (2, 1e-2), (3, 1e-5)])
def test_fewer_terms_for_near_points_still_enclose_the_exact_sum(name, dimension, root):
    rng = np.random.default_rng(len(name) * 11 + dimension)
    points, columns = SETS[name](rng, 40, dimension), rng.normal(size=(40, 2))
    found, _ = banded(points, columns, 18, root)
    for p, value in enumerate(found):
        assert abs(mpf(value.mid) - exact(points, columns[:, [p]])) <= mpf(value.rad)


def test_what_near_points_leave_out_meets_what_far_points_have_there(monkeypatch):
    """Light near points beside heavy far ones in the same direction: without the mixed term the enclosure would be wrong."""
    points = np.array([[0.0, 0.7], [0.0, 1.0], [0.0, 1.4], [0.0, 3.0]])  # the second half is the one that is cut
    columns = np.array([[1e-3, 1e-2], [1e-3, 1e-2], [1e-3, 1e-2], [1.0, 2.0]])
    truths = [exact(points, columns[:, [p]]) for p in range(2)]

    def misses():
        found, used = banded(points, columns, 30, 0.03)
        assert used >= 3
        return sum(abs(mpf(value.mid) - truth) > mpf(value.rad) for value, truth in zip(found, truths, strict=True))

    assert misses() == 0
    monkeypatch.setattr(moments.Moments, "outside", lambda sums, degree: np.zeros(2))  # noqa: ARG005
    assert misses() > 0


def test_the_cut_off_part_is_positive_and_below_the_tail():
    """Lemma 20, both sides: truncated sums grow with the degree and never pass the exact one."""
    rng = np.random.default_rng(4)
    points, columns = rng.normal(size=(30, 2)), rng.normal(size=(30, 1))
    truth = float(exact(points, columns))
    norms, masses = series.squared_norms(points), np.abs(columns)
    before = 0.0
    for degree in (1, 3, 6, 10, 15):
        sums = moments.Moments(degree, points.shape[1], columns.shape[1])
        sums.add(points, columns)
        kept = float((sums.total() ** 2).sum())
        assert before <= kept <= truth + 1e-12
        assert truth - kept <= moments.tail_error(norms, masses, degree)[0]
        before = kept


@pytest.mark.parametrize(
    ("norm", "degree"),
    [(0.0, 1), (1e-8, 2), (1e-8, 20), (0.3, 1), (0.3, 7), (2.0, 2), (2.0, 60), (9.0, 7), (9.0, 20), (40.0, 60)],
)
def test_poisson_tail_is_an_upper_bound_and_sharp_when_small(norm, degree):
    with mp.workdps(500):
        truth = 1 - mp.fsum(mp.e ** (-mpf(norm)) * mpf(norm) ** j / mp.factorial(j) for j in range(degree))
    bound = float(series.poisson_tail(np.array([norm]), degree)[0])
    assert bound >= float(truth)
    if norm < degree / 2 and truth > mpf("1e-280"):
        assert bound <= 2.5 * float(truth)


def test_split_and_pairs_agree_at_scale():
    rng = np.random.default_rng(10)
    points = rng.normal(size=(6000, 3)) * 0.5
    points[:60] *= 3
    weights = rng.normal(size=(6000, 2))
    terms = normal_form(bondic.Gaussian([1.0, 1.5, 0.8]) * Dirac(), Layout(3, False, 0, 2))
    fast, slow = quadratic_form(terms, points, weights), quadratic_form(terms, points, weights, engine="pairs")
    assert abs(fast.mid - slow.mid) <= fast.rad + slow.rad
    assert fast.rad <= 1e-4 * fast.mid
    assert fast.rad != slow.rad
