"""A summary on a terminal, in Markdown and in a notebook: each is a pen that knows texts, lists and grids, and no result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bondic.rendering import STATE_COLORS, Grid, escape
from bondic.report.html import html_table
from bondic.result import Result
from bondic.summary import Summary, summarize

_COLORS = {"good": "green", "nothing": "yellow", "bad": "red", "warning": "bold red", "strong": "bold"}
"""Of a terminal, by the tone of a text."""
_SHOWN = 4
"""Next steps on a terminal; all of them are in the report and in result.json."""


class Pen(Protocol):
    """What a format can write; the order is that of `draw`."""

    def title(self, words: str) -> None: ...
    def text(self, words: str, tone: str = "") -> None: ...
    def items(self, items: Sequence[tuple[str, bool]]) -> None: ...  # (words, whether it is urgent)
    def grid(self, grid: Grid) -> None: ...


def draw(view: Summary, pen: Pen, *, steps: int | None = None, choices: bool = False) -> None:
    """The whole summary, in the order that every format has; at most so many next steps."""
    for warning in view.warnings:
        pen.text(f"Warning: {warning}", "warning")
    pen.text(view.answer, "strong")
    pen.text(view.guarantee, view.tone)
    for line in view.lines:
        pen.text(line)
    if view.curve is not None:
        pen.title(view.curve.title)
        pen.text(view.curve.head)
        pen.grid(view.curve.grid)
        pen.items([(mark, False) for mark in view.curve.marks])
        pen.text(view.curve.advice, "strong")
        pen.text(view.curve.decision)
    if view.subgroups is not None:
        pen.title(view.subgroups.title)
        pen.grid(view.subgroups)
    if view.steps:
        pen.title("What to do next")
        left = len(view.steps) - (len(view.steps) if steps is None else steps)
        rest = [(f"{left} more in the report and in result.json", False)] if left > 0 else []
        pen.items([*((str(step), step.loud) for step in view.steps[:steps]), *rest])
    for grid in (view.parts, view.assumptions, view.choices if choices else None):
        if grid is not None:
            pen.title(grid.title)
            pen.grid(grid)


# --- terminal -----------------------------------------------------------------------------------------


class _Terminal:
    """What comes before the first title is the headline, in a panel."""

    def __init__(self) -> None:
        self.head: list[Text] = []
        self.rest: list[RenderableType] = []

    def title(self, words: str) -> None:
        self.rest.append(Text(words, style="bold"))

    def text(self, words: str, tone: str = "") -> None:
        (self.rest if self.rest else self.head).append(Text(words, style=_COLORS.get(tone, "")))

    def items(self, items: Sequence[tuple[str, bool]]) -> None:
        lines = Table.grid(padding=(0, 1))
        for words, urgent in items:
            style = "bold red" if urgent else ""
            lines.add_row(Text(" !" if urgent else " -", style=style), Text(words, style=style))
        self.rest.append(lines)

    def grid(self, grid: Grid) -> None:
        """Columns of numbers to the right, texts folded; the state of a row in its color."""
        table = Table(show_edge=False)
        for index, name in enumerate(grid.header):
            table.add_column(name, justify="right" if index and not grid.states else "left", overflow="fold")
        for index, row in enumerate(grid.rows):
            color = STATE_COLORS[grid.states[index]] if grid.states else ""
            table.add_row(*(Text(cell, style=color if place == 1 else "") for place, cell in enumerate(row)))
        self.rest.append(table)


def result_table(result: Result) -> RenderableType:
    """A result for `rich`: headline, what allowances would give, what to do next, parts of both ends, assumptions."""
    view, pen = summarize(result), _Terminal()
    draw(view, pen, steps=_SHOWN)
    return Group(Panel(Text("\n").join(pen.head), title="bondic", border_style=_COLORS[view.tone]), *pen.rest)


# --- Markdown -----------------------------------------------------------------------------------------


class _Markdown:
    def __init__(self, title: str) -> None:
        self.blocks = [f"# {_plain(title)}"]

    def title(self, words: str) -> None:
        self.blocks.append(f"## {_plain(words)}")

    def text(self, words: str, tone: str = "") -> None:
        self.blocks.append(f"**{_plain(words)}**" if tone in ("warning", "strong") else _plain(words))

    def items(self, items: Sequence[tuple[str, bool]]) -> None:
        self.blocks.append("\n".join(f"* {_plain(words)}" for words, _ in items))

    def grid(self, grid: Grid) -> None:
        """Columns after the first hold numbers, unless the rows are statements."""
        rule = ["---", *("---" if grid.states else "---:" for _ in grid.header[1:])]
        rows = [grid.header, rule, *grid.rows]
        lines = ["| " + " | ".join(_plain(cell) for cell in row) + " |" for row in rows]
        self.blocks.append("\n".join(lines))


def _plain(text: str) -> str:
    """Text that neither ends a cell nor becomes HTML, emphasis or code."""
    for mark in "\\`*_|[]":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.replace("<", "&lt;").replace(">", "&gt;").split())


def result_markdown(result: Result, title: str = "Policy evaluation") -> str:
    """A summary for an issue, a merge request or a mail."""
    pen = _Markdown(title)
    draw(summarize(result), pen)
    doubts, others = result.remarks()
    for doubt in doubts[len(result.warnings) :]:
        pen.text(f"Warning: {doubt}", "warning")
    if others:
        pen.title("How the log was read")
        pen.items([(note, False) for note in others])
    hashes = [f"{name} `{value}`" for name, value in result.hashes.items()]
    return "\n\n".join([*pen.blocks, *hashes]) + "\n"


# --- notebook -----------------------------------------------------------------------------------------


class _Html:
    def __init__(self) -> None:
        self.parts: list[str] = []

    def title(self, words: str) -> None:
        self.parts.append(f"<h3>{escape(words)}</h3>")

    def text(self, words: str, tone: str = "") -> None:
        shown = escape(words)
        self.parts.append(f"<p>{f'<strong>{shown}</strong>' if tone in ('warning', 'strong') else shown}</p>")

    def items(self, items: Sequence[tuple[str, bool]]) -> None:
        lines = (f"<li{' class=loud' if urgent else ''}>{escape(words)}</li>" for words, urgent in items)
        self.parts.append(f"<ul>{''.join(lines)}</ul>")

    def grid(self, grid: Grid) -> None:
        self.parts.append(html_table(grid.header, grid.rows))


def fragment(result: Result) -> str:
    """The whole summary without any style sheet, for notebooks."""
    pen = _Html()
    draw(summarize(result), pen, choices=True)
    return f"<section>{''.join(pen.parts)}</section>"
