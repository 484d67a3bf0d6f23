"""Tasks one after the other, or in threads of this process (compiled code gives the interpreter free)."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from bondic.core.errors import InvalidInput

S = TypeVar("S")
T = TypeVar("T")

_AHEAD = 4
"""Items of a stream that are worked on at a time, at most: each of them takes memory."""


def cores() -> int:
    """Cores this process may use."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1))


@dataclass(frozen=True)
class Threads:
    """Runs tasks that do not depend on one another; the number of threads leaves no trace in the results.

    `count` threads; None: as many as there are cores when the work begins.
    """

    count: int | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise InvalidInput(f"Work needs at least one thread, not {self.count}.")

    @property
    def workers(self) -> int:
        """How many tasks may run at a time: a hint for cutting work into tasks."""
        return cores() if self.count is None else self.count

    def run(self, task: Callable[[S], T], places: Sequence[S], done: Callable[[S], None] | None = None) -> list[T]:
        """[task(place) for place in places]; `done(place)` is called here, in this order, as they are finished.

        Whatever `done` or a task raises ends the run: tasks that have not begun are dropped.
        """
        out = []
        workers = self.workers if len(places) > 1 else 1
        with closing(in_order(task, places, workers, 4 * workers)) as found:
            for place, one in zip(places, found, strict=True):
                out.append(one)
                if done is not None:
                    done(place)
        return out


class Serial(Threads):
    """One task after the other."""

    def __init__(self) -> None:
        super().__init__(1)


def in_order(
    task: Callable[[S], T], items: Iterable[S], workers: int, ahead: int | None = None
) -> Generator[T, None, None]:
    """task(item) for the items of a stream, in their order; the next ones are read and worked on meanwhile.

    Items are read in the calling thread, tasks run in others; NumPy treats overflow there as it does in the calling one.
    Whatever a task raises comes where its result would have come. `ahead` is how many may be on their way.
    """
    room = ahead or min(workers, _AHEAD)
    if workers == 1:
        yield from map(task, items)
        return
    pool, waiting, treatment = ThreadPoolExecutor(min(workers, room)), deque[Future[T]](), np.geterr()

    def alike(item: S) -> T:
        with np.errstate(**treatment):
            return task(item)

    try:
        for item in items:
            waiting.append(pool.submit(alike, item))
            if len(waiting) > room:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:  # tasks that have not begun are canceled
        pool.shutdown(wait=False, cancel_futures=True)
