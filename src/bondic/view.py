"""What every view of a result says, as plain data and in order: terminal, notebook, page and Markdown draw this.

Whoever draws it knows no method, no part of an end point and no assumption by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bondic.claims import Assumption, Claim
from bondic.rendering import STATE_WORDS, bound_text, ends_text, escape, html_table, interval_text, number, three
from bondic.terms import ValueRange

Tone = Literal["good", "nothing", "bad"]
"""An interval; no more than the value range; a contradiction."""
StepKind = Literal["overlap", "rejected", "term", "allowance", "rows", "discount", "start", "range", "method"]
KnownBy = Literal["counted", "extrapolated", "yours"]
_ROUNDING = 1e-12
"""Share of an interval that is rounding: an end point so close to 0 is shown as 0."""
_WORTH_A_ROW = 1e-6
"""Share of an interval below which its rounding is not shown."""
_LABELS: dict[KnownBy, str] = {"counted": "", "extrapolated": " (extrapolated, not guaranteed)", "yours": ""}


@dataclass(frozen=True)
class Grid:
    """A table; `states` says where the statement of each row comes from, if rows are statements."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    states: tuple[str, ...] = ()


def parts_grid(claims: Sequence[Claim]) -> Grid | None:
    """The parts of every end in a column each, with the digits that the interval deserves.

    None where no end splits into parts. A part that an end lacks is left empty, one that is 0 everywhere is left out, and so is
    rounding that no digit shows (`Claim.table` has it).
    """
    ends = [claim for claim in claims if claim.of("spread")]
    if not ends:
        return None
    length = abs(ends[-1].bound - ends[0].bound) or math.inf
    values, spreads = ([part.name for claim in ends for part in claim.of(role)] for role in ("value", "spread"))
    tables = [claim.table() for claim in ends]
    rows = [(name, *_cells(tables, name, lambda size: bound_text(size, 0, length))) for name in dict.fromkeys(values)]
    shown = [name for name in dict.fromkeys(spreads) if any(table.get(name) for table in tables)]
    if any(table["rounding"] > _WORTH_A_ROW * length for table in tables):
        shown.append("rounding")
    rows += [(name, *_cells(tables, name, three)) for name in shown]
    rows.append(("end point", *end_texts(ends)))
    return Grid("What each term contributes", ("term", *(f"{claim.end} end" for claim in ends)), tuple(rows))


def end_texts(ends: Sequence[Claim]) -> tuple[str, ...]:
    """The end points of a split interval, with the digits of its sentence; what is only rounding reads 0."""
    length = abs(ends[-1].bound - ends[0].bound)
    bounds = [0.0 if abs(claim.bound) <= _ROUNDING * length else claim.bound for claim in ends]
    if len(ends) == 2 and bounds[0] < bounds[1]:
        return ends_text(bounds[0], bounds[1])
    return tuple(bound_text(bound, int(claim.sign)) for bound, claim in zip(bounds, ends, strict=True))


def _cells(tables: Sequence[dict[str, float]], name: str, text: Callable[[float], str]) -> list[str]:
    return [text(table[name]) if name in table else "" for table in tables]


def stacks_between(claims: Sequence[Claim], limits: ValueRange) -> tuple[float, float]:
    """Where the stacks of parts are drawn: they and the value range, or they alone where they fill less than a quarter of it."""
    ends = [float(place) for claim in claims for place in (claim.value.mid, claim.bound)] or [limits.low, limits.high]
    low, high = min(ends), max(ends)
    if not 0 < high - low < limits.width / 4:
        return min(low, limits.low), max(high, limits.high)
    margin = (high - low) / 10
    return low - margin, high + margin


def assumptions_grid(items: Sequence[Assumption]) -> Grid:
    rows = tuple((item.name, STATE_WORDS[item.state], item.text) for item in items)
    return Grid("Assumptions", ("assumption", "state", "in words"), rows, tuple(item.state for item in items))


@dataclass(frozen=True)
class NextStep:
    """What would help, and how far that is known. It is advice, never a guarantee.

    Parameters
    ----------
    kind : str
        What it is about: "overlap", "rejected", "term", "allowance", "rows", "discount", "start", "range" or
        "method".
    text : str
        What was found and what to do, in a sentence or two.
    basis : {"counted", "extrapolated", "yours"}
        Counted in log and result; extrapolated from them; or a statement that only you can make.
    loud : bool, default False
        Whether nothing else helps before this is done.
    numbers : dict of str to float
        The numbers in the text, for programs.
    """

    kind: StepKind
    text: str
    basis: KnownBy = "counted"
    loud: bool = False
    numbers: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """The text with its label."""
        return f"{self.text.removesuffix('.')}{_LABELS[self.basis]}."

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "kind": self.kind,
            "text": str(self),
            "basis": self.basis,
            "loud": self.loud,
            "numbers": {name: float(value) for name, value in self.numbers.items()},
        }


@dataclass(frozen=True)
class CurveView:
    """What every allowance would give, ready to be drawn."""

    title: str
    head: str  # what it is about
    grid: Grid
    marks: tuple[str, ...]  # a line each
    advice: str  # what to do, or what was stated; without its full stop
    decision: str  # how a reader finds out where a decision breaks


@dataclass(frozen=True)
class View:
    """A result, ready to be drawn."""

    tone: Tone
    warnings: tuple[str, ...]
    sentence: str
    guarantee: str
    lines: tuple[
        str, ...
    ]  # further sentences: what the estimate is worth, what the ranges say, how far the search came
    parts: Grid | None  # None where an end point does not split into parts
    curve: CurveView | None  # None where there are no groups
    steps: tuple[NextStep, ...]  # what to do next, the most urgent first
    assumptions: Grid
    choices: Grid
    hashes: dict[str, str]
    ends: tuple[float, float]
    estimate: float  # NaN: there is none
    estimate_outside: bool
    limits: ValueRange


def fragment(view: View) -> str:
    """The whole view as HTML without any style sheet, for notebooks."""
    tables = [grid for grid in (view.parts, view.assumptions, view.choices) if grid is not None]
    sealed = "<br>".join(f"{escape(name)} {escape(value)}" for name, value in view.hashes.items())
    return (
        "<section>"
        + "".join(f"<p><strong>Warning:</strong> {escape(text)}</p>" for text in view.warnings)
        + f"<p><strong>{escape(view.sentence)}</strong></p>{_picture(view)}"
        + f"<p>{escape(' '.join((view.guarantee, *view.lines)))}</p>{_curve(view.curve)}{_steps(view)}"
        + "".join(f"<h3>{escape(grid.title)}</h3>{html_table(grid.header, grid.rows)}" for grid in tables)
        + f"<p><small>{sealed}</small></p></section>"
    )


def _curve(curve: CurveView | None) -> str:
    if curve is None:
        return ""
    marks = "".join(f"<li>{escape(mark)}</li>" for mark in curve.marks)
    return (
        f"<h3>{escape(curve.title)}</h3><p>{escape(curve.head)}</p>{html_table(curve.grid.header, curve.grid.rows)}"
        f"<ul>{marks}</ul><p>{escape(curve.advice)}. {escape(curve.decision)}.</p>"
    )


def _steps(view: View) -> str:
    items = "".join(f"<li>{escape(step)}</li>" for step in view.steps)
    return f"<h3>What to do next</h3><ul>{items}</ul>" if items else ""


def _picture(view: View) -> str:
    """The interval inside the trivial range, as an inline SVG that follows the page's text color."""
    left, right = view.limits.low, view.limits.high
    span = (right - left) or 1.0

    def at(value: float) -> float:
        return float(10.0 + 580.0 * (min(max(value, left), right) - left) / span)

    low, high = at(view.ends[0]), at(view.ends[1])
    given = view.tone != "bad"
    words = f"interval {interval_text(*view.ends)}" if given else "no interval"
    bar = f'<rect x="{low:.1f}" y="18" width="{max(high - low, 1.5):.1f}" height="16" rx="3" fill="#2a78c8"/>'
    # a ring instead of a dot: the estimate is not part of what the interval says
    ink = 'fill="none" stroke="currentColor" stroke-width="2"' if view.estimate_outside else 'fill="currentColor"'
    dot = "" if math.isnan(view.estimate) else f'<circle cx="{at(view.estimate):.1f}" cy="26" r="4" {ink}/>'
    return (
        f'<svg viewBox="0 0 600 64" role="img" style="max-width:42rem;width:100%" aria-label="{words}">'
        '<line x1="10" y1="26" x2="590" y2="26" stroke="currentColor" stroke-opacity=".3" stroke-width="2"/>'
        f"{bar if given else ''}{dot}"
        f'<text x="10" y="56" font-size="13" fill="currentColor">{escape(number(left))}</text>'
        f'<text x="590" y="56" font-size="13" fill="currentColor" text-anchor="end">{escape(number(right))}</text>'
        "</svg>"
    )
