"""The compiled pair engine: every product of leaves, every set of points, within its certified error.

Twins: 50-digit sums of every pair where the sets are small, the plain NumPy engine where they are not.
"""

import math
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

import bondic
import naive
from bondic.core.bounded import U
from bondic.core.kernels.features import Linear, RandomFeatures
from bondic.core.kernels.leaves import Dirac, TimeMask
from bondic.core.kernels.normal_form import Term
from bondic.engines import pairs, products
from bondic.engines.exponential import power_of_two
from bondic.engines.lanes import LANES, NARROW, accumulate, load, splat
from bondic.engines.power import EXP_ULP, LARGEST
from bondic.engines.recipes import value_error
from bondic.engines.standard import named_engines
from bondic.engines.sums import EngineSums
from forms import evaluate, quadratic_form, quadratic_forms

ONE = np.ones((1, 1))

# ------------------------------------------------------------------------------------------- the exponential


@numba.njit
def _powers(t):  # type: ignore[no-untyped-def]
    """2^t one by one: the other lanes are multiplied by zero, NARROW - 1 of the NARROW sums stay empty."""
    out, one, sums = np.empty(t.size), np.zeros(LANES), np.zeros(NARROW)
    one[0] = 1.0
    for i in range(t.size):
        sums[:] = 0.0
        accumulate(sums, 0, power_of_two(splat(t[i])) * load(one, 0))
        out[i] = sums[0]
    return out


def test_power_of_two_against_fifty_digits(rng):
    half = np.arange(-960, 961) - 0.5
    around = np.concatenate([half, np.nextafter(half, 0), np.nextafter(half, -2000)])
    small = [0.0, -0.0, 5e-324, -5e-324, 1e-300, -1e-17, -U, U, 0.5, -0.5, LARGEST, -LARGEST]
    t = np.concatenate([around, small, -rng.uniform(0, 1, 2000), rng.uniform(-960, 960, 2000)])
    t = t[np.abs(t) <= LARGEST]
    worst = max(
        float(abs(mpf(value) / mpf(2) ** mpf(argument) - 1)) / U
        for argument, value in zip(t.tolist(), _powers(t).tolist(), strict=True)
    )
    assert 2.0 < worst <= EXP_ULP
    assert np.array_equal(_powers(np.arange(-960.0, 961.0)), np.ldexp(1.0, np.arange(-960, 961)))


# ----------------------------------------------------------------------------------------- leaves and their twins


@dataclass(frozen=True, eq=False)
class Factor:
    leaf: object
    columns: tuple
    twin: object  # of two vectors

    def __call__(self, x, y):
        picked = list(self.columns)
        return self.twin(x[picked], y[picked])


FREQUENCIES = np.random.default_rng(1).normal(size=(3, 2))


def _linear(x, y):
    return sum(((mpf(a) - mpf(0.5)) * (mpf(b) - mpf(0.5)) / 4 for a, b in zip(x, y, strict=True)), mpf(0))


def make_factor(kind, columns, rng):
    width = len(columns)
    h = rng.uniform(0.4, 3.0, width if rng.integers(2) else 1)
    if kind == "gaussian":
        return Factor(bondic.Gaussian(h), columns, lambda x, y: naive.gaussian(x, y, h))
    if kind == "laplace":
        return Factor(bondic.Laplace(h), columns, lambda x, y: naive.laplace(x, y, h))
    if kind.startswith("matern"):
        nu = float(kind[6:])
        return Factor(bondic.Matern(h, nu=nu), columns, lambda x, y: naive.matern(x, y, h, nu))
    if kind == "dirac":
        return Factor(Dirac("observation"), columns, lambda x, y: mpf(int(np.all(x == y))))
    if kind == "mask":
        return Factor(TimeMask(2), columns[:1], lambda x, y: mpf(int(x[0] < 2 and y[0] < 2)))
    if kind == "linear":
        return Factor(Linear(supremum=1e40, bandwidth=2.0, center=0.5), columns, _linear)
    columns = (columns * 2)[:2]
    return Factor(RandomFeatures(FREQUENCIES), columns, lambda x, y: naive.random_feature(x, y, FREQUENCIES))


KINDS = ("gaussian", "laplace", "matern0.5", "matern1.5", "matern2.5", "dirac", "mask", "linear", "waves")
RADIAL = KINDS[:5]


def make_term(kinds, dimension, rng, coefficient=1.7, embedding=ONE):
    factors = []
    for kind in kinds:
        width = int(rng.integers(1, dimension + 1)) if kind not in ("dirac", "mask") else 1
        columns = tuple(int(c) for c in rng.choice(dimension, width, replace=False))
        factors.append(make_factor(kind, columns, rng))
    term = Term(coefficient, tuple((factor.leaf, factor.columns) for factor in factors), embedding)

    def twin(x, y):
        value = mpf(coefficient)
        for factor in factors:
            value *= factor(x, y)
        return value

    return term, twin


@pytest.mark.parametrize("kind", RADIAL)
def test_single_values_within_the_value_error(kind, rng):
    """One pair at a time, so that the error of summation cannot hide that of the value."""
    worst = 0.0
    for _ in range(12):
        dimension = int(rng.integers(1, 7))
        term, twin = make_term((kind,), dimension, rng, coefficient=1.0)
        x, y = rng.normal(size=(6, dimension)), rng.normal(size=(6, dimension)) * rng.choice([1e-3, 1.0, 3.0])
        planned = products.plan(term, x)
        values = products.cross_sums(planned, x, y, np.eye(6))
        allowed = planned.bounds(x, y)[1] + (pairs._NEAR_COST * pairs._NEAR_RADIUS * U if kind == "gaussian" else 0)
        for i in range(6):
            for j in range(6):
                gap = float(abs(mpf(values[i, j]) - twin(x[i], y[j])))
                assert gap <= allowed
                worst = max(worst, gap / allowed)
    assert worst > 0.005


@pytest.mark.parametrize("dimension", [1, 4, 11])
@pytest.mark.parametrize("kind", RADIAL)
def test_value_errors_cover_an_independent_count(kind, dimension):
    """Roundings of a length or exponent times its largest effect, and the exponential: never less than that."""
    rng = np.random.default_rng(3)
    factor = make_factor(kind, tuple(range(dimension)), rng)
    x = rng.normal(size=(3, dimension))
    squares = 2 + 2 + 4 + dimension  # difference, product and both parts of the scale, each squared; squares and sums
    rho, needed = np.linspace(0, 60, 60_001), EXP_ULP
    if kind == "gaussian":
        needed += squares / math.e
    elif kind == "laplace":
        needed += (1 + 1 + 2 + dimension) / math.e
    else:
        nu = float(kind[6:])
        length = squares / 2 + 1
        slope = {0.5: 0 * rho, 1.5: 1 + 0 * rho, 2.5: 1 + 2 * rho / 3}[nu]
        whole = {0.5: 1 + 0 * rho, 1.5: 1 + rho, 2.5: 1 + rho + rho**2 / 3}[nu]
        needed += length * (rho * slope * np.exp(-rho)).max() + (length + 2) * (rho * whole * np.exp(-rho)).max()
        needed += {0.5: 0, 1.5: 2, 2.5: 6}[nu]
    planned = products.plan(Term(2.0, ((factor.leaf, factor.columns),), ONE), x)
    assert 2.0 * needed * U <= planned.bounds(x, x)[1] <= 2.0 * (3 * needed + 20) * U
    assert value_error(dimension) >= (EXP_ULP + squares / math.e) * U


# --------------------------------------------------------------------------------------- against the NumPy engine


@settings(max_examples=150, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    dimension=st.integers(1, 6),
    count=st.sampled_from([1, 2, 31, 33, 97, 257, 290, 530]),
    groups=st.integers(1, 3),
    seed=st.integers(0, 10_000),
    offset=st.sampled_from([0.0, 1e3, 1e8]),
    spread=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_any_product_agrees_with_numpy(kinds, dimension, count, groups, seed, offset, spread):
    rng = np.random.default_rng(seed)
    embedding = rng.normal(size=(2, 3))
    term, _ = make_term(kinds, dimension, rng, coefficient=float(rng.uniform(0.1, 9)), embedding=embedding)
    z = offset + np.round(spread * rng.normal(size=(count, dimension)), int(rng.integers(0, 3)))
    weights = rng.normal(size=(groups, count, 2)) * 10.0 ** rng.integers(-6, 3, size=(groups, count, 1))
    fast = quadratic_forms((term,), z, weights, engine="pairs")
    slow = quadratic_forms((term,), z, weights, engine=EngineSums(named_engines("reference")))
    for a, b in zip(fast, slow, strict=True):
        assert abs(a.mid - b.mid) <= a.rad + b.rad
        assert a.rad <= 3 * b.rad + 1e-300
    x = np.vstack([z[: count // 2], z[:1] + 0.5])
    ours, error = evaluate((term,), x, z, weights[0], engine="pairs")
    theirs, other = evaluate((term,), x, z, weights[0], engine="reference")
    assert np.abs(ours - theirs).max() <= error + other
    assert error <= 16 * other + 1e-300  # the reference charges for the points there are, a tile for all it can hold


@pytest.mark.parametrize("labels", [1, 2, 40, 600])
def test_sorting_by_labels_across_tiles(labels, rng):
    """Groups smaller and larger than a tile, in any order of the points."""
    z = np.column_stack([rng.normal(size=(1300, 2)), rng.integers(0, labels, 1300)])
    w = rng.normal(size=(1300, 1))
    term = Term(1.0, ((bondic.Gaussian(0.8), (0, 1)), (Dirac("time"), (2,))), ONE)
    expected = (term.block(z, z) @ w)[:, 0]
    values, error = evaluate((term,), z[:700], z, w, engine="pairs")
    assert np.abs(values[:, 0] - expected[:700]).max() <= 2 * error
    square = quadratic_form((term,), z, w, engine="pairs")
    assert abs(square.mid - float(w[:, 0] @ expected)) <= 2 * square.rad
    strange = z[:5].copy()
    strange[:, 2] = -1.0  # a label that no point has
    assert np.all(evaluate((term,), strange, z, w, engine="pairs")[0] == 0.0)


# ------------------------------------------------------------------------------------------------- near points


def _route(points, scales, spare):
    return pairs._gaussian((points,), scales, spare)[0].kinds.tolist()


def test_near_points_are_paid_for(rng):
    """At the edge of the short route single values stay inside 5.8 R U; the charge is not idle."""
    h = 1 / 3
    direction = rng.normal(size=(40, 3))
    z = direction / np.linalg.norm(direction, axis=1)[:, None] * 15 / pairs.HALF_LOG2E * h
    z = np.vstack([z, z + rng.normal(size=z.shape) * 0.4 * h])
    z *= 15.3 / (np.linalg.norm(z - (z.min(axis=0) + z.max(axis=0)) / 2, axis=1).max() / h * pairs.HALF_LOG2E)
    assert _route(z, np.full(3, h), 200) == [pairs.NEAR]
    values = pairs.cross_sums(z, z, np.full(3, h), np.eye(80))
    gaps = [float(abs(mpf(values[i, 40 + i]) - naive.gaussian(z[i], z[40 + i], h))) / U for i in range(40)]
    assert 3.0 < max(gaps) <= pairs._NEAR_COST * 15.4 + 0.37 * 11 + EXP_ULP
    assert max(gaps) > value_error(3) / U / 4


# --------------------------------------------------------------------------------------------------- the cache


_ONCE = """
import numpy as np
from bondic.engines import pairs
print(float(pairs.block_sums(np.zeros((4, 1)), np.array([1.0]), np.ones((4, 1))).sum()))
"""


def test_a_changed_helper_in_another_file_is_compiled_anew(tmp_path):
    """exp(0) = 1 becomes 2 in the file of the helper; the file of the cached function, and its date, stay as they are."""
    package = Path(bondic.__file__).parent
    shutil.copytree(package, tmp_path / "bondic", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}

    def run():
        command = [sys.executable, "-c", _ONCE]
        return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    assert [run(), run()] == [16.0, 16.0]
    helper = tmp_path / "bondic" / "engines" / "exponential.py"
    text = helper.read_text()
    assert text.count("p = splat(1.0) + r * p") == 1
    helper.write_text(text.replace("p = splat(1.0) + r * p", "p = splat(2.0) + r * p"))
    assert run() == 32.0
