"""What all clusters have in common: an address or processes of this machine, retries, and a line for every job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from bondic.errors import InvalidInput
from bondic.executors.checkpoints import Checkpoints
from bondic.executors.remote import Remote, Task, TaskLine
from bondic.policies.travel import PolicyFile, PolicyPickle

RETRIES = 2
"""How often a task is tried again after an error that is not about the data."""
_AHEAD = 2
"""Tasks for every worker that are on their way: one is worked on, the other waits for it."""


class OpenLine(TaskLine, Protocol):
    """A line that can be closed."""

    def drop(self) -> None:
        """Nobody waits for the rest."""


class Cluster(Remote):
    """Workers of a cluster that is there already, or processes of this machine.

    Parameters
    ----------
    address : str, default None
        Of the cluster. None: `workers` processes of this machine, started for this purpose.
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
        self._address, self._count, self._retries = address, workers or self.workers, retries

    @abstractmethod
    def _cores(self) -> int:
        """Tasks that can be worked on at a time."""

    @abstractmethod
    def _open_line(self, task: Task, job: bytes) -> OpenLine: ...

    def _room(self) -> int:
        return _AHEAD * max(1, self._cores())

    @contextmanager
    def _line(self, task: Task, job: bytes) -> Iterator[TaskLine]:
        line = self._open_line(task, job)
        try:
            yield line
        finally:
            line.drop()
