"""The same tasks on a Ray cluster, or on processes of this machine (extra ray)."""

from __future__ import annotations

import logging
from typing import Any

from bondic.errors import ExecutorError, MissingExtra, one_line
from bondic.executors.cluster import Cluster, OpenLine
from bondic.executors.remote import Task, TaskOutcome, perform

try:
    import ray
except ImportError as problem:
    raise MissingExtra("ray", "ray", "Work on a Ray cluster") from problem


class Ray(Cluster):
    """Ray workers, one core for each task; an address is `ray://10.0.0.5:10001` or `auto`, `Cluster` names the parameters."""

    _open = False

    def _connect(self) -> None:
        if self._open or ray.is_initialized():
            return
        local: dict[str, Any] = {"num_cpus": self._count, "include_dashboard": False}
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

    def _cores(self) -> int:
        return int(ray.cluster_resources().get("CPU", 1))

    def _open_line(self, task: Task, job: bytes) -> OpenLine:
        self._connect()
        return _RayLine(task, job, self._retries)


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
