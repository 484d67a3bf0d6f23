"""Several intervals on one page: a picture on a common axis, the table, and what the colors promise."""

from __future__ import annotations

from collections.abc import Sequence

from bondic.claims import Status
from bondic.rendering import escape, html_table, three
from bondic.report.comparison import Line, line_ends
from bondic.report.document import document
from bondic.report.drawings import Axis
from bondic.result import Result

_PROMISES = {
    "finite-sample": ("good", "holds for this finite log"),
    "asymptotic": ("limit", "holds in the limit of large logs only"),
    "none": ("nothing", "no guarantee"),
}
_HEIGHT = 40
_SHORT = 4.0
"""Percent of the width below which a dot would hide its interval."""


def comparison_page(lines: Sequence[Line], promise: str, *, title: str) -> str:
    """The whole page; `promise` says what the intervals promise together."""
    body = f'<p class="answer">{escape(promise)}</p>{_picture(lines)}{comparison_table(lines)}'
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


def _picture(lines: Sequence[Line]) -> str:
    """Bars on the hull of the value ranges, magnified where all of them fill less than a quarter of it."""
    found = [(line, line.result) for line in lines if line.result is not None]
    if not found:
        return ""
    axis = _axis([result for _, result in found])
    rows = [_bar(axis, line.name, result, _HEIGHT * k) for k, (line, result) in enumerate(found)]
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


def _bar(axis: Axis, name: str, result: Result, top: int) -> str:
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
