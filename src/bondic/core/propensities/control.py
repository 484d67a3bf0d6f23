"""q̂, the control variate of doubly robust values: predictions for a block of rows, made from the rows before it (section 13).

X_i = E_π[q̂(s_i, .)] + ρ_i (r_i - q̂(s_i, a_i)) has the same mean whatever q̂ is; a good one makes X_i vary less.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bondic.core.classes.basis import GROUP
from bondic.core.errors import InvalidInput
from bondic.core.registry import kind, register

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@kind("control")
class Control(ABC):
    """Predictions at the states of a row, for every action (n, slots) or for all actions alike (n, 1), within `clip`."""

    begun: int  # the first row of the log that was looked at
    borders: tuple[int, ...]  # rows where blocks begin: predictions of a block come from rows before it
    clip: tuple[float, float]  # predictions are cut to it; chosen on rows before the first block
    expected: tuple[float, float]  # mean and variance > 0 of X, guessed from those rows: bets begin with them

    @abstractmethod
    def predict(self, rows: IntArray, observations: FloatArray) -> FloatArray:
        """Rows of the log at or after the first border."""

    @property
    @abstractmethod
    def by_action(self) -> bool:
        """Whether actions are told apart."""

    def values(self, rows: IntArray, observations: FloatArray) -> FloatArray:
        """The predictions within `clip`."""
        return np.clip(self.predict(rows, observations), *self.clip)


@register("control", "linear")
@dataclass(frozen=True, eq=False)
class LinearControl(Control):
    """q̂(s, a) = (1, (s - center) / scale) . coefficients[block, :, a]."""

    begun: int
    borders: tuple[int, ...]
    clip: tuple[float, float]
    expected: tuple[float, float]
    center: FloatArray  # (d,)
    scale: FloatArray  # (d,) > 0
    coefficients: FloatArray  # (blocks, 1 + d, slots)

    def __post_init__(self) -> None:
        shape = (len(self.borders), 1 + self.center.size)
        fine = self.coefficients.ndim == 3 and self.coefficients.shape[:2] == shape and np.all(self.scale > 0)
        _check(self, bool(fine) and self.scale.shape == self.center.shape)

    @property
    def by_action(self) -> bool:
        return bool(self.coefficients.shape[2] > 1)

    def predict(self, rows: IntArray, observations: FloatArray) -> FloatArray:
        seen = observations[:, observations.shape[1] - self.center.size :]
        design = linear_design(seen, self.center, self.scale)
        found = np.empty((len(rows), self.coefficients.shape[2]))
        block = np.searchsorted(self.borders, rows, side="right") - 1
        for k in range(len(self.borders)):
            found[block == k] = _products(design[block == k], self.coefficients[k])
        return found


@register("control", "stored")
@dataclass(frozen=True, eq=False)
class StoredControl(Control):
    """Predictions of any regressor, row by row: that they come from earlier rows is believed."""

    begun: int
    borders: tuple[int, ...]
    clip: tuple[float, float]
    expected: tuple[float, float]
    predictions: FloatArray  # (rows from the first border on, slots or 1)

    def __post_init__(self) -> None:
        _check(self, self.predictions.ndim == 2 and self.predictions.shape[1] > 0)

    @property
    def by_action(self) -> bool:
        return bool(self.predictions.shape[1] > 1)

    def predict(self, rows: IntArray, observations: FloatArray) -> FloatArray:
        del observations
        if rows.size and int(rows.max()) - self.borders[0] >= self.predictions.shape[0]:
            raise InvalidInput("There are fewer stored predictions than rows.")
        return self.predictions[rows - self.borders[0]]


def _products(design: FloatArray, coefficients: FloatArray) -> FloatArray:
    """A product of matrices in groups of one size, the last filled up with its first row.

    Libraries sum in an order that depends on the shapes. With one shape the floats of a row do not tell how many follow it.
    """
    count = len(design)
    found = np.empty((count, coefficients.shape[1]))
    for top in range(0, count, GROUP):
        group = np.arange(top, top + GROUP)
        group[group >= count] = top
        found[top : top + GROUP] = (design[group] @ coefficients)[: count - top]
    return found


def _check(control: Control, fine: bool) -> None:
    ascending = all(a < b for a, b in pairwise(control.borders))
    numbers = control.clip[0] <= control.clip[1] and control.expected[1] > 0
    if not (fine and control.borders and 0 <= control.begun < control.borders[0] and ascending and numbers):
        raise InvalidInput("The parts of a control variate do not fit together.")


def linear_design(observations: FloatArray, center: FloatArray, scale: FloatArray) -> FloatArray:
    """(1, (s - center) / scale)."""
    return np.column_stack([np.ones(len(observations)), (observations - center) / scale])
