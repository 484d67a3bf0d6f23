"""The same tasks on a Ray cluster, or on processes of this machine (extra ray)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bondic.errors import ExecutorError, InvalidInput, MissingExtra, one_line
from bondic.executors.checkpoints import Checkpoints
from bondic.executors.remote import RETRIES, Remote, Task, TaskLine, TaskOutcome, perform
from bondic.policies.travel import PolicyFile, PolicyPickle

try:
    import ray
except ImportError as problem:
    raise MissingExtra("ray", "ray", "Work on a Ray cluster") from problem

_AHEAD = 2


class Ray(Remote):
    """Ray workers, one core for each task.

    Parameters
    ----------
    address : str, default None
        Of the cluster, such as `ray://10.0.0.5:10001` or `auto`. None: `workers` processes of this machine.
    workers : int, default None
        How many processes to start. None: as many as there are cores.
    policy : PolicyFile or PolicyPickle, default None
        Where workers find the policy.
    checkpoints : Checkpoints, default None
        Where results are kept.
    retries : int, default 2
        How often a task is tried again after its worker died or an error that is not about the data.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        policy: PolicyFile | PolicyPickle | None = None,
        checkpoints: Checkpoints | None = None,
        retries: int = RETRIES,
    ) -> None:
        super().__init__(policy, checkpoints)
        if address is not None and workers is not None:
            raise InvalidInput("A cluster that is there has its own workers: leave out `workers`, or the address.")
        self._address, self._count, self._retries = address, workers, retries
        self._open = False

    def _connect(self) -> None:
        if self._open or ray.is_initialized():
            return
        local: dict[str, Any] = {"num_cpus": self._count or super().workers, "include_dashboard": False}
        try:
            ray.init(
                self._address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **(local if self._address is None else {}),
            )
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as problem:
            raise ExecutorError(
                f"No Ray cluster answers at {one_line(self._address)} ({one_line(problem, 200)}). Is the address right, and is "
                "it running (`ray start --head`)?"
            ) from problem
        self._open = True

    def close(self) -> None:
        if self._open:
            ray.shutdown()
        self._open = False

    def _room(self) -> int:
        return _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))

    @contextmanager
    def _line(self, task: Task, job: bytes) -> Iterator[TaskLine]:
        self._connect()
        line = _RayLine(task, job, self._retries)
        try:
            yield line
        finally:
            line.drop()


class _RayLine:
    """References of one job."""

    def __init__(self, task: Task, job: bytes, retries: int) -> None:
        self._remote = ray.remote(max_retries=retries, retry_exceptions=True, num_cpus=1)(perform)
        self._task, self._job = task, ray.put(job)
        self._places: dict[Any, int] = {}

    def submit(self, place: int) -> None:
        self._places[self._remote.remote(self._task, self._job, place)] = place

    def collect(self) -> tuple[int, TaskOutcome]:
        try:
            (ready, *_), _ = ray.wait(list(self._places), num_returns=1)
            place, outcome = self._places.pop(ready), ray.get(ready)
        except (ray.exceptions.RayError, ConnectionError) as problem:
            raise ExecutorError(
                f"A task failed on the Ray cluster, retries included, or the cluster was lost ({one_line(repr(problem), 300)}). "
                "Results that were kept (checkpoints) are still there: run the same command again."
            ) from problem
        return place, outcome

    def drop(self) -> None:
        """Nobody waits for the rest."""
        for reference in self._places:
            ray.cancel(reference)
        self._places.clear()
