"""Blocks of a log on any `concurrent.futures.Executor`: processes, Dask (`client.get_executor()`), mpi4py and others.

A task is a function of the library, a job that was pickled once, and the number of a block. Results are handed out in the order
of the blocks, so they are added up in the same order whatever the number of workers. Workers that die and tasks that are
tried again are the executor's business.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import lru_cache
from typing import Any, TypeVar

from bondic._version import __version__
from bondic.core.errors import one_line
from bondic.engines.threads import Threads
from bondic.errors import ExecutorError, MissingExtra
from bondic.modules import load_files, loaded_files

P = TypeVar("P")
T = TypeVar("T")

AHEAD = 32
"""Tasks on their way: enough for the cores of a few machines, few enough for the memory of the one that collects."""


MAX_TASKS = 1024
"""Of a pass: a scheduler takes some ten milliseconds for each. A task is so many blocks as that needs."""
_TASK_ROWS = 2**17
"""Rows of a task where all workers have one: files are read in pieces that are as long as several blocks."""


def pack_job(*parts: Any) -> bytes:
    """What all tasks of a job have in common, with the files of the policies among them."""
    try:
        pickled = pickle.dumps(parts)
    except (pickle.PicklingError, AttributeError, TypeError) as problem:
        raise ExecutorError(
            f"The question cannot be sent to other processes ({one_line(problem, 200)}). They need a policy (model, "
            "groups) that can be pickled, such as a function in a file or module (file.py:function), not a lambda or a local one."
        ) from problem
    files = {name: file for name, file in loaded_files().items() if name.encode() in pickled}
    return pickle.dumps((__version__, files, pickled))


def open_job(job: bytes) -> Any:
    """The parts, in the process that does the work."""
    version, files, parts = pickle.loads(job)
    if version != __version__:
        raise ExecutorError(
            f"The work was sent by bondic {one_line(version)} and received by {__version__}: install one version everywhere."
        )
    load_files(files)
    return pickle.loads(parts)


class Remote(Threads):
    """An executor whose tasks may run in other processes. Pieces of sums that are in memory stay in threads of this one."""

    pool: Executor

    def __init__(self, pool: Executor) -> None:
        super().__init__()
        object.__setattr__(self, "pool", pool)

    def parts(self, task: Callable[[bytes, P], T], job: bytes, places: Sequence[P]) -> Iterator[T]:
        """task(job, place) for every place, in this order."""
        waiting = deque[Future[T]]()
        try:
            for place in places:
                waiting.append(self.pool.submit(_perform, task, job, place))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenExecutor as problem:
            raise ExecutorError(
                f"The executor has lost its workers ({one_line(problem, 200) or type(problem).__name__}). The usual cause is "
                "too little memory: use fewer workers at a time, or give each more memory."
            ) from problem
        finally:
            for future in waiting:
                future.cancel()

    def over_blocks(self, task: Callable[..., T], rows: Any) -> Iterator[T]:
        """task(*part) for every part of rows that can be sent (`SentRows`), in the order of the log."""
        places = rows.places
        size = max(-(-len(places) // MAX_TASKS), min(_TASK_ROWS // rows.block_rows, len(places) // AHEAD), 1)
        groups = [places[first : first + size] for first in range(0, len(places), size)]
        for found in self.parts(_blocks, pack_job(rows, task), groups):
            yield from found


def _perform(task: Callable[[bytes, P], T], job: bytes, place: P) -> T:
    """In the other process; an error whose constructor takes more than its text could not be unpickled here."""
    try:
        return task(job, place)
    except MissingExtra as problem:
        raise ExecutorError(str(problem)) from None


def _blocks(job: bytes, places: range) -> list[Any]:
    """In the other process: some blocks of the log, one after the other."""
    rows, task = _received(job)
    return [task(*part) for part in rows.blocks(places)]


@lru_cache(maxsize=2)
def _received(job: bytes) -> Any:
    """Log and policy are opened once."""
    rows, task = open_job(job)
    rows.check()
    return rows, task
