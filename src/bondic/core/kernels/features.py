"""Random Fourier features as an exact kernel of their own (section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bondic.core.bounded import U
from bondic.core.codec import Numbers
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import (
    NUMPY_ULP,
    FeatureLeaf,
    FloatArray,
    PointPart,
    centered,
    check_part,
    fingerprint,
    scale_vector,
)
from bondic.core.registry import register


@register("kernel", "random-features")
@dataclass(frozen=True, eq=False)
class RandomFeatures(FeatureLeaf):
    """k(x, y) = (1/m) sum_j cos( f_j . (x - y) ) = phi(x) . phi(y), cos/sin pairs, so k(x, x) = 1 = K_max.

    It is a positive-definite kernel for *any* frequencies, so nothing is approximate about using it for W. The
    frequencies come from a seed, never from the rows that are certified.

    Parameters
    ----------
    frequencies : array of float, (m, d)
        f_j, one row per cos/sin pair. `gaussian` draws those of a Gaussian kernel.
    center : float or array of float, default 0
        Subtracted from points first, which keeps rounding errors small; the kernel does not depend on it.
    on : {"observation", "time", "state", "action", "point"}, default "observation"
        Which columns of a point the kernel looks at: a state is observation and time, a point is all of it.
    """

    frequencies: Numbers  # (m, d)
    center: Numbers = 0.0  # (d,)
    on: PointPart = "observation"

    def __post_init__(self) -> None:
        check_part(self.on)
        frequencies = np.array(self.frequencies, dtype=np.float64, ndmin=2)
        if frequencies.ndim != 2 or frequencies.size == 0 or not np.all(np.isfinite(frequencies)):
            raise InvalidInput("Frequencies form a finite matrix: one row per cos/sin pair, one column per dimension.")
        center = np.broadcast_to(np.array(self.center, dtype=np.float64), frequencies.shape[1:]).copy()
        if not np.all(np.isfinite(center)):
            raise InvalidInput("The center of random features is finite: one number, or one per dimension.")
        for field, array in (("frequencies", frequencies), ("center", center)):
            array.flags.writeable = False
            object.__setattr__(self, field, array)

    @staticmethod
    def gaussian(
        pairs: int, dimension: int, bandwidth: Any, *, seed: int, center: Any = 0.0, on: PointPart = "observation"
    ) -> RandomFeatures:
        """Frequencies of the Gaussian kernel with these bandwidths: N(0, 1/h_l^2) per dimension."""
        if pairs < 1:
            raise InvalidInput(f"At least one cos/sin pair is needed, not {pairs}.")
        scales = np.broadcast_to(scale_vector(bandwidth, "bandwidth"), (dimension,))
        normal = np.random.default_rng(seed).standard_normal((pairs, dimension))
        return RandomFeatures(normal / scales, center, on)

    @property
    def sup_diag(self) -> float:
        return 1.0

    def _check(self, x: FloatArray) -> None:
        if x.shape[1] != self.frequencies.shape[1]:
            raise InvalidInput(
                f"Random features were made for {self.frequencies.shape[1]} dimensions, the points have {x.shape[1]}."
            )

    def angles(self, x: FloatArray) -> FloatArray:
        """f_j . (x - center), (N, m)."""
        self._check(x)
        return np.asarray((x - self.center) @ self.frequencies.T)

    def features(self, x: FloatArray) -> FloatArray:
        angles, pairs = self.angles(x), self.frequencies.shape[0]
        phi = np.empty((x.shape[0], 2 * pairs))
        np.cos(angles, out=phi[:, :pairs])
        np.sin(angles, out=phi[:, pairs:])
        phi *= 1.0 / np.sqrt(pairs)
        return phi

    def diag(self, x: FloatArray) -> FloatArray:
        return np.ones(x.shape[0])

    def feature_error(self, x: FloatArray) -> float:
        """Angles are off by (d + 2) U sum_l |f_l||x_l - c_l|, cos and sin by NUMPY_ULP U, the scaling by 3 U."""
        self._check(x)
        farthest = np.abs(x - self.center).max(axis=0, initial=0.0)
        largest = float((np.abs(self.frequencies) @ farthest).max())
        pairs = self.frequencies.shape[0]
        return float(1.01 * ((x.shape[1] + 3) * U * largest + (NUMPY_ULP + 4) * U) / np.sqrt(pairs))

    def __repr__(self) -> str:
        return (
            f"RandomFeatures({self.frequencies.shape[0]} pairs, frequencies sha256 {fingerprint(self.frequencies)}"
            f"{centered(self.center)}, on={self.on!r})"
        )
