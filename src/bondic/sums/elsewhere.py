"""Pairs of blocks of points summed by other processes: what they are sent, what they do, what comes back.

A job holds all points, so that every worker can do any pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bondic.errors import ExecutorError
from bondic.executors.parcel import Parcel, open_job, pack, pack_job
from bondic.executors.threads import Serial
from bondic.kernels.normal_form import Term
from bondic.sums.executor import Sender
from bondic.sums.spool import Direct, PairSum, PointBlock, sum_pair
from bondic.sums.standard import engine_called

FloatArray = npt.NDArray[np.float64]


def pairs_from_others(engine: Direct, term: Term, blocks: list[PointBlock], executor: Sender) -> Iterator[PairSum]:
    """Of all pairs of blocks, row by row."""
    points, columns = (np.concatenate([one[k] for one in blocks]) for k in (0, 1))
    job = pack_job(engine=engine.name, block=engine.block, term=term, points=points, columns=columns)
    places = len(blocks)
    for data in executor.parts(sum_pair_at, job, range(places * (places + 1) // 2)):
        yield Parcel(data).read("pair", PairSum)


def sum_pair_at(job: bytes, place: int) -> bytes:
    """In another process: the pair of blocks of this number."""
    sent = _received(job)
    size, count = sent.block, len(sent.points)
    a, b = _place(place, -(-count // size))
    x, y = ((sent.points[k * size : (k + 1) * size], sent.columns[k * size : (k + 1) * size]) for k in (a, b))
    return pack(pair=sum_pair(sent.engine, sent.term, x, None if a == b else y, Serial()))


def _place(number: int, places: int) -> tuple[int, int]:
    """The pair (a, b), a <= b, of this number."""
    for a in range(places):
        if number < places - a:
            return a, a + number
        number -= places - a
    raise ExecutorError(f"There is no pair of blocks that far ({places} blocks).")


@dataclass(frozen=True, eq=False)
class _Job:
    engine: Direct
    block: int
    term: Term
    points: FloatArray
    columns: FloatArray


@lru_cache(maxsize=1)
def _received(job: bytes) -> _Job:
    parcel = open_job(job)
    engine = engine_called(parcel.read("engine", str))
    return _Job(
        engine,  # type: ignore[arg-type]
        parcel.read("block", int),
        parcel.read("term", Term).interned(),
        parcel.read("points", FloatArray),
        parcel.read("columns", FloatArray),
    )
