"""Tasks one after the other, or in threads of this process (compiled code gives the interpreter free)."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
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

    def run(
        self, task: Callable[[int], T], places: Sequence[int], done: Callable[[int], None] | None = None
    ) -> list[T]:
        """[task(place) for place in places]; `done(place)` is called here, in any order, as they are finished.

        Whatever `done` or a task raises ends the run: tasks that have not begun are dropped.
        """
        report = done or (lambda place: None)  # noqa: ARG005
        if self.workers == 1 or len(places) < 2:
            out = []
            for place in places:
                out.append(task(place))
                report(place)
            return out
        with ThreadPoolExecutor(self.workers) as pool:
            futures = {pool.submit(task, place): place for place in places}
            try:
                for future in as_completed(futures):
                    future.result()
                    report(futures[future])
            except BaseException:  # an interrupt as well: nobody waits for what has not begun
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [future.result() for future in futures]


class Serial(Threads):
    """One task after the other."""

    def __init__(self) -> None:
        super().__init__(1)


def in_order(task: Callable[[S], T], items: Iterable[S], workers: int) -> Iterator[T]:
    """task(item) for the items of a stream, in their order; the next ones are read and worked on meanwhile.

    Items are read in the calling thread, tasks run in others; NumPy treats overflow there as it does in the calling one.
    Whatever a task raises comes where its result would have come.
    """
    room = min(workers, _AHEAD)
    if room == 1:
        yield from map(task, items)
        return
    pool, waiting, treatment = ThreadPoolExecutor(room), deque[Future[T]](), np.geterr()

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
    finally:  # nobody waits for what has not begun
        pool.shutdown(wait=False, cancel_futures=True)
