"""What a term's sum over batches has to offer."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from bondic.rounding import Enclosure

FloatArray = npt.NDArray[np.float64]


class TermSum(ABC):
    """Add all batches, end the pass, and again as long as it wants more."""

    wants_more = True

    @abstractmethod
    def add(self, points: FloatArray, columns: FloatArray) -> None:
        """Distinct points (N, D) with embedded columns (N, C)."""

    def end_pass(self) -> None:
        self.wants_more = False

    @abstractmethod
    def values(self) -> list[Enclosure]:
        """u_c^T K u_c for every column, coefficient included; columns are taken as exact."""

    def close(self) -> None:  # noqa: B027  nothing lies outside memory unless a subclass says so
        """Give back what lies outside memory."""
