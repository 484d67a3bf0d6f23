"""What is going on, on stderr: a bar on terminals, now and then a line elsewhere."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

LINE_SECONDS = 5.0
"""Without a terminal a line is written this often: work that takes less is done without a word."""


@contextmanager
def progress_bar(console: Console, every: float = LINE_SECONDS) -> Iterator[Callable[[str, float], None] | None]:
    """Yields a callback for `estimate_interval(progress=...)`, or None without a terminal."""
    if console.quiet:
        yield None
        return
    # the pseudo-terminal of a notebook's `!command` cannot move up: every step of a bar would stay below the cell
    if not console.is_terminal or "JPY_PARENT_PID" in os.environ:
        with _lines(console, every) as say:
            yield say
        return
    columns = (TextColumn("{task.description:<10}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def report(stage: str, share: float) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=1.0)
            bar.update(tasks[stage], completed=share)

        yield report


@contextmanager
def _lines(console: Console, every: float) -> Iterator[Callable[[str, float], None]]:
    """The stage and the time so far, from a thread of its own: a stage may be one long call."""
    begun, ended = time.monotonic(), threading.Event()
    now: dict[str, float] = {}  # the stages so far with their shares; the last is going on

    def write() -> None:
        while not ended.wait(every):
            stage, share = list(now.items())[-1] if now else ("start", 0.0)
            part = f" {100 * share:.0f}%" if 0 < share < 1 else ""
            console.print(f"{stage}{part}, {time.monotonic() - begun:.0f} s so far", highlight=False, markup=False)

    def report(stage: str, share: float) -> None:
        now.pop(stage, None)
        now[stage] = share

    writer = threading.Thread(target=write, daemon=True, name="progress")
    writer.start()
    try:
        yield report
    finally:
        ended.set()
        writer.join()
