"""Stand-ins for the trusted types, until they are there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.claims import End

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LandmarkBasis:
    landmarks: FloatArray  # (m, D)
    slots: IntArray  # (m,)
    matrix: FloatArray  # (m, m)


@dataclass(frozen=True, eq=False)
class RidgeModel:
    coefficients: FloatArray  # (1 + seen, 1 + seen): [1, c(x)] @ coefficients = [y0, kappa]

    def predict(self, points: FloatArray, slots: IntArray, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        del points, slots
        out = self.coefficients[0] + coordinates @ self.coefficients[1:]
        return out[:, 0], out[:, 1:]


@dataclass(frozen=True, eq=False)
class Weighting:
    rate: float
    starts: IntArray  # (k,)
    directions: FloatArray  # (k, seen)


@dataclass(frozen=True, eq=False)
class Block:
    stop: int
    model: RidgeModel
    whitening: FloatArray  # (seen, p)
    rate: float
    usual: float
    guess: FloatArray  # (seen,)
    margin: float
    weightings: dict[End, Weighting]


@dataclass(frozen=True, eq=False)
class Plan:
    basis: LandmarkBasis
    seen: int
    core: int
    start: int
    blocks: tuple[Block, ...]
    taus: tuple[float, ...] = (0.5, 0.9, 0.98)
    rounds: tuple[int, ...] = ()
