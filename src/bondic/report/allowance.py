"""What an allowance would buy, on the page: a picture, two sliders over intervals that were computed before, groups in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from bondic.core.cells.allowance import Allowance
from bondic.core.claims import Status
from bondic.core.printed import ends_text, number
from bondic.curve import AllowanceCurve, CurvePoint, mark_words, point_dict, point_words
from bondic.rendering import counted, escape, three, unbroken
from bondic.result import Result
from bondic.summary import curve_of

_TOP, _FLOOR, _HEIGHT = 34.0, 214.0, 252
"""Of the picture, in pixels: the upper and the lower end of the value range, and all of it."""
_LEFT, _WIDTH = 1.0, 98.0
"""Percent of the width."""
_MAX_CELLS = 100
"""Groups times actions, up to which the table of averages and single values is made in seconds."""


def allowance_data(result: Result) -> dict[str, Any]:
    """What the sliders look up: a row per average, both numbers alike first; {} where there is no curve."""
    if result.curve is None:
        return {}
    if result.curve.says_nothing:
        return {}
    rows = _table(result.curve, result.allowance)
    return {
        "range": [result.value_range.low, result.value_range.high],
        "frame": [_TOP, _FLOOR],
        "singles": list(_singles(result.curve, result.allowance)),
        "allowance": None if result.allowance is None else list(result.allowance.pair),
        "rows": [[{**point_dict(point), "words": list(_ends(point))} for point in row] for row in rows],
    }


def _table(curve: AllowanceCurve, stated: Allowance | None) -> list[list[CurvePoint]]:
    """The printed table, and what was stated among its rows and columns."""
    averages = sorted({*curve.averages, *([] if stated is None else [stated.pair[0]])})
    singles = _singles(curve, stated)
    return [
        [curve.at(average), *(curve.at((average, single)) for single in singles if single > average)]
        for average in averages
    ]


def _singles(curve: AllowanceCurve, stated: Allowance | None) -> tuple[float, ...]:
    """Columns of the second slider; what was stated alone where a point of the curve takes seconds."""
    own = [] if stated is None or stated.pair[1] <= stated.pair[0] else [stated.pair[1]]
    listed = curve.singles if curve.bound.tally.shape.cells <= _MAX_CELLS else ()
    return tuple(sorted({*listed, *own}))


def _ends(point: CurvePoint) -> tuple[str, str]:
    return ("–", "–") if point.status is Status.REJECTED else ends_text(point.low, point.high)


def allowance_section(result: Result) -> str:
    """Nothing where there is no curve, or it says nothing."""
    curve, shown = result.curve, curve_of(result)
    if curve is None or shown is None or curve.says_nothing:
        return ""
    alike = [row[0] for row in _table(curve, result.allowance)]
    marks = "".join(f"<li>{escape(mark)}</li>" for mark in shown.marks)
    groups = "".join(f"<li>{escape(words)}</li>" for words in curve.groups)
    line = _line(curve, alike, result.allowance)
    most = len(line) - 1, len(_singles(curve, result.allowance))
    return f"""<section id="allowance"><h2>{escape(shown.title)}</h2><p>{escape(unbroken(shown.head))}</p>
{_picture(curve, line, result.allowance)}
<div class="controls">{_slider("allow-averages", "alike on average up to ±", most[0])}
{_slider("allow-single", "one by one up to ±", most[1], alone=not most[1])}</div>
<div class="reading"><span>from <output id="allow-low"></output></span><span>to <output id="allow-high"></output></span></div>
<p id="allow-verdict" class="verdict" aria-live="polite"></p>
<ol class="marks">{marks}</ol>
<p class="soft">Only the first of these lines is certified. The others are hints: none of them bounds the allowance that
is needed.</p>
<p class="note">{escape(unbroken(shown.advice))}</p>
<h3>Where does a decision break?</h3>
<p>The {curve.subject} is at <select id="allow-direction" aria-label="direction"><option value="above">least</option>
<option value="below">most</option></select>
<input id="allow-threshold" type="number" step="any" aria-label="threshold" placeholder="threshold"></p>
<p id="allow-break" aria-live="polite" hidden></p>
<details><summary>The {escape(counted(len(curve.groups), "group"))} in words</summary><ol>{groups}</ol></details>
<noscript><p>The sliders need JavaScript; picture and interval do not.</p></noscript></section>"""


def _line(curve: AllowanceCurve, alike: Sequence[CurvePoint], stated: Allowance | None) -> list[CurvePoint]:
    """Both numbers alike; at the averages that were stated, the single values that were stated."""
    own = None if stated is None else curve.at(stated)
    return [own if own is not None and own.averages == point.averages else point for point in alike]


def _slider(name: str, words: str, most: int, *, alone: bool = False) -> str:
    """A slider over so many steps; `alone` hides one that cannot move."""
    hidden = " hidden" if alone else ""
    return (
        f'<div{hidden}><label for="{name}">{escape(words)} <output id="{name}-shown"></output></label>'
        f'<input id="{name}" type="range" min="0" max="{most}" step="1" value="0"></div>'
    )


def _picture(curve: AllowanceCurve, line: Sequence[CurvePoint], stated: Allowance | None) -> str:
    """A bar from low to high for every allowance, both numbers alike; marks as ticks between them."""
    limits, step = curve.value_range, _WIDTH / len(line)
    span = limits.width or 1.0

    def y(value: float) -> float:
        return _FLOOR - (_FLOOR - _TOP) * (min(max(value, limits.low), limits.high) - limits.low) / span

    parts = [
        f'<line class="rule" x1="{_LEFT}%" x2="{_LEFT + _WIDTH}%" y1="{y(end):.1f}" y2="{y(end):.1f}"/>'
        for end in (limits.low, limits.high)
    ]
    for index, point in enumerate(line):
        left, middle = _LEFT + step * (index + 0.09), _LEFT + step * (index + 0.5)
        own = stated is not None and stated.pair == (point.averages, point.single)
        kind = "bar" if own else "bar range" if point.status is Status.TRIVIAL else "bar other"
        if point.status is not Status.REJECTED:
            tall = max(y(point.low) - y(point.high), 1.5)
            also = f" on average, ± {number(point.single)} one by one" if point.single > point.averages else ""
            words = f"± {number(point.averages)}{also}: {point_words(point)}"
            parts.append(
                f'<rect class="{kind}" x="{left:.2f}%" width="{0.82 * step:.2f}%" y="{y(point.high):.1f}" height="{tall:.1f}" '
                f'rx="2"><title>{escape(words)}</title></rect>'
            )
        strong = ' class="strong"' if own else ""
        parts.append(
            f'<text{strong} x="{middle:.2f}%" y="230" text-anchor="middle">{escape(number(point.averages))}</text>'
        )
    parts.append('<rect id="allow-now" class="now" rx="2"/>')
    parts += _ticks(curve, line, step)
    for end, place in ((limits.high, _TOP - 5), (limits.low, _FLOOR - 5)):
        parts.append(f'<text x="{_LEFT}%" y="{place:g}" class="over">{escape(three(end))}</text>')
    parts.append(f'<text x="{_LEFT + _WIDTH}%" y="248" text-anchor="end">allowance ±, in units of the value</text>')
    return (
        f'<svg id="allow-picture" height="{_HEIGHT}" role="img" aria-label="interval against the allowance">{"".join(parts)}'
        '</svg><div class="legend"><span><i class="other"></i>interval at each allowance, both numbers alike</span>'
        + ('<span><i class="t0"></i>the one that you state</span>' if stated is not None else "")
        + '<span><i class="range"></i>the whole value range</span><span>numbered lines: see the list below</span></div>'
    )


def _ticks(curve: AllowanceCurve, line: Sequence[CurvePoint], step: float) -> list[str]:
    """Marks at their place among the allowances, with the number of their line below the picture."""
    places = [point.averages for point in line]
    parts: list[str] = []
    taken: list[float] = []
    for index, mark in enumerate(curve.all_marks(), start=1):
        if mark.certified and not mark.value:
            continue
        x = _LEFT + step * (0.5 + _place(places, mark.value))
        row = sum(abs(x - other) < 4.0 for other in taken)  # labels that would meet stand above each other
        taken.append(x)
        css = "threshold" if mark.certified else "chosen"
        parts.append(f'<line class="{css}" x1="{x:.2f}%" x2="{x:.2f}%" y1="{_TOP:g}" y2="{_FLOOR:g}"/>')
        parts.append(
            f'<text class="strong" x="{x:.2f}%" y="{_TOP - 5 - 12 * row:g}" text-anchor="middle">{index}'
            f"<title>{escape(mark_words(mark))}</title></text>"
        )
    return parts


def _place(places: Sequence[float], value: float) -> float:
    """Where a value lies among increasing ones, as a number of steps; beyond the last one at the edge."""
    for index, (low, high) in enumerate(pairwise(places)):
        if value <= high:
            return index + (value - low) / (high - low)
    return len(places) - 0.6
