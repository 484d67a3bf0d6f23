"""Pieces of HTML as plain strings, every value escaped, and the frame of every page.

A page is one file that loads nothing, follows light and dark, and prints.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from bondic._version import __version__
from bondic.rendering import escape

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Content security policy: whatever a text on the page says, nothing is loaded from anywhere."""


def badge(kind: str, words: str) -> str:
    return f'<span class="badge {kind}">{escape(words)}</span>'


def facts(items: Sequence[tuple[str, str]]) -> str:
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in items)
    return f'<dl class="facts">{cells}</dl>'


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, total: bool = False) -> str:
    """A table whose columns after the first may hold numbers (class `num`); `total` marks the last row."""

    def line(row: Sequence[str], tag: str, css: str = "") -> str:
        cells = (f"<{tag}{' class=num' if k else ''}>{escape(cell)}</{tag}>" for k, cell in enumerate(row))
        return f"<tr{css}>{''.join(cells)}</tr>"

    marked = len(rows) - 1 if total else -1
    body = "".join(line(row, "td", " class=total" if k == marked else "") for k, row in enumerate(rows))
    return f'<div class="scroll"><table><thead>{line(header, "th")}</thead><tbody>{body}</tbody></table></div>'


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
