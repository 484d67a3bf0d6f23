"""What an engine is: it says what a term would cost, adds points batch by batch, and names the accuracy of its totals.

`EngineSums` (module sums) picks engines, feeds them and turns what they return into enclosures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from bondic.core.bounded import TINY, FloatArray, U
from bondic.core.kernels.base import FeatureLeaf
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import Crossed, Progress, Share
from bondic.engines.threads import Threads


@dataclass(frozen=True, eq=False)
class Survey:
    """What is known before the first point is added; `columns` where `points` are all there will be."""

    count: int  # points in all, exactly or about
    points: FloatArray  # (m, D), all of them or some
    columns: FloatArray | None  # (m, C), embedded weights
    groups: int  # weightings; column c belongs to weighting c // (C / groups)
    width: int  # C
    executor: Threads
    progress: Progress | None = None
    notes: dict[str, Any] = field(default_factory=dict)  # what an engine found while it looked at its cost

    @property
    def whole(self) -> bool:
        return self.columns is not None


def scaled(share: Share, factor: float) -> Share:
    """The share of factor * K."""
    if factor == 1.0:
        return share
    totals, raised = factor * share.totals, factor * (1 + 4 * U)
    lost = U * np.abs(totals).sum(axis=0) * (1 + 2 * len(totals) * U) + len(totals) * TINY
    return Share(totals, share.relative * raised, share.masses, share.absolute * raised + lost)


class Partial(ABC):
    """One term summed over all points: these are added, then the pass is ended, and again as long as it `wants_more`."""

    wants_more = True
    is_serializable = False
    """Whether forks of this pass can be made and merged, here or in another process; else the points have to come here."""

    @abstractmethod
    def add(self, points: FloatArray, columns: FloatArray) -> None:
        """Points (N, D), N > 0, with embedded columns (N, C)."""

    def end_pass(self) -> None:
        self.wants_more = False

    @abstractmethod
    def values(self) -> list[Share]:
        """Shares of u_c^T K u_c, coefficient included."""

    def close(self) -> None:  # noqa: B027  nothing lies outside memory unless a subclass says so
        """Give back what lies outside memory."""


class Serializable(Partial):
    """A fork sees other points of the same pass; merged back before the pass ends, both are as good as one that saw all.

    It is pickled on its way to another process, and back.
    """

    is_serializable = True

    @abstractmethod
    def fork(self) -> Self:
        """An empty one for this pass."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Take over what a fork has seen, wherever it was."""


class Collected(Partial):
    """Points are kept and summed at the end, all together."""

    def __init__(self, survey: Survey, finish: Callable[[FloatArray, FloatArray], list[Share]]) -> None:
        self._width, self._finish = survey.width, finish
        self._parts: list[tuple[FloatArray, FloatArray]] = []

    def add(self, points: FloatArray, columns: FloatArray) -> None:
        self._parts.append((points, columns))

    def values(self) -> list[Share]:
        if not self._parts:
            return [Share(np.zeros((1, self._width)), 0.0)]
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

    def features(self, leaf: FeatureLeaf, x: FloatArray) -> FloatArray | None:
        """`leaf.features(x)` in another way, off by no more than `leaf.feature_error`; None: this engine has none."""
        del leaf, x
        return None
