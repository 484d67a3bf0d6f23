"""The largest part of the ends, and what makes it smaller."""

from __future__ import annotations

from collections.abc import Iterator

from bondic.advice.situation import Situation
from bondic.bounds.dual import ALLOWANCE, BIAS, NOISE, START
from bondic.bounds.ends import RARE
from bondic.proofs.cells import ALLOWED
from bondic.rendering import counted, three
from bondic.view import NextStep

_CURES = {
    NOISE: "More rows make it smaller, like 1/sqrt(n); a narrower true range (--reward-range, --value-range) in proportion.",
    RARE: "It covers events that no row shows but that may still happen. More rows make it smaller, like 1/n; a narrower true "
    "range (--value-range) in proportion.",
    BIAS: "It covers what the log does not tell about the value function.",
    ALLOWANCE: "It is the allowance that you stated (--misspecification), times the steps that count.",
    ALLOWED: "It is the allowance that you stated (--allowance), times the steps that count. Groups whose rows are more alike "
    "(--groups), or a better model (--model), need less.",
}
_DUAL_NOISE = "The dual method allows for the largest noise that is possible in the stated ranges."
_WHOLE = (
    "The log is too short for this policy, or too far from it: with {steps} that {count}, its rows are not enough to say "
    "anything, so the interval is the whole value range."
)
_NOTHING = "No interval was looked for, so the answer is the whole value range: {why}."


def largest_part(situation: Situation, only: str | None = None, share: float = 0.0) -> Iterator[NextStep]:
    """One line, where the part is this share of the length and, if told, the only one of interest.

    Where the ends use no row there is no part to name.
    """
    if situation.result.unstated:
        return
    sizes = {name: size for name, size in situation.spreads.items() if name != START}
    if not situation.uses_log:
        if situation.verdict == "trivial":
            count = "counts" if situation.steps == 1 else "count"
            words, why = _NOTHING if situation.nothing else _WHOLE, situation.nothing
            yield NextStep("term", words.format(steps=counted(situation.steps, "step"), count=count, why=why))
        return
    if not sizes:
        return
    name = max(sizes, key=sizes.__getitem__)
    total = sum(situation.spreads.values())
    if only not in (None, name) or sizes[name] < share * total:
        return
    cure = _DUAL_NOISE if name == NOISE and situation.result.method == "dual" else _CURES.get(name, "")
    cure += _against_bias(situation) if name == BIAS else ""
    yield NextStep(
        "term",
        f"The largest part of the length is {name}: {three(sizes[name])} of {three(total)}. {cure}".strip(),
        numbers={"part": sizes[name], "whole": total},
    )


def _against_bias(situation: Situation) -> str:
    """What is not in force already."""
    if situation.result.curve is not None:
        return " What helps: more rows, fewer groups (--groups), or single rows that are more alike (--allowance A B)."
    stated = any(item.name == "values" and item.state == "stated" for item in situation.result.assumptions)
    vouched = "a smaller class Q, if you can vouch for one"
    named = "a class Q that you can vouch for (--radius, or ball= in Python)"
    further = ["a smaller discount"] if situation.problem.gamma else []
    ways = ["rows where the policy goes", vouched if stated else named, *further]
    return f" What helps: {', '.join(ways[:-1])} or {ways[-1]}."
