"""The policy that the options name: a file, an import path, or columns of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bondic.data.io.loaded import LoadedLog
from bondic.errors import InvalidInput, shown
from bondic.policies.adapters.load import load_policy
from bondic.policies.logged_target import LoggedTarget
from bondic.policies.protocol import RowProbabilities

_COLUMNS, _LOGGED = "columns", "logged"
"""Policies that stand in the log: their probabilities of all actions, or of the logged ones alone."""


def action_names(loaded: LoadedLog | None) -> tuple[str, ...] | None:
    """Names of actions that were text; None if they were numbers."""
    coding = None if loaded is None else loaded.encodings.get("actions")
    return None if coding is None else coding.values


def choose_policy(spec: str, loaded: LoadedLog | None, starts: int, options: Mapping[str, Any]) -> Any:
    """The policy that `spec` names; one in columns of the log has its probabilities at the first `starts` episode starts."""
    if spec == _LOGGED:
        return LoggedTarget()
    if spec != _COLUMNS:
        names, output = action_names(loaded), options["policy_output"]
        return load_policy(spec, trust_pickle=options["trust_pickle"], actions=names, output=output)
    if loaded is None:
        raise InvalidInput("--policy columns needs the log in memory: leave out --memory.")
    if loaded.next_action_probs is None:
        raise InvalidInput(
            "--policy columns: the log has no columns with the policy's probabilities at next states. Usual names: "
            "next_action_probs_0, next_action_probs_1, ... (or a list column); name them with --columns "
            "next_action_probs=..."
        )
    if loaded.initial_action_probs is None or options["initial"] is not None:
        raise InvalidInput(
            "--policy columns needs the policy's probabilities at the initial states, too: columns initial_action_probs_0, ... "
            "on the first row of every episode, and episode starts of the log as initial states (no --initial)."
        )
    start_probs = np.asarray(loaded.initial_action_probs)[:starts]
    return RowProbabilities(loaded.next_action_probs, start_probs, loaded.logged_action_probs)


def require_action_order(loaded: LoadedLog | None, policy: str, options: Mapping[str, Any]) -> None:
    """Column j of the policy's answers belongs to action j: which text that is cannot be guessed."""
    names = action_names(loaded)
    if names is None or options["actions"] or policy in (_COLUMNS, _LOGGED):
        return
    raise InvalidInput(
        f"The log's actions are text ({shown(names)}), and nothing says which of them the policy's first probability "
        "belongs to. Another order is another policy. Name them in the order of the policy's probabilities, --actions "
        "FIRST,SECOND,...; actions that the log never took count as well."
    )
