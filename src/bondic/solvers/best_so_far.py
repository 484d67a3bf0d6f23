"""Keep the best of several proposals; omega = 0 is always among them."""

from __future__ import annotations

from collections.abc import Iterable

from bondic.bounds.dual import BoundTerms, End, Setting, dual_bound
from bondic.spaces.functions import Function
from bondic.sums.quadratic import Engine
from bondic.sums.reference import Progress


def best_bound(
    setting: Setting,
    end: End,
    proposals: Iterable[Function | None],
    *,
    engine: Engine = "auto",
    progress: Progress | None = None,
) -> tuple[BoundTerms, Function | None]:
    """Evaluate every proposal with the trusted core and keep the tightest end point.

    Any omega is valid on the *same* event (the gauge covers all omega at once), so choosing costs nothing.
    """
    (best,) = dual_bound(setting, None, (end,), engine=engine)
    chosen: Function | None = None
    for omega in proposals:
        if omega is None or omega.is_zero:
            continue
        (terms,) = dual_bound(setting, omega, (end,), engine=engine, progress=progress)
        if (terms.bound < best.bound) if end == "upper" else (terms.bound > best.bound):
            best, chosen = terms, omega
    return best, chosen
