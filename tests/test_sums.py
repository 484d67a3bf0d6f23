"""Kernel sums: the exact sum lies in the certified radius, whatever the points, the weights and the engine.

Two kinds of exact answers. Small sets: every pair in 50 digits. Around the tile sizes: points on a regular grid with
whole-number weights, so that c'Kc = sum_lag k(lag) A(lag) with the autocorrelation A in whole numbers.
"""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
import naive
from bondic.core.bounded import U
from bondic.core.errors import NumericalError
from bondic.core.functions import KernelFunction
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import ActionEmbedding, Constant, Dirac
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.sums import forms, reference
from bondic.core.sums.measure import Measure, RowMeasures, merge_points
from bondic.core.sums.reference import REFERENCE
from bondic.engines.power import EXP_ULP
from bondic.engines.sums import EngineSums
from bondic.engines.threads import Serial, Threads
from forms import evaluate, quadratic_form

ENGINES = ("auto", "pairs", "reference")
engines = pytest.mark.parametrize("engine", ENGINES)

LINE = Layout(1, False, 0, 1)
CHOICES = Layout(2, False, 0, 3)

SIMILAR = np.array([[1.0, 0.5], [0.0, 2.0], [-0.3, 0.1]])


def inside(enclosure, exact):
    return abs(mpf(enclosure.mid) - exact) <= mpf(enclosure.rad)


# ---------------------------------------------------------------------------------------- kernels with twins


def _gauss(h):
    return lambda z, a, y, b: naive.gaussian(z, y, h)  # noqa: ARG005


def _same(z, a, y, b):  # noqa: ARG001
    return mpf(int(a == b))


def _similar(z, a, y, b):  # noqa: ARG001
    return sum(mpf(float(u)) * mpf(float(v)) for u, v in zip(SIMILAR[a], SIMILAR[b], strict=True))


FREQUENCIES = np.random.default_rng(1).normal(size=(5, 2))


def _waves(z, a, y, b):  # noqa: ARG001
    return naive.random_feature(z, y, FREQUENCIES)


def _matern(z, a, y, b):  # noqa: ARG001
    return naive.matern(z, y, 1.1, 2.5)


KERNELS = {
    "gaussian": (bondic.Gaussian(0.7), _gauss(0.7)),
    "gaussian per action": (
        bondic.Gaussian([0.5, 2.0]) * Dirac(),
        lambda *x: _gauss([0.5, 2.0])(*x) * _same(*x),
    ),
    "similar actions": (
        3.0 * bondic.Gaussian(0.9) * ActionEmbedding(SIMILAR),
        lambda *x: 3 * _gauss(0.9)(*x) * _similar(*x),
    ),
    "offset": (
        bondic.Gaussian(0.7) * Dirac() + Constant(5.0) + 0.25 * Dirac(),
        lambda *x: _gauss(0.7)(*x) * _same(*x) + 5 + _same(*x) / 4,
    ),
    "features": (
        RandomFeatures(FREQUENCIES) * ActionEmbedding(SIMILAR),
        lambda *x: _waves(*x) * _similar(*x),
    ),
    "mixed product": (
        RandomFeatures(FREQUENCIES) * bondic.Gaussian(1.5) * bondic.Matern(1.1),
        lambda *x: _waves(*x) * _gauss(1.5)(*x) * _matern(*x),
    ),
}


def _clouds():
    """Sets of points and weights that are hard on a sum."""
    rng = np.random.default_rng(4)
    z, w = rng.normal(size=(8, 2)), rng.normal(size=(8, 3))
    twice = np.vstack([z, z])
    far = z.copy()
    far[[2, 5]] = [[1e9, -1e9], [3e4, 1e150]]
    spread = w * 10.0 ** rng.integers(-12, 12, size=w.shape)
    return {
        "plain": (z, w),
        "one point": (z[:1], w[:1]),
        "all equal": (np.repeat(z[:1], 8, axis=0), w),
        "canceling duplicates": (twice, np.vstack([w, -w * (1 + 2.0**-40)])),
        "canceling to zero": (twice, np.vstack([w, -w])),
        "huge duplicates": (np.repeat(z[:2], 4, axis=0), np.array([1e20, 1, -1e20, 3, 1e19, -1e19] * 4).reshape(8, 3)),
        "offset 1e8": (1e8 + z, w),
        "far outliers": (far, w),
        "tiny weights": (z, 1e-150 * w),
        "subnormal weights": (z, 1e-310 * w),
        "huge weights": (z, 1e150 * w),
        "mixed weights": (z, spread),
        "signed zeros": (np.array([[0.0, -0.0], [-0.0, 0.0], [0.0, 0.0]]), w[:3]),
        "almost equal": (z[:1] + 1e-16 * np.arange(8)[:, None], w),
    }


CLOUDS = _clouds()


def exact_form(twin, z, w):
    """Every pair of (point, slot): once with itself, twice with another."""
    atoms = [(mpf(w[i, a]), z[i], a) for i in range(len(z)) for a in range(w.shape[1]) if w[i, a]]
    total = mpf(0)
    for i, (c, x, a) in enumerate(atoms):
        for d, y, b in atoms[:i]:
            total += 2 * c * d * twin(x, a, y, b)
        total += c * c * twin(x, a, x, a)
    return total


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("name", ["gaussian per action", "offset"])
def test_quadratic_form_on_hard_sets(name, cloud):
    kernel, twin = KERNELS[name]
    z, w = CLOUDS[cloud]
    exact = exact_form(twin, z, w)
    terms = normal_form(kernel, CHOICES)
    found = {engine: quadratic_form(terms, z, w, engine=engine) for engine in ENGINES}
    for enclosure in found.values():
        assert inside(enclosure, exact)
    for other in ("pairs", "reference"):
        assert abs(found["auto"].mid - found[other].mid) <= found["auto"].rad + found[other].rad
    if cloud in ("plain", "offset 1e8", "far outliers"):  # and the radius is of use
        assert found["auto"].rad <= 1e-11 * float(np.abs(w).sum()) ** 2 * kernel.sup_diag


@pytest.mark.parametrize("name", [name for name in KERNELS if name not in ("gaussian per action", "offset")])
def test_quadratic_form_of_other_kernels(name):
    kernel, twin = KERNELS[name]
    z, w = (part[:7] for part in CLOUDS["plain"])
    z, w = np.vstack([z, z[:3]]), np.vstack([w, -w[:3]])
    exact = exact_form(twin, z, w)
    for engine in ENGINES:
        assert inside(quadratic_form(normal_form(kernel, CHOICES), z, w, engine=engine), exact)


@pytest.mark.parametrize("cloud", [cloud for cloud in CLOUDS if cloud != "subnormal weights"])
@pytest.mark.parametrize("name", ["gaussian per action", "offset", "features"])
def test_evaluate_on_hard_sets(name, cloud):
    kernel, twin = KERNELS[name]
    y, w = CLOUDS[cloud]
    if name == "features":
        y = np.clip(y, -1e9, 1e9)  # angles beyond 1e16 have no digit left
    x = np.vstack([CLOUDS["plain"][0][:3], y[:2]])
    terms = normal_form(kernel, CHOICES)
    exact = [
        [
            sum((mpf(w[j, b]) * twin(x[i], a, y[j], b) for j in range(len(y)) for b in range(3)), mpf(0))
            for a in range(3)
        ]
        for i in range(len(x))
    ]
    answers = []
    for engine in ENGINES:
        values, error = evaluate(terms, x, y, w, engine=engine)
        assert values.shape == (len(x), 3)
        worst = max(abs(mpf(float(values[i, a])) - exact[i][a]) for i in range(len(x)) for a in range(3))
        assert worst <= mpf(error)
        answers.append((values, error))
    for values, error in answers[1:]:
        assert np.abs(answers[0][0] - values).max() <= answers[0][1] + error


# ------------------------------------------------------------------------------------- around the tile sizes


def grid_problem(count, *, offset=0.0, step=1.0, seed=0):
    """Points offset + step i and whole-number weights over 1024; (points, weights, autocorrelation / 2^20)."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-1000, 1001, size=count)
    points = offset + step * np.arange(count, dtype=float)[:, None]
    spectrum = np.correlate(numbers, numbers, mode="full")[count - 1 :]  # int64: at most 2049e6
    return points, (numbers / 1024.0)[:, None], [mpf(int(v)) / 2**20 for v in spectrum]


def exact_grid_form(values, spectrum):
    return values[0] * spectrum[0] + 2 * sum((k * a for k, a in zip(values[1:], spectrum[1:], strict=True)), mpf(0))


@pytest.mark.parametrize(
    ("count", "offset"),
    [(1, 0.0), (255, 0.0), (256, 0.0), (257, 1e8), (512, 0.0), (513, 0.0), (2049, 1e8), (2305, 0.0)],
)
def test_quadratic_form_around_tile_sizes(count, offset):
    points, weights, spectrum = grid_problem(count, offset=offset, seed=count)
    h = 0.3 * count
    exact = exact_grid_form([naive.gaussian([lag], [0], h) for lag in range(count)], spectrum)
    terms = normal_form(bondic.Gaussian(h), LINE)
    for engine in ENGINES:
        enclosure = quadratic_form(terms, points, weights, engine=engine)
        assert inside(enclosure, exact)
        assert enclosure.rad <= 2e-10 * float(np.abs(weights).sum()) ** 2


@engines
@pytest.mark.parametrize("count", [256, 2049])
def test_evaluate_around_tile_sizes(count, engine):
    """f at the ends and at a few places in between."""
    points, weights, _ = grid_problem(count, offset=1e8, seed=count)
    h, picked = 0.1 * count, [0, 1, count // 2, count - 1]
    kernel = [naive.gaussian([lag], [0], h) for lag in range(count)]
    values, error = evaluate(normal_form(bondic.Gaussian(h), LINE), points[picked], points, weights, engine=engine)
    for row, i in enumerate(picked):
        exact = sum((mpf(weights[j, 0]) * kernel[abs(i - j)] for j in range(count)), mpf(0))
        assert abs(mpf(float(values[row, 0])) - exact) <= mpf(error)
    assert error <= 1e-12 * float(np.abs(weights).sum())


def test_features_around_a_block():
    """The linear-time route, with more rows than one block."""
    count = 2100
    points, weights, spectrum = grid_problem(count, seed=9)
    frequencies = np.array([[0.01], [0.3], [1.7]])
    values = [sum((mp.cos(mpf(float(f)) * lag) for f in frequencies[:, 0]), mpf(0)) / 3 for lag in range(count)]
    terms = normal_form(2.0 * RandomFeatures(frequencies), LINE)
    enclosure = quadratic_form(terms, points, weights)
    assert inside(enclosure, 2 * exact_grid_form(values, spectrum))
    assert enclosure.rad <= 1e-9 * float(np.abs(weights).sum()) ** 2


# -------------------------------------------------------------------------- the radius is not too small either


def needed_radius(mass, kernel_error, roundings, weight_error, size=1.0):
    """Lemmas 18 and 19 once more: m^2 (e_K + K (gamma_h + 2 e_c + e_c^2))."""
    return mass**2 * (kernel_error + size * (roundings * U + 2 * weight_error + weight_error**2))


@pytest.mark.parametrize("weight_error", [0.0, 1e-15, 1e-3])
@pytest.mark.parametrize("count", [3, 200, 600, 2500])
@engines
def test_radius_covers_an_independent_count(engine, count, weight_error):
    """Rows of a block plus the terms of its longest row: what one product c_i k_ij c_j meets on its way."""
    points, weights, _ = grid_problem(count, seed=3)
    rows = min(256, count)
    row = max(rows, min(reference.COLUMNS, count - reference.ROWS)) if engine == "reference" else rows
    own = 4.0 if engine == "reference" else EXP_ULP
    needed = needed_radius(float(np.abs(weights).sum()), (5 / math.e + own) * U, rows + row, weight_error)
    radius = quadratic_form(
        normal_form(bondic.Gaussian(9.0), LINE), points, weights, error=weight_error, engine=engine
    ).rad
    assert needed <= radius <= 8 * needed
    assert radius <= 2 * needed or count < 200


@engines
def test_weight_errors_are_charged_in_full(engine):
    """All weights too large by the same share: the whole of 2 e + e^2 is used up."""
    points, weights = np.linspace(0, 1e-9, 50)[:, None], np.full((50, 1), 0.5)
    share = 1e-5
    terms = normal_form(bondic.Gaussian(1.0), LINE)
    enclosure = quadratic_form(terms, points, weights * (1 + share), error=share, engine=engine)
    assert enclosure.lower <= 25.0**2
    assert enclosure.lower >= 25.0**2 * (1 - 5 * share**2)  # and hardly more than that


@engines
def test_products_below_the_smallest_float(engine):
    """40 products of 19.49 times the smallest float are rounded to 19 times: a loss that no share of the sum covers."""
    points, weight = 1e-20 * np.arange(40.0)[:, None], float(mp.sqrt(mpf(5e-324) * 19.49 / 40))
    enclosure = quadratic_form(normal_form(bondic.Gaussian(1.0), LINE), points, np.full((40, 1), weight), engine=engine)
    exact = 1600 * mpf(weight) ** 2
    assert abs(mpf(enclosure.mid) - exact) > 10 * mpf(5e-324)
    assert inside(enclosure, exact)


# ---------------------------------------------------------------------------------------------------- merging


def test_equal_points_are_merged_by_bits():
    z = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0], [-0.0, 1.0], [1.0, 2.0]])
    w = np.array([[1.0, 0.5], [2.0, 0.0], [4.0, 0.25], [8.0, 0.0], [-5.0, 1.0]])
    points, weights, error = merge_points(z, w)
    table = {tuple(p.tobytes() for p in point): tuple(row) for point, row in zip(points, weights, strict=True)}
    assert len(points) == 3
    assert table[tuple(p.tobytes() for p in z[0])] == (0.0, 1.75)
    assert table[tuple(p.tobytes() for p in z[1])] == (2.0, 0.0)
    assert table[tuple(p.tobytes() for p in z[3])] == (8.0, 0.0)
    assert 2 * U <= error < 1e-14


def test_merging_error_is_relative_to_the_weights_before_merging():
    """1e20 + 1 - 1e20 at one point: the sum is lost, and the radius must know."""
    z, w = np.zeros((3, 1)), np.array([[1e20], [1.0], [-1e20]])
    _, merged, error = merge_points(z, w)
    assert abs(merged[0, 0] - 1.0) <= error * 2e20
    enclosure = quadratic_form(normal_form(bondic.Gaussian(1.0), LINE), z, w)
    assert enclosure.rad >= 1e20**2 * U
    assert enclosure.lower <= 1.0 <= enclosure.upper


# ----------------------------------------------------------------------------------------------------- border


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@engines
def test_overflow_is_an_error_and_not_an_infinite_bound(engine):
    terms = normal_form(bondic.Gaussian(1.0), LINE)
    with pytest.raises(NumericalError):
        quadratic_form(terms, np.arange(3.0)[:, None], np.full((3, 1), 1e200), engine=engine)


@pytest.mark.parametrize("kernel", [bondic.Gaussian(50.0), bondic.Gaussian(0.1), bondic.Laplace(50.0)], ids=repr)
def test_the_number_of_threads_leaves_no_trace(kernel):
    points, weights, _ = grid_problem(5000, seed=7)
    terms = normal_form(kernel, LINE)
    answers = []
    for executor in (Serial(), Threads(1), Threads(2), Threads(5), Threads()):
        sums = EngineSums(executor=executor)
        values, error = sums.values(terms, points[:300], points, weights)
        answers.append((sums.squares(terms, Measure(points, weights[None])), values.tobytes(), error))
    assert all(answer == answers[0] for answer in answers)


def test_rows_with_equal_hashes_are_told_apart(monkeypatch):
    """Hashes that are all the same: content decides."""
    monkeypatch.setattr("bondic.core.sums.measure._ODD", np.uint64(0))
    z = np.array([[1.0], [2.0], [1.0], [3.0], [2.0], [1.0]])
    points, weights, _ = merge_points(z, np.arange(6.0)[:, None])
    assert points.ravel().tolist() == [1.0, 2.0, 3.0]
    assert weights.ravel().tolist() == [7.0, 5.0, 3.0]


# --- One small measure per row: bounds of norms and products against 50-digit sums, row by row.

ROW_LAYOUT = Layout(2, False, 0, 2)
ROW_SIMILAR = np.array([[1.0, 0.5], [-0.3, 0.1]])
ROW_KERNELS = {
    "per action": (
        2.0 * bondic.Gaussian(0.7) * Dirac() + Constant(0.5),
        lambda x, a, y, b: 2 * naive.gaussian(x, y, 0.7) * (a == b) + mpf(1) / 2,
    ),
    "similar actions": (
        bondic.Matern(1.1) * ActionEmbedding(ROW_SIMILAR),
        lambda x, a, y, b: (
            naive.matern(x, y, 1.1, 2.5)
            * sum(mpf(float(p)) * mpf(float(q)) for p, q in zip(ROW_SIMILAR[a], ROW_SIMILAR[b], strict=True))
        ),
    ),
}


def measures(rng, count=7, most=5, error=0.0):
    """Rows 0, 1, ... with 0 to `most` points each, in any order; the last but one cancels exactly."""
    sizes = rng.integers(0, most + 1, count)
    sizes[-2] = 2
    rows = rng.permutation(np.repeat(np.arange(count), sizes))
    points, weights = rng.normal(size=(len(rows), 2)), rng.normal(size=(len(rows), 2))
    first, second = np.flatnonzero(rows == count - 2)
    points[second], weights[second] = points[first], -weights[first]
    return RowMeasures(points, weights, rows, count, error)


def exact_square(twin, given, row):
    mine = np.flatnonzero(given.rows == row)
    atoms = [(mpf(float(given.weights[j, a])), given.points[j], a) for j in mine for a in range(2)]
    return sum((c * d * twin(x, a, y, b) for c, x, a in atoms for d, y, b in atoms), mpf(0))


@pytest.mark.parametrize("chunk", [1, 3, 256])
@pytest.mark.parametrize("name", ROW_KERNELS)
def test_norms_are_upper_bounds_and_sharp(name, chunk, rng, monkeypatch):
    monkeypatch.setattr(forms, "_CHUNK", chunk)
    kernel, twin = ROW_KERNELS[name]
    given = measures(rng)
    found = REFERENCE.row_norms(normal_form(kernel, ROW_LAYOUT), given)
    for row in range(given.count):
        mass = np.abs(given.weights[given.rows == row]).sum()
        truth = mp.sqrt(max(exact_square(twin, given, row), mpf(0)))
        assert mpf(float(found[row])) >= truth
        assert mpf(float(found[row])) <= truth * (1 + 1e-10) + 1e-6 * mass * (truth < 1e-6)
    assert np.all(found[np.setdiff1d(np.arange(given.count), given.rows)] == 0.0)


def test_the_error_of_weights_enters_a_norm(rng):
    given, terms = measures(rng), normal_form(bondic.Gaussian(1.0), ROW_LAYOUT)
    share = 1e-7
    larger = RowMeasures(given.points, given.weights * (1 + share), given.rows, given.count, share)
    right, wrong = (EngineSums().row_norms(terms, some) for some in (given, larger))
    busy = right > 1e-3
    assert np.all(wrong[busy] >= right[busy] * (1 + 1.9 * share))


def test_a_row_with_more_points_than_a_chunk(rng, monkeypatch):
    """Against the sum over all points, which knows nothing of rows."""
    monkeypatch.setattr(forms, "_CHUNK", 32)
    rows = np.sort(np.concatenate([np.full(100, 3), np.arange(10)]))
    given = RowMeasures(rng.normal(size=(110, 2)), rng.normal(size=(110, 2)), rows, 10)
    kernel = ROW_KERNELS["per action"][0]
    found = EngineSums().row_norms(normal_form(kernel, ROW_LAYOUT), given)
    for row in range(10):
        mine = rows == row
        norm = KernelFunction(kernel, ROW_LAYOUT, given.points[mine], given.weights[mine]).norm()
        assert norm.lower <= found[row] <= norm.upper * (1 + 1e-9)


def test_products_enclose_the_exact_ones(rng):
    kernel, twin = ROW_KERNELS["per action"]
    given = measures(rng, error=1e-9)
    function = KernelFunction(kernel, ROW_LAYOUT, rng.normal(size=(4, 2)), rng.normal(size=(4, 2)))
    for sums in (EngineSums(), REFERENCE):
        values, errors = sums.row_products(function, given)
        for row in range(given.count):
            truth, mass = mpf(0), 0.0
            for j in np.flatnonzero(given.rows == row):
                for a in range(2):
                    value = sum(
                        (mpf(float(function.weights[m, b])) * twin(given.points[j], a, function.centers[m], b)
                         for m in range(4) for b in range(2)), mpf(0),
                    )  # fmt: skip
                    truth += mpf(float(given.weights[j, a])) * value
                    mass += abs(float(given.weights[j, a]) * float(value))
            assert abs(mpf(float(values[row])) - truth) <= mpf(float(errors[row])) - mpf(1e-9) * mpf(mass) * (1 - 1e-6)
            assert errors[row] <= 1.1e-9 * mass + 1e-11


def test_the_error_of_the_function_enters_a_product(rng):
    """Values that are each off by 1e-3 move <f, D_i> by 1e-3 times the absolute weights of the row, and hardly more."""

    class Vague:
        def values(self, points, sums):  # noqa: ARG002
            return np.ones((len(points), 2)), 1e-3

    given = measures(rng)
    _, errors = EngineSums().row_products(Vague(), given)
    masses = np.array([np.abs(given.weights[given.rows == row]).sum() for row in range(given.count)])
    assert np.all(errors >= 1e-3 * masses)
    assert np.all(errors <= 1.001e-3 * masses + 1e-290)
