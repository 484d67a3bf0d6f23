"""Direct sums over pairs of blocks of points, here or in other processes:

    u^T K u = sum_a u_a^T K u_a + 2 sum_{a<b} u_a^T K u_b.

Pairs (a, b) are numbered row by row, and added in this order whoever has computed them: the bits are the same with any number
of workers. A job for other processes holds all points, so every worker can do any pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bondic.errors import ExecutorError
from bondic.executors.parcel import Parcel, open_job, pack, pack_job
from bondic.executors.threads import Serial
from bondic.kernels.normal_form import Term
from bondic.rounding import U, certified_sum
from bondic.sums.engine import Progress, Share
from bondic.sums.executor import Executor, Sender
from bondic.sums.standard import engine_called

if TYPE_CHECKING:
    from bondic.sums.spool import Direct

FloatArray = npt.NDArray[np.float64]
Block = tuple[FloatArray, FloatArray]
"""Points (N, D) and their embedded columns (N, C)."""


@dataclass(frozen=True, eq=False)
class PairSum:
    """What one pair of blocks adds: totals (C,), off by relative times both masses, plus absolute (C,)."""

    totals: FloatArray
    absolute: FloatArray
    relative: float

    @staticmethod
    def of(share: Share) -> PairSum:
        found = [certified_sum(np.ascontiguousarray(column)) for column in share.totals.T]
        own = np.array([value.rad for value in found])
        return PairSum(
            np.array([value.mid for value in found]), (own + share.absolute) * (1 + 4 * U), float(share.relative)
        )


def sum_blocks(
    engine: Direct,
    term: Term,
    rows: int,
    block: Callable[[int], Block],
    executor: Executor,
    progress: Progress | None = None,
) -> Share:
    """u^T K u over so many rows; `block` gives the rows from engine.block * index on.

    The largest relative error of a pair of blocks serves all: their masses add up to that of all points.
    """
    places = -(-rows // engine.block)
    found: list[PairSum] = []
    pairs = (
        _elsewhere(engine, term, places, block, executor)
        if isinstance(executor, Sender) and engine.known_elsewhere and places > 1
        else _here(engine, term, places, block, executor)
    )
    for pair in pairs:
        found.append(pair)
        if progress is not None:
            progress(len(found) / (places * (places + 1) / 2))
    totals = np.array([pair.totals for pair in found])
    absolute = np.sum([pair.absolute for pair in found], axis=0) * (1 + 4 * len(found) * U)
    return Share(totals, max(pair.relative for pair in found), absolute=absolute)


def _pair(engine: Direct, term: Term, x: Block, y: Block | None, executor: Executor) -> PairSum:
    return PairSum.of(engine.own(term, *x, executor) if y is None else engine.between(term, x, y, executor))


def _here(
    engine: Direct, term: Term, places: int, block: Callable[[int], Block], executor: Executor
) -> Iterator[PairSum]:
    for a in range(places):
        x = block(a)
        for b in range(a, places):
            yield _pair(engine, term, x, None if a == b else block(b), executor)


# --- in other processes ---------------------------------------------------------------------------------


def _elsewhere(
    engine: Direct, term: Term, places: int, block: Callable[[int], Block], executor: Sender
) -> Iterator[PairSum]:
    blocks = [block(index) for index in range(places)]
    points, columns = (np.concatenate([one[k] for one in blocks]) for k in (0, 1))
    job = pack_job(engine=engine.name, block=engine.block, term=term, points=points, columns=columns)
    for data in executor.parts(sum_pair, job, range(places * (places + 1) // 2)):
        yield Parcel(data).read("pair", PairSum)


def sum_pair(job: bytes, place: int) -> bytes:
    """In another process: the pair of blocks of this number."""
    sent = _received(job)
    size, count = sent.block, len(sent.points)
    a, b = _place(place, -(-count // size))
    x, y = ((sent.points[k * size : (k + 1) * size], sent.columns[k * size : (k + 1) * size]) for k in (a, b))
    return pack(pair=_pair(sent.engine, sent.term, x, None if a == b else y, Serial()))


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
