"""Models of values: what a model is, and the user's own.

A model is untrusted. Only its values at the rows, at the next pairs and at the starts are used, and a bad one makes
intervals long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bondic.core.errors import InvalidInput, kind_of, one_line
from bondic.plan.rows import Actions, ActionValue, Floats, check_numbers


class Model(Protocol):
    """q̂ as the planners use it."""

    def values(self, states: Floats, actions: Actions) -> Floats: ...  # (m,): q̂(s, a), row by row

    def value_table(self, states: Floats) -> Floats: ...  # (m, A): of every action code


def value_table(value: ActionValue, states: Floats, n_actions: int | None) -> Floats:
    """(m, A) from a function of (states, actions)."""
    if n_actions is None:
        raise InvalidInput("Actions are numbers here: there is no table of all of them. Use values(states, actions).")
    return np.column_stack([value(states, np.full(len(states), a)) for a in range(n_actions)])


@dataclass(frozen=True)
class UserModel:
    """`model=` of the user: any q(states, actions) -> values, checked at every call."""

    function: Any
    n_actions: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidInput(
                f"model must be a function q(states, actions) or an array of values, not {kind_of(self.function)}."
            )

    def values(self, states: Floats, actions: Actions) -> Floats:
        try:
            answer = self.function(states, actions)
        except Exception as problem:
            raise InvalidInput(
                f"model raised {type(problem).__name__} for {len(states)} states and actions: {one_line(problem, 200)}. It "
                "is called as model(states, actions), with one row per pair."
            ) from problem
        return check_numbers("the values of model", answer, (len(states),))

    def value_table(self, states: Floats) -> Floats:
        return value_table(self.values, states, self.n_actions)
