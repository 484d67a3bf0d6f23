"""Parts of a log weighed by other processes: what they are sent, what they do, what comes back.

A job holds the question, the ω, the center of Q and, where sums can be added up elsewhere, the order of one pass. Its places
are blocks of the log. What comes back are the sums of a block (some kilobytes), or its measures where a sum wants the points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.bounds.part_sums import PartSums, Weigher
from bondic.codec import same
from bondic.errors import InvalidInput
from bondic.executors.parcel import Parcel, open_job, pack, pack_job
from bondic.executors.remote import Remote
from bondic.executors.threads import Serial
from bondic.functions.functions import Function
from bondic.rows import Rows
from bondic.rows.travel import block_at, block_places, receive_rows, send_rows
from bondic.sums.account import Added, Order
from bondic.sums.forms import Sums
from bondic.sums.measure import Measure
from bondic.sums.standard import name_of


def parts_from_others(
    executor: Remote, question: Rows, weigher: Weigher, order: Order | None, *, fresh: bool
) -> Iterator[tuple[Measure | Added, PartSums | None]]:
    """Measures of every part, or what they add to the sums of an order, in the order of the log."""
    job = pack_job(
        rows=np.frombuffer(send_rows(question, executor.policy), dtype=np.uint8),
        engines=_engines(weigher.sums),
        omegas=weigher.omegas,
        center=weigher.center,
        count=weigher.count,
        fresh=fresh,
        order=order,
    )
    for data in executor.parts(weigh_block, job, block_places(question)):
        parcel = Parcel(data)
        if "piece" in parcel:
            found = parcel.read("sums", PartSums | None)
            yield parcel.read("piece", Measure if order is None else Added), found


def weigh_block(job: bytes, place: int) -> bytes:
    """In another process: one block of the log."""
    sent = _received(job)
    part = block_at(sent.rows, place)
    if part is None:
        return pack()
    measure, sums = sent.weigher.weigh(part, fresh=sent.fresh)
    return pack(piece=measure if sent.order is None else sent.order.add_elsewhere(measure), sums=sums)


@dataclass(frozen=True, eq=False)
class _Job:
    rows: Rows
    weigher: Weigher
    order: Order | None
    fresh: bool


@lru_cache(maxsize=2)
def _received(job: bytes) -> _Job:
    parcel = open_job(job)
    rows = receive_rows(parcel.read("rows", npt.NDArray[np.uint8]).tobytes())
    given: dict[str, Any] = {"layout": rows.layout}
    omegas = _sharing(parcel.read("omegas", tuple[Function | None, ...], **given))
    center = parcel.read("center", Function | None, **given)
    sums = replace(Sums.named(parcel.read("engines", str)), executor=Serial())
    weigher = Weigher(omegas, center, parcel.read("count", int), sums)
    order: Order | None = parcel.read("order", Order | None)
    if order is not None:
        order = replace(order, terms=tuple(term.interned() for term in order.terms))
    return _Job(rows, weigher, order, parcel.read("fresh", bool))


def _sharing(omegas: tuple[Function | None, ...]) -> tuple[Function | None, ...]:
    """Functions of one kernel share it, as they did before they were sent: its features are made once for all of them."""
    kernels: list[Any] = []
    out: list[Function | None] = []
    for omega in omegas:
        if omega is not None:
            mine = omega.kernel
            kernels.append(next((known for known in kernels if same(known, mine)), mine))
            omega = replace(omega, kernel=kernels[-1])  # type: ignore[type-var]
        out.append(omega)
    return tuple(out)


def _engines(sums: Sums) -> str:
    """The name of these engines, by which other processes find the same ones."""
    found = "auto" if sums.engines is None else name_of(sums.engines)
    if found is None:
        raise InvalidInput(
            "Engines of your own do not travel to other processes. Name one of the library's (engine='auto', ...)."
        )
    return found
