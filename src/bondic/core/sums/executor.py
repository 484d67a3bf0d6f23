"""Where independent pieces of a sum are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Executor(Protocol):
    """Runs tasks that do not depend on one another; the number of workers leaves no trace in the results."""

    @property
    def workers(self) -> int:
        """How many tasks may run at a time: a hint for cutting work into tasks."""

    def run(
        self, task: Callable[[int], T], places: Sequence[int], done: Callable[[int], None] | None = None
    ) -> list[T]:
        """[task(place) for place in places]; `done(place)` is called here, in any order, as they are finished.

        Whatever `done` or a task raises ends the run: tasks that have not begun are dropped.
        """
