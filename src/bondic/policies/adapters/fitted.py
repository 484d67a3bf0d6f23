"""Models that were fitted on a table: each is queried with the columns it was fitted on, by name where names are known.

A model remembers their number (`n_features_in_`) and, if the table had names, these (`feature_names_in_`). The same columns
in another order are another policy, and nothing in the answer shows it. Classifiers in the style of scikit-learn are told by
what they offer; the library itself is imported by whoever built or stored the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.data._arrays import FloatArray
from bondic.data.io.loaded import Encoding, source_columns
from bondic.errors import PolicyError, shown
from bondic.policies.adapters.frame import named_columns
from bondic.policies.protocol import float32_normalized


def given_to(
    model: Any, observations: FloatArray, names: Sequence[str], encodings: Mapping[str, Encoding] | None = None
) -> Any:
    """The input of the model; `names` are those of the log's columns, () where they have none.

    A model that was fitted on columns with text, such as a pipeline, gets text; one that was fitted on their codes gets these.
    """
    fitted_on, width = fitted_names(model), observations.shape[1]
    if fitted_on and not by_position(model, names):
        columns = {name: observations[:, place] for place, name in enumerate(names)}
        if not set(fitted_on) <= set(columns):
            columns |= named_columns(observations, names, encodings or {})
        _refuse_missing(model, fitted_on, tuple(columns))
        return _table([columns[name] for name in fitted_on], fitted_on)
    fitted = len(fitted_on) or getattr(model, "n_features_in_", None)
    if isinstance(fitted, int | np.integer) and fitted != width:
        raise _other_width(model, int(fitted), width, names)
    return _table(list(observations.T), fitted_on) if fitted_on else observations


def fitted_names(model: Any) -> tuple[str, ...]:
    """Names of the columns that it was fitted on; () where it does not say."""
    names = getattr(model, "feature_names_in_", None)
    return () if names is None or np.ndim(names) != 1 else tuple(map(str, names))


def by_position(model: Any, names: Sequence[str]) -> bool:
    """Whether the log's columns have no names to go by: none at all, or only the numbers of an array."""
    fitted_on = fitted_names(model)
    numbered = all(re.fullmatch(r".*?[_.\[]?\d+\]?", name) for name in names)
    return numbered and len(names) in (0, len(fitted_on)) and not set(names) & set(fitted_on)


def words_on(model: Any, names: Sequence[str], encodings: Mapping[str, Encoding]) -> str | None:
    """How its columns were found, where that could have been done in another way."""
    fitted_on, kind = fitted_names(model), type(model).__name__
    names = names if set(fitted_on) <= set(names) else source_columns(names, encodings)
    if not fitted_on or tuple(names) == fitted_on:
        return None
    if by_position(model, names):
        return (
            f"The {kind} was fitted on the columns {shown(fitted_on)}; those of the log have no names, and are taken for these "
            "in this order."
        )
    unused = [name for name in names if name not in fitted_on]
    rest = f" It does not use {shown(unused)}." if unused else ""
    return f"The {kind} gets the columns in the order in which it was fitted: {shown(fitted_on)}.{rest}"


def _refuse_missing(model: Any, fitted_on: Sequence[str], names: Sequence[str]) -> None:
    missing = [name for name in fitted_on if name not in names]
    if missing:
        further = [name for name in names if name not in fitted_on]
        others = f" The log has {shown(further)} besides." if further else ""
        raise PolicyError(
            f"The {type(model).__name__} was fitted on the columns {shown(fitted_on)}; the states of the log lack "
            f"{shown(missing)}.{others} It needs them: name the columns of the state, columns={{'observations': [...]}} "
            "(--columns observations=NAME,...), or pass a function that puts them together, lambda states: "
            "model.predict(...)."
        )


def _other_width(model: Any, fitted: int, width: int, names: Sequence[str]) -> PolicyError:
    which = f": {shown(names)}" if names else ""
    return PolicyError(
        f"The {type(model).__name__} was fitted on {fitted} columns, and the states of the log have {width}{which}. Say which "
        "columns are the state, in the order of the fit: columns={'observations': [...]} (--columns observations=NAME,...); or "
        "pass a function that picks them, lambda states: model.predict(states[:, ...])."
    )


def _table(columns: Sequence[npt.NDArray[Any]], names: Sequence[str]) -> Any:
    """With its names where there is a library for that: some models look columns up by them."""
    if find_spec("pandas") is None:
        return np.column_stack(columns)
    return import_module("pandas").DataFrame(dict(zip(names, columns, strict=True)))


@dataclass(frozen=True, eq=False)
class ClassifierPolicy:
    """pi(a | s) = predict_proba(s)[class a]; actions that the model never met have probability 0."""

    model: Any
    actions: Any = None  # number of actions, or their names in order; None: classes are 0, 1, ...
    names: tuple[str, ...] = ()  # of the log's columns, where they are known
    encodings: Mapping[str, Encoding] = field(default_factory=dict)  # how their text became numbers

    def action_probs(self, observations: FloatArray) -> FloatArray:
        given = given_to(self.model, observations, self.names, self.encodings)
        probs = float32_normalized(self.model.predict_proba(given))
        places, count = self._places()
        if probs.ndim != 2 or probs.shape[1] != len(places):
            raise PolicyError(f"{self._what} returned shape {probs.shape} for {len(places)} classes.")
        out = np.zeros((probs.shape[0], count))
        out[:, places] = probs
        return out

    @property
    def _what(self) -> str:
        return f"The classifier {type(self.model).__name__}"

    def _places(self) -> tuple[list[int], int]:
        """The log's action of every class, and how many actions there are."""
        classes = getattr(self.model, "classes_", None)
        if classes is None or np.ndim(classes) != 1:
            raise PolicyError(
                f"{self._what} has no list `classes_`: it is not fitted, or predicts several outputs. One discrete action is "
                "needed."
            )
        known = np.asarray(classes).tolist()
        if self.actions is None or isinstance(self.actions, int | np.integer):
            whole = all(isinstance(c, int | float) and not isinstance(c, bool) and c == int(c) for c in known)
            places = [int(c) for c in known] if whole else []
            count = max(places, default=-1) + 1 if self.actions is None else int(self.actions)
            if places and min(places) >= 0 and max(places) < count:
                return places, count
            raise PolicyError(
                f"{self._what} knows the actions {shown(known)}, which are not numbers below {count or 'the number of actions'}. "
                "Pass actions=[...] (--actions), the names of the log's actions 0, 1, ... in order."
            )
        order = [str(name) for name in self.actions]
        labels = [str(int(c)) if isinstance(c, float) and c.is_integer() else str(c) for c in known]
        if unknown := [label for label in labels if label not in order]:
            raise PolicyError(
                f"{self._what} knows the actions {shown(unknown)}, which are not among those of the log, {shown(order)}. Name "
                "all that there are, actions=[...] (--actions)."
            )
        return [order.index(label) for label in labels], len(order)


def classifier_of(candidate: Any, output: str | None) -> Any:
    """The classifier whose votes are to be drawn: asked for by its method `predict_proba`, or as probabilities; else None."""
    own = getattr(candidate, "__self__", None)
    if getattr(candidate, "__name__", "") == "predict_proba" and hasattr(own, "classes_"):
        return own
    asked = output == "probabilities" or not callable(getattr(candidate, "predict", None))
    return candidate if asked and callable(getattr(candidate, "predict_proba", None)) else None
