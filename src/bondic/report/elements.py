"""Small pieces that every section is built from; every text is escaped here."""

from __future__ import annotations

from collections.abc import Sequence

from bondic.rendering import escape


def esc(value: object) -> str:
    return escape(value)


def badge(kind: str, words: str) -> str:
    return f'<span class="badge {kind}">{esc(words)}</span>'


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, total: bool = False) -> str:
    """A table whose columns after the first hold numbers; `total` marks the last row."""
    head = "".join(f"<th{'' if k == 0 else ' class=num'}>{esc(cell)}</th>" for k, cell in enumerate(header))
    lines = []
    for index, row in enumerate(rows):
        cells = "".join(f"<td{'' if k == 0 else ' class=num'}>{esc(cell)}</td>" for k, cell in enumerate(row))
        lines.append(f"<tr{' class=total' if total and index == len(rows) - 1 else ''}>{cells}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def facts(items: Sequence[tuple[str, str]]) -> str:
    return '<dl class="facts">' + "".join(f"<div><dt>{esc(k)}</dt><dd>{esc(v)}</dd></div>" for k, v in items) + "</dl>"
