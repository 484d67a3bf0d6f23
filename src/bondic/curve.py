"""What an assumption would buy: the interval as a function of the allowance, on one event; and in words, for every view.

Allowances (23) are in units of value. One event serves them all, so reading the whole curve costs no part of alpha: if groups
are as alike as an allowance says, the value lies in its interval, with probability at least 1 - alpha for all allowances at once.
A point is computed when it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from bondic.core.cells.allowance import Allowance
from bondic.core.cells.ends import CellBound
from bondic.core.cells.proof import TEST, CellsProof
from bondic.core.claims import Claim, Conclusion, Status, conclude
from bondic.core.errors import InvalidInput
from bondic.core.printed import bound_text, interval_text, number
from bondic.core.sequential.proof import claims_of
from bondic.core.terms import ValueRange
from bondic.rendering import Grid, counted, sentence, three
from bondic.rows import Rows
from bondic.rows.estimand import question_of

_SHARES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Averages of the printed table, as shares of the width of the value range, rounded to one digit."""
_SINGLE_SHARES = (0.02, 0.1, 0.3)
"""Single values of its columns, likewise; the first column has both numbers alike."""
_HALVINGS = 30
METHOD = "groups"
"""The name of the method behind a curve."""


@dataclass(frozen=True)
class Mark:
    """A number on the axis of allowances: information, never a choice."""

    name: str
    value: float
    text: str  # what it is, in a sentence
    certified: bool = False


@dataclass(frozen=True)
class CurvePoint:
    """The interval at one allowance."""

    averages: float
    single: float
    low: float
    high: float
    status: Status

    @property
    def length(self) -> float:
        return self.high - self.low

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    def within(self, pair: tuple[float, float]) -> bool:
        """Whether its allowance is no larger, in both numbers: where it gives the value range, `pair` gives no more."""
        return self.averages <= pair[0] and self.single <= pair[1]


@dataclass(frozen=True, eq=False)
class AllowanceCurve:
    """Allowance -> interval; see the head of this file. `at` any allowance, without a rerun."""

    proof: CellsProof  # without an allowance
    rows: Rows  # the certified ones
    groups: tuple[str, ...]  # every group in words
    marks: tuple[Mark, ...]  # without the certified one
    model: str  # what the center is, in words
    fitted: Any = field(repr=False, default=None)  # model and groups, which can be evaluated anywhere

    @cached_property
    def bound(self) -> CellBound:
        return self.proof.bound(self.rows)

    @property
    def is_difference(self) -> bool:
        """Whether it is about how far one policy exceeds another."""
        return len(self.proof.estimand.policies) > 1

    @property
    def subject(self) -> str:
        return "difference" if self.is_difference else "value"

    @property
    def alpha(self) -> float:
        return self.proof.budget.alpha

    @cached_property
    def value_range(self) -> ValueRange:
        return question_of(self.rows.policies()).limits

    def at(self, allowance: Allowance | float | tuple[float, float]) -> CurvePoint:
        """The interval if groups are as alike as the allowance says: one number, or (averages, single values)."""
        return self._at(Allowance.of(allowance).pair)

    def _at(self, pair: tuple[float, float]) -> CurvePoint:
        if pair not in self._points:
            if any(point.status is Status.TRIVIAL and point.within(pair) for point in self._points.values()):
                found = Conclusion(self.value_range.low, self.value_range.high, Status.TRIVIAL)
            else:
                found, _ = self._conclude(pair)
            self._points[pair] = CurvePoint(*pair, found.low, found.high, found.status)
        return self._points[pair]

    @cached_property
    def _points(self) -> dict[tuple[float, float], CurvePoint]:
        return {}

    def _conclude(self, pair: tuple[float, float]) -> tuple[Conclusion, tuple[Claim, ...]]:
        evaluation = self.proof.evaluate(self.rows, self.bound, Allowance(*pair))
        shown = claims_of(evaluation, self.proof.budget)
        return conclude(self.value_range, shown.ends, shown.rejected, self.proof.side), shown.ends

    def terms(self, allowance: Allowance | float | tuple[float, float]) -> tuple[Claim, ...]:
        """Both ends at an allowance, split into their parts."""
        return self._conclude(Allowance.of(allowance).pair)[1]

    def stated(self, allowance: Allowance, *, first: bool) -> CellsProof:
        """The proof of the interval at an allowance that the user states, before (`first`) or after seeing the curve."""
        return replace(self.proof, allowance=allowance, stated_first=first)

    @cached_property
    def ruled_out(self) -> float:
        """β_min: with probability at least 1 - alpha, together with all intervals, halves of groups differ by at least this."""
        return self.proof.ruled_out(self.rows, self.bound)

    def all_marks(self) -> tuple[Mark, ...]:
        """The certified mark first, where part of alpha was set aside for it."""
        if self.proof.budget.get(TEST) is None:
            return self.marks
        text = f"the log shows that halves of groups differ by {three(self.ruled_out)} or more"
        text = text if self.ruled_out > 0 else "the log rules out no allowance"
        return (Mark("ruled out", self.ruled_out, text, True), *self.marks)

    @cached_property
    def averages(self) -> tuple[float, ...]:
        """Allowances of the printed table."""
        return tuple(_one_digit(share * self.value_range.width) for share in _SHARES)

    @cached_property
    def singles(self) -> tuple[float, ...]:
        return tuple(_one_digit(share * self.value_range.width) for share in _SINGLE_SHARES)

    @property
    def says_nothing(self) -> bool:
        """Whether no allowance, not even 0, gives more than the value range: intervals grow with it."""
        return self.at(0.0).status is Status.TRIVIAL

    def line(self) -> tuple[CurvePoint, ...]:
        """Both numbers alike."""
        return tuple(self.at(average) for average in self.averages)

    def table(self) -> tuple[tuple[CurvePoint, ...], ...]:
        """A row per average: both numbers alike first, then larger single values."""
        return tuple(
            (self.at(average), *(self.at((average, single)) for single in self.singles if single >= average))
            for average in self.averages
        )

    def breaks(
        self, *, above: float | None = None, below: float | None = None, single: float | None = None
    ) -> float | None:
        """β_break: the largest allowance up to which the decision holds; None where it does not even hold at 0.

        With probability at least 1 - alpha: if the decision is wrong, groups differ by more than this. `single` fixes the
        second number; without it both are alike.
        """
        if (above is None) == (below is None):
            raise InvalidInput("Pass one threshold: above= or below=.")

        def holds(average: float) -> bool:
            point = self.at(average if single is None else (average, max(single, average)))
            if point.status is Status.REJECTED:
                return False
            return point.low >= above if above is not None else point.high <= (below or 0.0)

        start = self.ruled_out if single is None and self.at(0.0).status is Status.REJECTED else 0.0
        if not holds(start):
            return None
        low, high = start, max(self.value_range.width, 1e-300)
        if holds(high):
            return math.inf
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low


def _one_digit(value: float) -> float:
    return float(f"{value:.0e}") if value > 0 else 0.0


TITLE = "What an allowance would buy"
_DECISION = "Up to which allowance a decision holds: --require-above X (curve.breaks(above=X) in Python)."
_MODEL_AVERAGES = "beyond what the model predicts"


@dataclass(frozen=True)
class CurveView:
    """What every allowance would give, ready to be drawn."""

    title: str
    head: str  # what it is about
    grid: Grid
    marks: tuple[str, ...]  # a line each
    advice: str  # what to do, or what was stated
    decision: str  # where the answer breaks, or how a reader finds out


def alike(curve: AllowanceCurve, allowance: Allowance | None) -> str:
    """The statement that an allowance is, in words; without a number as `A`."""
    where = f"in each of {counted(len(curve.groups), 'group')}, for each action,"
    if allowance is None:
        return f"{where} values lie within ± A of one number"
    averages, single = allowance.pair
    if averages == single:
        return f"{where} values lie within ± {number(averages)} of one number"
    return f"{where} values lie within ± {number(single)} of one number, and their averages within ± {number(averages)}"


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
    to_both = " under either policy" if curve.is_difference else ""
    what = "the difference of the two policies" if curve.is_difference else "the value of the policy"
    head = (
        f"Rows {rows.start} to {rows.stop - 1} are in {counted(len(curve.groups), 'group')}; {model} predicts "
        f"their values{to_both}. If in each group, for each action, values lie within ± the allowance of one number "
        f"({_MODEL_AVERAGES}), {what} lies in its interval. {holds}"
    )
    return CurveView(
        TITLE,
        head,
        line_grid(curve, stated),
        tuple(f"{sentence(mark_words(mark))}." for mark in curve.all_marks()),
        _advice(curve, stated, first),
        better_words(curve, stated) if curve.is_difference else _DECISION,
    )


def better_words(curve: AllowanceCurve, stated: Allowance | None) -> str:
    """Up to which allowance the first policy is better, or worse."""
    for word, bound in (("better", "above"), ("worse", "below")):
        found = curve.breaks(**{bound: 0.0}, single=_single(stated))
        if found is None:
            continue
        if math.isinf(found):
            return f"The new policy is {word} whatever the allowance is."
        most = bound_text(found, -1)
        return (
            f"The new policy is {word} for every allowance up to {most}: if it is not, groups differ by more than {most} in "
            f"value{_alone(stated, found)}."
        )
    return "No allowance, not even ± 0, shows which policy is better."


def _advice(curve: AllowanceCurve, stated: Allowance | None, first: bool) -> str:
    if stated is None:
        return (
            f"State --allowance A (allowance= in Python) to get an interval: {alike(curve, None)} ({_MODEL_AVERAGES}). "
            "Take A from what you know about these rows, not from this table."
        )
    when = "before" if first else "after"
    return f"{sentence(alike(curve, stated))} ({_MODEL_AVERAGES}): stated by you {when} the curve was shown. No log can prove it."


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
    single = _single(stated)
    for name, bound in (("above", above), ("below", below)):
        if bound is None:
            continue
        found = curve.breaks(**{name: bound}, single=single)
        decision = f"the {curve.subject} is at {'least' if name == 'above' else 'most'} {number(bound)}"
        if found is None:
            yield f"no allowance shows that {decision}"
        elif math.isinf(found):
            yield f"{decision} whatever the allowance is"
        else:
            most = bound_text(found, -1)
            yield (
                f"{decision} for every allowance up to {most}: if this decision is wrong, groups differ by more than {most} "
                f"in value{_alone(stated, found)}"
            )


def _single(stated: Allowance | None) -> float | None:
    """The second of two stated numbers."""
    return None if stated is None or stated.pair[0] == stated.pair[1] else stated.pair[1]


def _alone(stated: Allowance | None, value: float) -> str:
    single = _single(stated)
    return "" if single is None else f" on average, or by more than {number(max(single, value))} one by one"


def curve_dict(curve: AllowanceCurve, stated: Allowance | None, *, first: bool) -> dict[str, Any]:
    """Plain data: points with both numbers alike, marks, groups in words, and what was stated.

    Of a difference the largest allowances, too, up to which the first policy is better, or worse; None: none is.
    """
    holds: dict[str, Any] = {}
    if curve.is_difference:
        ends = {"better_up_to": {"above": 0.0}, "worse_up_to": {"below": 0.0}}
        found = {name: curve.breaks(**end, single=_single(stated)) for name, end in ends.items()}
        holds = {name: None if most is None else min(most, curve.value_range.width) for name, most in found.items()}
    return {
        **holds,
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
