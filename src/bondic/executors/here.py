"""Tasks for other processes, done in this one: what a cluster does, one after the other, with results that can be kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from bondic.executors.remote import Remote, Task, TaskLine, TaskOutcome, perform


class Here(Remote):
    """No other process: for checkpoints on one machine, and for tests of what is sent."""

    def _room(self) -> int:
        return 1

    @contextmanager
    def _line(self, task: Task, job: bytes) -> Iterator[TaskLine]:
        yield _Queue(task, job)


class _Queue:
    def __init__(self, task: Task, job: bytes) -> None:
        self._task, self._job, self._places = task, job, deque[int]()

    def submit(self, place: int) -> None:
        self._places.append(place)

    def collect(self) -> tuple[int, TaskOutcome]:
        place = self._places.popleft()
        return place, perform(self._task, self._job, place)
