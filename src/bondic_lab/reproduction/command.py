"""`bondic reproduce FIGURE`: run what is missing, sum up, draw, print."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bondic.errors import MissingExtra
from bondic.saving import write_atomically
from bondic_lab.reproduction.figures import FigureData
from bondic_lab.reproduction.registry import find_experiment
from bondic_lab.reproduction.summary import LEVEL

_WIDTH = 130  # of tables in pipes, where there is no screen to fit


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


def command(figure: str, quick: bool, trials: int | None, jobs: int, out: Path) -> None:
    """Run, store, draw, print."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    folder = out / (f"{figure}-quick" if quick else figure)
    with counting_bar(Console(stderr=True), figure) as progress:
        data = find_experiment(figure).run(
            folder / "trials", quick=quick, trials=trials, processes=jobs, progress=progress
        )
    write_atomically(folder / "summary.json", (json.dumps(record(data), indent=1) + "\n").encode())
    print_figure(console, data)
    console.print(f"numbers  {folder / 'summary.json'}", highlight=False, soft_wrap=True)
    try:  # here, not above: numbers need no plotting library
        from bondic_lab.reproduction.plots import save_figure
    except MissingExtra as problem:
        console.print(f"no picture: {problem}", highlight=False)
        return
    for path in save_figure(data, folder):
        console.print(f"figure   {path}", highlight=False, soft_wrap=True)


def record(data: FigureData) -> dict[str, object]:
    """What is stored of a figure: numbers, tests, notes."""
    return {
        "figure": data.name,
        "table": list(data.table),
        "checks": [check.record() for check in data.checks],
        "level": LEVEL,
        "notes": list(data.notes),
    }


def print_figure(console: Console, data: FigureData) -> None:
    """A table of medians, the notes, and the tests of finite-sample claims."""
    table = Table(title=data.title)
    columns = list(dict.fromkeys(key for row in data.table for key in row))
    for column in columns:
        table.add_column(column)
    for row in data.table:
        table.add_row(*(_cell(row.get(column, "")) for column in columns))
    console.print(table)
    for note in data.notes:
        console.print(note, highlight=False, soft_wrap=True)
    bad = [check for check in data.checks if check.violated]
    worst = min((check.corrected for check in data.checks), default=1.0)
    console.print(
        f"finite-sample claims: {len(data.checks)} cells, {len(bad)} violated at level {LEVEL:g} "
        f"(exact binomial tests, Holm's correction; smallest corrected p {worst:.3g})",
        highlight=False,
        soft_wrap=True,
    )
    for check in bad:
        console.print(f"  {check.cell}: {check.failures} of {check.trials} miss, α = {check.alpha:g}", highlight=False)


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
