"""Ranges that may be stated more narrowly: every part of an interval is proportional to the width of the value range.

What the log shows is a hint, never a reason: a range must hold for every possible reward and return.
"""

from __future__ import annotations

from collections.abc import Iterator

from bondic.advice.situation import Situation
from bondic.claims import Status
from bondic.rendering import three
from bondic.terms import range_of, value_range
from bondic.view import NextStep

_NARROW = 0.5
"""Share of a stated range that the log fills, below which it is worth asking whether the range is too generous."""
_NOT_FROM_HERE = "Take it from how rewards are made, not from this log."


def ranges(situation: Situation) -> Iterator[NextStep]:
    """Returns, rewards, a horizon, a process that never ends."""
    if situation.result.status is Status.REJECTED:
        return
    if not situation.no_rows:
        returns = list(_returns(situation))
        yield from returns or _rewards(situation)
    yield from _horizon(situation)
    yield from _forever(situation)


def _returns(situation: Situation) -> Iterator[NextStep]:
    seen, limits = situation.facts.returns, situation.result.value_range
    if seen is None or situation.problem.gamma == 0 or limits.width == 0:
        return
    share = (seen[1] - seen[0]) / limits.width
    if share < _NARROW and situation.problem.terms.value_range is None:
        yield NextStep(
            "range",
            f"Discounted returns of the log's episodes lie in [{three(seen[0])}, {three(seen[1])}], but the interval allows "
            f"for all of [{three(limits.low)}, {three(limits.high)}]. If you know a narrower range of every return, state it "
            f"(--value-range): the interval shrinks in proportion. {_NOT_FROM_HERE}",
            "yours",
            numbers={"share": share},
        )


def _rewards(situation: Situation) -> Iterator[NextStep]:
    (low, high), (least, largest) = situation.problem.terms.reward_range, situation.facts.rewards
    if high > low and (largest - least) / (high - low) < _NARROW:
        yield NextStep(
            "range",
            f"Logged rewards lie in [{three(least)}, {three(largest)}], the stated range is [{three(low)}, {three(high)}]. If "
            f"you know a narrower one, state it (--reward-range): the interval shrinks in proportion. {_NOT_FROM_HERE}",
            "yours",
            numbers={"share": (largest - least) / (high - low)},
        )


def _horizon(situation: Situation) -> Iterator[NextStep]:
    """Episodes that always end soon, and a discount that looks further."""
    facts, terms = situation.facts, situation.problem.terms
    complete = facts.returns is not None and facts.ends > 0
    if terms.horizon is None and complete and 2 * facts.longest < situation.steps and facts.longest > 1:
        narrower = value_range(
            terms.gamma, terms.reward_range, may_terminate=terms.may_terminate, horizon=facts.longest
        )
        share = narrower.width / max(range_of(terms).width, 1e-300)
        yield NextStep(
            "range",
            f"No episode of the log is longer than {facts.longest} steps, and the discount looks {three(situation.steps)} steps "
            f"ahead. If no episode can be longer, --horizon {facts.longest} says so: the value range becomes {share:.0%} of "
            "what it is.",
            "yours",
            numbers={"horizon": facts.longest, "share": share},
        )


def _forever(situation: Situation) -> Iterator[NextStep]:
    """A process that never ends has a narrower range where all rewards have one sign."""
    terms, facts = situation.problem.terms, situation.facts
    if not terms.may_terminate or facts.ends or terms.horizon is not None or terms.value_range is not None:
        return
    low, high = terms.reward_range
    narrower = value_range(terms.gamma, (low, high), may_terminate=False)
    share = narrower.width / max(range_of(terms).width, 1e-300)
    if share < 0.9:
        yield NextStep(
            "range",
            f"No row of the log ends the process. If nothing can end it, --never-terminates says so: the value range becomes "
            f"{share:.0%} of what it is.",
            "yours",
            numbers={"share": share},
        )
