"""A product of leaves as one recipe: one exponential per pair, whatever the factors; what every engine of all pairs reads.

    c prod_f f(x, y) = c 2^-( sum of exponents ) * prod polynomials(rho) * prod phi(x).phi(y) * [x = y] * [t, u < H]

Exponents of Gaussian, Laplace and Matérn leaves add up; features are coordinates with a dot product; a Dirac leaf sorts
the points, so that only tiles with equal columns are visited; a time mask removes points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import FloatArray, U
from bondic.core.kernels.base import FeatureLeaf, Leaf, per_dimension
from bondic.core.kernels.leaves import Dirac, Gaussian, Laplace, Matern, TimeMask
from bondic.core.kernels.normal_form import Term
from bondic.engines.power import EXP_ULP

IntArray = npt.NDArray[np.int64]

Factor = tuple[Leaf, tuple[int, ...]]

GAUSSIAN, LAPLACE, MATERN_1, MATERN_3, MATERN_5, FEATURES, LABEL, NEAR = range(8)

LOG2E = math.log2(math.e)
HALF_LOG2E = float.fromhex("0x1.b2da4e9808a53p-1")  # sqrt(log2(e) / 2), correctly rounded
RHO_LARGEST = 710.0
"""exp(-710) is as good as zero, and polynomials of smaller lengths do not overflow."""

_MATERN = {0.5: MATERN_1, 1.5: MATERN_3, 2.5: MATERN_5}
_SENSITIVITY = {0.5: 0.37, 1.5: 1.21, 2.5: 1.85}
"""sup |rho f| + sup |rho P' e^-rho| for f = P(rho) e^-rho: how relative errors of exponent and rho move the value."""
_MAX_FACTORS = 16  # polynomials up to (2e5)^16 times 2^-960 are still as good as zero
_MAX_FEATURES = 128  # beyond, products of matrices are faster


def joined_gaussian(factors: tuple[Factor, ...]) -> tuple[list[int], FloatArray] | None:
    """A product of Gaussians is one Gaussian on the joined columns: (columns, bandwidths); None: there is another leaf."""
    scales = [
        per_dimension(leaf.bandwidth, len(columns), "The Gaussian kernel")
        for leaf, columns in factors
        if type(leaf) is Gaussian
    ]
    if not factors or len(scales) < len(factors):
        return None
    return [column for _, columns in factors for column in columns], np.concatenate(scales)


@dataclass(frozen=True, eq=False)
class Recipe:
    """Segments of the coordinates: kinds[s] acts on the axes from ends[s - 1] to ends[s]; scales (axes,)."""

    kinds: IntArray
    ends: IntArray
    scales: FloatArray


def value_error(dimension: int) -> float:
    """Absolute error of a Gaussian value: t e^-t <= 0.368 times (d + 8) U, plus the exponential's own."""
    return (0.37 * (dimension + 8) + EXP_ULP) * U


@dataclass(frozen=True, eq=False)
class ProductPlan:
    """The factors of a term by what they do to a pair."""

    coefficient: float
    radial: tuple[Factor, ...]  # Gaussian, Laplace, Matérn
    features: tuple[tuple[FeatureLeaf, tuple[int, ...]], ...]
    equal: tuple[int, ...]  # columns of all Dirac leaves
    masks: tuple[tuple[int, int], ...]  # (column, horizon)

    def bounds(self, x: FloatArray, y: FloatArray) -> tuple[float, float]:
        """(largest |value|, absolute error of a computed value), coefficient included (README.md, Lemma 17a)."""
        size, error = self.coefficient, self.coefficient * self._radial_error()
        for leaf, columns in self.features:
            largest, own = leaf.max_abs(x[:, columns], y[:, columns]), leaf.value_error(x[:, columns], y[:, columns])
            error = error * (largest + own) + size * own
            size *= largest
        rounding = (len(self.radial) + len(self.features) + 5) * U * (size + error)
        return size * (1 + 1e-12), error * (1 + 1e-9) + rounding

    def _radial_error(self) -> float:
        """sum of sensitivities times the relative error of exponents and lengths, the polynomials, the exponential."""
        if not self.radial:
            return 0.0
        relative = sum(len(columns) for _, columns in self.radial) + len(self.radial) + 10
        sensitivity = sum(_SENSITIVITY[leaf.nu] if isinstance(leaf, Matern) else 0.37 for leaf, _ in self.radial)
        return (sensitivity * relative + 6 * len(self.radial) + EXP_ULP) * U

    def alive(self, x: FloatArray) -> npt.NDArray[np.bool_]:
        """Points that no time mask removes."""
        keep = np.ones(x.shape[0], dtype=np.bool_)
        for column, horizon in self.masks:
            keep &= x[:, column] < horizon
        return keep

    def recipe(self, x: FloatArray, labels: FloatArray | None) -> tuple[Recipe, FloatArray]:
        """The segments of the engine and the coordinates they act on."""
        kinds, parts, scales = [], [], []
        for leaf, columns in self.radial:
            kind, scale = _scaling(leaf, len(columns))
            kinds.append(kind)
            parts.append(x[:, columns])
            scales.append(scale)
        for feature, columns in self.features:
            kinds.append(FEATURES)
            parts.append(feature.features(x[:, columns]))
            scales.append(np.ones(parts[-1].shape[1]))
        if labels is not None:
            kinds.append(LABEL)
            parts.append(labels[:, None])
            scales.append(np.ones(1))
        if not parts:
            return Recipe(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)), np.zeros((x.shape[0], 0))
        ends = np.cumsum([part.shape[1] for part in parts], dtype=np.int64)
        return Recipe(np.array(kinds, dtype=np.int64), ends, np.concatenate(scales)), np.concatenate(parts, axis=1)

    def gaussian(self) -> tuple[list[int], FloatArray] | None:
        """(columns, bandwidths) when Gaussian leaves are all there is besides masks."""
        if self.features or self.equal or not self.radial:
            return None
        return joined_gaussian(self.radial)


def _scaling(leaf: Leaf, dimension: int) -> tuple[int, FloatArray]:
    """What differences are multiplied by so that exponents are powers of two, and lengths are rho."""
    if isinstance(leaf, Gaussian):
        return GAUSSIAN, HALF_LOG2E / per_dimension(leaf.bandwidth, dimension, "The Gaussian kernel")
    if isinstance(leaf, Laplace):
        return LAPLACE, LOG2E / per_dimension(leaf.bandwidth, dimension, "The Laplace kernel")
    assert isinstance(leaf, Matern)
    return _MATERN[leaf.nu], math.sqrt(2 * leaf.nu) / per_dimension(leaf.bandwidth, dimension, "The kernel")


def plan(term: Term, points: FloatArray) -> ProductPlan | None:
    """How the pair engine evaluates this term; None where it does not know a leaf or another way is faster."""
    radial: list[Factor] = []
    features: list[tuple[FeatureLeaf, tuple[int, ...]]] = []
    equal: list[int] = []
    masks: list[tuple[int, int]] = []
    for leaf, columns in term.factors:
        if type(leaf) in (Gaussian, Laplace, Matern):
            radial.append((leaf, columns))
        elif isinstance(leaf, FeatureLeaf):
            features.append((leaf, columns))
        elif type(leaf) is Dirac:
            equal.extend(columns)
        elif type(leaf) is TimeMask:
            masks.append((columns[0], leaf.horizon))
        else:
            return None
    if len(features) == len(term.factors) or len(radial) > _MAX_FACTORS:
        return None
    if sum(leaf.features(points[:1, columns]).shape[1] for leaf, columns in features) > _MAX_FEATURES:
        return None
    return ProductPlan(term.coefficient, tuple(radial), tuple(features), tuple(equal), tuple(masks))


def labels(columns: tuple[int, ...], *sets: FloatArray) -> list[FloatArray]:
    """One number per point, equal exactly when all these columns are equal (0.0 and -0.0 are)."""
    stacked = np.concatenate([points[:, columns] for points in sets]) + 0.0
    _, inverse = np.unique(stacked, axis=0, return_inverse=True)
    return np.split(inverse.reshape(-1).astype(np.float64), np.cumsum([len(points) for points in sets])[:-1])


def certain(planned: ProductPlan | None) -> ProductPlan:
    assert planned is not None, "cost was called before"
    return planned
