"""What was found in a log: the kind of fault, how bad it is, where it is, and the way out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from bondic.core.errors import InvalidInput

Severity = Literal["refuse", "warn", "note"]

ACCEPTABLE = {
    "next-observations": "Next observations differ from the observations of the following rows, or equal those of their own, and "
    "yet each is the state that followed its row, drawn from the environment.",
    "resets": "Where episodes were cut, the process went on: the next observation is the state that followed, not the start of "
    "another episode.",
    "reset-rows": "The first rows of episodes are real steps: their actions were carried out and their rewards were earned.",
    "rows-after-cut": "Rows that follow a truncated row of the same episode are real steps that belong there.",
    "gaps": "Rows that are missing inside episodes were left out by a rule that uses neither their reward nor their next "
    "state.",
    "missing-episodes": "Episodes whose numbers are missing were left out by a rule that does not use what happened in them.",
    "time-limit": "Episodes that end after the same number of steps really end there: nothing is earned afterwards.",
    "unseen-actions": "The policy takes actions that the log never took: for them the interval rests on the value class alone.",
    "sure-propensities": "Every action of the log was certain when it was taken: the behavior drew none by chance.",
    "estimated-propensities": "Propensities that equal the log's own frequencies are those that its actions were drawn with.",
    "other-propensities": "Propensities are those of the action that was taken, in every row.",
    "copies": "Rows and stretches that repeat earlier ones are new data, not the same events logged twice.",
    "reward-range": "Rewards may be anywhere in the stated range, although those of the log fill a hundredth of it.",
    "drift": "Rewards and actions that change in the course of the log belong to the decisions that the interval is about.",
    "sorted": "Rows and episodes stand in the order in which they were made, although they are sorted by something else.",
    "repeated-batch": "Rows of an update that equal those of an earlier one are new events, not the same ones again.",
}
"""Kinds of findings that a user can overrule, with the assumption that accepting one states."""


@dataclass(frozen=True)
class Finding:
    """`refuse`: no interval is given; `warn`: shown at the top of the answer; `note`: tolerated, and mentioned."""

    kind: str  # the name under which it can be accepted
    severity: Severity  # one of those above
    count: int  # how many rows (pairs, episodes) are concerned
    row: int  # the first of them
    text: str  # what is wrong, and where
    cure: str  # why it matters, and the way out

    def __str__(self) -> str:
        way_out = "" if self.severity == "note" else f" If it is right as it is, state so: accept=[{self.kind!r}] "
        return f"{self.text} {self.cure}{way_out}" + ("" if not way_out else f"(--accept {self.kind}).")


_BLOCKS = "▁▂▃▄▅▆▇█"


def bars(values: Sequence[float]) -> str:
    """A small picture inside a sentence: one block for each value, from the lowest to the highest."""
    low, width = min(values), (max(values) - min(values)) or 1.0
    return "".join(_BLOCKS[round((len(_BLOCKS) - 1) * (value - low) / width)] for value in values)


def judge(findings: Iterable[Finding], accept: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(warnings, assumptions that the user states by accepting); a fault that is neither is refused."""
    named = (accept,) if isinstance(accept, str) else tuple(accept)
    for kind in named:
        if kind not in ACCEPTABLE:
            raise InvalidInput(
                f"accept={kind!r} is nothing that can be accepted; the names are {', '.join(ACCEPTABLE)}."
            )
    open_ones = [item for item in findings if item.kind not in named]
    refused = [item for item in open_ones if item.severity == "refuse"]
    if refused:
        more = f" ({len(refused) - 1} more faults were found: `bondic check` lists them.)" if len(refused) > 1 else ""
        raise InvalidInput(f"{refused[0]}{more}")
    stated = tuple(ACCEPTABLE[kind] for kind in dict.fromkeys(named))
    return tuple(str(item) for item in open_ones if item.severity == "warn"), stated
