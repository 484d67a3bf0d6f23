"""What a sampled initial distribution costs."""

from __future__ import annotations

from collections.abc import Iterator

from bondic.advice.situation import Situation
from bondic.bounds.dual import START
from bondic.rendering import three
from bondic.view import NextStep

_WORTH_SAYING = 0.1


def cost_of_starts(situation: Situation, share: float = _WORTH_SAYING) -> Iterator[NextStep]:
    """Where it is this share of the length or more, or of the value range."""
    cost, count = situation.spreads.get(START, 0.0), len(situation.problem.initial_states)
    whole = min(sum(situation.spreads.values()), situation.result.value_range.width)
    if whole == 0 or cost < share * whole:
        return
    alone = " Alone it may not be enough." if situation.verdict == "trivial" else ""
    exact = "--initial FILE" if situation.problem.initial_states.from_rows else "--initial-kind exact"
    part = min(cost / whole, 1.0)
    yield NextStep(
        "start",
        f"The unknown start adds {three(cost)}, {part:.0%} of the length: the {count} starts are only a sample. If your question "
        f"is about starts that you can list, list them ({exact}), and this part is 0. Otherwise {4 * count} starts "
        f"halve it.{alone}",
        numbers={"part": cost, "starts": count, "share": part},
    )
