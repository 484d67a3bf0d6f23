"""Pairs of blocks of points summed by other processes: what they are sent, what they do, what comes back.

A job holds all points, so that every worker can do any pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bondic.core.errors import ExecutorError
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.spool import Direct, PairSum, PointBlock, sum_pair
from bondic.executors.remote import Remote, open_job, pack_job
from bondic.executors.threads import Serial

FloatArray = npt.NDArray[np.float64]


def pairs_from_others(engine: Direct, term: Term, blocks: list[PointBlock], executor: Remote) -> Iterator[PairSum]:
    """Of all pairs of blocks, row by row."""
    points, columns = (np.concatenate([one[k] for one in blocks]) for k in (0, 1))
    places = len(blocks)
    job = pack_job(engine, engine.block, term, points, columns)
    return executor.parts(sum_pair_at, job, range(places * (places + 1) // 2))


def sum_pair_at(job: bytes, place: int) -> PairSum:
    """In another process: the pair of blocks of this number."""
    engine, size, term, points, columns = _received(job)
    a, b = _place(place, -(-len(points) // size))
    x, y = ((points[k * size : (k + 1) * size], columns[k * size : (k + 1) * size]) for k in (a, b))
    return sum_pair(engine, term, x, None if a == b else y, Serial())


def _place(number: int, places: int) -> tuple[int, int]:
    """The pair (a, b), a <= b, of this number."""
    for a in range(places):
        if number < places - a:
            return a, a + number
        number -= places - a
    raise ExecutorError(f"There is no pair of blocks that far ({places} blocks).")


@lru_cache(maxsize=1)
def _received(job: bytes) -> tuple[Direct, int, Term, FloatArray, FloatArray]:
    engine, size, term, points, columns = open_job(job)
    return engine, size, term.interned(), points, columns
