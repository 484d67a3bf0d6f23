"""Starts that no row leaves, and what a sampled initial distribution costs."""

from __future__ import annotations

from collections.abc import Iterator

from bondic.advice.situation import Situation
from bondic.bounds.dual import START
from bondic.rendering import three
from bondic.terms import in_full
from bondic.view import NextStep

_WORTH_SAYING = 0.1
_ALL = 0.999999


def starts_not_left(situation: Situation) -> Iterator[NextStep]:
    """A table knows nothing of a state that no row leaves, however long the log is."""
    facts = situation.facts
    if not situation.names or not facts.not_left >= _WORTH_SAYING:
        return
    state = ", ".join(in_full(value) for value in facts.first_not_left.tolist())
    where = "the start state" if facts.not_left > _ALL else f"{facts.not_left:.0%} of the starts"
    which = "" if situation.no_rows else f" ({'state' if facts.not_left > _ALL else 'the first is state'} {state})"
    yield NextStep(
        "start",
        f"The log never left {where}{which}: no row says what an action does there, so nothing is known about what follows. "
        "Take starts that the log leaves (--initial), or log rows that begin there.",
        loud=True,
        numbers={"not_left": facts.not_left},
    )


def cost_of_starts(situation: Situation, share: float = _WORTH_SAYING) -> Iterator[NextStep]:
    """Where it is this share of the length or more, or of the value range."""
    cost, count = situation.spreads.get(START, 0.0), len(situation.problem.initial_states)
    whole = min(sum(situation.spreads.values()), situation.result.value_range.width)
    if situation.nothing or whole == 0 or cost < share * whole:
        return
    alone = " Alone it may not be enough." if situation.verdict == "trivial" else ""
    exact = "--initial FILE" if situation.problem.initial_states.from_rows else "--initial-kind exact"
    part = min(cost / whole, 1.0)
    yield NextStep(
        "start",
        f"The unknown start adds {three(cost)}, {part:.0%} of the length: the {count} starts are only a sample. If your question "
        f"is about starts that you can list, list them ({exact}), and this part is 0. Otherwise {4 * count} starts "
        f"about halve it.{alone}",
        numbers={"part": cost, "starts": count, "share": part},
    )
