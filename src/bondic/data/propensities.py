"""b_i(a_i | s_i) and π(a_i | s_i): probabilities of the logged actions, or their logarithms, checked at the border.

The behavior took the action, so its probability (density) is positive; the target may never take it: 0, or -inf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.data import _arrays
from bondic.data._arrays import FloatArray, numbered

PAIRS = (("behavior_action_probs", "behavior_log_probs"), ("target_action_probs", "target_log_probs"))
"""One of each pair is enough: a probability, or its logarithm."""
PROPENSITIES = tuple(name for pair in PAIRS for name in pair)


def checked_propensities(columns: Mapping[str, Any], rows: int, *, discrete: bool) -> dict[str, FloatArray]:
    """The columns of `PROPENSITIES` that are given, as floats in their ranges."""
    present = {name: columns[name] for name in PROPENSITIES if columns.get(name) is not None}
    refuse_both(present)
    return {name: _checked(name, values, rows, discrete) for name, values in present.items()}


def refuse_both(present: Mapping[str, Any]) -> None:
    """Two columns for one number could differ, and it would be unknown which one an interval came from."""
    for plain, logarithm in PAIRS:
        if plain in present and logarithm in present:
            raise InvalidInput(
                f"`{plain}` and `{logarithm}` are the same probabilities twice, and they could differ. Keep one, the "
                f"logarithms if probabilities are tiny: leave the other one out, or columns={{'{plain}': None}} (--columns "
                f"{plain}=none)."
            )


def _checked(name: str, values: Any, rows: int, discrete: bool) -> FloatArray:
    logarithm, target = name.endswith("log_probs"), name.startswith("target")
    column = _arrays.vector(name, values, rows, lowest_ok=logarithm and target)
    most = 0.0 if logarithm else 1.0
    wrong = np.asarray((column > most) & discrete)
    if not logarithm:
        wrong |= (column < 0) if target else (column <= 0)
    if (row := _arrays.first(wrong)) is None:
        return column
    raise InvalidInput(
        f"`{name}` is {column[row]} at row {numbered(row)}. {_rule(logarithm, target)} If the column means something else: "
        f"columns={{'{name}': None}} (--columns {name}=none)."
    )


def _rule(logarithm: bool, target: bool) -> str:
    if logarithm:
        return (
            "The logarithm of a probability is at most 0. Give actions as floats if they are continuous: densities may be "
            "larger. Write 0 where rounding made it positive."
        )
    if target:
        return (
            "The probability with which the target policy takes the logged action (density, for continuous actions) is 0 or "
            "more, and a probability is at most 1. Logarithms belong into `target_log_probs`."
        )
    return (
        "The probability (density, for continuous actions) of an action that was taken is positive, and a probability is at "
        "most 1. Logarithms belong into `behavior_log_probs`."
    )
