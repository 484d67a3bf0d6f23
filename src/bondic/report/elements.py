"""Small pieces that every section is built from; every text is escaped here."""

from __future__ import annotations

from collections.abc import Sequence

from bondic.rendering import escape


def esc(value: object) -> str:
    return escape(value)


def badge(kind: str, words: str) -> str:
    return f'<span class="badge {kind}">{esc(words)}</span>'


def facts(items: Sequence[tuple[str, str]]) -> str:
    return '<dl class="facts">' + "".join(f"<div><dt>{esc(k)}</dt><dd>{esc(v)}</dd></div>" for k, v in items) + "</dl>"
