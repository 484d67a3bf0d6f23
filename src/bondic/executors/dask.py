"""Tasks on the workers of a Dask scheduler: one that is there already, or processes of this machine (extra dask)."""

from __future__ import annotations

import logging
import os
import queue
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bondic.errors import ExecutorError, MissingExtra, one_line
from bondic.executors.cluster import Cluster, OpenLine
from bondic.executors.remote import Task, TaskOutcome, perform

try:
    import distributed
except ImportError as problem:
    raise MissingExtra("dask.distributed", "dask", "Work on a Dask cluster") from problem

_PATIENCE = 20.0
"""Seconds that a scheduler, or the first worker, may let us wait."""
_GLANCE = 0.5


class Dask(Cluster):
    """Dask workers, such as those of the scheduler at `tcp://10.0.0.5:8786`; `Cluster` names the parameters.

    A worker that dies is replaced by others: its tasks are done again, with the same result.
    """

    _client: Any = None
    _cluster: Any = None
    _log, _level = logging.getLogger("distributed.client"), 0

    def client(self) -> Any:
        """The connection, made when it is first needed."""
        if self._client is None:
            self._level = self._log.level
            self._log.setLevel(logging.CRITICAL)  # a lost scheduler is told in our words
            if self._address is None:
                with _quiet_tracker():
                    self._cluster = distributed.LocalCluster(
                        n_workers=self._count,
                        threads_per_worker=1,
                        dashboard_address=":0",
                        silence_logs=logging.CRITICAL,
                    )
            try:
                self._client = distributed.Client(
                    self._cluster or self._address, timeout=_PATIENCE, set_as_default=False
                )
                self._client.wait_for_workers(1, timeout=_PATIENCE)
                if self._cluster is not None:
                    self._client.register_plugin(_Deaf())
            except (OSError, ValueError, TimeoutError) as problem:
                found, where = self._client is not None, self._address
                self.close()
                raise ExecutorError(
                    f"The Dask scheduler at {one_line(where)} has no workers: start some with `dask worker {one_line(where)}`."
                    if found
                    else f"No Dask scheduler answers at {one_line(where)} ({one_line(problem, 200)}). Is the address right, and "
                    "is it running (`dask scheduler`)?"
                ) from problem
        return self._client

    def close(self) -> None:
        for thing in (self._client, self._cluster):
            if thing is not None:
                thing.close()
                self._log.setLevel(self._level)
        self._client = self._cluster = None

    def _cores(self) -> int:
        return len(self.client().nthreads())

    def _open_line(self, task: Task, job: bytes) -> OpenLine:
        return _DaskLine(self.client(), task, job, self._retries)


@contextmanager
def _quiet_tracker() -> Iterator[None]:
    """The process in which Python keeps semaphores frees those of a program that was interrupted, and need not speak of it."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [before, "ignore:resource_tracker:UserWarning"]))
    try:
        yield
    finally:
        del os.environ["PYTHONWARNINGS"]
        os.environ.update({} if before is None else {"PYTHONWARNINGS": before})


class _Deaf(distributed.WorkerPlugin):  # type: ignore[misc]
    """Processes that we started leave Ctrl-C to us: it reaches the whole group of a terminal."""

    def setup(self, worker: Any) -> None:
        del worker
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _DaskLine:
    """Futures of one job. The job itself is a task, so that a worker that is lost takes nothing with it."""

    def __init__(self, client: Any, task: Task, job: bytes, retries: int) -> None:
        self._client, self._task, self._retries = client, task, retries
        self._futures: dict[Any, int] = {}
        self._done: queue.Queue[Any] = queue.Queue()
        with warnings.catch_warnings():  # the points of a sum over pairs are large, and sent once
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            self._job = client.submit(bytes, job, pure=False)

    def submit(self, place: int) -> None:
        future = self._client.submit(perform, self._task, self._job, place, pure=False, retries=self._retries)
        self._futures[future] = place
        future.add_done_callback(self._done.put)

    def collect(self) -> tuple[int, TaskOutcome]:
        lost_at: float | None = None
        while True:
            try:
                future = self._done.get(timeout=_GLANCE)
                break
            except queue.Empty:
                if self._client.status == "running":
                    lost_at = None
                    continue
                lost_at = time.monotonic() if lost_at is None else lost_at
                if time.monotonic() - lost_at > _PATIENCE:
                    raise _lost(len(self._futures)) from None
        place = self._futures.pop(future)
        if future.status == "finished":
            return place, future.result(timeout=_PATIENCE)
        if future.status != "error":  # nobody knows of it any more
            raise _lost(len(self._futures) + 1)
        raise ExecutorError(
            f"A task for block {place} of the log failed on the workers, {self._retries} retries included "
            f"({one_line(repr(future.exception(timeout=_PATIENCE)), 300)}). Do the workers have enough memory, and the same "
            "libraries?"
        )

    def drop(self) -> None:
        """Nobody waits for the rest."""
        if self._futures and self._client.status == "running":
            self._client.cancel(list(self._futures))
        self._futures.clear()
        self._job.release()


def _lost(open_tasks: int) -> ExecutorError:
    return ExecutorError(
        f"The Dask scheduler was lost while {open_tasks} tasks were on their way. Results that were kept (checkpoints) are still "
        "there: start it again, and run the same command."
    )
