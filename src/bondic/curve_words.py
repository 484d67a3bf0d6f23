"""A curve of allowances in words and tables, for every view. A point is computed when it is shown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bondic.core.cells.allowance import Allowance
from bondic.core.claims import Status
from bondic.core.printed import bound_text, interval_text, number
from bondic.curve import AllowanceCurve, CurvePoint, Mark
from bondic.rendering import Grid, counted, sentence

TITLE = "What an allowance would buy"
_DECISION = "Up to which allowance a decision holds: --require-above X (curve.breaks(above=X) in Python)."
_APART = "apart from what the model says of each"


@dataclass(frozen=True)
class CurveView:
    """What every allowance would give, ready to be drawn."""

    title: str
    head: str  # what it is about
    grid: Grid
    marks: tuple[str, ...]  # a line each
    advice: str  # what to do, or what was stated
    decision: str  # how a reader finds out where a decision breaks


def alike(curve: AllowanceCurve, allowance: Allowance | None) -> str:
    """The statement that an allowance is, in words; without a number as `A`."""
    where = f"rows in the same one of {len(curve.groups)} groups"
    if allowance is None:
        return f"{where} are alike, in value, up to ± A"
    averages, single = allowance.pair
    if averages == single:
        return f"{where} are alike, in value, up to ± {number(averages)}"
    return f"{where} are alike, in value, up to ± {number(averages)} on average and ± {number(single)} one by one"


def curve_view(curve: AllowanceCurve, stated: Allowance | None, *, first: bool, beside: bool) -> CurveView:
    """What is shown of a curve: what it is about, its points with both numbers alike, its marks, and what to do.

    `stated` is the allowance of the interval, if one was stated, before the curve was shown (`first`) or after; `beside` says
    that the interval is one of another method.
    """
    level = f"{100 * (1 - curve.alpha):g}%"
    rows = curve.rows.rows
    holds = (
        f"The interval above and this table hold each at {level} confidence."
        if beside
        else f"At {level} confidence this holds for all allowances at once."
    )
    model = "your model" if curve.model == "yours" else f"a model ({curve.model})"
    head = (
        f"Rows {rows.start} to {rows.stop - 1} are in {counted(len(curve.groups), 'group')}; {model} says what "
        f"each is worth. If rows in the same group, with the same action, are alike, in value, up to ± the allowance "
        f"({_APART}), the value of the policy lies in its interval. {holds}"
    )
    return CurveView(
        TITLE,
        head,
        line_grid(curve, stated),
        tuple(f"{sentence(mark_words(mark))}." for mark in curve.all_marks()),
        _advice(curve, stated, first),
        _DECISION,
    )


def _advice(curve: AllowanceCurve, stated: Allowance | None, first: bool) -> str:
    if stated is None:
        return (
            f"State --allowance A (allowance= in Python) to get an interval: {alike(curve, None)} ({_APART}). "
            "Take A from what you know about these rows, not from this table."
        )
    when = "before" if first else "after"
    return (
        f"{sentence(alike(curve, stated))} ({_APART}): stated by you {when} the curve was shown. No log can prove it."
    )


def mark_words(mark: Mark) -> str:
    """One line; a certified number is rounded down."""
    if not mark.certified:
        return mark.text
    if not mark.value:
        return f"{mark.text} (certified)"
    return f"the log rules out any allowance below {bound_text(mark.value, -1)} for halves of groups (certified)"


def line_grid(curve: AllowanceCurve, stated: Allowance | None = None) -> Grid:
    """Both numbers alike; the stated allowance among them."""
    pair = None if stated is None else stated.pair
    averages = set(curve.averages) | ({pair[0]} if pair and pair[0] == pair[1] else set())
    rows = [
        (f"± {number(average)}{' (stated)' if pair == (average, average) else ''}", point_words(curve.at(average)))
        for average in sorted(averages)
    ]
    return Grid("", ("allowance", "interval"), tuple(rows))


def point_words(point: CurvePoint) -> str:
    if point.status is Status.REJECTED:
        return "contradicted"
    return "whole range" if point.status is Status.TRIVIAL else interval_text(point.low, point.high)


def break_words(
    curve: AllowanceCurve, *, above: float | None = None, below: float | None = None, stated: Allowance | None = None
) -> Iterator[str]:
    """Where decisions break: the sentence that is true whatever the allowance is, one for each of them.

    Single values are those of `stated`, where it has two numbers.
    """
    pair = None if stated is None else stated.pair
    single = pair[1] if pair and pair[0] != pair[1] else None
    for name, bound in (("above", above), ("below", below)):
        if bound is None:
            continue
        found = curve.breaks(**{name: bound}, single=single)
        decision = f"the value is at {'least' if name == 'above' else 'most'} {number(bound)}"
        if found is None:
            yield f"no allowance shows that {decision}"
        elif math.isinf(found):
            yield f"{decision} whatever the allowance is"
        else:
            most = bound_text(found, -1)
            alone = "" if single is None else f" on average, or by more than {number(max(single, found))} one by one"
            yield (
                f"{decision} for every allowance up to {most}: if this decision is wrong, groups differ by more than {most} "
                f"in value{alone}"
            )


def curve_dict(curve: AllowanceCurve, stated: Allowance | None, *, first: bool) -> dict[str, Any]:
    """Plain data: points with both numbers alike, marks, groups in words, and what was stated."""
    return {
        "alpha": curve.alpha,
        "model": curve.model,
        "groups": list(curve.groups),
        "line": [point_dict(point) for point in curve.line()],
        "marks": [
            {"name": mark.name, "value": mark.value, "text": mark.text, "certified": mark.certified}
            for mark in curve.all_marks()
        ],
        "allowance": None if stated is None else list(stated.pair),
        "stated": None if stated is None else "before the curve" if first else "after the curve",
    }


def point_dict(point: CurvePoint) -> dict[str, Any]:
    """A point; without ends where the log contradicts its allowance."""
    given = point.status is not Status.REJECTED
    return {
        "averages": point.averages,
        "single": point.single,
        "low": point.low if given else None,
        "high": point.high if given else None,
        "status": point.status.name,
    }
