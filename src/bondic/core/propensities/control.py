"""q̂, the control variate of doubly robust values: numbers or a formula for a block of rows, never a fit (section 13).

Any q̂ that was chosen before its block gives values with the right mean; a good one makes them vary less. That it was fitted on
the rows before cannot be seen in it: a replay makes it again from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from bondic.core.bounded import FloatArray, IntArray
from bondic.core.errors import InvalidInput
from bondic.core.registry import kind, register

_GROUP = 256
"""Rows of one product of matrices: libraries sum in an order that depends on the shapes. With one shape the floats of a row do
not tell how many rows follow it."""


@kind("control")
@dataclass(frozen=True, eq=False)
class Control(ABC):
    """Predictions for every action (n, slots), or for all actions alike (n, 1), within `clip`."""

    borders: tuple[int, ...]  # rows of the log where blocks begin: predictions of a block come from rows before it
    clip: tuple[float, float]  # predictions are cut to it; chosen on rows before the first block
    expected: tuple[float, float]  # mean and variance > 0 of X, guessed from those rows: bets begin with them

    holds_rows: ClassVar[bool]  # whether single rows can be read off it

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in pairwise((0, *self.borders)))
        if not (self.borders and ascending and self.clip[0] <= self.clip[1] and self.expected[1] > 0 and self.fits()):
            raise InvalidInput("The arrays of the control variate have shapes or blocks that do not match.")

    @abstractmethod
    def fits(self) -> bool:
        """Whether the shapes of its parts agree."""

    @abstractmethod
    def predict(self, rows: IntArray, inputs: FloatArray) -> FloatArray:
        """Rows of the log at or after the first border."""

    @property
    @abstractmethod
    def by_action(self) -> bool:
        """Whether predictions depend on the action."""

    def values(self, rows: IntArray, inputs: FloatArray) -> FloatArray:
        """The predictions within `clip`."""
        return np.clip(self.predict(rows, inputs), *self.clip)


@register("control", "linear")
@dataclass(frozen=True, eq=False)
class LinearControl(Control):
    """q̂(s, a) = (1, (s - center) / scale) . coefficients[block, :, a], s the last columns of the inputs."""

    center: FloatArray  # (d,)
    scale: FloatArray  # (d,) > 0
    coefficients: FloatArray  # (blocks, 1 + d, slots)
    holds_rows: ClassVar[bool] = False

    def fits(self) -> bool:
        known = self.scale.shape == self.center.shape and bool(np.all(self.scale > 0)) and self.coefficients.ndim == 3
        return known and self.coefficients.shape[:2] == (len(self.borders), 1 + self.center.size)

    @property
    def by_action(self) -> bool:
        return bool(self.coefficients.shape[2] > 1)

    def predict(self, rows: IntArray, inputs: FloatArray) -> FloatArray:
        design = linear_design(inputs[:, inputs.shape[1] - self.center.size :], self.center, self.scale)
        found = np.empty((len(rows), self.coefficients.shape[2]))
        blocks = np.searchsorted(self.borders, rows, side="right") - 1
        for k, coefficients in enumerate(self.coefficients):
            mine = np.flatnonzero(blocks == k)
            for top in range(0, mine.size, _GROUP):
                group = mine[top : top + _GROUP]
                filled = np.concatenate([group, np.full(_GROUP - group.size, group[0])])
                found[group] = (design[filled] @ coefficients)[: group.size]
        return found


@register("control", "stored")
@dataclass(frozen=True, eq=False)
class StoredControl(Control):
    """Predictions of any regressor, row by row."""

    predictions: FloatArray  # (rows from the first border on, slots or 1)
    holds_rows: ClassVar[bool] = True

    def fits(self) -> bool:
        return self.predictions.ndim == 2 and self.predictions.shape[1] > 0

    @property
    def by_action(self) -> bool:
        return bool(self.predictions.shape[1] > 1)

    def predict(self, rows: IntArray, inputs: FloatArray) -> FloatArray:
        del inputs
        if rows.size and int(rows.max()) - self.borders[0] >= self.predictions.shape[0]:
            raise InvalidInput("There are fewer stored predictions than rows.")
        return self.predictions[rows - self.borders[0]]


def linear_design(inputs: FloatArray, center: FloatArray, scale: FloatArray) -> FloatArray:
    """(1, (s - center) / scale)."""
    return np.column_stack([np.ones(len(inputs)), (inputs - center) / scale])
