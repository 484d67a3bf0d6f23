"""u^T K u over points that arrive in batches, from sums that are linear in the points wherever the kernel allows it.

Each term of the kernel is handled by the first of these that fits:

    constant    ( sum_i u_i )^2
    features    | sum_i u_i phi(z_i) |^2
    series      the Gaussian's expansion (module separable): degree planned on a sample, the tail summed over all points
    pairs       points and weights are put aside in a temporary file and summed over pairs of its blocks

Batches may be read several times; memory does not grow with their number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.engines.series_stream import SeriesSum
from bondic.engines.spool import SpooledPairs
from bondic.errors import InvalidInput
from bondic.kernels.accuracy import check_elementary_functions
from bondic.kernels.base import FeatureLeaf
from bondic.kernels.normal_form import Term
from bondic.rounding import TINY, Enclosure, U, certified_sum, inflate, upper_sum
from bondic.sums import reference
from bondic.sums.merge import merge_points
from bondic.sums.quadratic import Engine, as_gaussian, check_finite
from bondic.sums.reference import Progress
from bondic.sums.term_sum import TermSum

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Batch:
    """Points with slot weights for every weighting; `error` is the relative error of the weights."""

    points: FloatArray  # (N, D)
    groups: FloatArray  # (G, N, slots)
    error: float


@dataclass(frozen=True, eq=False)
class PointStream:
    """What is to be summed: batches that can be read again, how many points there will be, and some of them."""

    batches: Callable[[], Iterator[Batch]]
    count: int  # about how many points in all: for planning
    sample: FloatArray  # (m, D)
    groups: int
    slots: int


def streamed_forms(
    terms: tuple[Term, ...], stream: PointStream, *, engine: Engine = "auto", progress: Progress | None = None
) -> list[Enclosure]:
    """sum_{i,j,a,b} v_ia k((z_i, a), (z_j, b)) v_jb with its error for every weighting."""
    check_elementary_functions()
    sums = [_choose(term, stream, engine) for term in terms]
    facts = _Facts(terms, stream)
    try:
        rounds = 0
        while any(part.wants_more for part in sums):
            rounds += 1
            facts.begin_pass()
            for batch in stream.batches():
                facts.note(batch)
                distinct, merged, merge_error = _distinct(batch)
                if rounds == 1:
                    facts.add(batch, distinct, merge_error)
                if progress is not None:
                    progress(min(1.0, facts.seen / max(stream.count, 1)) if rounds == 1 else 1.0)
                for term, part in zip(terms, sums, strict=True):
                    if part.wants_more and distinct.shape[0]:
                        columns = np.ascontiguousarray(term.columns(merged)).reshape(distinct.shape[0], -1)
                        part.add(distinct, columns)
            facts.end_pass()
            for part in sums:
                if part.wants_more:
                    part.end_pass()
        return facts.finish([part.values() for part in sums])
    finally:
        for part in sums:
            part.close()


def _choose(term: Term, stream: PointStream, engine: Engine) -> TermSum:
    width = stream.groups * term.embedding.shape[1]
    if not term.factors:
        return ConstantSum(term, width)
    if len(term.factors) == 1 and isinstance(term.factors[0][0], FeatureLeaf):
        return FeatureSum(term, width)
    gaussian = as_gaussian(term)
    if gaussian is not None and engine in ("auto", "separable"):
        series = SeriesSum.plan(
            term.coefficient,
            *gaussian,
            stream.sample,
            stream.count,
            width,
            otherwise=lambda: SpooledPairs(term, width, engine),
        )
        if series is not None:
            return series
    return SpooledPairs(term, width, engine)


class ConstantSum(TermSum):
    """coefficient * ( sum_i u_i )^2."""

    def __init__(self, term: Term, width: int) -> None:
        self._coefficient = term.coefficient
        self._sums = [Enclosure(0.0)] * width

    def add(self, points: FloatArray, columns: FloatArray) -> None:
        del points
        self._sums = [total + certified_sum(np.ascontiguousarray(columns[:, c])) for c, total in enumerate(self._sums)]

    def values(self) -> list[Enclosure]:
        return [Enclosure(self._coefficient) * total * total for total in self._sums]


class FeatureSum(TermSum):
    """coefficient * | sum_i u_i phi(z_i) |^2."""

    def __init__(self, term: Term, width: int) -> None:
        self._term, self._width = term, width
        self._embedded: FloatArray | None = None
        self._mass = np.zeros(width)
        self._blocks, self._size, self._error, self._count = 0, 0.0, 0.0, 0

    def add(self, points: FloatArray, columns: FloatArray) -> None:
        leaf, axes = self._term.factors[0]
        assert isinstance(leaf, FeatureLeaf)
        size, error = self._term.bounds(points, points)
        self._size, self._error = max(self._size, size), max(self._error, error)
        self._count += points.shape[0]
        self._mass += [upper_sum(np.abs(columns[:, c])) for c in range(self._width)]
        for top in range(0, points.shape[0], reference.COLUMNS):
            cut = slice(top, top + reference.COLUMNS)
            part = columns[cut].T @ leaf.features(points[cut][:, axes])
            self._embedded = part if self._embedded is None else self._embedded + part
            self._blocks += 1

    def values(self) -> list[Enclosure]:
        """Blocks are added in sequence: (block + number of blocks) roundings, twice because it is squared."""
        if self._embedded is None:
            return [Enclosure(0.0)] * self._width
        dimension = self._embedded.shape[1]
        summation = 2.02 * (reference.COLUMNS + self._blocks + 8 + dimension) * U * np.sqrt(dimension)
        out = []
        for row, mass in zip(self._embedded, self._mass * (1 + (self._blocks + 4) * U), strict=True):
            square = certified_sum(row * row)
            spread = mass * mass * (self._error + self._size * summation) + self._count * TINY
            value = Enclosure(self._term.coefficient) * square
            out.append(Enclosure(value.mid, inflate(value.rad + spread)))
        return out


class _Facts:
    """What all terms share: absolute weights before merging, errors of the weights, sizes of the kernel values."""

    def __init__(self, terms: tuple[Term, ...], stream: PointStream) -> None:
        self._terms, self._groups = terms, stream.groups
        self._mass = np.zeros((stream.groups, stream.slots))
        self._sizes = [0.0] * len(terms)
        self._relative, self.seen, self._batches = 0.0, 0, 0
        self._first = b""

    def begin_pass(self) -> None:
        self._digest = hashlib.blake2b()

    def note(self, batch: Batch) -> None:
        for array in (batch.points, batch.groups):
            self._digest.update(np.ascontiguousarray(array).data)

    def end_pass(self) -> None:
        """Sums from several passes belong together only if all passes saw the same points and weights."""
        if self._first not in (b"", self._digest.digest()):
            raise InvalidInput(
                "Points or weights changed between two passes over the log. A policy has to give the same answers when it "
                "is asked again: draw from the generator it is given, or load the log (it is then asked once)."
            )
        self._first = self._digest.digest()

    def add(self, batch: Batch, distinct: FloatArray, merge_error: float) -> None:
        slots = batch.groups.shape[2]
        self._relative = max(self._relative, batch.error + merge_error + (slots + 8) * U)
        self._mass += [[upper_sum(np.abs(group[:, s])) for s in range(slots)] for group in batch.groups]
        self.seen += batch.points.shape[0]
        self._batches += 1
        if distinct.shape[0]:
            self._sizes = [
                max(size, term.bounds(distinct, distinct)[0])
                for size, term in zip(self._sizes, self._terms, strict=True)
            ]

    def finish(self, values: list[list[Enclosure]]) -> list[Enclosure]:
        """Add columns and terms; weights that are off by a relative e move a square by (2 e + e^2) of its mass."""
        totals = [Enclosure(0.0)] * self._groups
        mass = self._mass * (1 + (self._batches + 4) * U)
        spread = 2 * self._relative + self._relative**2
        for term, size, found in zip(self._terms, self._sizes, values, strict=True):
            width = term.embedding.shape[1]
            for g in range(self._groups):
                columns = mass[g] @ np.abs(term.embedding)
                square = inflate(float(columns @ columns) * (1 + 1e-12))
                value = sum(found[g * width : (g + 1) * width], Enclosure(0.0))
                error = value.rad + square * size * spread + self.seen * max(1.0, size) * TINY
                totals[g] = totals[g] + Enclosure(value.mid, inflate(error))
        return totals


def _distinct(batch: Batch) -> tuple[FloatArray, FloatArray, float]:
    """Equal points of a batch are added up; weights (N, G, slots)."""
    check_finite(batch.points, batch.groups)
    count, _, slots = batch.groups.shape
    carrying = np.any(batch.groups != 0.0, axis=(0, 2))
    side_by_side = batch.groups[:, carrying].transpose(1, 0, 2).reshape(-1, count * slots)
    distinct, merged, error = merge_points(batch.points[carrying], side_by_side)
    return distinct, merged.reshape(-1, count, slots), error
