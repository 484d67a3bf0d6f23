"""The parts of a transition, from the columns of a table: found, complete, and turned into numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, one_line
from bondic.data import _arrays
from bondic.data._arrays import BoolArray, numbered
from bondic.data.io.encode import Encoded, Treatment, encode_observations, is_number
from bondic.data.io.finding import ColumnMap, find_columns
from bondic.data.io.loaded import Encoding
from bondic.data.io.missing_columns import NO_ACTIONS, UNUSED, end_every_row, steps_as_observations
from bondic.data.io.proposals import ReadColumn
from bondic.data.io.table import Column, SourceTable
from bondic.data.names import ALIASES, MAY_BE_ABSENT, OF_ALL_ACTIONS, REQUIRED, unknown_part
from bondic.data.propensities import PROPENSITIES, refuse_both
from bondic.errors import ValidityNote, kind_of, shown

Given = Mapping[str, str | Iterable[str] | float | Mapping[str, float] | None]

_MAX_LISTED = 100
_MAX_STATED = 2**20
"""As many actions as names can be listed for."""
_NAMED = 10_000
"""Whole numbers from here on are names of actions (article 48213), unless it is stated how many actions there are."""
_FLAGS = ("true", "false")
_SINGLE = ("terminations", "truncations", "episode_ids", "timesteps", *PROPENSITIES)
_TYPED = {"terminations": _arrays.flags, "truncations": _arrays.flags, "timesteps": _arrays.integers}


def checked_columns(columns: Any) -> dict[str, Any]:
    """What the caller stated about columns: parts that exist, each with a name, names, or None."""
    if not isinstance(columns, Mapping | None):
        raise InvalidInput(f"columns= maps parts of a transition to column names; it is {kind_of(columns)}.")
    for part, value in dict(columns or {}).items():
        if part not in ALIASES:
            raise InvalidInput(unknown_part(part, ALIASES))
        if part == _LOGGED and isinstance(value, Real | Mapping):
            numbers = value.values() if isinstance(value, Mapping) else (value,)
            if not all(isinstance(number, Real) and not isinstance(number, bool) for number in numbers):
                raise InvalidInput(f"propensity= is {value!r}; {_PROPENSITY}")
            continue
        names = value if isinstance(value, Sequence) else (None,)
        if value is not None and not all(isinstance(name, str) for name in names):
            raise InvalidInput(f"columns={{'{part}': ...}} takes a column name or a list of names.")
    return dict(columns or {})


_LOGGED = "behavior_action_probs"
_PROPENSITY = (
    "it is a column, the probability of every action (0.5), or one for each, {'A': 0.3, 'B': 0.7} (--propensity COLUMN, 0.5, or "
    "A=0.3,B=0.7)."
)


def with_propensity(columns: Any, propensity: Any) -> dict[str, Any]:
    """The columns with the one of propensities, or with these as a number, or as a number for every action."""
    found = checked_columns(columns)
    if propensity is None:
        return found
    if found.get(_LOGGED) is not None:
        raise InvalidInput(f"propensity= and columns={{'{_LOGGED}': ...}} state the same twice: keep one of them.")
    if not isinstance(propensity, str | Real | Mapping):
        raise InvalidInput(f"propensity= is {kind_of(propensity)}; {_PROPENSITY}")
    if isinstance(propensity, Mapping):  # actions as the log names them: true and 1.0 are 1
        propensity = {str(int(one) if _is_code(one) else one): number for one, number in propensity.items()}
    return checked_columns(found | {_LOGGED: propensity})


def _is_code(action: Any) -> bool:
    return isinstance(action, Real | np.bool_) and float(action).is_integer()


def stated_propensity(columns: Given | None) -> Any:
    """Propensities that were stated as numbers; None where they are a column, or unknown."""
    stated = (columns or {}).get(_LOGGED)
    return stated if isinstance(stated, Real | Mapping) else None


def find_parts(
    names: Sequence[str],
    stated: Given,
    optional: Collection[str] = (),
    *,
    one_step: bool = False,
    look: ReadColumn | None = None,
) -> tuple[ColumnMap, set[str], dict[str, tuple[str, ...]]]:
    """Columns of every part, the parts that are stated to be absent, and columns of the target policy's probabilities."""
    stated = checked_columns(stated)
    if known := stated_propensity(stated) is not None:  # no column
        stated = {**stated, **dict.fromkeys((_LOGGED, "behavior_log_probs"))}
    if one_step:
        optional = (*optional, "terminations")
        stated = {part: value for part, value in stated.items() if part not in UNUSED} | dict.fromkeys(UNUSED)
    absent = {part for part, value in stated.items() if value is None}
    if absent - {*MAY_BE_ABSENT, *(UNUSED if one_step else ())}:
        raise InvalidInput(
            "columns={part: None} states that the log has none; that is possible for "
            f"{', '.join(f'`{part}`' for part in MAY_BE_ABSENT)} only."
        )
    given: dict[str, Any] = {part: value for part, value in stated.items() if value is not None}
    required = [part for part in REQUIRED if part not in {*optional, *(absent - {"observations"})}]
    found = find_columns(names, given, required=required, skip=absent, look=look)
    refuse_both(found.columns)
    probs = {part: group for part, group in found.columns.items() if part in OF_ALL_ACTIONS}
    rest = {part: group for part, group in found.columns.items() if part not in OF_ALL_ACTIONS}
    known = known or bool({_LOGGED, "behavior_log_probs"} & {*rest})
    notes = (*found.notes, ValidityNote(_CHANCE)) if found.stateless and not known else found.notes
    return replace(found, columns=rest, notes=notes), absent, probs


def known_actions(actions: Sequence[str | int] | int | None) -> tuple[str, ...] | None:
    """Names in order; a number K stands for 0, ..., K - 1, and so do these numbers."""
    if actions is None:
        return None
    if isinstance(actions, int | np.integer) and not isinstance(actions, bool):
        if actions > _MAX_STATED:
            raise InvalidInput(
                f"actions={actions} (--actions) states more than {_MAX_STATED} actions: tables with an entry for each "
                "would not fit into memory. Leave it out, or list the names of those that there are."
            )
        actions = range(int(actions))
    if not isinstance(actions, str) and isinstance(actions, Iterable):
        actions = list(actions)
        if actions == list(range(len(actions))):
            actions = list(map(str, actions))
    if not isinstance(actions, list) or not all(isinstance(name, str) for name in actions) or not actions:
        raise InvalidInput(
            "actions= (--actions none,low,high) lists the names of the actions in order, such as ['none', 'low', 'high'], or "
            "says how many there are, 10 for 0 to 9."
        )
    if len(set(actions)) < len(actions):
        raise InvalidInput(f"actions= (--actions) names an action twice: {shown(actions)}.")
    return tuple(actions)


def _listed(known: Sequence[str]) -> str:
    """The whole coding, unless it is very long: it says what the policy's probabilities were taken for."""
    pairs = [f"{code} = {one_line(text)}" for code, text in enumerate(known)]
    return ", ".join(pairs) if len(pairs) <= _MAX_LISTED else shown(pairs)


_CHANCE = (
    "There are no columns for observations and propensities. The answer holds if nothing that moves the outcomes had a part in "
    "choosing the actions, as in an experiment. If they were drawn, say how: propensity=0.5, or a column (--propensity)."
)
_OFF = 1e-6
_MOST_NAMES = 256
"""Whole floats from here on are quantities, and texts of whole numbers are ids."""
_NUMBERS = frozenset(map(str, range(_MOST_NAMES)))
_STATELESS = (
    "There is no column for observations: all decisions are made in one situation, and policies are told no more of it."
)


class Parts:
    """Reads the parts of a table, and says what was done."""

    def __init__(
        self,
        table: SourceTable,
        columns: Mapping[str, tuple[str, ...]],
        treatment: Treatment,
        actions: tuple[str, ...] | None = None,
        *,
        one_step: bool = False,
        stateless: bool = False,
        propensity: Any = None,  # a number, or one for every action
        whole: bool | None = None,
    ) -> None:
        self.table, self.columns, self.treatment, self.known_actions = table, columns, treatment, actions
        self.one_step, self.stateless, self.propensity, self.whole = one_step, stateless, propensity, whole
        self.notes: list[str] = []
        self.encodings: dict[str, Encoding] = {}
        self.unrecorded: tuple[str, ...] = ()  # parts for which others stand in

    def read(self) -> tuple[dict[str, Any], Encoded]:
        """Every part by name; next observations are None where no column holds them."""
        rewards = self.single("rewards")
        n = rewards.shape[0]
        if n == 0:
            raise InvalidInput(f"{self.table.source} has no rows. An interval needs at least one transition.")
        reads: dict[str, Callable[[], Any]] = {"actions": lambda: self._actions(n)}
        for part in _SINGLE:
            if part in self.columns:
                reads[part] = partial(self._typed, part, n)
        parts, wrong = self._all_of(reads)
        if self.propensity is not None and "actions" in parts:
            parts[_LOGGED] = self._propensities(parts["actions"])
        parts = {"rewards": rewards, **dict.fromkeys(("actions", *_SINGLE)), **parts}
        if parts["terminations"] is None and not self.one_step:
            parts["terminations"] = np.zeros(n, dtype=bool)
        ended = np.ones(n, dtype=bool) if self.one_step else parts["terminations"]
        found, more = self._all_of({"states": lambda: self._states(parts, ended, n)})
        if wrong := wrong + more:
            raise wrong[0] if len(wrong) == 1 else InvalidInput(" Also: ".join(dict.fromkeys(map(str, wrong))))
        encoded: Encoded = found["states"]
        asked = ("actions",) if self.stateless else ("observations", "actions")
        self.unrecorded = tuple(part for part in asked if part not in self.columns)
        self.notes += encoded.notes
        self.encodings |= encoded.encodings
        parts["observations"], parts["next_observations"] = encoded.observations, encoded.following
        if self.one_step:
            end_every_row(self.table.source, self.columns, parts, n)
        return parts, encoded

    def _typed(self, part: str, rows: int) -> Any:
        return _TYPED.get(part, lambda _, values, __: values)(part, self.single(part, rows), rows)

    def _states(self, parts: dict[str, Any], ended: BoolArray, rows: int) -> Encoded:
        if "observations" in self.columns:
            here, following = self.columns["observations"], self.columns.get("next_observations")
            return encode_observations(self.table, here, following, ended, self.treatment)
        if self.stateless:
            none = np.zeros((rows, 1))
            return Encoded(none, none, ("state",), {}, (_STATELESS,))
        told = {"one_step": self.one_step, "streamed": self.treatment.streamed}
        return steps_as_observations(self.table.source, parts, rows, **told)

    @staticmethod
    def _all_of(reads: Mapping[str, Callable[[], Any]]) -> tuple[dict[str, Any], list[InvalidInput]]:
        """What could be read, and every complaint: a file is mended once."""
        found: dict[str, Any] = {}
        wrong: list[InvalidInput] = []
        for part, read in reads.items():
            try:
                found[part] = read()
            except InvalidInput as problem:
                wrong.append(problem)
        return found, wrong

    def single(self, part: str, rows: int | None = None) -> npt.NDArray[Any]:
        """A part that is one value per row, complete, and made of numbers (episode ids may be text)."""
        group = self.columns[part]
        if len(group) > 1:
            raise InvalidInput(f"{self.table.source}: `{part}` is one value per row, not the columns {shown(group)}.")
        column, name = self.table.column(group[0], rows, f" (`{part}`)"), group[0]
        self._complete(part, name, column)
        if column.text and part != "episode_ids":
            values = column.values.ravel().tolist()
            flags = part in ("terminations", "truncations")
            fits = (lambda value: is_number(value) or value.strip().lower() in _FLAGS) if flags else is_number
            row = next((r for r, value in enumerate(values) if not fits(value)), 0)
            raise InvalidInput(
                f"{self.table.source}: {one_line(name)} (`{part}`) is text at row {numbered(row)}: "
                f"{one_line(repr(values[row]))}. {'True/false or 1/0' if flags else 'A number'} is needed in every row."
            )
        if column.values.dtype.itemsize < 8 and column.values.dtype.kind == "f":
            self.notes.append(f"`{part}` was stored as {column.values.dtype} and is used as float64.")
        return column.values

    def _complete(self, part: str, name: str, column: Column) -> None:
        if (row := column.first_gap) is not None:
            raise InvalidInput(
                f"{self.table.source}: {one_line(name)} (`{part}`) is missing at row {numbered(row)}. It cannot be guessed: "
                "fill in what happened. Never drop a row because of its reward or its next observation: that breaks the "
                "guarantee."
            )

    def _actions(self, n: int) -> npt.NDArray[Any]:
        if "actions" not in self.columns:
            self.notes.append(NO_ACTIONS)
            return np.zeros(n, dtype=np.int64)
        group = self.columns["actions"]
        columns = [self.table.column(name, n, " (`actions`)") for name in group]
        for name, column in zip(group, columns, strict=True):
            self._complete("actions", name, column)
        if any(column.text for column in columns):
            if len(columns) > 1 or columns[0].values.ndim > 1:
                raise InvalidInput(f"{self.table.source}: actions given as text need one column, not {shown(group)}.")
            return self._action_codes(columns[0].values)
        values = columns[0].values if len(columns) == 1 else np.column_stack([column.values for column in columns])
        values = self._whole(values)
        if self._are_names(values):
            return self._numbers_as_names(values.reshape(n))
        if self.known_actions is not None:
            self._stated(values, self.known_actions)
        flat = values.reshape(n, -1) if values.ndim <= 2 else values
        if values.dtype.kind in "biu" and flat.shape[1] > 1:
            self.notes.append(f"Actions have {flat.shape[1]} integer dimensions: read as continuous.")
        return values

    def _whole(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Floats 0.0, 1.0, ... as numbers of actions; `whole`, of a log in batches, says what those of the first rows were."""
        if values.dtype.kind != "f" or values.size != len(values) or self.whole is False:
            return values
        wrong = _arrays.first(~((values >= 0) & (values < _MOST_NAMES) & (values == np.rint(values))).reshape(-1))
        if wrong is None:
            self.notes.append(
                "Actions are whole numbers stored as floats: they are names, as whole numbers are. If they are quantities, pass "
                "arrays, Transitions(...)."
            )
            return values.astype(np.int64)
        if self.whole:
            raise InvalidInput(
                f"{self.table.source}: the action at row {numbered(wrong)} is {values.flat[wrong]}; those of the first rows are "
                "whole numbers, which are names. If they are quantities, load the log as a whole, read_log (no --with memory)."
            )
        return values

    def _propensities(self, actions: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """b(a_i) where it was stated as a number for every action."""
        if actions.size != len(actions) or actions.dtype.kind not in "biu":
            raise InvalidInput("propensity= as a number is for discrete actions. A density needs a column.")
        coding, (taken, place) = self.encodings.get("actions"), np.unique(actions.astype(np.int64), return_inverse=True)
        seen = [str(k) if coding is None else coding.values[k] for k in taken.tolist()]
        if not isinstance(self.propensity, Mapping) and coding is None and self.treatment.streamed:
            raise InvalidInput(
                "propensity= as one number: a streamed log has to know the actions beforehand, actions=2."
            )
        names = seen if coding is None else coding.values
        stated = self.propensity if isinstance(self.propensity, Mapping) else dict.fromkeys(names, self.propensity)
        if lacking := [name for name in seen if name not in stated]:
            raise InvalidInput(f"propensity= has no number for {shown(lacking)}, but for {shown(stated)}.")
        if not (all(0 <= number <= 1 for number in stated.values()) and abs(sum(stated.values()) - 1) <= _OFF):
            listed = ", ".join(f"{name}: {number:g}" for name, number in stated.items())
            raise InvalidInput(
                f"propensity= gives {listed}: {sum(stated.values()):g} in all, and probabilities of all actions are 1 in all. "
                "State one for every action, those that were never taken included: propensity={'A': 0.3, 'B': 0.7} "
                "(--propensity A=0.3,B=0.7). One number is the probability of each of them."
            )
        return np.array([stated[name] for name in seen])[place.reshape(-1)]

    def _stated(self, values: npt.NDArray[Any], known: tuple[str, ...]) -> None:
        """Actions that are numbers, beside a statement of what they are: how many there are is taken from it."""
        if known != tuple(map(str, range(len(known)))) or values.ndim > 1 or values.dtype.kind not in "biu":
            self.notes.append("Actions are numbers already: the names in actions= (--actions) were not used.")
            return
        if (row := _arrays.first(values >= len(known))) is not None:
            raise InvalidInput(
                f"{self.table.source}: the action {values[row]} at row {numbered(row)} is not among the {len(known)} that "
                f"actions= (--actions) states, 0 to {len(known) - 1}."
            )
        self.encodings["actions"] = Encoding("actions", known, self.columns["actions"])
        self.notes.append(f"There are {len(known)} actions, 0 to {len(known) - 1}, as stated.")

    def _are_names(self, values: npt.NDArray[Any]) -> bool:
        """Whether whole numbers are names: where names that are numbers were stated, or where they are very large."""
        if values.dtype.kind not in "iu" or values.size != len(values):
            return False
        known = self.known_actions
        if known is not None:
            return known != tuple(map(str, range(len(known)))) and any(name.isdecimal() for name in known)
        # negative ones, a usual mark of what is missing, are refused with their row
        return bool(values.max() >= _NAMED and values.min() >= 0)

    def _numbers_as_names(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        if self.known_actions is None and not self._in_parts:
            self.known_actions = tuple(map(str, np.unique(values).tolist()))
        return self._action_codes(values.astype(str).astype(object), "names, though they are numbers")

    @property
    def _in_parts(self) -> bool:
        """Whether other rows of the log are read elsewhere, and have to have the same numbers for the same names."""
        return bool(self.treatment.streamed or self.treatment.like)

    def _action_codes(self, values: npt.NDArray[Any], kind: str = "text") -> npt.NDArray[np.int64]:
        texts = values.tolist()
        if kind == "text" and self.known_actions is None and all(text in _NUMBERS for text in texts):
            self.notes.append("Actions are whole numbers stored as text: read as those numbers.")
            return np.array([int(text) for text in texts], dtype=np.int64)
        if self.known_actions is None and self._in_parts:
            first = 0 if kind == "text" else next(row for row, text in enumerate(texts) if int(text) >= _NAMED)
            raise InvalidInput(
                f"{self.table.source}: actions are {kind}: {one_line(repr(texts[first]))} at row {numbered(first)}. A part of a "
                "log cannot list those of others: name all in order, actions=['none', 'low', ...] (--actions none,low,...); if "
                "they count from 0, say how many there are, actions=K (--actions K); or read it whole."
            )
        known = self.known_actions or tuple(sorted(set(texts)))
        code = {text: index for index, text in enumerate(known)}
        if (row := next((row for row, text in enumerate(texts) if text not in code), None)) is not None:
            raise InvalidInput(
                f"{self.table.source}: the action {one_line(repr(texts[row]))} at row {numbered(row)} is not among actions= "
                f"(--actions: {shown(known)}). Name every action that was taken."
            )
        self.encodings["actions"] = Encoding("actions", known, self.columns["actions"])
        self.notes.append(
            f"Actions are {kind}, coded as {_listed(known)}. The policy's "
            "probabilities must follow this order. To change it, or to add actions that the log never took: "
            "actions=[...] (--actions)."
        )
        return np.array([code[text] for text in texts], dtype=np.int64)
