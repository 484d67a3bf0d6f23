"""Actions and pairs that the policy takes and the log does not: no method can say what they earn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bondic.advice.facts import LogFacts
from bondic.advice.situation import Situation
from bondic.errors import shown
from bondic.view import NextStep

_WORTH_SAYING = 0.01
"""Share of the policy's probability."""
_RARELY = 0.05
"""Logged this many times less often than the policy takes it: rarely."""
_MUCH = 0.05
"""Share of the policy's probability at pairs without a row that is worth a word."""


def overlap(situation: Situation) -> Iterator[NextStep]:
    """Never logged first, then rarely logged, then pairs that no row has."""
    facts = situation.facts
    if facts.target.size:
        yield from _actions(facts)
    if facts.unseen > _MUCH:
        yield NextStep(
            "overlap",
            f"{facts.unseen:.0%} of what the policy does at the {facts.states} states of the log was never tried there. Log "
            "these actions in these states, or evaluate a policy that stays closer to the log.",
            loud=facts.unseen > 0.5,
            numbers={"unseen_share": facts.unseen},
        )
    yield from _weights(situation)


def _actions(facts: LogFacts) -> Iterator[NextStep]:
    never = np.flatnonzero((facts.logged == 0) & (facts.target > 0))
    share = float(facts.target[never].sum())
    if never.size and share >= _WORTH_SAYING:
        yield NextStep(
            "overlap",
            f"The log never took {_named(never)}, where the policy has {share:.1%} of its probability. No row says what "
            "they earn, and no method can: log them, or evaluate a policy without them.",
            loud=True,
            numbers={"never_logged": never.size, "share": share},
        )
    logged = facts.logged / max(facts.rows, 1)
    rare = np.flatnonzero((facts.logged > 0) & (facts.target >= _WORTH_SAYING) & (logged < _RARELY * facts.target))
    if rare.size:
        yield NextStep(
            "overlap",
            f"The log hardly took {_named(rare)}: {logged[rare].sum():.2%} of its rows, and {facts.target[rare].sum():.1%} of "
            "the policy's probability. More rows with them help most.",
            numbers={"rarely_logged": rare.size, "share": float(facts.target[rare].sum())},
        )


def _named(actions: np.typing.NDArray[np.int64]) -> str:
    words = "action" if actions.size == 1 else "actions"
    return f"{words} {shown(actions.tolist())}"


def _weights(situation: Situation) -> Iterator[NextStep]:
    """Few rows do all the work: the policy is far from the log."""
    result, rows = situation.result, situation.result.rows[1] - situation.result.rows[0]
    worth = result.effective_sample_size
    if 0 < worth < _RARELY * rows and situation.uses_log:
        yield NextStep(
            "overlap",
            f"The {rows} rows count like about {worth:.0f}: the policy is often where the log rarely is. A log from a policy "
            "closer to it helps more than a longer log.",
            numbers={"rows": rows, "worth": worth},
        )
