"""Stages of a method with their times, reported while they run."""

from __future__ import annotations

import time
from collections.abc import Callable

Progress = Callable[[str, float], None]
"""Called with the name of a stage and the share of it that is done."""


class Clock:
    """Stages with their times, reported to the progress callback."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress, self.seconds, self._last = progress, {}, time.perf_counter()  # type: ignore[var-annotated]

    def stage(self, name: str) -> Callable[[float], None]:
        def report(share: float) -> None:
            if self.progress is not None:
                self.progress(name, share)

        report(0.0)
        return report

    def done(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
        if self.progress is not None:
            self.progress(name, 1.0)
