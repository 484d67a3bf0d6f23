"""Pictures of the page as SVG strings: widths in percent, so that text keeps its size on a phone."""

from __future__ import annotations

from collections.abc import Sequence

from bondic.core.claims import Status
from bondic.core.printed import bound_text, ends_text, interval_text, number
from bondic.core.terms import ValueRange
from bondic.rendering import escape, three
from bondic.report.health import ActionUse, Health, LoggedValue
from bondic.result import Result
from bondic.summary import end_texts, ranges, stacks_between

_MOST_ACTIONS, _ONE_COLUMN = 40, 12
"""Actions that are drawn one by one, and those that stand in one column."""
_HAIR = 1e-9
"""Share of the value range that is rounding."""
_INSET = 96
"""Height at which the whole value range is drawn, where the picture above shows a part of it."""
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


def interval_picture(result: Result, logged: LoggedValue | None = None) -> str:
    """The interval, the estimate, what the logging policy earned, and what the stated ranges alone imply."""
    limits, (stated, imply) = result.value_range, ranges(result)
    allow = "allows" if imply == "implies" else "allow"
    first, last = _window(result, logged)
    zoomed = (first, last) != (limits.low, limits.high)
    axis = Axis(first, last)
    low, high = axis.at(result.low), axis.at(result.high)
    shown = ends_text(result.low, result.high)
    narrow = high - low < 45  # percent: labels within both ends would meet
    anchors = ("end" if narrow and low > 25 else "start", "start" if narrow and high < 75 else "end")
    if anchors[0] == anchors[1] and high - low < 20:  # one beside the other does not fit either
        ends = axis.text((result.low + result.high) / 2, 20, " to ".join(shown), "strong")
    else:
        ends = "".join(
            f'<text class="strong" x="{x:.2f}%" y="20" text-anchor="{anchor}">{escape(value)}</text>'
            for x, anchor, value in zip((low, high), anchors, shown, strict=True)
        )
    given = result.status is not Status.REJECTED
    words = f"interval from {number(result.low)} to {number(result.high)}" if given else "no interval"
    tone = "nothing" if result.status is Status.TRIVIAL else ""
    css, swatch = f"bar {tone}".rstrip(), tone or "t0"
    bar = f'<rect class="{css}" x="{low:.2f}%" width="{max(high - low, 0.6):.2f}%" y="30" height="20" rx="3"/>'
    outside = result.estimate_outside
    mark = "estimate outside" if outside else "estimate"
    size = (
        6 if high - low > _LABEL / 2 or not given else 3.5 if high - low > _LABEL / 4 else 2
    )  # a dot must not hide the bar
    mark += " small" if size == 2 else ""
    dot = (
        f'<circle class="{mark}" cx="{axis.at(result.estimate):.2f}%" cy="40" r="{size}"/>' if result.estimated else ""
    )
    return (
        f'<svg height="{_INSET + 24 if zoomed else 82}" role="img" aria-label="{words}">'
        f'{ends if given else ""}{_logged_line(axis, logged)}<line class="track" x1="2%" x2="98%" y1="40" y2="40"/>'
        f"{_zero(axis) if result.is_difference else ''}{bar if given else ''}{dot}"
        + "".join(axis.text(end, 74, bound_text(end, 0, last - first)) for end in (first, last))
        + (_inset(limits, first, last) if zoomed else "")
        + '</svg><div class="legend">'
        + (f'<span><i class="{swatch}"></i>the interval</span>' if given else "")
        + (f"<span>{_estimate_legend(result) if outside else '● estimate'}</span>" if result.estimated else "")
        + _logged_legend(logged)
        + ("<span>dashed line: 0, no difference</span>" if result.is_difference else "")
        + f"<span>{'thin line, with the part that is enlarged' if zoomed else 'gray line'}: what {stated} {allow}</span></div>"
    )


def _zero(axis: Axis) -> str:
    """Where both policies are worth the same."""
    x = f"{axis.at(0.0):.2f}%"
    return f'<line class="zero" x1="{x}" x2="{x}" y1="26" y2="56"/>{axis.text(0.0, 74, "0")}'


def _window(result: Result, logged: LoggedValue | None) -> tuple[float, float]:
    """What is drawn: interval and logging policy with a margin, where they fill less than half of the value range."""
    limits, places = result.value_range, [result.low, result.high]
    if logged is not None:
        places += [logged.low, logged.high]
    if result.is_difference:
        places.append(0.0)
    low, high = min(places), max(places)
    margin = 0.15 * (high - low)
    low, high = max(low - margin, limits.low), min(high + margin, limits.high)
    if result.status is not Status.INTERVAL or not 0 < high - low < limits.width / 2:
        return limits.low, limits.high
    return low, high


def _inset(limits: ValueRange, first: float, last: float) -> str:
    """The whole value range as a thin line, and on it the part that is enlarged above."""
    axis = Axis(limits.low, limits.high)
    a, b = axis.at(first), axis.at(last)
    return (
        f'<line class="rule" x1="2%" x2="98%" y1="{_INSET}" y2="{_INSET}"/>'
        f'<rect class="logged" x="{a:.2f}%" width="{max(b - a, 0.4):.2f}%" y="{_INSET - 1}" height="3"/>'
        + "".join(axis.text(end, _INSET + 18, three(end)) for end in (limits.low, limits.high))
    )


def _logged_line(axis: Axis, logged: LoggedValue | None) -> str:
    """A thin bracket under the interval."""
    if logged is None:
        return ""
    a, b = axis.at(logged.low), axis.at(logged.high)
    return (
        f'<rect class="logged" x="{a:.2f}%" width="{max(b - a, 0.4):.2f}%" y="56" height="4" rx="2">'
        f"<title>the logging policy: {escape(interval_text(logged.low, logged.high))}</title></rect>"
    )


def _logged_legend(logged: LoggedValue | None) -> str:
    if logged is None:
        return ""
    between = escape(interval_text(logged.low, logged.high))
    return f'<span><i class="logged"></i>the logging policy itself: {between}</span>'


def _estimate_legend(result: Result) -> str:
    limits = result.value_range
    beyond = "" if limits.low <= result.estimate <= limits.high else " and beyond the range"
    return f"○ estimate, outside the interval{beyond}: no guarantee"


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
    if len(actions) <= _MOST_ACTIONS:
        return list(actions)
    order = sorted(range(len(actions)), key=lambda k: -max(actions[k].logged, actions[k].target))
    kept, rest = sorted(order[: _MOST_ACTIONS - 1]), [actions[k] for k in order[_MOST_ACTIONS - 1 :]]
    rows = sum(max(use.rows, 0) for use in rest)
    others = ActionUse(f"{len(rest)} others", sum(u.logged for u in rest), sum(u.target for u in rest), max(rows, 1))
    return [*(actions[k] for k in kept), others]
