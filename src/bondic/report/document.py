"""The frame of every page: one file that loads nothing, follows light and dark, and prints."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from bondic._version import __version__
from bondic.rendering import escape

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Content security policy: whatever a text on the page says, nothing is loaded from anywhere."""


def script_json(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, whatever its strings hold."""
    text = json.dumps(data, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def document(title: str, body: str, data: dict[str, Any] | None = None) -> str:
    """The frame of every page: style, theme button, and data for the script, which is left out where there are none."""
    heading = escape(title)
    folder = files("bondic.report")
    style, *scripts = (
        folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js", "allowance.js")
    )
    script = "".join(f"<script>{text}</script>" for text in (scripts if "curve" in (data or {}) else scripts[:1]))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="referrer" content="no-referrer"><title>{heading}</title><style>{style}</style></head><body><main>'
        f'<header class="top"><h1>{heading}</h1><button id="theme" type="button" aria-label="light or dark">◐</button></header>'
        f"{body}<footer>bondic {escape(__version__)}. Nothing on this page is loaded from elsewhere.</footer></main>"
        f'<script type="application/json" id="bondic-data">{script_json(data or {})}</script>{script}'
        "</body></html>\n"
    )
