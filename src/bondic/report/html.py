"""Pieces of HTML as plain strings, every value escaped; the frame of every page; a result in a notebook.

A page is one file that loads nothing, follows light and dark, and prints.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from bondic._version import __version__
from bondic.core.printed import interval_text, number
from bondic.curve_words import CurveView
from bondic.rendering import escape
from bondic.result import Result
from bondic.summary import summarize

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Content security policy: whatever a text on the page says, nothing is loaded from anywhere."""


def badge(kind: str, words: str) -> str:
    return f'<span class="badge {kind}">{escape(words)}</span>'


def facts(items: Sequence[tuple[str, str]]) -> str:
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in items)
    return f'<dl class="facts">{cells}</dl>'


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, total: bool = False) -> str:
    """A table whose columns after the first may hold numbers (class `num`); `total` marks the last row."""
    head = "".join(f"<th{'' if k == 0 else ' class=num'}>{escape(cell)}</th>" for k, cell in enumerate(header))
    lines = []
    for index, row in enumerate(rows):
        cells = "".join(f"<td{'' if k == 0 else ' class=num'}>{escape(cell)}</td>" for k, cell in enumerate(row))
        lines.append(f"<tr{' class=total' if total and index == len(rows) - 1 else ''}>{cells}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def script_json(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, whatever its strings hold."""
    text = json.dumps(data, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def document(title: str, body: str, curve: dict[str, Any] | None = None) -> str:
    """The frame of every page: style, theme button, and what the sliders of a curve look up, if there is one."""
    heading = escape(title)
    folder = files("bondic.report")
    style, theme, sliders = (
        folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js", "allowance.js")
    )
    data = f'<script type="application/json" id="bondic-data">{script_json(curve)}</script>' if curve else ""
    script = f"<script>{theme}</script>{data}" + (f"<script>{sliders}</script>" if curve else "")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="referrer" content="no-referrer"><title>{heading}</title><style>{style}</style></head><body><main>'
        f'<header class="top"><h1>{heading}</h1><button id="theme" type="button" aria-label="light or dark">◐</button></header>'
        f"{body}<footer>bondic {escape(__version__)}. Nothing on this page is loaded from elsewhere.</footer></main>"
        f"{script}</body></html>\n"
    )


def fragment(result: Result) -> str:
    """The whole summary without any style sheet, for notebooks."""
    shown = summarize(result)
    tables = [grid for grid in (shown.parts, shown.assumptions, shown.choices) if grid is not None]
    steps = "".join(f"<li>{escape(step)}</li>" for step in shown.steps)
    return (
        "<section>"
        + "".join(f"<p><strong>Warning:</strong> {escape(text)}</p>" for text in shown.warnings)
        + f"<p><strong>{escape(shown.answer)}</strong></p>{_picture(result)}"
        + f"<p>{escape(' '.join((shown.guarantee, *shown.lines)))}</p>{_curve(shown.curve)}"
        + (f"<h3>What to do next</h3><ul>{steps}</ul>" if steps else "")
        + "".join(f"<h3>{escape(grid.title)}</h3>{html_table(grid.header, grid.rows)}" for grid in tables)
        + "</section>"
    )


def _curve(curve: CurveView | None) -> str:
    if curve is None:
        return ""
    marks = "".join(f"<li>{escape(mark)}</li>" for mark in curve.marks)
    return (
        f"<h3>{escape(curve.title)}</h3><p>{escape(curve.head)}</p>{html_table(curve.grid.header, curve.grid.rows)}"
        f"<ul>{marks}</ul><p>{escape(curve.advice)}. {escape(curve.decision)}.</p>"
    )


def _picture(result: Result) -> str:
    """The interval inside the value range, as an inline SVG that follows the page's text color."""
    left, right = result.value_range.low, result.value_range.high
    span = (right - left) or 1.0

    def at(value: float) -> float:
        return float(10.0 + 580.0 * (min(max(value, left), right) - left) / span)

    low, high = at(result.low), at(result.high)
    given = result.status.name != "REJECTED"
    words = f"interval {interval_text(result.low, result.high)}" if given else "no interval"
    bar = f'<rect x="{low:.1f}" y="18" width="{max(high - low, 1.5):.1f}" height="16" rx="3" fill="#2a78c8"/>'
    # a ring instead of a dot: the estimate is not part of what the interval says
    ink = 'fill="none" stroke="currentColor" stroke-width="2"' if result.estimate_outside else 'fill="currentColor"'
    dot = "" if math.isnan(result.estimate) else f'<circle cx="{at(result.estimate):.1f}" cy="26" r="4" {ink}/>'
    return (
        f'<svg viewBox="0 0 600 64" role="img" style="max-width:42rem;width:100%" aria-label="{words}">'
        '<line x1="10" y1="26" x2="590" y2="26" stroke="currentColor" stroke-opacity=".3" stroke-width="2"/>'
        f"{bar if given else ''}{dot}"
        f'<text x="10" y="56" font-size="13" fill="currentColor">{escape(number(left))}</text>'
        f'<text x="590" y="56" font-size="13" fill="currentColor" text-anchor="end">{escape(number(right))}</text>'
        "</svg>"
    )
