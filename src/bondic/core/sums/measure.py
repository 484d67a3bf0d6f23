"""Points with weights: what every kernel sum and every total variation is taken of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.core.sums.merge import merge_points

if TYPE_CHECKING:
    from bondic.core.sums.account import Added, Order

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measure:
    """sum_j sum_a v_ja delta_(z_j, a) for G weightings v of the same points; a stream of one batch.

    `error` is the relative error of each weight.
    """

    points: FloatArray  # (N, D)
    weights: FloatArray  # (G, N, slots)
    error: float = 0.0

    @property
    def count(self) -> int:
        return int(self.points.shape[0])

    @property
    def groups(self) -> int:
        return int(self.weights.shape[0])

    @property
    def slots(self) -> int:
        return int(self.weights.shape[2])

    @property
    def dimension(self) -> int:
        return int(self.points.shape[1])

    def sample(self) -> FloatArray:
        return self.points

    def batches(self) -> Iterator[Measure]:
        yield self

    def pieces(self, order: Order) -> Iterator[Measure | Added]:
        del order
        yield self

    @staticmethod
    def joined(parts: Iterable[Measure]) -> Measure:
        """The sum of measures, their points one after the other."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        points, weights = np.concatenate([p.points for p in parts]), np.concatenate([p.weights for p in parts], axis=1)
        return Measure(points, weights, max(part.error for part in parts))

    def distinct(self) -> tuple[FloatArray, FloatArray, float]:
        """Points that carry weight, equal ones added up: (points, weights (N, G, slots), relative error of adding)."""
        check_finite(self.points, self.weights)
        carrying = np.any(self.weights != 0.0, axis=(0, 2))
        points, weights = self.points, self.weights.transpose(1, 0, 2)
        if not carrying.all():
            points, weights = points[carrying], weights[carrying]
        points, merged, error = merge_points(points, weights.reshape(-1, self.groups * self.slots))
        return points, merged.reshape(-1, self.groups, self.slots), error


@dataclass(frozen=True, eq=False)
class Stream:
    """Measures on different points that belong together; made when asked for, the same ones whenever it is."""

    make: Callable[[], Iterator[Measure]]
    some_points: Callable[[], FloatArray]  # from all over, for planning
    count: int  # about how many points in all, never too few: it decides whether they are held
    groups: int
    slots: int
    dimension: int
    away: Callable[[Order | None], Iterator[Measure | Added]] | None = None  # the batches, from other processes

    def batches(self) -> Iterator[Measure]:
        if self.away is None:
            return self.make()
        return (found for found in self.away(None) if isinstance(found, Measure))

    def pieces(self, order: Order) -> Iterator[Measure | Added]:
        """The batches of one pass; those from other processes are added up already, where the order travels."""
        if self.away is None:
            return self.make()
        return self.away(order if order.travels else None)

    def sample(self) -> FloatArray:
        return self.some_points()


Source = Measure | Stream


def check_finite(points: FloatArray, weights: FloatArray) -> None:
    """Non-finite numbers end here, with their row."""
    if not np.all(np.isfinite(points)):
        row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise InvalidInput(f"Point {row} of a kernel sum is not finite: {points[row]}.")
    if not np.all(np.isfinite(weights)):
        raise InvalidInput("A weight of a kernel sum is not finite.")
