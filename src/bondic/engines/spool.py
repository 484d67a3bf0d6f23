"""Pairs of points that do not fit into memory: put aside in a temporary file, summed over pairs of its blocks."""

from __future__ import annotations

import tempfile

import numpy as np
import numpy.typing as npt

from bondic.kernels.normal_form import Term
from bondic.rounding import TINY, Enclosure, certified_dot, inflate, upper_sum
from bondic.sums.quadratic import Engine, cross_columns, term_columns
from bondic.sums.term_sum import TermSum

FloatArray = npt.NDArray[np.float64]

_BLOCK = 65_536


class SpooledPairs(TermSum):
    """Any term: sum_a u_a^T K u_a + 2 sum_{a<b} u_a^T K u_b over blocks a, b of the file.

    The time is quadratic in the number of points, as for every direct sum; the memory is two blocks.
    """

    def __init__(self, term: Term, width: int, engine: Engine) -> None:
        self._term, self._width, self._engine = term, width, engine
        self._file = tempfile.TemporaryFile(prefix="bondic-")  # noqa: SIM115  closed by `close`, unlinked at once
        self._rows, self._dimension = 0, 0
        self._result: list[Enclosure] = []

    def add(self, points: FloatArray, columns: FloatArray) -> None:
        self._dimension = points.shape[1]
        np.ascontiguousarray(np.hstack([points, columns])).tofile(self._file)
        self._rows += points.shape[0]

    def end_pass(self) -> None:
        self.wants_more = False
        self._result = self._sum_pairs()

    def _block(self, index: int) -> tuple[FloatArray, FloatArray]:
        width = self._dimension + self._width
        rows = min(_BLOCK, self._rows - index * _BLOCK)
        self._file.seek(index * _BLOCK * width * 8)
        block = np.fromfile(self._file, dtype=np.float64, count=rows * width).reshape(rows, width)
        return np.ascontiguousarray(block[:, : self._dimension]), np.ascontiguousarray(block[:, self._dimension :])

    def _sum_pairs(self) -> list[Enclosure]:
        totals = [Enclosure(0.0)] * self._width
        self._file.flush()
        blocks = range(-(-self._rows // _BLOCK))
        for a in blocks:
            x, u = self._block(a)
            own = term_columns(self._term, x, u, self._engine)
            totals = [total + value for total, value in zip(totals, own, strict=True)]
            for b in range(a + 1, len(blocks)):
                y, v = self._block(b)
                crossed, error = cross_columns(self._term, x, y, v, self._engine)
                for c in range(self._width):
                    mixed = certified_dot(np.ascontiguousarray(u[:, c]), np.ascontiguousarray(crossed[:, c]))
                    spread = upper_sum(np.abs(u[:, c])) * upper_sum(np.abs(v[:, c])) * error
                    spread += (x.shape[0] + y.shape[0]) * TINY
                    totals[c] = totals[c] + 2.0 * Enclosure(mixed.mid, inflate(mixed.rad + spread))
        return totals

    def values(self) -> list[Enclosure]:
        """Block sums already hold the coefficient."""
        return self._result

    def close(self) -> None:
        self._file.close()
