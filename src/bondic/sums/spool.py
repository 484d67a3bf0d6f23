"""Direct sums over pairs: of points in memory, or put aside in a temporary file and summed over pairs of its blocks."""

from __future__ import annotations

import shutil
import tempfile
from abc import abstractmethod
from typing import Self

import numpy as np
import numpy.typing as npt

from bondic.kernels.normal_form import Term
from bondic.rounding import TINY, U, certified_dot, certified_sum
from bondic.sums.engine import Collected, Engine, Partial, Progress, Share, Survey
from bondic.sums.executor import Executor

FloatArray = npt.NDArray[np.float64]

BLOCK = 65_536


class Direct(Engine):
    """An engine that sums over pairs, within a set of points and between two; it needs no plan."""

    @abstractmethod
    def own(
        self, term: Term, points: FloatArray, columns: FloatArray, executor: Executor, progress: Progress | None = None
    ) -> Share:
        """u^T K u over all pairs of these points."""

    def begin(self, term: Term, survey: Survey) -> Partial:
        def finish(points: FloatArray, columns: FloatArray) -> list[Share]:
            return [self.own(term, points, columns, survey.executor, survey.progress)]

        return Collected(survey, finish) if survey.whole else Spooled(self, term, survey)


class Spooled(Partial):
    """sum_a u_a^T K u_a + 2 sum_{a<b} u_a^T K u_b over blocks a, b of the file.

    The time is quadratic in the number of points, as for every direct sum; the memory is two blocks.
    """

    def __init__(self, engine: Direct, term: Term, survey: Survey) -> None:
        self._engine, self._term, self._survey = engine, term, survey
        self._file = tempfile.TemporaryFile(prefix="bondic-")  # noqa: SIM115  closed by `close`, unlinked at once
        self._rows, self._dimension = 0, 0
        self._result: list[Share] = []

    def add(self, points: FloatArray, columns: FloatArray) -> None:
        self._dimension = points.shape[1]
        np.ascontiguousarray(np.hstack([points, columns])).tofile(self._file)
        self._rows += points.shape[0]

    def fork(self) -> Self:
        return type(self)(self._engine, self._term, self._survey)

    def merge(self, other: Self) -> None:
        if other._rows:
            for file in (self._file, other._file):
                file.flush()
            other._file.seek(0)
            shutil.copyfileobj(other._file, self._file)
            self._rows, self._dimension = self._rows + other._rows, other._dimension
        other.close()

    def end_pass(self) -> None:
        self.wants_more = False
        self._result = [self._sum_pairs()]

    def _block(self, index: int) -> tuple[FloatArray, FloatArray]:
        width = self._dimension + self._survey.width
        rows = min(BLOCK, self._rows - index * BLOCK)
        self._file.seek(index * BLOCK * width * 8)
        block = np.fromfile(self._file, dtype=np.float64, count=rows * width).reshape(rows, width)
        return np.ascontiguousarray(block[:, : self._dimension]), np.ascontiguousarray(block[:, self._dimension :])

    def _sum_pairs(self) -> Share:
        """The largest relative error of a pair of blocks serves all: their masses add up to that of all points."""
        width, executor = self._survey.width, self._survey.executor
        totals, absolute, relative = [np.zeros(width)], np.zeros(width), 0.0
        self._file.flush()
        blocks = range(-(-self._rows // BLOCK))
        for a in blocks:
            x, u = self._block(a)
            own = self._engine.own(self._term, x, u, executor)
            found = [certified_sum(np.ascontiguousarray(own.totals[:, c])) for c in range(width)]
            totals.append(np.array([value.mid for value in found]))
            absolute += np.array([value.rad for value in found])
            relative = max(relative, own.relative)
            for b in range(a + 1, len(blocks)):
                y, v = self._block(b)
                crossed = self._engine.cross(self._term, x, y, v, executor)
                assert crossed is not None
                size, error = self._term.bounds(x, y)
                relative = max(relative, max(error, crossed.error) + size * (crossed.roundings + 16) * U)
                mixed = [
                    certified_dot(*map(np.ascontiguousarray, pair)) for pair in zip(u.T, crossed.values.T, strict=True)
                ]
                totals.append(np.array([2.0 * value.mid for value in mixed]))
                absolute += np.array([2.0 * value.rad for value in mixed]) + 2 * (x.shape[0] + y.shape[0]) * TINY
        return Share(np.array(totals), relative, absolute=absolute * (1 + 4 * len(totals) * U))

    def values(self) -> list[Share]:
        return self._result

    def close(self) -> None:
        self._file.close()
