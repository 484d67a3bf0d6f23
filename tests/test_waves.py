"""cos and sin on vectors: against 40 digits, against NumPy's, and where they are left to it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from bondic.core.bounded import U
from bondic.core.kernels.base import NUMPY_ULP
from bondic.core.kernels.features import RandomFeatures
from bondic.engines.waves import LARGEST, WAVE_ULP, _fill, wave_features


def waves(angles):
    out = np.empty((1, 2 * angles.size))
    _fill(np.ascontiguousarray(angles)[None], 1.0, out)
    return np.split(out[0], 2)


def hard_angles():
    """Small ones, large ones, and the nearest floats to multiples of a quarter and an eighth of a turn."""
    rng = np.random.default_rng(5)
    turns = np.concatenate([np.arange(-40, 41), rng.integers(1, 600_000, 200)]) * (math.pi / 4)
    near = np.concatenate([turns, np.nextafter(turns, np.inf), np.nextafter(turns, -np.inf)])
    near = near[np.abs(near) <= LARGEST]
    spread = np.concatenate(
        [rng.uniform(-10, 10, 1500), rng.uniform(-LARGEST, LARGEST, 1500), [0.0, LARGEST, -LARGEST]]
    )
    return np.concatenate([near, spread, np.geomspace(1e-300, 1.0, 50)])


def test_waves_stay_within_their_error():
    """WAVE_ULP units of 2^-53, which is less than the leaf charges for NumPy's own."""
    angles = hard_angles()
    cosines, sines = waves(angles)
    assert WAVE_ULP < NUMPY_ULP
    with mp.workdps(40):
        worst = max(
            max(abs(mpf(c) - mp.cos(mpf(a))), abs(mpf(s) - mp.sin(mpf(a))))
            for a, c, s in zip(angles.tolist(), cosines.tolist(), sines.tolist(), strict=True)
        )
    assert float(worst) <= WAVE_ULP * U


def test_a_wave_that_is_off_by_its_error_is_noticed():
    """The same test fails for a function that is off by a few units: the check can see them."""
    angles = hard_angles()
    cosines, _ = waves(angles)
    moved = cosines + 4 * U
    with mp.workdps(40):
        worst = max(abs(mpf(c) - mp.cos(mpf(a))) for a, c in zip(angles.tolist(), moved.tolist(), strict=True))
    assert float(worst) > WAVE_ULP * U


@pytest.mark.parametrize("reach", [1.0, 1e4, 1e9])
def test_features_of_both_ways_agree_within_twice_their_error(reach):
    """Far out the angles are too large for the compiled way, and NumPy's are taken."""
    rng = np.random.default_rng(1)
    leaf = RandomFeatures.gaussian(40, 2, 0.7, seed=3)
    x = reach * rng.standard_normal((300, 2))
    fast, slow = wave_features(leaf, x), leaf.features(x)
    assert np.abs(fast - slow).max() <= 2 * leaf.feature_error(x)
    assert (reach < 1e9) == (not np.array_equal(fast, slow))
