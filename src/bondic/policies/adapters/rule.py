"""A rule: all states at once -> probabilities (n, actions), or one action per state (n,).

The kind of answer is recognized by its shape and numbers; an ambiguous one is refused with the statement that resolves it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, one_line
from bondic.data._arrays import FloatArray
from bondic.data.io.loaded import Encoding
from bondic.errors import PolicyError, counted_names, did_you_mean, shown
from bondic.policies.adapters.fitted import given_to
from bondic.policies.adapters.frame import as_frame, asks_for_frame, named_columns
from bondic.policies.protocol import one_hot, query_policy

_ALL_AT_ONCE = (
    "A policy gets all states at once, (n, dimensions), and answers for each of them: probabilities (n, actions), or one action "
    "per state (n,). A function of one state: lambda states: np.array([f(s) for s in states])."
)

_TAKEN_FOR_A_TABLE = re.compile(r"'numpy\.ndarray' object has no attribute|only integers, slices")
"""What numpy says to `states.age` and to `states["age"]`."""


@dataclass(frozen=True, eq=False)
class Rule:
    """A function whose answer is probabilities or actions; `actions` says how many there are, or their names in order."""

    function: Callable[[Any], Any]
    actions: int | tuple[str, ...] | None = None
    what: str = "The policy"
    model: Any = None  # the fitted model whose method the function is, if it is one
    names: tuple[str, ...] = ()  # of the log's columns, where they are known
    encodings: Mapping[str, Encoding] = field(default_factory=dict)  # how their text became numbers
    deterministic: ClassVar[bool] = True  # continuous actions: the same at the same state

    def action_probs(self, observations: FloatArray) -> FloatArray:
        rows, answer = len(observations), self._answer(observations)
        if answer.ndim == 2 and answer.shape[0] == rows and not _is_column_of_actions(answer):
            return np.asarray(answer)  # checked by the caller
        chosen = self._chosen(answer.reshape(-1) if answer.shape == (rows, 1) else answer, observations)
        assert self.actions is not None
        count = self.actions if isinstance(self.actions, int) else len(self.actions)
        return one_hot(chosen, count)

    def sample_action(self, observations: FloatArray, rng: np.random.Generator) -> FloatArray:
        del rng
        answer = self._answer(observations)
        return np.asarray(answer[:, None] if answer.ndim == 1 else answer)

    def kind_of_answer(self, observations: FloatArray) -> Literal["probabilities", "numbers", "names"]:
        """What it answers with: probabilities, or actions by their numbers or names."""
        answer = query_policy(self._answer, observations, "first state of the log")
        if answer.dtype.kind == "U":
            return "names"
        return "numbers" if answer.ndim == 1 or _is_column_of_actions(answer) else "probabilities"

    def with_actions(self, actions: int | tuple[str, ...]) -> Rule:
        return replace(self, actions=actions)

    def _answer(self, observations: FloatArray) -> npt.NDArray[Any]:
        framed = asks_for_frame(self.function)
        given = (
            as_frame(observations, self.names, self.encodings)
            if framed
            else given_to(self.model, observations, self.names, self.encodings)
        )
        try:
            answer = self.function(given)
        except (LookupError, AttributeError, TypeError, ValueError) as problem:
            if hint := self._hint(problem, observations, framed=framed):
                problem.add_note(hint)
            raise
        try:
            array = np.asarray(answer)
        except ValueError as problem:
            raise PolicyError(f"{self.what} returned rows of unequal length. {_ALL_AT_ONCE}") from problem
        if array.dtype.kind == "O" and all(isinstance(entry, str) for entry in array.ravel().tolist()):
            array = array.astype(str)
        if array.dtype.kind == "O" and array.shape == (len(observations),):
            empty = [i for i, entry in enumerate(array.tolist()) if entry is None or entry != entry]
            self._refuse_none(empty, observations)
        if array.dtype.kind not in "biufU":
            raise PolicyError(f"{self.what} returned {one_line(repr(answer), 120)}: no numbers. {_ALL_AT_ONCE}")
        return self._named(array)

    def _named(self, answer: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Numbers of actions whose names are numbers (articles 7, 48213) are these names."""
        names = self.actions if isinstance(self.actions, tuple) else ()
        one = answer.ndim == 1 or _is_column_of_actions(answer)
        if not (one and names and answer.dtype.kind in "iuf" and all(name.isdecimal() for name in names)):
            return answer
        whole = np.isfinite(answer) & (np.abs(answer) < 2**63) & (answer == np.rint(answer))
        return answer.astype(np.int64).astype(str) if whole.all() else answer

    def _hint(self, problem: Exception, observations: FloatArray, *, framed: bool) -> str:
        """What the function was given, where its error suggests that it took this for something else."""
        columns = list(self._columns(observations))
        if framed:
            word = problem.args[0] if isinstance(problem, KeyError) and problem.args else ""
            near = did_you_mean(word, columns)
            return f"It is given all states at once, a table with {counted_names(columns)}.{near}"
        if columns and _TAKEN_FOR_A_TABLE.search(str(problem)):
            return (
                f"It is given all states at once, an array of floats of shape {observations.shape}. A function whose first "
                f"argument is called `frame`, f(frame), gets a table with {counted_names(columns)}."
            )
        return ""

    def _columns(self, observations: FloatArray) -> dict[str, npt.NDArray[Any]]:
        """The states by the log's columns; none where these have no names."""
        known = len(self.names) == observations.shape[1]
        return named_columns(observations, self.names, self.encodings) if known else {}

    def _state(self, observations: FloatArray, row: Any) -> str:
        """A state in words: "age = 23, segment = worker"."""
        here = observations[row : row + 1]
        columns = self._columns(here)
        if not columns:
            return f"({', '.join(f'{value:g}' for value in here[0, :12])}{', ...' if here.shape[1] > 12 else ''})"
        return shown(
            f"{name} = {value[0] if value.dtype.kind == 'O' else f'{value[0]:g}'}" for name, value in columns.items()
        )

    def _refuse_none(self, rows: Sequence[int] | npt.NDArray[np.int64], observations: FloatArray) -> None:
        if len(rows):
            raise PolicyError(
                f"{self.what} returned no action (NaN or None) for {len(rows)} of {len(observations)} states, such as "
                f"{self._state(observations, rows[0])}. It needs an answer for every state."
            )

    def _chosen(self, answer: npt.NDArray[Any], observations: FloatArray) -> npt.NDArray[np.int64]:
        """One action per state, as its number."""
        rows = len(observations)
        came = (
            f"{self.what} returned shape {answer.shape}, {answer.dtype}, beginning {_first(answer)}, for {rows} states"
        )
        if answer.shape != (rows,):
            raise PolicyError(f"{came}. {_ALL_AT_ONCE}")
        if answer.dtype.kind == "U":
            return self._numbered(answer, observations)
        self._refuse_none(np.flatnonzero(np.isnan(answer)), observations)
        whole = np.isfinite(answer) & (answer == np.rint(answer))
        if not whole.all():
            raise PolicyError(
                f"{came}: one number per state that is no action, since actions are whole numbers. If it is the probability of "
                "action 1, return both: np.column_stack([1 - p, p]). If actions are continuous, the log needs them as floats."
            )
        if self.actions is None:
            raise PolicyError(
                f"{came}: one action per state. How many actions there are is not known here: state it, "
                "DeterministicPolicy(function, n_actions=K), or return probabilities (n, K)."
            )
        count = self.actions if isinstance(self.actions, int) else len(self.actions)
        outside = np.flatnonzero((answer < 0) | (answer >= count))
        if outside.size:
            raise PolicyError(
                f"{self.what} takes action {answer[outside[0]]:g} at the state {self._state(observations, outside[0])}; "
                f"the log's actions are 0 to {count - 1}. If there are more than the log shows, state how many: "
                "DeterministicPolicy(function, n_actions=K)."
            )
        return np.asarray(answer, dtype=np.int64)

    def _numbered(self, names: npt.NDArray[Any], observations: FloatArray) -> npt.NDArray[np.int64]:
        if isinstance(self.actions, int) and all(str(name).isdecimal() for name in names):
            return self._chosen(names.astype(np.int64), observations)
        if not isinstance(self.actions, tuple):
            raise PolicyError(
                f"{self.what} returned names, such as {one_line(repr(str(names[0])))}; the log's actions are numbers. Return "
                "numbers."
            )
        places = {name: place for place, name in enumerate(self.actions)}
        row = next((row for row, name in enumerate(names) if str(name) not in places), None)
        if row is not None:
            unknown = str(names[row])
            raise PolicyError(
                f"{self.what} takes the action {one_line(repr(unknown))}, which is not among {shown(self.actions)}, at the state "
                f"{self._state(observations, row)}.{did_you_mean(unknown, self.actions)} actions=[...] (--actions) names those "
                "that the log never took as well."
            )
        return np.array([places[str(name)] for name in names], dtype=np.int64)


def _is_column_of_actions(answer: npt.NDArray[Any]) -> bool:
    """(n, 1) whole numbers or names; floats are probabilities of one action alone."""
    return answer.ndim == 2 and answer.shape[1] == 1 and answer.dtype.kind in "biuU"


def _first(answer: npt.NDArray[Any]) -> str:
    return one_line(", ".join(map(str, answer.ravel()[:3].tolist())) or "nothing")


def predicting(model: Any) -> Rule:
    """An object with `predict`; a pair (actions, state) is what models that remember return.

    A `predict` with an argument `deterministic` (stable-baselines3) draws by default: what it returns is then no function of the
    state, and which of the two policies is meant has to be stated.
    """
    if _may_draw(model.predict):
        raise InvalidInput(
            f"`predict` of the {type(model).__name__} draws its actions unless deterministic=True is passed. Pass what is meant: "
            "its best action, lambda states: model.predict(states, deterministic=True)[0], or its probabilities, a function of "
            "all states that returns (n, actions); the page on policies has both."
        )

    def predict(observations: Any) -> Any:
        answer = model.predict(observations)
        return answer[0] if isinstance(answer, tuple) and len(answer) == 2 else answer

    return Rule(predict, what=f"`predict` of the {type(model).__name__}", model=model)


def _may_draw(predict: Callable[..., Any]) -> bool:
    try:
        return "deterministic" in inspect.signature(predict).parameters
    except (TypeError, ValueError):
        return False


def constant(action: Real | float | str) -> Rule:
    """The same action everywhere, by its number or its name."""
    always = partial(_everywhere, action)
    always.__name__ = action_words(action if isinstance(action, str) else f"{action:g}")  # type: ignore[attr-defined]
    return Rule(always, what=f"The policy {action!r}")


def action_words(name: str) -> str:
    """What an action is called in a sentence: a number alone would be read as a value."""
    return f"action {name}" if name.isdecimal() else one_line(name)


def _everywhere(action: Any, observations: FloatArray) -> npt.NDArray[Any]:
    return np.full(len(observations), action)


def looked_up(table: Mapping[Any, Any]) -> Rule:
    """{state: action} or {state: probabilities}; a state of several columns is a tuple."""
    known = {tuple(map(float, _key(state))): answer for state, answer in table.items()}

    def look_up(observations: FloatArray) -> list[Any]:
        states, places = np.unique(observations, axis=0, return_inverse=True)
        found = []
        for state in map(tuple, states.tolist()):
            if state not in known:
                raise PolicyError(
                    f"The policy's table has no state {one_line(state if len(state) > 1 else state[0])}. It has "
                    f"{shown(key if len(key) > 1 else key[0] for key in known)}. Give it an entry for every state of the log."
                )
            found.append(known[state])
        return [found[place] for place in places.reshape(-1).tolist()]

    return Rule(look_up, what="The policy's table")


def _key(state: Any) -> tuple[Any, ...]:
    parts = tuple(state) if isinstance(state, tuple | list) else (state,)
    if not all(isinstance(part, Real) for part in parts):
        raise InvalidInput(
            f"The policy's table has the state {one_line(repr(state))}. States are numbers as in the log, or tuples of them "
            "where observations have several columns."
        )
    return parts
