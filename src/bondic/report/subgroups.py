"""Subgroups on the page: an interval in every line, and a band for all starts together."""

from __future__ import annotations

from bondic.core.claims import Status
from bondic.core.printed import ends_text
from bondic.rendering import Grid, escape, three
from bondic.report.drawings import Axis
from bondic.report.html import html_table
from bondic.result import Result

_HEIGHT = 34


def subgroups_section(result: Result, grid: Grid | None) -> str:
    """Picture and table; nothing where no subgroups were requested, and after a rejection."""
    found = result.subgroups
    if found is None or grid is None or result.status is Status.REJECTED:
        return ""
    words = (
        "Each line is the difference in" if result.is_difference else "Each line is the value of the policy in"
    ) + f" one subgroup of starts; the band is that of all starts, at its own {100 * (1 - result.alpha):g}%."
    return (
        f'<section id="subgroups"><h2>{escape(grid.title)}</h2><p>{words}</p>{_forest(result)}'
        f"{html_table(grid.header, grid.rows)}</section>"
    )


def _forest(result: Result) -> str:
    """Intervals that the log has narrowed set the scale; the others run across all of it."""
    lines = {} if result.subgroups is None else result.subgroups.results
    shown = [one for one in (result, *lines.values()) if one.status is Status.INTERVAL] or [result]
    low, high = min(one.low for one in shown), max(one.high for one in shown)
    margin = (high - low) / 20
    axis, bottom = Axis(low - margin, high + margin), _HEIGHT * len(lines) + 4
    first, last = axis.at(result.low), axis.at(result.high)
    band = f'<rect class="t0" opacity="0.18" x="{first:.2f}%" width="{max(last - first, 0.4):.2f}%" y="0" height="{bottom}"/>'
    zero = ""
    if result.is_difference and low <= 0 <= high:
        zero = f'<line class="zero" x1="{axis.at(0.0):.2f}%" x2="{axis.at(0.0):.2f}%" y1="0" y2="{bottom}"/>'
    rows = (_line(axis, name, one, _HEIGHT * k) for k, (name, one) in enumerate(lines.items()))
    return (
        f'<svg height="{bottom + 20}" role="img" aria-label="intervals by subgroup">{band}{zero}{"".join(rows)}'
        f'<line class="rule" x1="2%" x2="98%" y1="{bottom}" y2="{bottom}"/>'
        f"{axis.text(low, bottom + 16, three(low))}{axis.text(high, bottom + 16, three(high))}</svg>"
    )


def _line(axis: Axis, name: str, one: Result, top: int) -> str:
    label = f'<text x="2%" y="{top + 14}" class="strong">{escape(name)}</text>'
    if one.status is Status.REJECTED:
        return f'{label}<text x="98%" y="{top + 14}" text-anchor="end" class="bad">rejected: no interval</text>'
    first, last = axis.at(one.low), axis.at(one.high)
    css = "good" if one.status is Status.INTERVAL else "nothing"
    dot = f'<circle class="estimate" cx="{axis.at(one.estimate):.2f}%" cy="{top + 23}" r="3"/>' if one.estimated else ""
    return (
        f'{label}<text x="98%" y="{top + 14}" text-anchor="end">{escape(" to ".join(ends_text(one.low, one.high)))}</text>'
        f'<rect class="{css}" x="{first:.2f}%" width="{max(last - first, 0.6):.2f}%" y="{top + 18}" height="10" rx="2"/>{dot}'
    )
