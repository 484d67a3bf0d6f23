"""What an engine is: it says what a term would cost, adds points batch by batch, and names the accuracy of its totals.

`EngineSums` (module sums) picks engines, feeds them and turns what they return into enclosures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from bondic.core.bounded import FloatArray
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import Crossed, Progress, Share
from bondic.engines.threads import Threads


@dataclass(frozen=True, eq=False)
class Survey:
    """What is known before the first point is added."""

    count: int  # points in all, exactly or about
    points: FloatArray  # (m, D), all of them or some
    width: int  # of the embedded weights
    executor: Threads
    whole: bool = False  # `points` are all there will be
    progress: Progress | None = None


class Partial(ABC):
    """One term summed over all points, which are added batch by batch."""

    @abstractmethod
    def add(self, points: FloatArray, columns: FloatArray) -> None:
        """Points (N, D), N > 0, with embedded columns (N, C)."""

    @abstractmethod
    def value(self) -> Share:
        """u_c^T K u_c of all points that were added, coefficient included."""

    def close(self) -> None:  # noqa: B027  nothing lies outside memory unless a subclass says so
        """Give back what lies outside memory."""


class Serializable(Partial):
    """A fork sees other points; merged back, both are as good as one that saw all.

    It is pickled on its way to another process, and back.
    """

    @abstractmethod
    def fork(self) -> Self:
        """An empty one."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Take over what a fork has seen, wherever it was."""


class Collected(Partial):
    """Points are kept and summed at the end, all together."""

    def __init__(self, survey: Survey, finish: Callable[[FloatArray, FloatArray], Share]) -> None:
        self._width, self._finish = survey.width, finish
        self._parts: list[tuple[FloatArray, FloatArray]] = []

    def add(self, points: FloatArray, columns: FloatArray) -> None:
        self._parts.append((points, columns))

    def value(self) -> Share:
        if not self._parts:
            return Share(np.zeros((1, self._width)), 0.0)
        if len(self._parts) == 1:
            return self._finish(*self._parts[0])
        return self._finish(*(np.concatenate([part[k] for part in self._parts]) for k in (0, 1)))


class Engine(ABC):
    """A way to sum; chosen by what it says about itself."""

    name: str

    @abstractmethod
    def cost(self, term: Term, survey: Survey) -> float | None:
        """In units of one pair of points (module pairs); None: it cannot."""

    @abstractmethod
    def begin(self, term: Term, survey: Survey) -> Partial:
        """A sum of u_c^T K u_c; `cost` was called before and was not None."""

    def cross(self, term: Term, x: FloatArray, y: FloatArray, columns: FloatArray, executor: Threads) -> Crossed | None:
        """K(x, y) C of one term; None: this engine does squares alone."""
        del term, x, y, columns, executor
        return None
