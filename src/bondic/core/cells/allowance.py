"""How far values may differ inside a cell: the two numbers of (23), in units of value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bondic.core.bounded import FloatArray
from bondic.core.errors import InvalidInput


@dataclass(frozen=True)
class Allowance:
    """Inside a group, averages of the model's error differ by at most `averages`, single values by at most `single`.

    Parameters
    ----------
    averages : float
        β̄: for the rows of every cell (the rows of one block, group and action, at which weights are the same), for the
        points that follow them and for the starts, the average of q* - q̂ differs by at most β̄ from one number per
        group and action.
    single : float, default None
        β_∞: the same for the value after every single row, and at every single start where these are a sample. None: as
        `averages`.
    """

    averages: float
    single: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("averages", self.averages), ("single", self.single)):
            if value is not None and not 0 <= value < math.inf:
                raise InvalidInput(
                    f"An allowance is a number of at least 0, in units of the value; `{name}` is {value!r}."
                )

    @property
    def pair(self) -> tuple[float, float]:
        return float(self.averages), float(self.averages if self.single is None else self.single)

    @staticmethod
    def of(allowance: Allowance | float | tuple[float, float]) -> Allowance:
        """One number states both; a pair states (averages, single values)."""
        if isinstance(allowance, Allowance):
            return allowance
        if isinstance(allowance, tuple | list):
            if len(allowance) != 2:
                raise InvalidInput(
                    f"An allowance is one number or two (averages, single values); {allowance!r} was passed."
                )
            return Allowance(float(allowance[0]), float(allowance[1]))
        return Allowance(float(allowance))


NOTHING_ALLOWED = Allowance(0.0)


@dataclass(frozen=True, eq=False)
class CellAllowance:
    """β̄ and β_∞ of every cell."""

    averages: FloatArray  # (p,)
    single: FloatArray  # (p,)

    def __post_init__(self) -> None:
        for values in (self.averages, self.single):
            if values.shape != self.averages.shape or not np.all((values >= 0) & (values < np.inf)):
                raise InvalidInput("The allowance of a cell is a number of at least 0, in units of the value.")

    @staticmethod
    def of(allowance: Allowance | CellAllowance, cells: int) -> CellAllowance:
        """The same two numbers for every cell, or those of each."""
        if isinstance(allowance, Allowance):
            averages, single = allowance.pair
            return CellAllowance(np.full(cells, averages), np.full(cells, single))
        if allowance.averages.shape != (cells,):
            raise InvalidInput(f"There are {cells} cells, and allowances of {allowance.averages.size}.")
        return allowance
