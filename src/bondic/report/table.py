"""A result as rich tables for the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bondic.claims import Status
from bondic.rendering import (
    STATE_WORDS,
    estimate_text,
    is_assumption_free,
    is_conditional,
    number,
    search_text,
)
from bondic.result import Result

_COLOURS = {Status.INTERVAL: "green", Status.TRIVIAL: "yellow", Status.REJECTED: "red"}
_STATES = {"stated": "blue", "chosen": "yellow", "checked": "green", "rejected": "red"}


def result_table(result: Result) -> RenderableType:
    """Headline, terms of both end points, assumptions; amber where the library chose what the interval rests on."""
    colour = "yellow" if is_conditional(result) else _COLOURS[result.status]
    ranges, imply = result.ranges
    held = (
        ("; no interval, no guarantee", "")
        if result.status is Status.REJECTED
        else (", guarantee of the interval: ", result.guarantee)
    )
    head = Text.assemble(
        *((f"Warning: {text}\n", "bold red") for text in result.warnings),
        (result.sentence(), "bold"),
        f"\n{estimate_text(result)}{held[0]}",
        (held[1], colour),
        *_about_values(result),
        f"\n{ranges} alone {imply} [{number(result.value_range.low)}, {number(result.value_range.high)}]; "
        f"{result.rows[1] - result.rows[0]} rows certified, {result.effective_sample_size:.0f} carry the bound",
    )
    if "states" in result.choices:
        head.append(f"\nstates: {result.choices['states']}")
    panel = Panel(head, title="bondic", border_style=colour)
    if not result.terms():  # a method without a bound that splits into terms
        return Group(panel, _assumptions(result))
    head.append(f"\n{search_text(result.gap)}")
    return Group(panel, _terms(result), _assumptions(result))


def _about_values(result: Result) -> list[tuple[str, str]]:
    """What the interval assumes about the value function, beside its guarantee."""
    if result.status is Status.REJECTED:
        return []
    if is_conditional(result):
        return [(", conditional on what bondic chose", "yellow")]
    return [(", no assumption about the value function", "green")] if is_assumption_free(result) else []


def _terms(result: Result) -> Table:
    table = Table(title="What each term contributes", title_justify="left", show_edge=False)
    table.add_column("term")
    ends = result.terms()
    for end in ends:
        table.add_column(f"{end} end", justify="right")
    for name in next(iter(ends.values())):
        table.add_row(name, *(number(end[name]) for end in ends.values()))
    return table


def _assumptions(result: Result) -> Table:
    table = Table(title="Assumptions", title_justify="left", show_edge=False)
    table.add_column("about")
    table.add_column("state")
    table.add_column("in words", overflow="fold")
    for item in result.assumptions:
        table.add_row(item.name, Text(STATE_WORDS[item.state], style=_STATES[item.state]), Text(item.text))
    return table
