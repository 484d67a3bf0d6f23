"""Direct sums over pairs: of points in memory, or put aside in a temporary file, by pairs of blocks:

    u^T K u = sum_a u_a^T K u_a + 2 sum_{a<b} u_a^T K u_b.

Pairs (a, b) are numbered row by row, and added in this order wherever they were computed: the bits are the
same with any number of workers.
"""

from __future__ import annotations

import tempfile
from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from bondic.core.bounded import TINY, FloatArray, U, certified_dot, certified_sum
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import Crossed, Progress, Share
from bondic.core.sums.reference import all_pairs, crossed
from bondic.engines.engine import Collected, Engine, Partial, Survey
from bondic.engines.remote import Remote, open_job, pack_job
from bondic.engines.threads import Serial, Threads

PointBlock = tuple[FloatArray, FloatArray]
"""Points (N, D) and their embedded columns (N, C)."""


class Direct(Engine):
    """An engine that sums over pairs, within a set of points and between two; it needs no plan."""

    block = 65_536
    """Points of a block: larger sets are summed over pairs of blocks, which other processes can do."""

    @abstractmethod
    def own(
        self, term: Term, points: FloatArray, columns: FloatArray, executor: Threads, progress: Progress | None = None
    ) -> Share:
        """u^T K u over all pairs of these points."""

    def between(self, term: Term, x: PointBlock, y: PointBlock, executor: Threads) -> Share:
        """2 u^T K v, for u on the points of one block and v on those of another."""
        (points, u), (others, v) = x, y
        crossed = self.cross(term, points, others, v, executor)
        assert crossed is not None
        size, error = term.bounds(points, others)
        relative = max(error, crossed.error) + size * (crossed.roundings + 16) * U
        found = [certified_dot(*map(np.ascontiguousarray, pair)) for pair in zip(u.T, crossed.values.T, strict=True)]
        absolute = np.array([2.0 * value.rad for value in found]) + 2 * (points.shape[0] + others.shape[0]) * TINY
        return Share(np.array([[2.0 * value.mid for value in found]]), relative, absolute=absolute)

    def begin(self, term: Term, survey: Survey) -> Partial:
        def finish(points: FloatArray, columns: FloatArray) -> Share:
            rows = len(points)
            if rows <= self.block:
                return self.own(term, points, columns, survey.executor, survey.progress)

            def block(index: int) -> PointBlock:
                part = slice(index * self.block, (index + 1) * self.block)
                return points[part], columns[part]

            return sum_blocks(self, term, rows, block, survey.executor, survey.progress)

        return Collected(survey, finish) if survey.whole else Spooled(self, term, survey)


def sum_blocks(
    engine: Direct,
    term: Term,
    rows: int,
    block: Callable[[int], PointBlock],
    executor: Threads,
    progress: Progress | None = None,
) -> Share:
    """u^T K u over so many rows; `block` gives the rows from engine.block * index on.

    The largest relative error of a pair of blocks serves all: their masses add up to that of all points.
    """
    count = -(-rows // engine.block)
    places = [(a, b) for a in range(count) for b in range(a, count)]
    found: list[Share] = []
    if isinstance(executor, Remote) and count > 1:  # a job holds all points, so that every worker can do any pair
        blocks = [block(index) for index in range(count)]
        points, columns = (np.concatenate([one[k] for one in blocks]) for k in (0, 1))
        pairs = executor.parts(_remote_pair, pack_job(engine, engine.block, term, points, columns), places)
    else:
        recent = lru_cache(maxsize=1)(block)  # the block of the row of pairs
        pairs = (sum_pair(engine, term, recent(a), None if a == b else block(b), executor) for a, b in places)
    for pair in pairs:
        found.append(pair)
        if progress is not None:
            progress(len(found) / len(places))
    absolute = np.sum(np.array([pair.absolute for pair in found]), axis=0) * (1 + 4 * len(found) * U)
    relative = max(float(pair.relative) for pair in found)
    return Share(np.concatenate([pair.totals for pair in found]), relative, absolute=absolute)


def sum_pair(engine: Direct, term: Term, x: PointBlock, y: PointBlock | None, executor: Threads) -> Share:
    """Of one block with itself (y is None), or of two, each column added up: totals (1, C)."""
    share = engine.own(term, *x, executor) if y is None else engine.between(term, x, y, executor)
    found = [certified_sum(np.ascontiguousarray(column)) for column in share.totals.T]
    absolute = (np.array([value.rad for value in found]) + share.absolute) * (1 + 4 * U)
    return Share(np.array([[value.mid for value in found]]), share.relative, absolute=absolute)


def _remote_pair(job: bytes, place: tuple[int, int]) -> Share:
    """In another process: one pair of blocks."""
    engine, size, term, points, columns = _received(job)
    x, y = ((points[k * size : (k + 1) * size], columns[k * size : (k + 1) * size]) for k in place)
    return sum_pair(engine, term, x, None if place[0] == place[1] else y, Serial())


@lru_cache(maxsize=1)
def _received(job: bytes) -> tuple[Direct, int, Term, FloatArray, FloatArray]:
    engine, size, term, points, columns = open_job(job)
    return engine, size, term.interned(), points, columns


class Spooled(Partial):
    """sum_a u_a^T K u_a + 2 sum_{a<b} u_a^T K u_b over blocks a, b of the file.

    The time is quadratic in the number of points, as for every direct sum; the memory is two blocks.
    """

    def __init__(self, engine: Direct, term: Term, survey: Survey) -> None:
        self._engine, self._term, self._survey = engine, term, survey
        self._file = tempfile.TemporaryFile(prefix="bondic-")  # noqa: SIM115  closed by `close`, unlinked at once
        self._rows, self._dimension = 0, 0

    def add(self, points: FloatArray, columns: FloatArray) -> None:
        self._dimension = points.shape[1]
        np.ascontiguousarray(np.hstack([points, columns])).tofile(self._file)
        self._rows += points.shape[0]

    def value(self) -> Share:
        if not self._rows:
            return Share(np.zeros((1, self._survey.width)), 0.0)
        self._file.flush()
        return sum_blocks(self._engine, self._term, self._rows, self._block, self._survey.executor)

    def _block(self, index: int) -> PointBlock:
        width = self._dimension + self._survey.width
        first = index * self._engine.block
        rows = min(self._engine.block, self._rows - first)
        self._file.seek(first * width * 8)
        block = np.fromfile(self._file, dtype=np.float64, count=rows * width).reshape(rows, width)
        return np.ascontiguousarray(block[:, : self._dimension]), np.ascontiguousarray(block[:, self._dimension :])

    def close(self) -> None:
        self._file.close()


class NumpyPairs(Direct):
    """All pairs with the formulas of the reference; any kernel."""

    name = "reference"
    COST = 200.0  # of a pair, in pairs of the compiled engine (benchmarks/pairs.py)

    def cost(self, term: Term, survey: Survey) -> float | None:
        del term
        return self.COST * (1.0 + survey.count) ** 2 * (1 + survey.width)

    def own(
        self, term: Term, points: FloatArray, columns: FloatArray, executor: Threads, progress: Progress | None = None
    ) -> Share:
        del executor
        return all_pairs(term, points, columns, progress)

    def cross(self, term: Term, x: FloatArray, y: FloatArray, columns: FloatArray, executor: Threads) -> Crossed:
        del executor
        return crossed(term, x, y, columns)
