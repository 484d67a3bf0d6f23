"""What a foreign model returns, turned into pi(. | s): probabilities as they are, logits through softmax."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, PolicyError, shown

FloatArray = npt.NDArray[np.float64]
Output: TypeAlias = Literal["probabilities", "logits", "actions"]

_SINGLE_PRECISION = 1e-4
"""Sums of probabilities computed in single precision are off by less; anything beyond is not a rounding error."""


def check_output(output: str | None) -> Output | None:
    if output not in (None, "probabilities", "logits", "actions"):
        raise InvalidInput(f"output={output!r} is not known: 'probabilities', 'logits', or 'actions' (continuous).")
    return output  # type: ignore[return-value]


def ask_for_output(what: str) -> InvalidInput:
    """A guess would be silently wrong: softmax of probabilities is another policy."""
    return InvalidInput(
        f"{what} does not tell what it returns. Say it: output='probabilities', output='logits' (softmax is applied), or "
        "output='actions' (a deterministic policy with continuous actions), as in load_policy(model, output='logits'); "
        "--with policy_output= on the command line."
    )


def to_probabilities(values: Any, rows: int, output: Output, what: str) -> FloatArray:
    """(rows, actions), each row summing to 1."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise PolicyError(f"{what} returned something that is not an array of numbers.") from problem
    if array.ndim != 2 or array.shape[0] != rows or array.shape[1] == 0:
        raise PolicyError(f"{what} returned shape {array.shape} for {rows} observations; ({rows}, actions) is needed.")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise PolicyError(f"{what} returned {array[row]} for observation {row}: every number must be finite.")
    if output == "logits":
        array = np.exp(array - array.max(axis=1, keepdims=True))
    elif (array < -_SINGLE_PRECISION).any() or (np.abs(array.sum(axis=1) - 1.0) > _SINGLE_PRECISION).any():
        bad = (array < -_SINGLE_PRECISION).any(axis=1) | (np.abs(array.sum(axis=1) - 1.0) > _SINGLE_PRECISION)
        row = int(np.flatnonzero(bad)[0])
        raise PolicyError(
            f"{what} returned {array[row]} for observation {row}, which is no distribution (its sum is "
            f"{array[row].sum():.6g}). If these are logits, say output='logits' (--with policy_output=logits)."
        )
    array = np.maximum(array, 0.0)
    return np.asarray(array / array.sum(axis=1, keepdims=True))


def to_actions(values: Any, rows: int, what: str) -> FloatArray:
    """(rows, dimensions) of a continuous action."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise PolicyError(f"{what} returned something that is not an array of numbers.") from problem
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[0] != rows:
        raise PolicyError(f"{what} returned shape {array.shape} for {rows} observations; one action per row is needed.")
    return array


def in_order(probs: FloatArray, classes: Any, actions: Any, what: str) -> FloatArray:
    """Columns of a model that knows actions by name, put into the order of the log's actions.

    `actions` is the number of actions, the list of their names in order, or None: then the names must be 0, 1, ...
    Actions that the model never met get probability 0.
    """
    names = [getattr(entry, "item", lambda entry=entry: entry)() for entry in classes]
    if actions is None or isinstance(actions, int | np.integer):
        whole = all(
            isinstance(name, int | float) and not isinstance(name, bool) and name == int(name) for name in names
        )
        count = int(actions) if actions is not None else (int(max(names)) + 1 if whole and names else 0)
        places = [int(name) for name in names] if whole else []
        if not whole or min(places, default=0) < 0 or max(places, default=0) >= count:
            raise PolicyError(
                f"{what} knows the actions {shown(names)}, which are not numbers below {count or 'the number of actions'}. Pass "
                "actions=[...] (--actions), the names of the log's actions 0, 1, ... in order."
            )
    else:
        order = [str(name) for name in actions]
        labels = [str(int(name)) if isinstance(name, float) and name.is_integer() else str(name) for name in names]
        unknown = [label for label in labels if label not in order]
        if unknown:
            raise PolicyError(
                f"{what} knows the actions {shown(unknown)}, which are not among those of the log, {shown(order)}. Name all that "
                "there are, actions=[...] (--actions)."
            )
        count, places = len(order), [order.index(label) for label in labels]
    if probs.shape[1] != len(places):
        raise PolicyError(f"{what} returned {probs.shape[1]} probabilities for {len(places)} classes.")
    out = np.zeros((probs.shape[0], count))
    out[:, places] = probs
    return out
