"""A result as rich tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bondic.curve_words import CurveView, with_table
from bondic.rendering import Grid, sentence
from bondic.result import NextStep, Result
from bondic.summary import summarize

COLORS = {"good": "green", "nothing": "yellow", "bad": "red"}
"""By the tone of a view."""
_SHOWN = 4
"""Next steps on a terminal."""
_STATES = {"stated": "blue", "chosen": "yellow", "checked": "green", "rejected": "red"}


def result_table(result: Result, *, wide: bool = False) -> RenderableType:
    """Headline, what allowances would give, what to do next, parts of both ends, assumptions.

    `wide` shows both numbers of an allowance apart.
    """
    view = summarize(result)
    color = COLORS[view.tone]
    head = Text.assemble(
        *((f"Warning: {text}\n", "bold red") for text in view.warnings),
        (view.answer, "bold"),
        (f"\n{view.guarantee}", color),
        *(f"\n{line}" for line in view.lines),
    )
    tables = [_table(grid) for grid in (view.parts, view.assumptions) if grid is not None]
    panel = Panel(head, title="bondic", border_style=color)
    curve = view.curve
    if wide and curve is not None and result.curve is not None:
        curve = with_table(curve, result.curve)
    bought = [] if curve is None else [_allowances(curve)]
    return Group(panel, *bought, *([_ways_out(view.steps)] if view.steps else []), *tables)


def _allowances(curve: CurveView) -> RenderableType:
    """The table, a line for every mark, and what to do."""
    marks = Table.grid(padding=(0, 1))
    for mark in curve.marks:
        marks.add_row(Text(" -"), Text(f"{sentence(mark)}."))
    grid = replace(curve.grid, title="")
    return Group(
        Text(curve.title, style="bold"),
        Text(curve.head),
        _table(grid),
        marks,
        Text(f"{curve.advice}.", style="bold"),
        Text(f"{curve.decision}."),
    )


def _ways_out(steps: Sequence[NextStep]) -> RenderableType:
    """The most urgent ones; all of them are in the report and in result.json."""
    lines = Table.grid(padding=(0, 1))
    for step in steps[:_SHOWN]:
        style = "bold red" if step.loud else ""
        lines.add_row(Text(" !" if step.loud else " -", style=style), Text(str(step), style=style))
    if len(steps) > _SHOWN:
        lines.add_row("", Text(f"{len(steps) - _SHOWN} more in the report and in result.json", style="dim"))
    return Group(Text("What to do next", style="bold"), lines)


def _table(grid: Grid) -> Table:
    """Columns of numbers to the right, texts folded; the state of a row in its color."""
    table = Table(title=grid.title or None, title_justify="left", show_edge=False)
    for index, name in enumerate(grid.header):
        table.add_column(name, justify="right" if index and not grid.states else "left", overflow="fold")
    for index, row in enumerate(grid.rows):
        color = _STATES[grid.states[index]] if grid.states else ""
        table.add_row(*(Text(cell, style=color if place == 1 else "") for place, cell in enumerate(row)))
    return table
