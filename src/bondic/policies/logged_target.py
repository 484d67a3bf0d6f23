"""π(a_i | s_i) as the log holds it: a stand-in where the target policy is known by its probabilities of logged actions alone."""

from __future__ import annotations

from dataclasses import dataclass

from bondic.core.errors import InvalidInput


@dataclass(frozen=True)
class LoggedTarget:
    """The policy whose probabilities of the logged actions stand in the log: `target_action_probs` or `target_log_probs`.

    All that it can say is π(a_i | s_i) at the rows of that log. Methods that weigh logged actions need no more: with the
    behavior's probabilities beside them, actions are never enumerated, and may be missing or texts. Methods that need other
    actions or other states (next ones, initial ones) refuse it.
    """


def refuse_logged_target(policy: object, wanted: str) -> None:
    """`wanted` says what the caller would ask the policy for."""
    if isinstance(policy, LoggedTarget):
        raise InvalidInput(
            f"This method needs {wanted}, and the policy is known by its probabilities of the logged actions alone "
            "(LoggedTarget, --policy logged). Take a method that only weighs logged actions, or pass the policy itself: an "
            "object with action_probs or sample_action (--policy module:object), or its probabilities of all actions "
            "(RowProbabilities, --policy columns)."
        )
