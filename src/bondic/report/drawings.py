"""Pictures of the page as SVG strings: widths in percent, so that text keeps its size on a phone."""

from __future__ import annotations

from collections.abc import Sequence

from bondic.core.claims import Guarantee, Status
from bondic.core.printed import ends_text, number, placed_text
from bondic.core.terms import ValueRange
from bondic.rendering import escape, three
from bondic.report.health import ActionUse, Health
from bondic.result import Result
from bondic.summary import end_texts, stacks_between

_MAX_ACTIONS, _ONE_COLUMN = 40, 12
"""Actions that are drawn one by one, and those that stand in one column."""
_HAIR = 1e-9
"""Share of the value range that is rounding."""
_ROW = 44
"""Height of an interval with its name."""
_SHORT = 4.0
"""Percent of the width below which a dot would hide its interval."""
TONES: dict[Guarantee, str] = {"finite-sample": "good", "asymptotic": "limit", "none": "nothing"}
_KINDS: dict[Guarantee, str] = {
    "finite-sample": "interval, holds for this finite log",
    "asymptotic": "interval, holds in the limit of large logs only",
    "none": "no guarantee",
}
_LABEL = 8.0
"""Percent of the width that a label on an axis takes."""


class Axis:
    """Positions in percent between two numbers, with a margin on both sides."""

    def __init__(self, low: float, high: float, margin: float = 2.0) -> None:
        self.low, self.margin = low, margin
        self.span = high - low if high > low else 1.0

    def at(self, value: float) -> float:
        share = min(max((value - self.low) / self.span, 0.0), 1.0)
        return self.margin + (100.0 - 2 * self.margin) * share

    def text(self, value: float, y: float, words: str, css: str = "") -> str:
        """A label near its position that never leaves the picture."""
        x = self.at(value)
        anchor = "start" if x < 15 else "end" if x > 85 else "middle"
        return f'<text x="{x:.2f}%" y="{y:g}" text-anchor="{anchor}" class="{css}">{escape(words)}</text>'


def forest(results: Sequence[tuple[str, Result]], label: str, *, legend: bool = True) -> str:
    """Intervals one below the other on one axis, with their estimates; below it, thin, all that the stated ranges allow.

    The axis shows intervals with a margin. Differences have a line at 0.
    """
    limits, zero = _hull([result for _, result in results]), any(result.is_difference for _, result in results)
    first, last = _window([result for _, result in results], limits, zero=zero)
    zoomed, axis, top = (first, last) != (limits.low, limits.high), Axis(first, last), _ROW * len(results)
    rows = [_bar(axis, name, result, _ROW * k) for k, (name, result) in enumerate(results)]
    marks = [0.0] if zero and first <= 0.0 <= last else []
    places = _apart(axis, [*marks, first, last])
    x = f"{axis.at(0.0):.2f}%"
    drawn = [result for _, result in results]
    return (
        f'<svg height="{top + (62 if zoomed else 26)}" role="img" aria-label="{escape(label)}">'
        + "".join(bar for bar, _ in rows)
        + "".join(f'<line class="zero" x1="{x}" x2="{x}" y1="2" y2="{top + 4}"/>' for _ in marks)
        + "".join(words for _, words in rows)
        + f'<line class="rule" x1="2%" x2="98%" y1="{top + 4}" y2="{top + 4}"/>'
        + "".join(axis.text(place, top + 20, placed_text(place, 0, first, last)) for place in places)
        + (_inset(limits, first, last, top + 38) if zoomed else "")
        + "</svg>"
        + (f'<div class="legend">{_legend(drawn, zoomed=zoomed, zero=bool(marks))}</div>' if legend else "")
    )


def _hull(results: Sequence[Result]) -> ValueRange:
    """What the stated ranges allow, of all results together."""
    ranges = [result.value_range for result in results]
    return ValueRange(min(one.low for one in ranges), max(one.high for one in ranges))


def _window(results: Sequence[Result], limits: ValueRange, *, zero: bool) -> tuple[float, float]:
    """What is drawn: intervals and estimates with a margin, within the value range."""
    given = [result for result in results if result.status is not Status.REJECTED]
    places = [end for result in given for end in (result.low, result.high)] + [0.0] * zero
    places += [min(max(result.estimate, limits.low), limits.high) for result in given if result.estimated]
    low, high = min(places, default=limits.low), max(places, default=limits.high)
    margin = 0.1 * (high - low)
    low, high = max(low - margin, limits.low), min(high + margin, limits.high)
    return (low, high) if high > low else (limits.low, limits.high)


def _bar(axis: Axis, name: str, result: Result, top: float) -> tuple[str, str]:
    """The bar of an interval with its estimate; the name, and the interval in words."""
    label = f'<text x="2%" y="{top + 15:g}" class="strong over">{escape(name)}</text>'
    right = f'<text x="98%" y="{top + 15:g}" text-anchor="end" class='
    if result.status is Status.REJECTED:
        return "", f'{label}{right}"bad">rejected: no interval</text>'
    a, b = axis.at(result.low), axis.at(result.high)
    small, tone = b - a < _SHORT, "logged" if name == "today" else _tone(result)
    mark = f"estimate{' outside' if result.estimate_outside else ''}{' small' if small else ''}"
    dot = f'<circle class="{mark}" cx="{axis.at(result.estimate):.2f}%" cy="{top + 29:g}" r="{2 if small else 4.5}"/>'
    bar = f'<rect class="bar {tone}" x="{a:.2f}%" width="{max(b - a, 0.6):.2f}%" y="{top + 21:g}" height="16" rx="3"/>'
    words = escape(" to ".join(ends_text(result.low, result.high)))
    return bar + (dot if result.estimated else ""), f'{label}{right}"strong over">{words}</text>'


def _tone(result: Result) -> str:
    """Gray where the log adds nothing, or nothing is guaranteed."""
    return "nothing" if result.status is Status.TRIVIAL else TONES[result.guarantee]


def _legend(results: Sequence[Result], *, zoomed: bool, zero: bool) -> str:
    given = [result for result in results if result.status is not Status.REJECTED]
    kinds = dict.fromkeys(result.guarantee for result in given if result.status is not Status.TRIVIAL)
    outside = any(result.estimate_outside for result in given)
    trivial = any(result.status is Status.TRIVIAL for result in given)
    words = [f'<i class="{TONES[kind]}"></i>{_KINDS[kind]}' for kind in kinds]
    words += ['<i class="nothing"></i>the log adds nothing'] if trivial else []
    words += ["● estimate" + (" (○ outside its interval: no guarantee)" if outside else "")] * any(
        r.estimated for r in given
    )
    words += ["dashed: no difference"] * zero
    words += ["thin line: all that the stated ranges allow, and the part that is enlarged"] * zoomed
    return "".join(f"<span>{word}</span>" for word in words)


def _inset(limits: ValueRange, first: float, last: float, y: float) -> str:
    """The whole value range as a thin line, and on it the part that is enlarged above."""
    axis = Axis(limits.low, limits.high)
    a, b = axis.at(first), axis.at(last)
    return (
        f'<line class="rule" x1="2%" x2="98%" y1="{y:g}" y2="{y:g}"/>'
        f'<rect class="logged" x="{a:.2f}%" width="{max(b - a, 0.4):.2f}%" y="{y - 1:g}" height="3"/>'
        + "".join(axis.text(end, y + 18, three(end)) for end in (limits.low, limits.high))
    )


def stacked_terms(result: Result) -> str:
    """Both end points as stacks: from the value that the parts lead away from, part by part, to the bound."""
    limits = result.value_range
    first, last = stacks_between(result.claims, limits)
    seen = 1e-4 * (last - first)  # smaller parts have no width in the picture
    names = list(dict.fromkeys(name for claim in result.claims for name, size in claim.steps().items() if size > seen))
    axis = Axis(first, last)
    start = " + ".join(part.name for part in result.claims[0].of("value"))
    rows, top = [], 4
    slack = _HAIR * limits.width  # an end that only rounding puts beyond the range is not beyond it
    for claim, shown in zip(result.claims, end_texts(result.claims), strict=True):
        place = claim.value.mid
        inside = limits.low - slack <= claim.bound <= limits.high + slack
        note = f"{claim.end} end {shown}{'' if inside else ' (beyond the range)'}"
        rows.append(f'<text x="3%" y="{top + 12}" class="strong">{escape(note)}</text>')
        for name, size in claim.steps().items():
            a, b = sorted((axis.at(place), axis.at(place + claim.sign * size)))
            place += claim.sign * size
            if name in names:
                rows.append(
                    f'<rect class="t{names.index(name) % 5}" x="{a:.2f}%" width="{b - a:.2f}%" y="{top + 20}" height="18">'
                    f"<title>{escape(name)} {three(size)}</title></rect>"
                )
        rows.append(f'<circle class="estimate" cx="{axis.at(claim.value.mid):.2f}%" cy="{top + 29}" r="5"/>')
        top += 52
    marked = [value for value in (limits.low, limits.high) if first <= value <= last]
    axis_line = f'<line class="rule" x1="2%" x2="98%" y1="{top}" y2="{top}"/>' + "".join(
        f'<line class="chosen" x1="{axis.at(v):.2f}%" x2="{axis.at(v):.2f}%" y1="4" y2="{top}"/>' for v in marked
    )
    for k, value in enumerate(_apart(axis, [*marked, first, last])):
        axis_line += axis.text(value, top + 16, three(value), "strong" if k < len(marked) else "")
    legend = "".join(f'<span><i class="t{k % 5}"></i>{escape(name)}</span>' for k, name in enumerate(names))
    within = f"[{escape(three(limits.low))}, {escape(three(limits.high))}]"
    legend += f"<span>{'dashed: the value range' if marked else 'enlarged; the value range is'} {within}</span>"
    return (
        f'<svg height="{top + 22}" role="img" aria-label="terms of the end points">{"".join(rows)}{axis_line}</svg>'
        f'<div class="legend"><span>● {escape(start)}, the start of each stack</span>{legend}</div>'
    )


def _apart(axis: Axis, values: list[float]) -> list[float]:
    """The values whose labels do not meet one before them."""
    kept: list[float] = []
    for value in values:
        if all(abs(axis.at(value) - axis.at(other)) > _LABEL for other in kept):
            kept.append(value)
    return kept


def reward_histogram(health: Health) -> str:
    """Counts over round bins; the frame is the stated range."""
    bins, counts, (low, high) = health.reward_bins, health.reward_counts.tolist(), health.reward_range
    top = max(max(counts), 1.0)
    axis = Axis(float(bins.edges[0]), float(bins.edges[-1]))
    bars = []
    for k, count in enumerate(counts):
        a, b = axis.at(float(bins.edges[k])), axis.at(float(bins.edges[k + 1]))
        if count > 0:
            tall = max(90.0 * count / top, 1.0)
            bars.append(
                f'<rect class="bar" x="{a:.2f}%" width="{max(b - a - 0.3, 0.2):.2f}%" y="{100 - tall:.1f}" '
                f'height="{tall:.1f}"><title>{escape(bins.label(k))}: {int(count)} rows</title></rect>'
            )
    marks = "".join(
        f'<line class="chosen" x1="{axis.at(v):.2f}%" x2="{axis.at(v):.2f}%" y1="4" y2="100"/>' for v in (low, high)
    )
    return (
        f'<svg height="120" role="img" aria-label="histogram of rewards">{"".join(bars)}{marks}'
        + axis.text(low, 116, number(low))
        + axis.text(high, 116, number(high))
        + "</svg>"
    )


def action_bars(actions: Sequence[ActionUse]) -> str:
    """Two bars for every action: its share of the rows, and of the policy's probability; beyond 40 actions the rest is one."""
    shown = _grouped(actions)
    largest = max(max(use.logged, use.target) for use in shown) or 1.0
    missing = [use for use in shown if use.rows == 0 and use.target > 0]
    lines = []
    for use in shown:
        few = use.rows < 0
        bars = [("logged", 0.0 if few else use.logged), ("wanted", use.target)]
        drawn = "".join(f'<i class="{css}" style="width:{100 * share / largest:.1f}%"></i>' for css, share in bars)
        never = ' class="never"' if use in missing else ""
        words = f"{'few rows' if few else _percent(use.logged)} → {_percent(use.target)}"
        lines.append(
            f'<div{never}><span>{escape(use.name.removeprefix("action "))}</span><span class="pair">{drawn}</span>'
            f"<span>{escape(words)}</span></div>"
        )
    css = "actions many" if len(shown) > _ONE_COLUMN else "actions"
    return (
        f'<div class="{css}">{"".join(lines)}</div><div class="legend">'
        '<span><i class="logged"></i>share of the logged rows</span>'
        f'<span><i class="t0"></i>share of the policy</span>{"<span>red: never logged</span>" if missing else ""}</div>'
    )


def _percent(share: float) -> str:
    return "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"


def _grouped(actions: Sequence[ActionUse]) -> list[ActionUse]:
    """All actions in their order, or those that either policy takes most, and the others together."""
    if len(actions) <= _MAX_ACTIONS:
        return list(actions)
    order = sorted(range(len(actions)), key=lambda k: -max(actions[k].logged, actions[k].target))
    kept, rest = sorted(order[: _MAX_ACTIONS - 1]), [actions[k] for k in order[_MAX_ACTIONS - 1 :]]
    rows = sum(max(use.rows, 0) for use in rest)
    others = ActionUse(f"{len(rest)} others", sum(u.logged for u in rest), sum(u.target for u in rest), max(rows, 1))
    return [*(actions[k] for k in kept), others]
