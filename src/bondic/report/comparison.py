"""Several intervals side by side: on a terminal (a table with a picture, or blocks where there is no room for it), on a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bondic.core.claims import Status
from bondic.core.errors import printable
from bondic.core.printed import bound_text, ends_text, padded
from bondic.rendering import escape, three
from bondic.report.drawings import Axis
from bondic.report.html import document, html_table
from bondic.result import Result

_WIDEST, _NARROWEST = 40, 12
_LONGEST_NAME, _SHORTEST_NAME = 24, 8
_STATUS_COLORS = {Status.INTERVAL: "green", Status.TRIVIAL: "yellow", Status.REJECTED: "red"}
_COLORS = {"finite-sample": "green", "asymptotic": "yellow", "none": "red"}

_PROMISES = {
    "finite-sample": ("good", "holds for this finite log"),
    "asymptotic": ("limit", "holds in the limit of large logs only"),
    "none": ("nothing", "no guarantee"),
}
_HEIGHT = 40
_SHORT = 4.0
"""Percent of the width below which a dot would hide its interval."""


@dataclass(frozen=True)
class Line:
    """One interval of the comparison, or why there is none."""

    policy: str  # or another name of the line; empty where the method says it all
    method: str
    result: Result | None
    reason: str = ""

    @property
    def name(self) -> str:
        return self.policy or self.method

    def to_row(self) -> dict[str, Any]:
        """Every number in full, and None for each where there is no interval."""
        found = self.result
        given = found is not None and found.status is not Status.REJECTED
        numbers = {name: getattr(found, name) if given else None for name in ("low", "high", "length")}
        numbers["estimate"] = found.estimate if found is not None and found.estimated else None
        numbers["alpha"] = None if found is None else found.alpha
        return {
            "name": self.name,
            "method": self.method,
            "guarantee": None if found is None else found.guarantee,
            "status": None if found is None else found.status.name,
            **numbers,
            "seconds": None if found is None else sum(found.seconds.values()),
            "reason": self.reason,
        }


def print_comparison(console: Console, lines: list[Line], title: str, *, costs: bool = False) -> None:
    """Every line, then what its words and marks mean, then why some lines have no interval; `costs` adds length and time."""
    _print_lines(console, lines, title, costs)
    for words in _notes([line.result for line in lines if line.result is not None]):
        console.print(words, soft_wrap=True)
    for reason in dict.fromkeys(f"{line.method}: {line.reason}" for line in lines if line.result is None):
        console.print(Text(printable(reason), style="dim"), soft_wrap=True)


def _print_lines(console: Console, lines: list[Line], title: str, costs: bool) -> None:
    """A table, with a picture where there is room for one; on a narrow terminal names give way, then a block per line."""
    unlimited = console.options.update_width(10_000)
    room = console.width - Measurement.get(console, unlimited, _table(lines, 0, title, costs=costs)).maximum
    picture = min(_WIDEST, room - 2)
    policies = {line.policy for line in lines}
    whole = min(_LONGEST_NAME, max(len(policy) for policy in policies))
    name = whole + min(room, 0)
    told_apart = name == whole or len({policy[: max(name - 1, 0)] for policy in policies}) == len(policies)
    if told_apart and name >= min(_SHORTEST_NAME, whole):
        console.print(_table(lines, picture if picture >= _NARROWEST else 0, title, name, costs=costs))
        return
    for text in _blocks(lines, title):
        console.print(text, soft_wrap=True)


def _table(lines: list[Line], width: int, title: str, longest: int = _LONGEST_NAME, *, costs: bool = False) -> Table:
    """Every interval in a line; `width` of the picture (0: none), `longest` name of a policy."""
    found = [line.result for line in lines if line.result is not None]
    low = min((result.value_range.low for result in found), default=0.0)
    high = max((result.value_range.high for result in found), default=1.0)
    table = Table(
        title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold"
    )
    named = any(line.policy for line in lines)
    if named:
        table.add_column("policy", overflow="ellipsis", no_wrap=True, max_width=longest)
    table.add_column("method", no_wrap=True)
    for name in ("low", "estimate", "high"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("guarantee", no_wrap=True)
    for name in ("length", "seconds") if costs else ():
        table.add_column(name, justify="right", no_wrap=True)
    ends = f"{low:.3g}", f"{high:.3g}"
    if width:
        table.add_column(ends[0] + " " * max(1, width - len(ends[0]) - len(ends[1])) + ends[1], no_wrap=True)
    for line in lines:
        title_of = [Text(line.policy)] if named else []
        if line.result is None:
            table.add_row(*title_of, line.method, "", "", "", Text("see below", style="dim"))
            continue
        picture = [bar(line.result, low, high, width)] if width else []
        spent = [_length(line.result), f"{sum(line.result.seconds.values()):.1f}"] if costs else []
        table.add_row(*title_of, line.method, *line_ends(line.result), *_labels(line.result), *spent, *picture)
    return table


def _notes(results: list[Result]) -> Iterator[Text]:
    """What a word or a mark of the table means, once, and what states were taken for."""
    if any(result.estimate_outside for result in results):
        yield Text("○ an estimate outside its interval: it has no guarantee")
    for states in dict.fromkeys(result.choices["states"] for result in results if "states" in result.choices):
        yield Text(f"states: {states}", style="dim")


def _length(result: Result) -> str:
    return "-" if result.status is Status.REJECTED else three(result.length)


def line_ends(result: Result) -> tuple[str, str, str]:
    """low, estimate, high; a log that contradicts the assumptions gives no interval."""
    if result.status is Status.REJECTED:
        return "-", three(result.estimate) if result.estimated else "-", "-"
    low, high = ends_text(result.low, result.high)
    if not result.estimated:
        return low, "-", high
    return low, padded(bound_text(result.estimate, 0, result.length or math.inf), (low, high)), high


def _labels(result: Result) -> tuple[Text, Text]:
    """Status and guarantee in a word each."""
    held = "-" if result.status is Status.REJECTED else result.guarantee
    return (
        Text(result.status.name.lower(), style=_STATUS_COLORS[result.status]),
        Text(held, style=_COLORS.get(held, "")),
    )


def _blocks(lines: list[Line], title: str) -> Iterator[Text]:
    """Three short lines per interval, for terminals on which the table would lose its numbers."""
    yield Text(title)
    for line in lines:
        yield Text(", ".join(filter(None, (line.policy, line.method))), style="bold")
        if line.result is None:
            yield Text("  see below", style="dim")
            continue
        low, estimate, high = line_ends(line.result)
        yield Text(f"  low {low}  estimate {estimate}  high {high}")
        status, held = _labels(line.result)
        yield Text.assemble("  ", status, ", ", held) if held.plain != "-" else Text.assemble("  ", status)


def bar(result: Result, low: float, high: float, width: int) -> str:
    """The interval on a line of characters, the estimate as a dot; hollow where it lies outside the interval."""
    span = (high - low) or 1.0

    def at(value: float) -> int:
        return min(width - 1, max(0, int((value - low) / span * width)))

    cells = ["·"] * width
    if result.status is not Status.REJECTED:
        cells[at(result.low) : at(result.high) + 1] = "━" * (at(result.high) + 1 - at(result.low))
    if result.estimated:
        cells[at(result.estimate)] = "○" if result.estimate_outside else "●"
    return "".join(cells)


# --- the page -------------------------------------------------------------------------------------------


def comparison_page(lines: Sequence[Line], promise: str, *, title: str) -> str:
    """The whole page; `promise` says what the intervals promise together."""
    body = f'<p class="answer">{escape(promise)}</p>{_bars(lines)}{comparison_table(lines)}'
    return document(title, f'<section id="comparison">{body}</section>{_reasons(lines)}')


def comparison_table(lines: Sequence[Line]) -> str:
    """The table alone, for the page and for notebooks."""
    header = ("", "method", "low", "estimate", "high", "status", "guarantee", "seconds")
    named = any(line.name != line.method for line in lines)  # the method alone is said once
    rows = [_cells(line) for line in lines]
    return html_table(header if named else header[1:], rows if named else [row[1:] for row in rows])


def _cells(line: Line) -> tuple[str, ...]:
    if line.result is None:
        return (line.name, line.method, "", "", "", "no interval", "", "")
    result = line.result
    status = result.status.name.lower()
    return (line.name, line.method, *line_ends(result), status, result.guarantee, f"{sum(result.seconds.values()):.1f}")


def _bars(lines: Sequence[Line]) -> str:
    """Bars on the hull of the value ranges, magnified where all of them fill less than a quarter of it."""
    found = [(line, line.result) for line in lines if line.result is not None]
    if not found:
        return ""
    axis = _axis([result for _, result in found])
    rows = [_page_bar(axis, line.name, result, _HEIGHT * k) for k, (line, result) in enumerate(found)]
    top = _HEIGHT * len(found)
    shown = dict.fromkeys(result.guarantee for _, result in found if result.status is not Status.REJECTED)
    legend = "".join(f'<span><i class="{_PROMISES[held][0]}"></i>{_PROMISES[held][1]}</span>' for held in shown)
    first, last = axis.low, axis.low + axis.span
    return (
        f'<svg height="{top + 24}" role="img" aria-label="intervals side by side">{"".join(rows)}'
        f'<line class="rule" x1="2%" x2="98%" y1="{top + 4}" y2="{top + 4}"/>'
        f"{axis.text(first, top + 20, three(first))}{axis.text(last, top + 20, three(last))}</svg>"
        f'<div class="legend">{legend}<span>● estimate (○ outside its interval)</span></div>'
    )


def _axis(results: Sequence[Result]) -> Axis:
    low, high = min(r.value_range.low for r in results), max(r.value_range.high for r in results)
    given = [r for r in results if r.status is not Status.REJECTED]
    places = [place for r in given for place in (r.low, r.high)]
    places += [min(max(r.estimate, low), high) for r in given if r.estimated]
    if places and 0 < max(places) - min(places) < (high - low) / 4:
        margin = (max(places) - min(places)) / 10
        low, high = min(places) - margin, max(places) + margin
    return Axis(low, high)


def _page_bar(axis: Axis, name: str, result: Result, top: int) -> str:
    label = f'<text x="2%" y="{top + 14}" class="strong">{escape(name)}</text>'
    low, _, high = line_ends(result)
    if result.status is Status.REJECTED:
        return f'{label}<text x="98%" y="{top + 14}" text-anchor="end" class="bad">rejected: no interval</text>'
    a, b = axis.at(result.low), axis.at(result.high)
    small = b - a < _SHORT
    css = f"estimate{' outside' if result.estimate_outside else ''}{' small' if small else ''}"
    return (
        f'{label}<text x="98%" y="{top + 14}" text-anchor="end">{escape(f"{low} to {high}")}</text>'
        f'<rect class="{_PROMISES[result.guarantee][0]}" x="{a:.2f}%" width="{max(b - a, 0.6):.2f}%" y="{top + 19}" '
        f'height="14" rx="2"><title>{escape(f"{three(result.low)} to {three(result.high)}")}</title></rect>'
        + (
            f'<circle class="{css}" cx="{axis.at(result.estimate):.2f}%" cy="{top + 26}" r="{2 if small else 3.5}"/>'
            if result.estimated
            else ""
        )
    )


def _reasons(lines: Sequence[Line]) -> str:
    """Why some lines have no interval."""
    missing = [line for line in lines if line.result is None]
    items = "".join(f"<li><b>{escape(line.name)}</b><p>{escape(line.reason)}</p></li>" for line in missing)
    return f'<section><h2>Without an interval</h2><ul class="items">{items}</ul></section>' if items else ""
