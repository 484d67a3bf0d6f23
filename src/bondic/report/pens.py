"""A summary on a terminal, in Markdown and in a notebook: each is a pen that knows texts, lists and grids, and no result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bondic.core.claims import Status
from bondic.core.errors import printable_lines
from bondic.core.printed import ends_text
from bondic.rendering import STATE_COLORS, Grid, escape
from bondic.report.drawings import forest
from bondic.report.html import html_table
from bondic.result import Result
from bondic.summary import Summary, summarize

_COLORS = {"good": "green", "nothing": "yellow", "bad": "red", "warning": "bold red", "strong": "bold"}
"""Of a terminal, by the tone of a text."""
_SHOWN, _BRIEFLY = 4, 3
"""Next steps on a terminal, with --verbose and without; all of them are in the report and in result.json."""
_NAME = 16
"""Letters of a policy's name beside its bar."""


class Pen(Protocol):
    """What a format can write; the order is that of `draw`."""

    def title(self, words: str) -> None: ...
    def text(self, words: str, tone: str = "") -> None: ...
    def items(self, items: Sequence[tuple[str, bool]]) -> None: ...  # (words, whether it is urgent)
    def grid(self, grid: Grid) -> None: ...


def draw(view: Summary, pen: Pen, *, steps: int | None = None) -> None:
    """The whole summary, in the order that every format has; at most so many next steps."""
    _draw_answer(view, pen)
    pen.text(view.guarantee, view.tone)
    for line in view.lines:
        pen.text(line)
    _draw_curve(view, pen)
    _draw_steps(view, pen, steps)
    _draw_grids(pen, view.parts, view.assumptions)


def _draw_answer(view: Summary, pen: Pen) -> None:
    if view.verdict:
        pen.text(view.verdict, "strong")
    for warning in view.warnings:
        pen.text(f"Warning: {warning}", "warning")
    pen.text(view.answer, "strong")


def _draw_grids(pen: Pen, *grids: Grid | None) -> None:
    for grid in grids:
        if grid is not None:
            pen.title(grid.title)
            pen.grid(grid)


def _draw_curve(view: Summary, pen: Pen) -> None:
    """What allowances would give, and the subgroups."""
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


def _draw_steps(view: Summary, pen: Pen, steps: int | None) -> None:
    if view.steps:
        pen.title("What to do next")
        left = len(view.steps) - (len(view.steps) if steps is None else steps)
        rest = [(f"{left} more in the report and in result.json", False)] if left > 0 else []
        pen.items([*((str(step), step.loud) for step in view.steps[:steps]), *rest])


# --- terminal -----------------------------------------------------------------------------------------


class _Terminal:
    """What comes before the first title is the headline."""

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


def result_table(result: Result, *, verbose: bool = False, width: int = 80) -> RenderableType:
    """A result for `rich`: the answer, both policies as bars, what it is worth, what allowances would give, what to do next.

    `verbose` adds what is known about the estimate, the parts of both ends, and every assumption.
    """
    view, pen = summarize(result), _Terminal()
    if verbose:
        draw(view, pen, steps=_SHOWN)
        return Group(*pen.head, *pen.rest)
    _draw_answer(view, pen)
    if (compared := result.comparison) is not None and compared.side == "both":
        for line in text_bars(dict(zip(compared.names, compared.parts, strict=True)), width):
            pen.text(line)
    for place, line in enumerate(view.brief):
        pen.text(line, "" if place else view.tone)
    _draw_curve(view, pen)
    _draw_steps(view, pen, _BRIEFLY if view.tone == "good" else _SHOWN)
    return Group(*pen.head, *pen.rest)


def text_bars(results: Mapping[str, Result], width: int) -> Iterator[str]:
    """Intervals as bars of a terminal, one below the other on the same axis."""
    names = {name: name if len(name) <= _NAME else f"{name[: _NAME - 1]}…" for name in results}
    ends = {name: " to ".join(ends_text(one.low, one.high)) for name, one in results.items()}
    left, right = max(map(len, names.values())), max(map(len, ends.values()))
    low, high = min(one.low for one in results.values()), max(one.high for one in results.values())
    room = width - left - right - 6
    if room < _NAME or not high > low:
        return
    for name, one in results.items():
        a, b = (round((room - 1) * (end - low) / (high - low)) for end in (one.low, one.high))
        yield f"  {names[name]:{left}}  {' ' * a}{'━' * (b - a + 1)}{' ' * (room - 1 - b)}  {ends[name]:>{right}}"


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
    """Text that neither ends a cell nor becomes HTML, emphasis or code, nor moves the cursor of a terminal."""
    text = printable_lines(text)
    for mark in "\\`*_|[]":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.replace("<", "&lt;").replace(">", "&gt;").split())


def result_markdown(result: Result, title: str = "Policy evaluation") -> str:
    """A summary for an issue, a merge request or a mail."""
    pen = _Markdown(title)
    draw(summarize(result), pen)
    if result.notes:
        pen.title("How the log was read")
        pen.items([(note, False) for note in result.notes])
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


_STYLE = """<style>
.bondic { max-width: 52rem; } .bondic svg { display: block; width: 100%; }
.bondic svg text { fill: currentColor; font-size: 12px; }
.bondic .strong, .bondic summary { font-weight: 600; } .bondic .bar { fill: #1f6fb8; } .bondic .bar.nothing { fill: #8a8f98; }
.bondic .logged { fill: #8a8f98; } .bondic .estimate { fill: white; stroke: #1b2430; } .bondic .bad { fill: #b3261e; }
.bondic .rule, .bondic .zero { stroke: #8a8f98; } .bondic .zero { stroke-dasharray: 3 3; }
.bondic th, .bondic td { text-align: left !important; vertical-align: top; }
</style>"""


def fragment(result: Result) -> str:
    """For notebooks, in colors for any theme: the answer, a picture of it, what to do next; the rest is folded."""
    view, pen, folded = summarize(result), _Html(), _Html()
    _draw_answer(view, pen)
    pen.parts.append(_picture(result))
    for line in view.brief:
        pen.text(line)
    _draw_curve(view, pen)
    _draw_steps(view, pen, None)
    folded.text(view.guarantee)
    for line in view.lines:
        folded.text(line)
    _draw_grids(folded, view.parts, view.assumptions, view.choices)
    rest = f"<details><summary>Assumptions, terms and method</summary>{''.join(folded.parts)}</details>"
    return f'<section class="bondic">{"".join(pen.parts)}{rest}</section>{_STYLE}'


def _picture(result: Result) -> str:
    """Both policies on one axis where they are known, else the interval; nothing after a rejection."""
    if result.status is Status.REJECTED:
        return ""
    compared = result.comparison
    name = "difference" if result.is_difference else "new"
    shown = [(name, result)] if compared is None else list(zip(compared.names, compared.parts, strict=True))
    return forest(shown, "the values on one axis", legend=False)
