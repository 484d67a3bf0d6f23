"""Control variates from any regressor: fitted on the rows before every block, predictions stored row by row."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.core.propensities.control import StoredControl
from bondic.core.propensities.control_fit import guess_range
from bondic.core.propensities.decisions import Decisions

FloatArray = npt.NDArray[np.float64]


@runtime_checkable
class Regressor(Protocol):
    """What scikit-learn calls a regressor: `fit(X, y)`, then `predict(X)`. It is copied before every fit."""

    def fit(self, X: FloatArray, y: FloatArray) -> Any: ...

    def predict(self, X: FloatArray) -> FloatArray: ...


def regressor_control(columns: Decisions, borders: tuple[int, ...], model: Regressor) -> StoredControl:
    """q̂ of every block from all rows before it; columns of X are the state, then one for every action."""
    stops = [*np.searchsorted(columns.rows, borders).tolist(), len(columns.rows)]
    first, found = stops[0], list[FloatArray]()
    guessed = None
    for start, stop in pairwise(stops):
        fitted = copy.deepcopy(model)
        fitted.fit(_inputs(columns, slice(0, start), columns.slots[:start]), columns.rewards[:start])
        if guessed is None:
            guessed = guess_range(columns, _predict(columns, slice(0, first), fitted))
        found.append(_predict(columns, slice(start, stop), fitted))
    assert guessed is not None
    rows = np.zeros((int(columns.rows[-1]) + 1 - borders[0], found[0].shape[1]))
    rows[columns.rows[first:] - borders[0]] = np.concatenate(found)
    return StoredControl(int(columns.rows[0]), borders, *guessed, rows)


def _predict(columns: Decisions, part: slice, model: Regressor) -> FloatArray:
    count = len(columns.rows[part])
    actions = 1 if columns.probs is None else columns.probs.shape[1]
    found = []
    for action in range(actions if count else 0):
        answer = np.asarray(model.predict(_inputs(columns, part, np.full(count, action))), dtype=np.float64)
        if answer.shape != (count,) or not np.all(np.isfinite(answer)):
            raise InvalidInput(
                f"The model predicts {answer.shape} numbers for {count} rows, or one that is not finite."
            )
        found.append(answer)
    return np.column_stack(found) if count else np.zeros((0, actions))


def _inputs(columns: Decisions, part: slice, slots: npt.NDArray[np.int64]) -> FloatArray:
    states = columns.observations[part]
    if columns.probs is None:
        return states
    return np.column_stack([states, np.eye(columns.probs.shape[1])[slots]])
