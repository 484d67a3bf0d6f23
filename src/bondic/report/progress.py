"""A progress bar on terminals, silence in pipes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[str, float], None] | None]:
    """Yields a callback for `estimate_interval(progress=...)`, or None when nobody watches."""
    if not console.is_terminal:
        yield None
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
def counting_bar(console: Console, name: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yields a callback (done, total) for many equal pieces of work, or None when nobody watches."""
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report
