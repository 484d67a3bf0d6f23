"""Several intervals side by side on a terminal: a table with a picture, or blocks where there is no room for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bondic.claims import Status
from bondic.errors import printable
from bondic.rendering import bound_text, ends_text, padded, three
from bondic.result import Result

_WIDEST, _NARROWEST = 40, 12
_LONGEST_NAME, _SHORTEST_NAME = 24, 8
_STATUS_COLORS = {Status.INTERVAL: "green", Status.TRIVIAL: "yellow", Status.REJECTED: "red"}
_COLORS = {"finite-sample": "green", "asymptotic": "yellow", "none": "red"}


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
