"""The inequalities behind the sequential interval (theory, section 9), searched for counterexamples with the library itself.

Each has a neighbor that is false and is found to be: the search would have seen an error. Random points crowd the corners.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mpmath import mp, mpf

from bondic.core.betting import bet_cost, clipped_deviation, curvature
from bondic.core.bounded import Between

CASES = 20_000


def corners(rng, low, high, size):
    """Numbers in [low, high], a third of them at its ends."""
    return np.clip(rng.uniform(low - 0.25 * (high - low), high + 0.25 * (high - low), size), low, high)


@given(st.floats(-0.995, 50.0).filter(lambda y: y == 0 or abs(y) > 1e-150))
@example(1e-3)
@example(-1e-140)
def test_prices_are_rounded_up(y):
    """g and g / y^2 in as many digits as y^2 needs: never below, and above by rounding only."""
    with mp.workdps(360):
        exact = mpf(y) - mp.log(1 + mpf(y))
        assert exact <= mpf(float(bet_cost(np.array(y)))) <= exact * (1 + mpf(10) ** -9) + mpf(10) ** -14
        if y < -1e-12:
            exact = exact / mpf(y) ** 2
            assert exact <= mpf(float(curvature(np.array(y)))) <= exact * (1 + mpf(10) ** -3)


outcomes = st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.01, 1.0)), min_size=1, max_size=5)


@given(outcomes, st.floats(0.0, 1.0), st.floats(-0.999, 0.999), st.booleans())
def test_lemma_mean_of_a_factor(values, center, bet, one_sided):
    """E exp( vZ − g(−vΔ) ) = e^{vẐ}(1 − vẐ) ≤ 1 for every law on [0, 1] and every center; v up to its one-sided range."""
    value, mass = (np.array(column) for column in zip(*values, strict=True))
    mass = mass / mass.sum()
    mean = mass @ value
    side = (1.0 - center if bet > 0 else center) if one_sided else 1.0
    weight = bet / max(side, 0.05)
    factor = mass @ np.exp(weight * (mean - value) - bet_cost(-weight * (value - center)))
    move = weight * (mean - center)
    assert factor == pytest.approx(math.exp(move) * (1.0 - move), rel=1e-9, abs=1e-12)
    assert factor <= 1.0 + 1e-12


def test_lemma_needs_the_deviation_that_was_seen():
    """With g at half of the deviation (a range believed half) the mean of a factor exceeds 1."""
    rare, bet = 0.01, 0.98
    value, mass = np.array([0.0, 1.0]), np.array([rare, 1.0 - rare])
    price = bet_cost(bet * (value - 1.0))
    honest, believed = (mass @ np.exp(-times * bet * (1.0 - rare - value) - price) for times in (1.0, 2.0))
    assert honest <= 1.0 < believed


def steps(rng, dimension):
    """f of any size from 1e-3 to 30, ξ shorter than 1, often along f or against it."""
    h = rng.normal(size=(CASES, dimension))
    h *= (10.0 ** rng.uniform(-3.0, 1.5, CASES) / np.linalg.norm(h, axis=1))[:, None]
    xi = rng.normal(size=(CASES, dimension)) * rng.choice([0.0, 0.1, 1.0], size=(CASES, 1))
    xi += h / np.linalg.norm(h, axis=1, keepdims=True) * rng.choice([-1.0, 0.0, 1.0], size=(CASES, 1))
    z = 1.0 - 10.0 ** rng.uniform(-4.0, 0.0, CASES)
    return h, xi * (z / np.maximum(np.linalg.norm(xi, axis=1), 1e-300))[:, None]


@pytest.mark.parametrize("dimension", [1, 2, 10])
def test_mean_of_a_vector_factor(dimension, rng):
    """E cosh‖f + λφZ‖ e^{−g(−λ‖φ‖|Δ|)} ≤ cosh‖f‖ for laws on three points of [0, 1] and any center; not with g(+...)."""
    f, phi = steps(rng, dimension)
    value = corners(rng, 0.0, 1.0, (3, CASES))
    mass = rng.dirichlet([0.3, 0.3, 0.3], CASES).T
    mean, center = (mass * value).sum(axis=0), corners(rng, 0.0, 1.0, CASES)
    start = np.linalg.norm(f, axis=1)
    for sign, holds in ((-1.0, True), (1.0, False)):
        total = np.full(CASES, -np.inf)
        for y, p in zip(value, np.maximum(mass, 1e-300), strict=True):
            after = np.linalg.norm(f + phi * (mean - y)[:, None], axis=1)
            price = bet_cost(sign * np.linalg.norm(phi, axis=1) * np.abs(y - center))
            total = np.logaddexp(total, np.log(p) + np.logaddexp(after, -after) - price)
        assert ((total - np.logaddexp(start, -start)).max() <= 1e-9) == holds


def test_bounds_of_the_deviation(rng):
    """(14): intervals around ŷ, Y and Y − ŷ, and clips that may miss both. "Δ ≤ d_hi also if Y^hi ≤ C" is false."""
    y, outcome = rng.uniform(-1.5, 1.5, 10 * CASES), rng.uniform(-1.0, 1.0, 10 * CASES)

    def around(x):
        loose = rng.exponential(0.4, (2, x.size)) * rng.integers(2, size=(2, x.size))
        return Between(x - loose[0], x + loose[1])

    low, high = np.sort(rng.uniform(-1.0, 1.0, (2, y.size)), axis=0)
    clip = Between(np.where(rng.random(y.size) < 0.2, -1.0, low), np.where(rng.random(y.size) < 0.2, 1.0, high))
    predicted, seen, apart = around(y), around(outcome), around(outcome - y)
    found = clipped_deviation(predicted, seen, apart, clip)
    deviation = outcome - np.clip(y, clip.low, clip.high)
    assert np.all(found.low <= deviation)
    assert np.all(deviation <= found.high)
    assert np.mean(found.high - deviation < 1e-12) > 0.1  # and they are reached
    shortcut = np.where((predicted.high <= clip.high) | (seen.high <= clip.high), apart.high, np.inf)
    assert np.any(deviation > shortcut + 1e-12)


def test_weight_of_the_joint_form(rng):
    """g(−vΔ) ≤ w Δ² on [Δ^lo, Δ^hi], w = v² g(y)/y² at the most negative y = −vΔ there; ½v² alone is not enough."""
    low, high = np.sort(corners(rng, -1.0, 1.0, (2, CASES)), axis=0)
    v = corners(rng, -0.99, 0.99, CASES)
    weight = v**2 * curvature(np.minimum(np.minimum(-v * low, -v * high), 0.0))
    for share in np.linspace(0.0, 1.0, 21):
        delta = low + share * (high - low)
        assert np.min(weight * delta**2 - bet_cost(-v * delta)) >= -1e-12
    assert np.min(0.5 * v**2 * low**2 - bet_cost(-v * low)) < -0.1
