"""The series engine: its enclosure holds the exact sum, its tail bound is a bound, and it knows when to give up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
from bondic.core.kernels import series
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.sums.forms import enclose
from bondic.engines import moments
from bondic.engines import series as engine_of_series
from bondic.engines.engine import Survey
from bondic.engines.moments import Bands
from bondic.engines.threads import Serial
from forms import quadratic_form, quadratic_forms, series_form


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
@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-9, 1e-13])
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
@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("root", [0.5, 1e-2, 1e-5, 1e-9])
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


@pytest.mark.parametrize("norm", [0.0, 1e-8, 0.3, 2.0, 9.0, 40.0])
@pytest.mark.parametrize("degree", [1, 2, 7, 20, 60])
def test_poisson_tail_is_an_upper_bound_and_sharp_when_small(norm, degree):
    with mp.workdps(500):
        truth = 1 - mp.fsum(mp.e ** (-mpf(norm)) * mpf(norm) ** j / mp.factorial(j) for j in range(degree))
    bound = float(series.poisson_tail(np.array([norm]), degree)[0])
    assert bound >= float(truth)
    if norm < degree / 2 and truth > mpf("1e-280"):
        assert bound <= 2.5 * float(truth)


def test_far_points_are_left_to_the_pair_engine():
    rng = np.random.default_rng(3)
    points = rng.normal(size=(2000, 4)) * 50
    masses = np.ones((2000, 1))
    assert moments.fitting_degree(series.squared_norms(points), masses, 4, np.array([1e-10 * 4e6])) is None


def test_several_groups_in_one_pass_equal_separate_calls():
    rng = np.random.default_rng(5)
    layout = Layout(2, False, 0, 2)
    terms = normal_form(bondic.Gaussian(2.0) * Dirac() + bondic.Matern(1.0) + Constant(0.5), layout)
    points = np.repeat(rng.normal(size=(700, 2)), 2, axis=0)
    groups = rng.normal(size=(3, 1400, 2))
    groups[1, 300:] = 0.0
    groups[2] = 0.0
    for engine in ("auto", "pairs", "reference"):
        together = quadratic_forms(terms, points, groups, engine=engine)
        for g in range(3):
            alone = quadratic_form(terms, points, groups[g], engine=engine)
            assert abs(together[g].mid - alone.mid) <= together[g].rad + alone.rad
            assert together[g].rad <= 20 * alone.rad + 1e-9
    assert together[2].mid == 0.0


def test_far_points_go_to_pairs_and_nothing_is_lost(monkeypatch):
    """A cluster with far satellites: the split is used, and its enclosure holds the exact sum of a small problem."""
    rng = np.random.default_rng(8)
    points = np.vstack([rng.normal(size=(58, 2)) * 0.3, rng.normal(size=(2, 2)) * 3 + 4])
    columns = rng.normal(size=(60, 2))
    (term,) = normal_form(bondic.Gaussian(1.0), Layout(2, False, 0, 1))
    monkeypatch.setattr(
        engine_of_series,
        "choose_split",
        lambda center, norms, *_: engine_of_series.Split(center, float(np.sort(norms)[57]), Bands.of(14, 1e-7), 0.0),
    )

    def gaussian_forms(groups):
        survey, engine = Survey(60, points, columns, groups, 2, Serial()), engine_of_series.Series(always=True)
        assert engine.cost(term, survey) == 0.0
        partial = engine.begin(term, survey)
        while partial.wants_more:
            partial.add(points, columns)
            partial.end_pass()
        assert len(partial.values()) == 3
        return enclose(partial.values(), groups)

    found = gaussian_forms(2)
    for p in range(2):
        truth = exact(points, columns[:, [p]])
        assert abs(mpf(found[p].mid) - truth) <= mpf(found[p].rad)
        assert found[p].rad < 1e-6
    together = gaussian_forms(1)
    assert abs(mpf(together[0].mid) - exact(points, columns)) <= mpf(together[0].rad)


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


def test_points_whose_distance_overflows_are_left_to_pairs():
    points = np.random.default_rng(0).normal(size=(40, 2))
    points[3] = 1e200
    terms = normal_form(bondic.Gaussian(1.0) * Dirac(on="action"), Layout(2, False, 0, 1))
    for size in (1.0, 1e-160):
        weights = np.full((1, 40, 1), size)
        (series_value,) = quadratic_forms(terms, points, weights, engine="series")
        (pair_value,) = quadratic_forms(terms, points, weights, engine="pairs")
        assert series_value.lower <= pair_value.upper
        assert pair_value.lower <= series_value.upper
        assert np.isfinite(series_value.rad)
