"""Keep the best of several proposals; omega = 0 is always among them."""

from __future__ import annotations

from dataclasses import dataclass

from bondic.bounds.dual import BoundTerms, End, Setting, dual_bound
from bondic.bounds.weighing import Candidate, Weighing, weigh
from bondic.functions.functions import Function
from bondic.sums.engine import Progress


@dataclass(frozen=True, eq=False)
class CertifiedEnd:
    """An end point, the omega behind it, and how many rows carry it."""

    terms: BoundTerms
    omega: Function | None
    effective: float


Ends = dict[End, CertifiedEnd]


def best_bounds(
    setting: Setting,
    ends: tuple[End, ...],
    proposals: list[Function],
    *,
    progress: Progress | None = None,
) -> Ends:
    """Evaluate every proposal at every end with the trusted core, in one pass, and keep the tightest end points.

    Any omega is valid on the *same* event (the gauge covers all omega at once), so choosing costs nothing. omega = 0 only
    repeats Q: it is kept where no other omega says more than the value range.
    """
    best: Ends = {}
    for omega, found, weighing in evaluate_all(setting, ends, proposals, progress=progress):
        for terms in found:
            known = best.get(terms.end)
            if known is None or _better(setting, terms, known.terms):
                best[terms.end] = CertifiedEnd(terms, omega, weighing.effective)
    return best


def evaluate_all(
    setting: Setting,
    ends: tuple[End, ...],
    proposals: list[Function],
    *,
    progress: Progress | None = None,
) -> list[tuple[Function | None, tuple[BoundTerms, ...], Weighing]]:
    """Terms of every proposal, omega = 0 first, from one pass over the points."""
    found: list[Function | None] = [None, *(omega for omega in proposals if not omega.is_zero)]
    candidates = [Candidate(omega) for omega in found]
    weighed = weigh(setting.problem, setting.ball, candidates, sums=setting.sums, progress=progress)
    return [
        (omega, dual_bound(setting, omega, ends, weighing=weighing), weighing)
        for omega, weighing in zip(found, weighed, strict=True)
    ]


def _better(setting: Setting, new: BoundTerms, old: BoundTerms) -> bool:
    limits = setting.range()
    inside = new.bound < limits.high if new.end == "upper" else new.bound > limits.low
    if old.weight_norm.mid == 0 and new.weight_norm.mid != 0 and inside:
        return True
    return _tighter(new, old)


def _tighter(new: BoundTerms, old: BoundTerms) -> bool:
    return new.bound < old.bound if new.end == "upper" else new.bound > old.bound
