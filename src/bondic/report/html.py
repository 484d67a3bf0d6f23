"""A result as one self-contained page: opens offline, follows light and dark, prints."""

from __future__ import annotations

from bondic._version import __version__
from bondic.rendering import escape
from bondic.result import Result

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; display: block; overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884; }
td { font-variant-numeric: tabular-nums; }
small { overflow-wrap: anywhere; }
"""


def result_page(result: Result, title: str) -> str:
    """The fragment of `Result._repr_html_` in a page of its own."""
    heading = escape(title)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{heading}</title><style>{_STYLE}</style></head><body><h1>{heading}</h1>"
        f"{result._repr_html_()}<footer><small>bondic {escape(__version__)}</small></footer></body></html>\n"
    )
