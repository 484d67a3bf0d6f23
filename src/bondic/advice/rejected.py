"""What a rejection means, and what to look at."""

from __future__ import annotations

from collections.abc import Iterator

from bondic.advice.situation import Situation
from bondic.rendering import three
from bondic.view import NextStep


def rejected(situation: Situation) -> Iterator[NextStep]:
    """What happened, faults of the data, then the assumption that is weakest."""
    result = situation.result
    found = result.rejection
    chance = f"{result.alpha:g}"
    if found is not None and found.p_value < result.alpha:
        chance = f"{max(found.p_value, 1e-12):.3g} (its p-value)"
    yield NextStep(
        "rejected",
        f"If all assumptions held, a log like this would have a probability of at most {chance}. At least one of them is wrong. "
        f"No interval is given, and none should be used.",
        loud=True,
        numbers={} if found is None else {"p_value": found.p_value},
    )
    doubt = f" Begin with the warning about it: {result.warnings[0]}" if result.warnings else ""
    yield NextStep(
        "rejected",
        "Look at the log first: rows out of order or copied, rows left out because of their rewards, actions that are numbered "
        f"differently in the log and in the policy, a wrong reward range. `bondic check` shows the log.{doubt}",
    )
    yield _weakest(situation)


def _weakest(situation: Situation) -> NextStep:
    """The assumption that most often fails."""
    result = situation.result
    if any(item.name == "propensities" for item in result.assumptions):
        return NextStep(
            "rejected",
            "Then the propensities: they must be those at the moment of the decision. If you know by which factor they may be "
            "off, state it (--with off_by=1.5).",
        )
    if result.allowance is not None:
        return NextStep(
            "rejected",
            "Then the allowance: groups may be less alike than you state. The curve shows from which allowance on there is an "
            "interval again. Choose it for reasons that do not come from this log, and use it on other rows.",
        )
    radius = 0.0 if result.rejection is None else result.rejection.minimal_radius
    if result.is_assumption_free:
        return NextStep(
            "rejected",
            "Nothing was assumed about the value function, so the fault is in the log, the ranges, or in states that do "
            "not hold all that matters for what follows (the past, a clock): add what is missing to the observations.",
        )
    least = f" At this level the log rules out every radius below {three(radius)}." if radius > 0 else ""
    return NextStep(
        "rejected",
        f"Then the class of value functions: a larger radius (--radius) or a rougher kernel assumes less.{least} Choose it for "
        "reasons that do not come from this log, and use it on other rows.",
        numbers={"minimal_radius": radius},
    )
