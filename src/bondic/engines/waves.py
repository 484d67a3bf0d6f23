"""Random features on vectors: cos and sin of an angle together, without a branch, with a proved error.

a = k pi/2 + r, k = round(2 a / pi), |r| <= pi/4 + 1e-9, for |a| <= LARGEST; then (cos a, sin a) is (cos r, sin r), turned by
k quarters. Absolute error, in units U = 2^-53:
  reduction   pi/2 = P1 + P2 + P3 up to 1e-31; P1 and P2 have 33 bits, so k P1 and k P2 are exact for k < 2^20, and so is
              a - k P1 (the two are within a factor of 2 of each other); two more differences of numbers below 1  -> 1.1
  polynomial  those of the C library of Sun for |r| <= pi/4, off by at most 2^-57                                 -> 0.1
  cosine      (1 - z/2) + z^2 p(z): z and z/2 to 0.31 each, two sums below 1, the rest times z^2 < 0.39           -> 1.8
  sine        r + r z p(z): the second part, below 0.09, to a few units of its own size; one sum                  -> 0.9
Selecting and changing signs is exact. WAVE_ULP = 3.5 is what NUMPY_ULP = 4 of the leaf allows for; the scaling is charged there.
"""

from __future__ import annotations

import math

import numpy as np

from bondic.core.bounded import FloatArray
from bondic.core.kernels.features import RandomFeatures
from bondic.engines.compiled import compiled

LARGEST = 1e6
"""Angles beyond it are left to NumPy: k has to stay below 2^20."""
WAVE_ULP = 3.5

_SHIFTER = 1.5 * 2.0**52
_TURNS = float.fromhex("0x1.45f306dc9c883p-1")  # 2 / pi
_P1 = float.fromhex("0x1.921fb54400000p+0")
_P2 = float.fromhex("0x1.0b4611a600000p-34")
_P3 = float.fromhex("0x1.3198a2e037073p-69")
_S1, _S2, _S3, _S4, _S5, _S6 = map(
    float.fromhex,
    (
        "-0x1.5555555555549p-3", "0x1.111111110f8a6p-7", "-0x1.a01a019c161d5p-13",
        "0x1.71de357b1fe7dp-19", "-0x1.ae5e68a2b9cebp-26", "0x1.5d93a5acfd57cp-33",
    ),
)  # fmt: skip
_C1, _C2, _C3, _C4, _C5, _C6 = map(
    float.fromhex,
    (
        "0x1.555555555554cp-5", "-0x1.6c16c16c15177p-10", "0x1.a01a019cb159p-16",
        "-0x1.27e4f809c52adp-22", "0x1.1ee9ebdb4b1c4p-29", "-0x1.8fae9be8838d4p-37",
    ),
)  # fmt: skip


@compiled(fastmath={"contract"}, error_model="numpy")
def _fill(angles, scale, out):  # type: ignore[no-untyped-def]
    """out[:, j] = scale cos(angles[:, j]), out[:, m + j] = scale sin(angles[:, j]); angles (N, m)."""
    width = angles.shape[1]
    for i in range(angles.shape[0]):
        line, cosines, sines = angles[i], out[i, :width], out[i, width:]
        for j in range(width):
            a = line[j]
            k = (a * _TURNS + _SHIFTER) - _SHIFTER
            r = ((a - k * _P1) - k * _P2) - k * _P3
            z = r * r
            s = r + (r * z) * (_S1 + z * (_S2 + z * (_S3 + z * (_S4 + z * (_S5 + z * _S6)))))
            c = (1.0 - 0.5 * z) + (z * z) * (_C1 + z * (_C2 + z * (_C3 + z * (_C4 + z * (_C5 + z * _C6)))))
            halves = math.floor(0.5 * k)
            odd = k - 2.0 * halves
            turned = 1.0 - 2.0 * (halves - 2.0 * math.floor(0.5 * halves))  # -1 where k mod 4 is 2 or 3
            cosines[j] = (s if odd != 0.0 else c) * (turned * (1.0 - 2.0 * odd) * scale)
            sines[j] = (c if odd != 0.0 else s) * (turned * scale)


def wave_features(leaf: RandomFeatures, x: FloatArray) -> FloatArray:
    """`leaf.features(x)`, no farther from the exact ones than `leaf.feature_error` says."""
    angles = leaf.angles(x)
    if not np.abs(angles).max(initial=0.0) <= LARGEST:
        return leaf.features(x)
    out = np.empty((x.shape[0], 2 * angles.shape[1]))
    _fill(angles, 1.0 / np.sqrt(angles.shape[1]), out)
    return out
