"""Points with weights: what every kernel sum and every total variation is taken of.

A `Measure` is held, a `Stream` is made batch by batch, `RowMeasures` are many small ones. Points that occur several times are
summed once: in a trajectory s'_i is s_{i+1}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import FloatArray, IntArray
from bondic.core.errors import InvalidInput

T = TypeVar("T")


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

    def each(self, task: Callable[[Measure], T]) -> Iterator[T]:
        yield task(self)

    def batches(self) -> Iterator[Measure]:
        yield self

    def plus(self, other: Measure) -> Measure:
        return Measure.joined([self, other])

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
    """Measures on different points that belong together; made when requested, the same ones whenever they are.

    `each(task)` gives task(batch) for every batch, in their order, wherever batches are made; a task that is to work in other
    processes can be pickled.
    """

    each: Callable[[Callable[[Measure], Any]], Iterator[Any]]
    some_points: Callable[[], FloatArray]  # from all over, for planning
    count: int  # about how many points in all, never too few: it decides whether they are held
    groups: int
    slots: int
    dimension: int

    def batches(self) -> Iterator[Measure]:
        return self.each(_itself)

    def plus(self, other: Measure) -> Stream:
        """Another batch after all of these."""
        return replace(
            self, each=lambda task: chain(self.each(task), map(task, [other])), count=self.count + other.count
        )

    def sample(self) -> FloatArray:
        return self.some_points()


Source = Measure | Stream


def _itself(batch: Measure) -> Measure:
    return batch


@dataclass(frozen=True, eq=False)
class RowMeasures:
    """D_0, ..., D_{count-1}; point j belongs to row rows[j]; `error` is the relative error of each weight."""

    points: FloatArray  # (N, D)
    weights: FloatArray  # (N, slots)
    rows: IntArray  # (N,)
    count: int
    error: float = 0.0

    def stretch(self, first: int, stop: int) -> RowMeasures:
        """Rows first..stop-1; rows ascend."""
        begin, end = np.searchsorted(self.rows, [first, stop])
        part, count = slice(int(begin), int(end)), max(stop - first, 0)
        return RowMeasures(self.points[part], self.weights[part], self.rows[part] - first, count, self.error)

    @staticmethod
    def joined(parts: Sequence[RowMeasures]) -> RowMeasures:
        """The rows of all parts, one after the other."""
        first = np.cumsum([0, *(part.count for part in parts)])
        rows = np.concatenate([part.rows + begin for part, begin in zip(parts, first, strict=False)])
        points = np.concatenate([part.points for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        return RowMeasures(points, weights, rows, int(first[-1]), max(part.error for part in parts))

    def longest(self) -> int:
        return int(np.bincount(self.rows, minlength=1).max())

    def per_row(self, values: FloatArray) -> FloatArray:
        """Sums over the points of every row; values (N,) -> (count,)."""
        return np.asarray(np.bincount(self.rows, weights=values, minlength=self.count))


def check_finite(points: FloatArray, weights: FloatArray) -> None:
    """Non-finite numbers end here, with their row."""
    if not np.all(np.isfinite(points)):
        row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise InvalidInput(f"Point {row} of a kernel sum is not finite: {points[row]}.")
    if not np.all(np.isfinite(weights)):
        raise InvalidInput("A weight of a kernel sum is not finite.")


_ODD = np.uint64(0x9E3779B97F4A7C15)


def merge_points(points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Add up the weights of equal points: (distinct points, their weights, relative error of the additions).

    The error is relative to the sum of absolute weights of a point. Sums run in extended precision where the
    platform has it; the error is charged either way. Bitwise equality decides, so 0.0 and -0.0 are two points. Points come in the
    order of their first appearance.
    """
    if points.shape[0] < 2 or points.shape[1] == 0:
        return points, weights, 0.0
    rows = np.ascontiguousarray(points)
    order, starts = equal_rows(rows.view(np.uint64))
    if starts.size == rows.shape[0]:
        return points, weights, 0.0
    lengths = np.diff(np.append(starts, rows.shape[0]))
    longest, appearing = int(lengths.max()), np.argsort(order[starts])
    first = order[starts[appearing]]
    if longest == 2:  # one rounding each
        twice = np.flatnonzero(lengths[appearing] == 2)
        merged = weights.take(first, axis=0)
        merged[twice] += weights.take(order[starts[appearing[twice]] + 1], axis=0)
    else:
        merged = np.empty((starts.size, weights.shape[1]))
        for column, out in zip(weights.T, merged.T, strict=True):  # one at a time: extended precision takes more room
            out[:] = np.add.reduceat(column[order].astype(np.longdouble), starts)[appearing]
    error = 2.0 * (longest * float(np.finfo(np.longdouble).eps) + float(np.finfo(np.float64).eps))
    return rows.take(first, axis=0), merged, error


def equal_rows(bits: npt.NDArray[np.uint64]) -> tuple[IntArray, IntArray]:
    """An order that puts equal rows together, earlier ones first, and where in it each group begins.

    Rows are sorted by a hash; where two different rows have the same one, by their content.
    """
    keys = np.zeros(bits.shape[0], dtype=np.uint64)
    for column in bits.T:
        keys ^= column
        keys *= _ODD
        keys ^= keys >> np.uint64(32)
    order = np.argsort(keys, kind="stable")
    changes = _changes(bits, order)
    if np.any(changes & (keys[order[1:]] == keys[order[:-1]])):
        order = np.lexsort(bits.T)
        changes = _changes(bits, order)
    return order, np.flatnonzero(np.concatenate([[True], changes]))


def _changes(bits: npt.NDArray[np.uint64], order: IntArray) -> npt.NDArray[np.bool_]:
    """Whether a row differs from the one before it in this order."""
    found = np.zeros(order.size - 1, dtype=bool)
    for column in bits.T:
        sorted_column = column[order]
        found |= sorted_column[1:] != sorted_column[:-1]
    return found
