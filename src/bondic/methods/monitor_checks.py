"""What cannot be followed while a log grows, refused before the first row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.methods.propensities import Propensities
from bondic.methods.sequential import Sequential
from bondic.methods.table import Table
from bondic.policies.answers import StoredAnswers
from bondic.policies.protocol import RowProbabilities
from bondic.tuning.defaults import Choices


def refuse_row_answers(policy: Any) -> None:
    if isinstance(policy, RowProbabilities | StoredAnswers):
        raise InvalidInput(
            "Probabilities that are written down row by row belong to one log, and this one grows. Pass the policy itself (an "
            "object with action_probs or sample_action, a function), or 'columns' where every file has a column for them."
        )


def refuse_other_values(stated: Propensities | None) -> None:
    """What the monitor decides itself, or cannot follow."""
    if stated is not None and (stated.value != "population" or stated.planned is not None):
        raise InvalidInput(
            "propensities=Propensities(...) of a monitor has no value= and no planned=: the value over the population is "
            "followed, and planned_rows= says how many rows there will be."
        )


def planned_method(method: Sequential | Table, planned_rows: int) -> Sequential:
    if isinstance(method, Table):
        names = Choices(categorical=True)
        method = Sequential(side=method.side, pilot=method.pilot, planned_rows=method.planned_rows, choices=names)
    if not isinstance(method, Sequential):
        raise InvalidInput(
            f"method= is a Sequential or a Table, not {type(method).__name__}: their intervals hold at all times."
        )
    if isinstance(planned_rows, bool) or not isinstance(planned_rows, int | np.integer) or planned_rows < 1:
        raise InvalidInput(
            f"planned_rows={planned_rows!r}: a whole number of rows >= 1 is needed; about as many as will come."
        )
    if method.planned_rows not in (None, planned_rows):
        raise InvalidInput(
            f"planned_rows={planned_rows}, and method.planned_rows is {method.planned_rows}: pass one of them."
        )
    return replace(method, planned_rows=int(planned_rows))
