"""Work for other processes: task(job, place) for many places, bytes in and bytes out.

A job is plain data (`executors.parcel`); a task is a function of the library, which every process finds by its name. Results are
handed out in the order of the places, so whoever folds them sees the same sequence whatever the number of workers, and whether
a worker died on the way or a result was kept from an earlier run.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn, Protocol, Self, TypeVar

from bondic import errors
from bondic.errors import BondicError, ExecutorError
from bondic.executors.checkpoints import Checkpoints, KeptResults
from bondic.executors.threads import Threads
from bondic.policies.travel import PolicyFile, PolicyPickle

T = TypeVar("T")
Task = Callable[[bytes, int], bytes]

_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class TaskOutcome:
    """What became of a task: its result, or an error that would come again wherever it is done."""

    data: bytes
    error: str = ""  # name of the class
    text: str = ""

    def settled(self) -> bytes:
        if self.error:
            _raise_again(self.error, self.text)
        return self.data


def _raise_again(name: str, text: str) -> NoReturn:
    kind = getattr(errors, name, None)
    plain = isinstance(kind, type) and issubclass(kind, BondicError) and "__init__" not in vars(kind)
    raise (kind if plain else ExecutorError)(text)  # type: ignore[misc]


def perform(task: Task, job: bytes, place: int) -> TaskOutcome:
    """One task in the process that has to do it; policies need not stand several threads.

    Errors of the library are about the data and come back as they are. All others end the task: it may be tried again.
    """
    with _ONE_AT_A_TIME:
        try:
            return TaskOutcome(task(job, place))
        except BondicError as problem:
            return TaskOutcome(b"", type(problem).__name__, str(problem))


class TaskLine(Protocol):
    """A line to the workers for one job."""

    def submit(self, place: int) -> None: ...

    def collect(self) -> tuple[int, TaskOutcome]:
        """Wait for any of the tasks that were submitted."""


class Remote(ABC):
    """An executor whose tasks can run in other processes. Pieces of sums that are in memory stay in threads of this one.

    Parameters
    ----------
    policy : PolicyFile or PolicyPickle, default None
        Where other processes find the policy.
    checkpoints : Checkpoints, default None
        Where results are kept, so that the same work goes on where it stopped.
    """

    def __init__(self, policy: PolicyFile | PolicyPickle | None = None, checkpoints: Checkpoints | None = None) -> None:
        self.policy, self._checkpoints = policy, checkpoints

    @property
    def workers(self) -> int:
        """Threads of this process: for pieces of sums that are in memory."""
        return Threads().workers

    def run(
        self, task: Callable[[int], T], places: Sequence[int], done: Callable[[int], None] | None = None
    ) -> list[T]:
        return Threads().run(task, places, done)

    @abstractmethod
    def _room(self) -> int:
        """How many tasks may be on their way at a time."""

    @abstractmethod
    def _line(self, task: Task, job: bytes) -> AbstractContextManager[TaskLine]:
        """A line for one job; leaving it drops tasks that have not begun."""

    def close(self) -> None:  # noqa: B027  nothing is open unless a subclass says so
        """Give back connections and processes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def parts(self, task: Task, job: bytes, places: Sequence[int]) -> Iterator[bytes]:
        """task(job, place) for every place, in this order; a few places ahead of what was asked for."""
        kept = None if self._checkpoints is None else self._checkpoints.of(job)
        known = {place for place in places if kept is not None and place in kept}
        if len(known) < len(places):
            with self._line(task, job) as line:
                yield from self._handed_out(line, places, known, kept)
        elif kept is not None:  # nobody is called where everything is there
            for number, place in enumerate(places):
                found = kept.read(place)
                if found is None:
                    yield from self.parts(task, job, places[number:])
                    return
                yield found

    def _handed_out(
        self, line: TaskLine, places: Sequence[int], known: set[int], kept: KeptResults | None
    ) -> Iterator[bytes]:
        waiting = deque(place for place in places if place not in known)
        room, busy = self._room(), 0
        ready: dict[int, bytes] = {}
        for place in places:
            if kept is not None and place in known:
                found = kept.read(place)
                if found is not None:
                    yield found
                    continue
                waiting.appendleft(place)  # it was damaged
            while place not in ready:
                while waiting and (waiting[0] == place or (busy < room and len(ready) < 2 * room)):
                    line.submit(waiting.popleft())
                    busy += 1
                done, outcome = line.collect()
                busy -= 1
                ready[done] = outcome.settled()
                if kept is not None:
                    kept.write(done, ready[done])
            yield ready.pop(place)
