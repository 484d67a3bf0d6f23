"""The policy that the options name: a file, an import path, or columns of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bondic.data.io.loaded import LoadedLog
from bondic.rows.inputs import COLUMNS, LOGGED, chosen_policy, refuse_unstated_order


def choose_policy(spec: str, loaded: LoadedLog | None, starts: int | None, options: Mapping[str, Any]) -> Any:
    """The policy that `spec` names; one in columns of the log has its probabilities at the first `starts` episode starts.

    None: the initial states are others.
    """
    how = (
        {}
        if spec in (COLUMNS, LOGGED)
        else {"trust_pickle": options["trust_pickle"], "output": options["policy_output"]}
    )
    return chosen_policy(spec, loaded, starts, **how)


def require_action_order(loaded: LoadedLog | None, policy: Any, options: Mapping[str, Any]) -> None:
    """Column j of the policy's answers belongs to action j: which text that is cannot be guessed."""
    if not options["actions"]:
        refuse_unstated_order(loaded, policy)
