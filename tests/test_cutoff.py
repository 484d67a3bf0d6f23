"""The cut-off engine: box distances are lower bounds, dropped pairs are paid for, and the exact sum is enclosed."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import bondic
from bondic.engines import boxes, cutoff, pairs
from bondic.errors import NumericalError
from bondic.executors.threads import Serial, Threads
from bondic.kernels.normal_form import Layout, normal_form
from bondic.sums.engine import Survey, enclose
from bondic.sums.forms import Sums
from forms import quadratic_form, quadratic_forms


def exact(points: np.ndarray, scales: np.ndarray, columns: np.ndarray) -> mpf:
    """sum_p u_p^T K u_p, every pair in 50 digits, at the float inputs."""
    with mp.workdps(50):
        h = [mpf(float(s)) for s in scales]
        z = [[mpf(float(v)) for v in row] for row in points]
        u = [[mpf(float(v)) for v in row] for row in columns]
        total = mpf(0)
        for i in range(len(z)):
            for j in range(i + 1):
                square = mp.fsum(((a - b) / s) ** 2 for a, b, s in zip(z[i], z[j], h, strict=True))
                weight = mp.fsum(a * b for a, b in zip(u[i], u[j], strict=True))
                total += (1 if i == j else 2) * mp.exp(-square / 2) * weight
        return total


def _clusters(rng, n, d):
    return np.where(np.arange(n)[:, None] % 2 == 0, 0.0, 30.0) + rng.normal(size=(n, d))


SETS = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "all equal": lambda rng, n, d: np.tile(rng.normal(size=d), (n, 1)),
    "collinear": lambda rng, n, d: np.outer(rng.uniform(-3, 3, n), np.ones(d)),
    "one far outlier": lambda rng, n, d: np.vstack([rng.normal(size=(n - 1, d)), np.full((1, d), 1e12)]),
    "offset 1e8": lambda rng, n, d: 1e8 + rng.normal(size=(n, d)),
    "duplicates": lambda rng, n, d: np.repeat(rng.normal(size=(-(-n // 3), d)), 3, axis=0)[:n],
    "two clusters": _clusters,
    "grid": lambda rng, n, d: rng.integers(-2, 3, size=(n, d)).astype(float),
    "huge": lambda rng, n, d: 1e150 * rng.normal(size=(n, d)),
    "scales apart": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 6, size=(n, 1)),
}
WEIGHTS = {
    "signed": lambda rng, n: rng.normal(size=(n, 2)),
    "positive": lambda rng, n: rng.random((n, 2)),
    "canceling": lambda rng, n: np.outer((-1.0) ** np.arange(n), [1.0, 0.5]),  # noqa: ARG005
    "heavy tailed": lambda rng, n: rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-9, 9, size=(n, 1)),
    "mostly zero": lambda rng, n: rng.normal(size=(n, 2)) * (rng.random((n, 2)) < 0.2),
}
clouds = st.tuples(
    st.sampled_from(sorted(SETS)), st.sampled_from(sorted(WEIGHTS)), st.integers(1, 4), st.integers(1, 40),
    st.integers(0, 10**6),
)  # fmt: skip


def cloud(drawn):
    name, kind, dimension, count, seed = drawn
    rng = np.random.default_rng(seed)
    return SETS[name](rng, count, dimension), WEIGHTS[kind](rng, count), rng.uniform(0.5, 2.0, dimension)


def gaussian_forms(points, scales, columns, groups, executor=Serial(), progress=None):  # noqa: B008
    """Sum of u_p^T K u_p over the columns of each group."""
    forest = cutoff.prepare(points, scales, columns)
    return enclose([cutoff.shares(forest, cutoff.look(forest), groups, executor, progress)], groups)


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    """Few points make many leaves."""
    monkeypatch.setattr(cutoff, "LEAF", 4)


# ------------------------------------------------------------------------------------------------------ boxes


@pytest.mark.parametrize("count", [1, 3, 4, 5, 37, 64])
def test_the_tree_holds_every_point_once_and_its_nodes_nest(count):
    points = np.random.default_rng(count).normal(size=(count, 3))
    tree = boxes.build(points, np.ones(3), 4)
    assert sorted(tree.order) == list(range(count))
    assert tree.first.size == 2 * tree.leaves.size - 1
    assert tree.leaves.size == -(-count // 4)
    for node in range(tree.first.size):
        inside = points[tree.order[4 * tree.first[node] : 4 * tree.last[node]]]
        assert np.array_equal(tree.low[node], inside.min(axis=0))
        assert np.array_equal(tree.high[node], inside.max(axis=0))
        if tree.last[node] - tree.first[node] > 1:
            left, right = node + 1, tree.skip[node + 1]
            assert (tree.first[left], tree.last[left]) == (tree.first[node], tree.first[right])
            assert tree.last[right] == tree.last[node]
            assert tree.skip[right] == tree.skip[node]
    assert np.array_equal(tree.first[tree.leaves], np.arange(tree.leaves.size))


@settings(max_examples=60, deadline=None)
@given(clouds, st.floats(1e-12, 1e12))
def test_claimed_distances_are_lower_bounds(drawn, width):
    """In exact fractions: no point pair of two boxes is nearer than claimed, and the claim is sharp."""
    points, _, scales = cloud(drawn)
    scales = scales * width
    tree = boxes.build(points, scales, 4)
    moved = points[tree.order]
    by_axis, squares = np.ascontiguousarray(moved.T), np.empty(4)
    rng = np.random.default_rng(drawn[-1])
    for a, b in rng.integers(0, tree.first.size, size=(6, 2)):
        x = moved[4 * tree.first[a] : 4 * tree.last[a]]
        y = moved[4 * tree.first[b] : 4 * tree.last[b]]
        claim = boxes.square_gap(tree, a, b, 1.0 / scales)
        nearest = min(_square(p, q, scales) for p in x for q in y)
        if math.isinf(claim):  # a square overflowed: the kernel value is below exp(-708), which is charged
            assert nearest > 10**300
            continue
        assert Fraction(claim) <= nearest
        box = _box_square(tree.low[[a, b]], tree.high[[a, b]], scales)
        assert claim >= float(box) * (1 - 1e-13) - 1e-280
        top = 4 * int(tree.first[a])
        boxes.point_gaps(by_axis, top, min(4, len(x)), tree, b, 1.0 / scales, squares)
        for i in range(min(4, len(x))):
            assert claim * (1 - 1e-13) <= squares[i]
            assert min(squares[i], 1e300) <= min(_square(x[i], q, scales) for q in y)


def _square(x, y, scales):
    return sum(
        ((Fraction(float(a)) - Fraction(float(b))) / Fraction(float(s))) ** 2
        for a, b, s in zip(x, y, scales, strict=True)
    )


def _box_square(low, high, scales):
    total = Fraction(0)
    for axis, scale in enumerate(scales):
        below, above = [Fraction(float(v)) for v in low[:, axis]], [Fraction(float(v)) for v in high[:, axis]]
        total += (max(Fraction(0), below[1] - above[0], below[0] - above[1]) / Fraction(float(scale))) ** 2
    return total


def test_neighbors_at_an_offset_are_not_torn_apart():
    """At 1e8 the spacing of floats is 1.5e-8: scaling before differencing would move points by bandwidths of 1e-7."""
    points = 1e8 + 2.0**-26 * np.arange(16.0)[:, None]
    tree = boxes.build(points, np.array([1e-7]), 4)
    for a in range(4):
        for b in range(a + 1, 4):
            claim = boxes.square_gap(tree, tree.leaves[a], tree.leaves[b], np.array([1e7]))
            truth = ((4 * (b - a) - 3) * 2.0**-26 / 1e-7) ** 2
            assert truth * (1 - 1e-13) <= claim <= truth


# -------------------------------------------------------------------------------------------------- enclosure


@settings(max_examples=80, deadline=None)
@given(clouds, st.sampled_from([1e-9, 1e-2, 0.1, 0.3, 1.0, 10.0, 1e9]))
def test_the_enclosure_holds_the_exact_sum(drawn, width):
    points, columns, scales = cloud(drawn)
    scales = scales * width
    for p, found in enumerate(gaussian_forms(points, scales, columns, 2)):
        truth = exact(points, scales, columns[:, [p]])
        size = float(np.abs(columns[:, p]).sum()) ** 2
        assert abs(mpf(found.mid) - truth) <= mpf(found.rad)
        assert found.rad <= max(1.01e-4 * abs(found.mid), 3e-13 * size) + 1e-290


@settings(max_examples=60, deadline=None)
@given(clouds, st.sampled_from([0.03, 0.1, 0.3, 1.0]), st.sampled_from([1e-1, 1e-3, 1e-6]))
def test_dropped_pairs_are_paid_for(drawn, width, tolerance):
    """The price alone, with coarse tolerances: it covers what is missing, and is near the tolerance at most.

    A pair of leaves is visited from one side and surveyed from both: at most a factor of two.
    """
    points, columns, scales = cloud(drawn)
    scales = scales * width
    forest = cutoff.prepare(points, scales, columns)
    totals, prices = cutoff._run(forest, cutoff.look(forest), tolerance)
    for p in range(2):
        size = float(np.abs(columns[:, p]).sum()) ** 2
        kept, price = math.fsum(totals[:, :, p].ravel()), math.fsum(prices[:, p])
        missing = abs(float(exact(points, scales, columns[:, [p]]) - mpf(kept)))
        assert missing <= price * (1 + 1e-12) + 1e-13 * size
        assert price <= 2 * tolerance * size


def test_the_price_is_not_vacuous():
    """Weights of one sign: what is missing is of the order of its price, and the tolerance is used up."""
    rng = np.random.default_rng(3)
    points, columns = rng.uniform(0, 20, size=(300, 1)), rng.random((300, 1)) + 0.5
    forest = cutoff.prepare(points, np.ones(1), columns)
    found = cutoff.look(forest)
    direct = pairs.block_sums(points, np.ones(1), columns).sum()
    for tolerance in (1e-3, 1e-6, 1e-9):
        totals, prices = cutoff._run(forest, found, tolerance)
        missing, price = direct - math.fsum(totals.ravel()), math.fsum(prices.ravel())
        assert 0.05 * price <= missing <= price
        assert 0.1 * tolerance <= price / forest.whole[0] ** 2 <= tolerance


def test_a_box_too_many_dropped_would_be_seen():
    """Negative control: prices that are forgotten break the enclosure."""
    rng = np.random.default_rng(4)
    points, columns = rng.uniform(0, 20, size=(120, 1)), np.ones((120, 1))
    forest = cutoff.prepare(points, np.ones(1), columns)
    totals, prices = cutoff._run(forest, cutoff.look(forest), 1e-4)
    truth = exact(points, np.ones(1), columns)
    (good,) = enclose([cutoff.as_share(forest, totals, prices)], 1)
    (bad,) = enclose([cutoff.as_share(forest, totals, 0.0 * prices)], 1)
    assert abs(mpf(good.mid) - truth) <= good.rad
    assert abs(mpf(bad.mid) - truth) > bad.rad


def test_a_small_result_gets_a_second_round():
    """Neighbors with opposite weights: the sum is a tiny share of (sum |u|)^2, and is still resolved."""
    rng = np.random.default_rng(5)
    sites = rng.uniform(0, 40, size=(60, 2))
    points = np.vstack([sites, sites + 1e-4])
    columns = np.concatenate([np.ones(60), -np.ones(60)])[:, None]
    (found,) = gaussian_forms(points, np.ones(2), columns, 1)
    truth = exact(points, np.ones(2), columns)
    assert abs(mpf(found.mid) - truth) <= mpf(found.rad)
    assert 0 < found.mid < 1e-9 * 120**2
    assert found.rad <= 2e-3 * found.mid


def test_the_survey_counts_what_a_plain_loop_counts():
    """With few points every one is surveyed: pairs and prices of (point, leaf), the obvious way."""
    rng = np.random.default_rng(6)
    points, columns = rng.uniform(0, 9, size=(90, 2)), rng.normal(size=(90, 2))
    forest = cutoff.prepare(points, np.full(2, 0.5), columns)
    found, tree = cutoff.look(forest), forest.tree
    shares = np.abs(columns[tree.order]) / np.abs(columns).sum(axis=0)
    moved, number, price = points[tree.order], 0.0, 0.0
    for i in range(90):
        for b in range(tree.leaves.size):
            mine, other = shares[i // 4 * 4 : i // 4 * 4 + 4], shares[4 * b : 4 * b + 4]
            low, high = moved[4 * b : 4 * b + 4].min(axis=0), moved[4 * b : 4 * b + 4].max(axis=0)
            gap = np.maximum(0, np.maximum(low - moved[i], moved[i] - high)) / 0.5
            far, weigh = math.exp(-0.5 * gap @ gap), other.sum(axis=0).max() / len(other)
            each = far * weigh * mine.sum(axis=0).max() / len(mine)
            if each >= found.floor:
                number, price = number + len(other), price + len(other) * far * weigh * shares[i].max()
    assert found.pairs.sum() == 0.5 * number
    assert found.prices.sum() == pytest.approx(price, rel=1e-9)
    assert [found.threshold(t)[1] for t in (1e-2, 1e-6, 1e-12)] == sorted(
        found.threshold(t)[1] for t in (1e-2, 1e-6, 1e-12)
    )


# ---------------------------------------------------------------------------------------- through the interface


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("dimension", [1, 2, 4])
@pytest.mark.parametrize("bandwidth", [0.05, 1.0])
def test_all_engines_agree_within_their_errors(offset, dimension, bandwidth, monkeypatch):
    monkeypatch.setattr(cutoff, "LEAF", 128)
    rng = np.random.default_rng(7)
    kernel = 2.0 * (bondic.Gaussian(bandwidth) * bondic.Dirac()) + bondic.Constant(0.5)
    terms = normal_form(kernel, Layout(dimension, False, 0, 2))
    points = rng.normal(size=(1500, dimension)) + offset
    groups = rng.normal(size=(3, 1500, 2))
    groups[1, 400:] = 0.0
    groups[2] = 0.0
    slow = quadratic_forms(terms, points, groups, engine="reference")
    for engine in ("cutoff", "series", "auto", "pairs"):
        fast = quadratic_forms(terms, points, groups, engine=engine)
        for one, other in zip(fast, slow, strict=True):
            assert abs(one.mid - other.mid) <= one.rad + other.rad
            assert one.rad <= 1.1e-4 * one.mid + 1e-290


def test_hard_weights_through_the_interface():
    points = np.arange(6.0)[:, None]
    terms = normal_form(bondic.Gaussian(0.1), Layout(1, False, 0, 1))
    for size in (1e-310, 1e-150, 1e150):
        found = quadratic_form(terms, points, np.full((6, 1), size), engine="cutoff")
        with mp.workdps(50):
            truth = 6 * mpf(size) ** 2 * (1 + 2 * mpf(5) / 6 * mp.exp(-50))
        assert abs(mpf(found.mid) - truth) <= mpf(found.rad)
    with np.errstate(over="ignore"), pytest.raises(NumericalError):
        quadratic_form(terms, points, np.full((6, 1), 1e200), engine="cutoff")


def test_threads_progress_and_repetition():
    rng = np.random.default_rng(8)
    points, columns, seen = rng.normal(size=(500, 2)), rng.normal(size=(500, 2)), []
    many = gaussian_forms(points, np.full(2, 0.1), columns, 1, Threads(3), seen.append)
    assert many == gaussian_forms(points, np.full(2, 0.1), columns, 1)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize("executor", [Serial(), Threads(2)])
def test_an_error_in_a_progress_report_stops_the_sum(executor):
    def stop(share):
        raise KeyboardInterrupt(share)

    with pytest.raises(KeyboardInterrupt):
        gaussian_forms(np.arange(50.0)[:, None], np.ones(1), np.ones((50, 1)), 1, executor, stop)


def test_memory_is_linear_in_the_points(monkeypatch):
    monkeypatch.setattr(cutoff, "LEAF", 16)
    peaks = []
    for count in (10_000, 40_000):
        points = np.random.default_rng(9).normal(size=(count, 2))
        tracemalloc.start()
        gaussian_forms(points, np.full(2, 0.003), np.ones((count, 2)), 1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] <= 6 * peaks[0]
    assert peaks[1] <= 40_000 * 8 * 50


# ----------------------------------------------------------------------------------------------------- choice


def chosen(monkeypatch, points, bandwidth, columns):
    monkeypatch.setattr(cutoff, "LEAF", 128)
    count, dimension = points.shape
    (term,) = normal_form(bondic.Gaussian(bandwidth), Layout(dimension, False, 0, 1))
    survey = Survey(count, points, columns, 1, columns.shape[1], Serial())
    return Sums()._choose(term, survey).name


@pytest.mark.parametrize(
    ("count", "dimension", "bandwidth", "winner"),
    [(20_000, 2, 2.0, "series"), (20_000, 2, 0.02, "cutoff"), (20_000, 1, 0.02, "cutoff"),
     (20_000, 4, 0.1, "cutoff"), (20_000, 4, 0.7, "pairs"), (500, 2, 0.01, "pairs")],
)  # fmt: skip
def test_the_cheapest_engine_is_chosen(monkeypatch, count, dimension, bandwidth, winner):
    rng = np.random.default_rng(10)
    assert chosen(monkeypatch, rng.normal(size=(count, dimension)), bandwidth, rng.normal(size=(count, 2))) == winner


def test_auto_uses_the_cut_off_and_agrees_with_pairs(monkeypatch):
    monkeypatch.setattr(cutoff, "LEAF", 128)
    rng = np.random.default_rng(11)
    points, weights = rng.normal(size=(16000, 2)), rng.normal(size=(16000, 1))
    terms = normal_form(bondic.Gaussian(0.02), Layout(2, False, 0, 1))
    found = {engine: quadratic_form(terms, points, weights, engine=engine) for engine in ("auto", "cutoff", "pairs")}
    assert found["auto"] == found["cutoff"]
    assert found["auto"].rad > found["pairs"].rad
    assert abs(found["auto"].mid - found["pairs"].mid) <= found["auto"].rad + found["pairs"].rad


def test_series_falls_back_to_pairs_where_the_series_is_too_long():
    rng = np.random.default_rng(12)
    points, weights = 50 * rng.normal(size=(300, 4)), rng.normal(size=(300, 1))
    terms = normal_form(bondic.Gaussian(1.0), Layout(4, False, 0, 1))
    assert quadratic_form(terms, points, weights, engine="series") == quadratic_form(
        terms, points, weights, engine="pairs"
    )
