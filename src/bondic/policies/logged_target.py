"""Policies that are known by the log alone: stand-ins that say nothing but π(a_i | s_i) at its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bondic.core.errors import InvalidInput

KnownBy = Literal["target columns", "behavior", "mixture"]


@dataclass(frozen=True)
class LoggedTarget:
    """The policy whose probabilities of the logged actions stand in the log: `target_action_probs` or `target_log_probs`.

    All that it can say is π(a_i | s_i) at the rows of that log. Methods that weigh logged actions need no more: with the
    behavior's probabilities beside them, actions are never enumerated, and may be missing or texts. Methods that need other
    actions or other states (next ones, initial ones) refuse it.
    """

    known_by: ClassVar[KnownBy] = "target columns"


@dataclass(frozen=True)
class LoggedBehavior(LoggedTarget):
    """The policy that made the log, today's: whatever it was, all of its ratios π/b are 1, and no propensities are needed.

    If it changed from row to row, its value is the mean over the rows of what it was worth at each of them.
    """

    known_by: ClassVar[KnownBy] = "behavior"


def stand_in(known_by: str) -> LoggedTarget:
    """By the word that a certificate holds."""
    kinds: tuple[type[LoggedTarget], ...] = (LoggedTarget, *LoggedTarget.__subclasses__())
    return {kind.known_by: kind() for kind in kinds}[known_by]  # type: ignore[index]


def refuse_logged_target(policy: object, needed: str) -> None:
    """`needed` names what the caller would query."""
    if isinstance(policy, LoggedTarget):
        raise InvalidInput(
            f"This method needs {needed}, and the policy is known by its probabilities of the logged actions alone "
            "(LoggedTarget, --policy logged). Take a method that only weighs logged actions, or pass the policy itself: an "
            "object with action_probs or sample_action (--policy module:object), or its probabilities of all actions "
            "(RowProbabilities, --policy columns)."
        )
