"""The largest discount, or the longest horizon, that the log can answer about."""

from __future__ import annotations

from collections.abc import Iterator

from bondic.advice.length_guess import sequential_guess
from bondic.advice.situation import Situation
from bondic.rendering import three
from bondic.view import NextStep

_DISCOUNTS = (0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3)
_ENOUGH = 0.75
"""Share of the value range below which an interval says something."""


def discount(situation: Situation) -> Iterator[NextStep]:
    """For answers that say nothing: a question that looks less far ahead."""
    terms, result = situation.problem.terms, situation.result
    if situation.verdict != "trivial" or terms.gamma <= min(_DISCOUNTS) or result.method == "propensities":
        return
    if terms.horizon is not None:
        shorter = max(terms.horizon // 4, 1)
        yield NextStep(
            "discount",
            f"A shorter horizon needs fewer rows: the number grows at least like its square. --horizon {shorter} is a question "
            f"that about {(terms.horizon / shorter) ** 2:.0f} times fewer rows can answer.",
            "extrapolated",
            numbers={"horizon": shorter},
        )
        return
    found = largest_discount(situation)
    if found is not None:
        yield NextStep(
            "discount",
            f"With --gamma {found:g} these rows would say something: {three(1 / (1 - found))} steps count then, now "
            f"{three(situation.steps)}. That is a different question: ask it only if the near future is what matters to you.",
            "extrapolated",
            numbers={"gamma": found},
        )


def largest_discount(situation: Situation) -> float | None:
    """The largest of a few discounts at which these rows are foreseen to be enough; None if none of them is."""
    result = situation.result
    tried = [gamma for gamma in _DISCOUNTS if gamma < situation.problem.gamma]
    half = situation.problem.load(
        situation.problem.rows.start, situation.problem.rows.start + len(situation.problem.rows) // 2
    )
    if half is None:
        return None
    rows, first, last = len(situation.problem.rows) - len(half.rows), 0, len(tried)
    while first < last:  # what is enough for a discount is enough for smaller ones
        middle = (first + last) // 2
        guess = sequential_guess(half, result.alpha, result.side, gamma=tried[middle], **situation.known)
        if guess is None:
            return None
        if guess.share(rows) <= _ENOUGH:
            last = middle
        else:
            first = middle + 1
    return tried[first] if first < len(tried) else None
