"""Parts of a log weighed by other processes: what they are sent, what they do, what comes back.

A part is a block of the log, which depends on nothing but the row number. What comes back is what its rows add (`PartSums`), with
its share of the kernel sums, or its measures where a sum wants the points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from bondic.core.columns import Columns
from bondic.core.dual.part_sums import PartSums, Weigher
from bondic.core.sums.account import Added, Order
from bondic.core.sums.measure import Measure
from bondic.executors.remote import Remote, open_job, pack_job
from bondic.executors.threads import Serial
from bondic.rows.rows import rows_of
from bondic.rows.travel import SentRows, block_at, block_places

BlockResult = tuple[Measure | Added, PartSums | None]


def parts_from_others(
    executor: Remote, question: Columns, weigher: Weigher, order: Order | None, *, fresh: bool
) -> Iterator[BlockResult]:
    """Measures of every part, or what they add to the sums of an order, in the order of the log."""
    alone = replace(weigher, sums=replace(weigher.sums, executor=Serial()))
    job = pack_job(SentRows.of(rows_of(question)), alone, order, fresh)
    for found in executor.parts(weigh_block, job, block_places(rows_of(question))):
        if found is not None:
            yield found


def weigh_block(job: bytes, place: int) -> BlockResult | None:
    """In another process: one block of the log; None where none of its rows counts."""
    rows, weigher, order, fresh = _received(job)
    part = block_at(rows_of(rows), place)
    if part is None:
        return None
    measure, sums = weigher.weigh(part, fresh=fresh)
    return (measure if order is None else order.add_elsewhere(measure)), sums


@lru_cache(maxsize=2)
def _received(job: bytes) -> tuple[Columns, Weigher, Order | None, bool]:
    """Log and policy are opened once."""
    parts: Any = open_job(job)
    rows, weigher, order, fresh = parts
    if order is not None:
        order = replace(order, terms=tuple(term.interned() for term in order.terms))
    return rows.opened(), weigher, order, fresh
