"""Blocks of a log worked on in other processes: what they are sent, what comes back.

A block depends on nothing but the row number, and results come in the order of the log: the bits are those of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

from bondic.engines.remote import Remote, open_job, pack_job
from bondic.rows.travel import SentRows, block_at, block_places

T = TypeVar("T")


def over_blocks(executor: Remote, task: Callable[[Any], T], rows: Any) -> Iterator[T]:
    """task(part) for every block of a log that is read from files, in the order of the log."""
    job = pack_job(SentRows.of(rows), task)
    for found in executor.parts(_block, job, block_places(rows)):
        yield from found


def _block(job: bytes, place: int) -> list[Any]:
    """In another process: one block of the log; nothing where none of its rows counts."""
    rows, task = _received(job)
    part = block_at(rows, place)
    return [] if part is None else [task(part)]


@lru_cache(maxsize=2)
def _received(job: bytes) -> tuple[Any, Callable[[Any], Any]]:
    """Log and policy are opened once."""
    rows, task = open_job(job)
    return rows.opened(), task
