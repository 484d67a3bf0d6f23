"""A result as a fragment of HTML: plain strings, every value escaped, no template library."""

from __future__ import annotations

import html
from typing import Any, Protocol


class Renderable(Protocol):
    """What the fragment needs from a result."""

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def estimate(self) -> float: ...
    @property
    def guarantee(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def status(self) -> Any: ...
    @property
    def value_range(self) -> Any: ...
    @property
    def assumptions(self) -> Any: ...
    @property
    def choices(self) -> dict[str, str]: ...
    @property
    def rows(self) -> tuple[int, int]: ...
    @property
    def gap(self) -> tuple[float, float]: ...
    @property
    def hashes(self) -> dict[str, str]: ...
    def terms(self) -> dict[str, dict[str, float]]: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    def sentence(self) -> str: ...


def _row(cells: list[str], tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _table(header: list[str], rows: list[list[str]]) -> str:
    body = "".join(_row([html.escape(cell) for cell in row]) for row in rows)
    return f"<table>{_row([html.escape(cell) for cell in header], 'th')}{body}</table>"


def number(value: float) -> str:
    return "0" if value == 0 else f"{value:.6g}"


def gap_text(gap: tuple[float, float]) -> str:
    """Duality gap of both ends; an end that was not asked for is left out."""
    names = [f"{number(value)} ({end})" for end, value in zip(("lower", "upper"), gap, strict=True) if value == value]
    return ", ".join(names)


def guarantee_text(result: Renderable) -> str:
    """What is guaranteed; a log that contradicts the assumptions leaves nothing to guarantee."""
    if result.status.name == "REJECTED":
        return "No interval is given, so nothing is guaranteed."
    return f"Guarantee of the interval: {result.guarantee}."


def picture(result: Renderable) -> str:
    """The interval inside the trivial range, as an inline SVG that follows the page's text colour."""
    left, right = result.value_range.low, result.value_range.high
    span = (right - left) or 1.0

    def at(value: float) -> float:
        return float(10.0 + 580.0 * (min(max(value, left), right) - left) / span)

    low, high, mark = at(result.low), at(result.high), at(result.estimate)
    return (
        '<svg viewBox="0 0 600 64" role="img" style="max-width:42rem;width:100%" '
        f'aria-label="interval from {number(result.low)} to {number(result.high)}">'
        '<line x1="10" y1="26" x2="590" y2="26" stroke="currentColor" stroke-opacity=".3" stroke-width="2"/>'
        f'<rect x="{low:.1f}" y="18" width="{max(high - low, 1.5):.1f}" height="16" rx="3" fill="#2a78c8"/>'
        f'<circle cx="{mark:.1f}" cy="26" r="4" fill="currentColor"/>'
        f'<text x="10" y="56" font-size="13" fill="currentColor">{html.escape(number(left))}</text>'
        f'<text x="590" y="56" font-size="13" fill="currentColor" text-anchor="end">{html.escape(number(right))}</text>'
        "</svg>"
    )


def result_fragment(result: Renderable) -> str:
    """Interval, terms, assumptions and choices."""
    terms = result.terms()
    names = list(next(iter(terms.values()))) if terms else []
    search = f" A better ω in the searched space could still gain {html.escape(gap_text(result.gap))}." if terms else ""
    kept = result.hashes.get("certificate")
    sealed = f"<br>certificate {html.escape(kept)}" if kept else ""
    term_rows = [[name, *(number(end[name]) for end in terms.values())] for name in names]
    assumption_rows = [[item.name, item.state, item.text] for item in result.assumptions]
    choice_rows = [[name, text] for name, text in result.choices.items()]
    return (
        f"<section>{_warnings(result)}<p><strong>{html.escape(result.sentence())}</strong></p>{picture(result)}"
        f"<p>Point estimate {html.escape(number(result.estimate))} (no guarantee of its own). "
        f"{html.escape(guarantee_text(result))} Method: {html.escape(result.method)}. Certified rows: {result.rows[0]} to "
        f"{result.rows[1] - 1}. The reward range alone implies [{number(result.value_range.low)}, "
        f"{number(result.value_range.high)}].{search}</p>"
        f"{_contributions(terms, term_rows)}"
        f"<h3>Assumptions</h3>{_table(['about', 'state', 'in words'], assumption_rows)}"
        f"<h3>Choices</h3>{_table(['what', 'how'], choice_rows)}"
        f"<p><small>log {html.escape(result.hashes['log'])}{sealed}</small></p></section>"
    )


def _warnings(result: Renderable) -> str:
    return "".join(f"<p><strong>Warning:</strong> {html.escape(text)}</p>" for text in result.warnings)


def _contributions(terms: dict[str, dict[str, float]], rows: list[list[str]]) -> str:
    return f"<h3>What each term contributes</h3>{_table(['term', *terms], rows)}" if terms else ""
