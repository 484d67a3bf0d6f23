"""Keep the best of several proposals; omega = 0 is always among them."""

from __future__ import annotations

from bondic.bellman.discrepancy import discrepancies
from bondic.bellman.residual import function_values
from bondic.bounds.dual import BoundTerms, End, Setting, dual_bound, weights_at_rows
from bondic.spaces.functions import Function
from bondic.sums.quadratic import Engine
from bondic.sums.reference import Progress

Ends = dict[End, tuple[BoundTerms, Function | None]]


def best_bounds(
    setting: Setting,
    ends: tuple[End, ...],
    proposals: list[Function],
    *,
    engine: Engine = "auto",
    progress: Progress | None = None,
) -> Ends:
    """Evaluate every proposal at every end with the trusted core, in one pass, and keep the tightest end points.

    Any omega is valid on the *same* event (the gauge covers all omega at once), so choosing costs nothing.
    """
    best: Ends = {}
    for omega, found in evaluate_all(setting, ends, proposals, engine=engine, progress=progress):
        for terms in found:
            known = best.get(terms.end)
            if known is None or _tighter(terms, known[0]):
                best[terms.end] = (terms, omega)
    return best


def evaluate_all(
    setting: Setting,
    ends: tuple[End, ...],
    proposals: list[Function],
    *,
    engine: Engine = "auto",
    progress: Progress | None = None,
) -> list[tuple[Function | None, tuple[BoundTerms, ...]]]:
    """Terms of every proposal, omega = 0 first, from one pass over the points."""
    problem = setting.problem
    candidates: list[Function | None] = [None, *(omega for omega in proposals if not omega.is_zero)]
    rows = [(weights_at_rows(problem, omega)[0], True) for omega in candidates]
    sizes = discrepancies(problem, setting.ball.kernel, rows, engine=engine, progress=progress)
    center = function_values(problem, setting.ball.center)
    return [
        (omega, dual_bound(setting, omega, ends, center=center, size=size))
        for omega, size in zip(candidates, sizes, strict=True)
    ]


def _tighter(new: BoundTerms, old: BoundTerms) -> bool:
    return new.bound < old.bound if new.end == "upper" else new.bound > old.bound
