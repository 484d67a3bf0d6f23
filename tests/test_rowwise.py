"""One small measure per row: bounds of norms and products against 50-digit sums, row by row."""

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
import naive
from bondic.core.functions import KernelFunction
from bondic.core.kernels.leaves import ActionEmbedding, Constant, Dirac
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.sums import forms
from bondic.core.sums.measure import RowMeasures
from bondic.core.sums.reference import REFERENCE
from bondic.engines.sums import EngineSums

LAYOUT = Layout(2, False, 0, 2)
SIMILAR = np.array([[1.0, 0.5], [-0.3, 0.1]])
KERNELS = {
    "per action": (
        2.0 * bondic.Gaussian(0.7) * Dirac() + Constant(0.5),
        lambda x, a, y, b: 2 * naive.gaussian(x, y, 0.7) * (a == b) + mpf(1) / 2,
    ),
    "similar actions": (
        bondic.Matern(1.1) * ActionEmbedding(SIMILAR),
        lambda x, a, y, b: (
            naive.matern(x, y, 1.1, 2.5)
            * sum(mpf(float(p)) * mpf(float(q)) for p, q in zip(SIMILAR[a], SIMILAR[b], strict=True))
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
@pytest.mark.parametrize("name", KERNELS)
def test_norms_are_upper_bounds_and_sharp(name, chunk, rng, monkeypatch):
    monkeypatch.setattr(forms, "_CHUNK", chunk)
    kernel, twin = KERNELS[name]
    given = measures(rng)
    found = REFERENCE.row_norms(normal_form(kernel, LAYOUT), given)
    for row in range(given.count):
        mass = np.abs(given.weights[given.rows == row]).sum()
        truth = mp.sqrt(max(exact_square(twin, given, row), mpf(0)))
        assert mpf(float(found[row])) >= truth
        assert mpf(float(found[row])) <= truth * (1 + 1e-10) + 1e-6 * mass * (truth < 1e-6)
    assert np.all(found[np.setdiff1d(np.arange(given.count), given.rows)] == 0.0)


def test_the_error_of_weights_enters_a_norm(rng):
    given, terms = measures(rng), normal_form(bondic.Gaussian(1.0), LAYOUT)
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
    kernel = KERNELS["per action"][0]
    found = EngineSums().row_norms(normal_form(kernel, LAYOUT), given)
    for row in range(10):
        mine = rows == row
        norm = KernelFunction(kernel, LAYOUT, given.points[mine], given.weights[mine]).norm()
        assert norm.lower <= found[row] <= norm.upper * (1 + 1e-9)


def test_products_enclose_the_exact_ones(rng):
    kernel, twin = KERNELS["per action"]
    given = measures(rng, error=1e-9)
    function = KernelFunction(kernel, LAYOUT, rng.normal(size=(4, 2)), rng.normal(size=(4, 2)))
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
