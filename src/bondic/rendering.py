"""A result as a fragment of HTML: plain strings, every value escaped, no template library."""

from __future__ import annotations

import html
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Protocol

from bondic.errors import printable

STATE_WORDS = {
    "stated": "stated by you",
    "chosen": "chosen by bondic",
    "checked": "checked",
    "rejected": "rejected",
}
"""Who vouches for an assumption, in the words of every view."""
OUTSIDE = "the point estimate lies outside the interval: it has no guarantee"
_DIGITS, _MOST_DIGITS = 4, 15
_HAIR = 1e-12
"""Rounding that the arithmetic itself has added to an end: not worth a digit in a sentence."""


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
    def ranges(self) -> tuple[str, str]: ...
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
    @property
    def robustness(self) -> Any: ...
    @property
    def chosen(self) -> tuple[Any, ...]: ...
    def terms(self) -> dict[str, dict[str, float]]: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    def sentence(self) -> str: ...


def escape(text: object) -> str:
    """Text of any origin inside a page: no markup, no control characters, nothing that turns the direction of writing."""
    return html.escape(printable(text, keep="\n"))


def _row(cells: list[str], tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _table(header: list[str], rows: list[list[str]]) -> str:
    body = "".join(_row([escape(cell) for cell in row]) for row in rows)
    return f"<table>{_row([escape(cell) for cell in header], 'th')}{body}</table>"


def number(value: float) -> str:
    return "0" if value == 0 else f"{value:.6g}"


def three(value: float) -> str:
    """Three significant digits, large numbers written out: 1260, not 1.26e+03."""
    return f"{float(f'{value:.3g}'):g}"


def interval_text(low: float, high: float) -> str:
    """[low, high] for a sentence, rounded outward: four digits, more where the interval is short."""
    return f"[{bound_text(low, -1, high - low)}, {bound_text(high, 1, high - low)}]"


def bound_text(value: float, direction: int, length: float = math.inf) -> str:
    """An end with four significant digits, rounded down (-1) or up (1) by at most a hundredth of `length`."""
    if value == 0 or not math.isfinite(value):
        return number(value)
    first = math.floor(math.log10(abs(value)))
    place = first - _DIGITS + 1
    if 0 < length < math.inf:
        place = max(min(place, math.floor(math.log10(length)) - 2), first - _MOST_DIGITS + 1)
    exact = Decimal(value) - direction * Decimal(_HAIR) * abs(Decimal(value))
    rounded = exact.quantize(Decimal(1).scaleb(place), ROUND_FLOOR if direction < 0 else ROUND_CEILING)
    return "0" if rounded == 0 else f"{float(rounded):.{_MOST_DIGITS}g}"


def is_conditional(result: Renderable) -> bool:
    """Whether the interval rests on something that the library chose; the value range alone does not."""
    return bool(result.chosen) and result.status.name == "INTERVAL"


def is_assumption_free(result: Renderable) -> bool:
    """Whether Q is every function in the value range: nothing is assumed about the value function."""
    return any(item.name == "values" and item.state == "checked" for item in result.assumptions)


def lies_outside(result: Renderable) -> bool:
    """Whether the point estimate is not in the interval; after a rejection there is no interval."""
    return result.status.name != "REJECTED" and not result.low <= result.estimate <= result.high


def estimate_text(result: Renderable) -> str:
    """The point estimate with what it is worth."""
    note = "no guarantee of its own"
    if lies_outside(result):
        note = "outside the interval: it has no guarantee"
    return f"point estimate {number(result.estimate)} ({note})"


def gap_text(gap: tuple[float, float]) -> str:
    """Duality gap of both ends; an end that was not asked for is left out."""
    names = [f"{number(value)} ({end})" for end, value in zip(("lower", "upper"), gap, strict=True) if value == value]
    return ", ".join(names)


def search_text(gap: tuple[float, float]) -> str:
    """What a better search could still change, where that is known."""
    if not all(math.isfinite(value) for value in gap if value == value):
        return "how much a better search could gain is not known"
    return f"a better omega in the searched space could still gain {gap_text(gap)}"


def guarantee_text(result: Renderable) -> str:
    """What is guaranteed; a log that contradicts the assumptions leaves nothing to guarantee."""
    if result.status.name == "REJECTED":
        return "No interval is given, so nothing is guaranteed."
    if is_conditional(result):
        return f"Guarantee of the interval: {result.guarantee}, {condition_text(result)}."
    if is_assumption_free(result):
        return f"Guarantee of the interval: {result.guarantee}; nothing is assumed about the value function."
    return f"Guarantee of the interval: {result.guarantee}."


def condition_text(result: Renderable) -> str:
    """The one sentence that makes a chosen class plain: what the interval is conditional on, and how far it carries."""
    text = "valid if the value function is no rougher than bondic assumes"
    found = result.robustness
    if found is None:
        return text
    if found.same_up_to == float("inf"):
        return f"{text}; the interval says the same however rough it is"
    more = (
        f", and something up to {three(found.informative_up_to)} times"
        if found.informative_up_to > found.same_up_to
        else ""
    )
    return f"{text}; the interval says the same up to {three(found.same_up_to)} times that roughness{more}"


def picture(result: Renderable) -> str:
    """The interval inside the trivial range, as an inline SVG that follows the page's text color."""
    left, right = result.value_range.low, result.value_range.high
    span = (right - left) or 1.0

    def at(value: float) -> float:
        return float(10.0 + 580.0 * (min(max(value, left), right) - left) / span)

    low, high, mark = at(result.low), at(result.high), at(result.estimate)
    fill = "#c77d0a" if is_conditional(result) else "#2a78c8"
    given = result.status.name != "REJECTED"
    words = f"interval from {number(result.low)} to {number(result.high)}" if given else "no interval"
    bar = f'<rect x="{low:.1f}" y="18" width="{max(high - low, 1.5):.1f}" height="16" rx="3" fill="{fill}"/>'
    # a ring instead of a dot: the estimate is not part of what the interval says
    dot = 'fill="none" stroke="currentColor" stroke-width="2"' if lies_outside(result) else 'fill="currentColor"'
    return (
        f'<svg viewBox="0 0 600 64" role="img" style="max-width:42rem;width:100%" aria-label="{words}">'
        '<line x1="10" y1="26" x2="590" y2="26" stroke="currentColor" stroke-opacity=".3" stroke-width="2"/>'
        f'{bar if given else ""}<circle cx="{mark:.1f}" cy="26" r="4" {dot}/>'
        f'<text x="10" y="56" font-size="13" fill="currentColor">{escape(number(left))}</text>'
        f'<text x="590" y="56" font-size="13" fill="currentColor" text-anchor="end">{escape(number(right))}</text>'
        "</svg>"
    )


def result_fragment(result: Renderable) -> str:
    """Interval, terms, assumptions and choices."""
    terms, (ranges, imply) = result.terms(), result.ranges
    names = list(next(iter(terms.values()))) if terms else []
    search = f" {escape(sentence(search_text(result.gap)))}." if terms else ""
    kept = result.hashes.get("certificate")
    sealed = f"<br>certificate {escape(kept)}" if kept else ""
    term_rows = [[name, *(number(end[name]) for end in terms.values())] for name in names]
    assumption_rows = [[item.name, STATE_WORDS[item.state], item.text] for item in result.assumptions]
    choice_rows = [[name, text] for name, text in result.choices.items()]
    return (
        f"<section>{_warnings(result)}<p><strong>{escape(result.sentence())}</strong></p>{picture(result)}"
        f"<p>{escape(sentence(estimate_text(result)))}. "
        f"{escape(guarantee_text(result))} Method: {escape(result.method)}. Certified rows: {result.rows[0]} to "
        f"{result.rows[1] - 1}. {ranges.capitalize()} alone {imply} [{number(result.value_range.low)}, "
        f"{number(result.value_range.high)}].{search}</p>"
        f"{_contributions(terms, term_rows)}"
        f"<h3>Assumptions</h3>{_table(['about', 'state', 'in words'], assumption_rows)}"
        f"<h3>Choices</h3>{_table(['what', 'how'], choice_rows)}"
        f"<p><small>log {escape(result.hashes['log'])}{sealed}</small></p></section>"
    )


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _warnings(result: Renderable) -> str:
    return "".join(f"<p><strong>Warning:</strong> {escape(text)}</p>" for text in result.warnings)


def _contributions(terms: dict[str, dict[str, float]], rows: list[list[str]]) -> str:
    return f"<h3>What each term contributes</h3>{_table(['term', *terms], rows)}" if terms else ""
