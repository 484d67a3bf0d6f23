"""From a table to a log: find the columns, encode them, build what is missing, say what was done."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.data import _arrays
from bondic.data.io import probabilities
from bondic.data.io.encode import Encoded, Treatment, encode_observations, is_number
from bondic.data.io.follow import Following, following_rows
from bondic.data.io.loaded import Encoding, LoadedLog
from bondic.data.io.table import BoolArray, Table
from bondic.data.names import ALIASES, REQUIRED, find_columns
from bondic.data.transitions import Transitions
from bondic.errors import InvalidInput, ValidityWarning, one_line, shown

Given = Mapping[str, str | Iterable[str] | None]
FloatArray = npt.NDArray[np.float64]

_MOST_LISTED = 100
_FLAGS = ("true", "false")


def _checked(columns: Any) -> dict[str, Any]:
    """What the caller said about columns: parts that exist, each with a name, names, or None."""
    if not isinstance(columns, Mapping | None):
        raise InvalidInput(f"columns= maps parts of a transition to column names; it is a {type(columns).__name__}.")
    for part, value in dict(columns or {}).items():
        if part not in ALIASES and part not in probabilities.PARTS:
            parts = ", ".join((*ALIASES, *probabilities.PARTS))
            raise InvalidInput(f"`{one_line(part)}` is not a part of a transition; the parts are {parts}.")
        if value is not None and not isinstance(value, str | Sequence):
            raise InvalidInput(f"columns={{'{part}': ...}} takes a column name or a list of names.")
    return dict(columns or {})


def _known(actions: Sequence[str] | None) -> tuple[str, ...] | None:
    if actions is None:
        return None
    if isinstance(actions, str) or not all(isinstance(name, str) for name in actions) or not actions:
        raise InvalidInput(
            "actions= (--actions none,low,high) lists the names of the actions in order, such as ['none', 'low', 'high']."
        )
    if len(set(actions)) < len(actions):
        raise InvalidInput(f"actions= (--actions) names an action twice: {shown(actions)}.")
    return tuple(actions)


def _listed(known: Sequence[str]) -> str:
    """The whole coding, unless it is very long: it says what the policy's probabilities were taken for."""
    pairs = [f"{code} = {one_line(text)}" for code, text in enumerate(known)]
    return ", ".join(pairs) if len(pairs) <= _MOST_LISTED else shown(pairs)


class Assembly:
    """One log being put together from one table."""

    def __init__(
        self, table: Table, columns: Given | None, treatment: Treatment, actions: Sequence[str] | None = None
    ) -> None:
        stated = {**table.groups, **_checked(columns)}
        self.table = table
        self.absent = {part for part, value in stated.items() if value is None}
        if self.absent - {"terminations", "truncations"}:
            raise InvalidInput(
                "columns={part: None} can be said of `terminations` and `truncations` alone: there are none."
            )
        given = {part: value for part, value in stated.items() if value is not None}
        self.probs = probabilities.find_probabilities(table, given)
        required = [part for part in REQUIRED if part not in ("next_observations", "terminations")]
        rest = {part: value for part, value in given.items() if part not in probabilities.PARTS}
        self.map = find_columns(table.names, rest, required=required, skip=self.absent)
        self.columns = dict(self.map.columns)
        if not {"terminations"} & (self.columns.keys() | self.absent):
            raise InvalidInput(
                f"No column for `terminations` among {shown(table.names)}. Name it, columns={{'terminations': 'name'}} "
                "(--columns terminations=name), or state that nothing ever terminates: columns={'terminations': None} "
                "(--columns terminations=none)."
            )
        self.treatment = treatment
        self.known_actions = _known(actions)
        self.notes = [
            *table.notes,
            *(self._says(part, group) for part, group in {**self.columns, **self.probs}.items()),
        ]
        self.doubts = list(self.map.notes)
        self.encodings: dict[str, Encoding] = {}
        self.dropped = 0

    @staticmethod
    def _says(part: str, group: tuple[str, ...]) -> str:
        return f"`{part}`: column{'s' if len(group) > 1 else ''} {shown(group)}."

    def build(self) -> LoadedLog:
        rewards = self._single("rewards")
        n = rewards.shape[0]
        if n == 0:
            raise InvalidInput(f"{self.table.source} has no rows. An interval needs at least one transition.")
        parts: dict[str, Any] = {"rewards": rewards, "actions": self._actions(n)}
        for part in ("terminations", "truncations", "episode_ids", "timesteps", "behavior_action_probs"):
            parts[part] = self._single(part, n) if part in self.columns else None
        if parts["terminations"] is None:
            parts["terminations"] = np.zeros(n, dtype=bool)
        ended = _arrays.flags("terminations", parts["terminations"], n)
        encoded = self._observations(ended)
        parts["observations"], parts["next_observations"] = encoded.observations, encoded.following
        probs = {
            part: probabilities.read_probabilities(self.table, part, group, n) for part, group in self.probs.items()
        }
        if encoded.following is None:
            self._follow(parts, probs, ended)
        log = self._transitions(parts)
        return self._with_probabilities(log, probs, encoded)

    def _observations(self, ended: BoolArray) -> Encoded:
        encoded = encode_observations(
            self.table, self.columns["observations"], self.columns.get("next_observations"), ended, self.treatment
        )
        self.notes += encoded.notes
        self.encodings |= encoded.encodings
        return encoded

    def _single(self, part: str, rows: int | None = None) -> npt.NDArray[Any]:
        """A part that is one value per row, complete, and made of numbers (episode ids may be text)."""
        group = self.columns[part]
        if len(group) > 1:
            raise InvalidInput(f"{self.table.source}: `{part}` is one value per row, not the columns {shown(group)}.")
        column, name = self.table.load(group[0]), group[0]
        if rows is not None and column.values.shape[0] != rows:
            raise InvalidInput(
                f"{self.table.source}: {one_line(name)} (`{part}`) has {column.values.shape[0]} rows, the rewards have {rows}. "
                "Every column needs one entry per row."
            )
        self._complete(part, name, column.missing)
        if column.text and part != "episode_ids":
            values = column.values.ravel().tolist()
            flags = part in ("terminations", "truncations")
            fits = (lambda value: is_number(value) or value.strip().lower() in _FLAGS) if flags else is_number
            row = next((r for r, value in enumerate(values) if not fits(value)), 0)
            raise InvalidInput(
                f"{self.table.source}: {one_line(name)} (`{part}`) is text at row {row}: {one_line(repr(values[row]))}. "
                f"{'True/false or 1/0' if flags else 'A number'} is needed in every row."
            )
        if column.values.dtype.itemsize < 8 and column.values.dtype.kind == "f":
            self.notes.append(f"`{part}` was stored as {column.values.dtype} and is used as float64.")
        return column.values

    def _complete(self, part: str, name: str, missing: BoolArray | None) -> None:
        if missing is not None and missing.any():
            row = int(np.flatnonzero(missing.reshape(missing.shape[0], -1).any(axis=1))[0])
            raise InvalidInput(
                f"{self.table.source}: {one_line(name)} (`{part}`) is missing at row {row}. It cannot be guessed: fill in what "
                "happened. Never drop a row because of its reward or its next observation: that breaks the guarantee."
            )

    def _actions(self, n: int) -> npt.NDArray[Any]:
        group = self.columns["actions"]
        columns = [self.table.load(name) for name in group]
        for name, column in zip(group, columns, strict=True):
            self._complete("actions", name, column.missing)
            if column.values.shape[0] != n:
                raise InvalidInput(
                    f"{self.table.source}: {one_line(name)} (`actions`) has {column.values.shape[0]} rows, the rewards have {n}."
                )
        if any(column.text for column in columns):
            if len(columns) > 1 or columns[0].values.ndim > 1:
                raise InvalidInput(f"{self.table.source}: actions given as text need one column, not {shown(group)}.")
            return self._action_codes(columns[0].values)
        if self.known_actions is not None:
            self.notes.append("Actions are numbers already: the names in actions= (--actions) were not used.")
        values = columns[0].values if len(columns) == 1 else np.column_stack([column.values for column in columns])
        flat = values.reshape(n, -1) if values.ndim <= 2 else values
        if (
            values.dtype.kind == "f"
            and flat.shape[1] == 1
            and np.all(np.isfinite(flat))
            and np.all(flat == np.rint(flat))
        ):
            self.notes.append(
                "Actions are whole numbers stored as floats: read as continuous. Store integers if discrete."
            )
        elif values.dtype.kind in "biu" and flat.shape[1] > 1:
            self.notes.append(f"Actions have {flat.shape[1]} integer dimensions: read as continuous.")
        return values

    def _action_codes(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        texts = values.tolist()
        if self.known_actions is None and all(text.isdecimal() and len(text) < 10 for text in texts):
            self.notes.append("Actions are whole numbers stored as text: read as those numbers.")
            return np.array([int(text) for text in texts], dtype=np.int64)
        known = self.known_actions or tuple(sorted(set(texts)))
        if (row := next((row for row, text in enumerate(texts) if text not in known), None)) is not None:
            raise InvalidInput(
                f"{self.table.source}: the action {one_line(repr(texts[row]))} at row {row} is not among actions= "
                f"(--actions: {shown(known)}). Name every action that was taken."
            )
        self.encodings["actions"] = Encoding("actions", known, self.columns["actions"])
        self.notes.append(
            f"Actions are text, coded as {_listed(known)}. The policy's "
            "probabilities must follow that order; actions=[...] (--actions) sets it, and adds actions that the log never took."
        )
        code = {text: index for index, text in enumerate(known)}
        return np.array([code[text] for text in texts], dtype=np.int64)

    def _follow(self, parts: dict[str, Any], probs: dict[str, FloatArray], ended: BoolArray) -> None:
        """Build next observations, leave out rows that have none, and keep every column in step."""
        n = ended.size
        cut = None if parts["truncations"] is None else _arrays.flags("truncations", parts["truncations"], n)
        ids = None if parts["episode_ids"] is None else _arrays.identifiers("episode_ids", parts["episode_ids"], n)
        times = None if parts["timesteps"] is None else _arrays.integers("timesteps", parts["timesteps"], n)
        stated = "truncations" in self.absent
        rows: Following = following_rows(self.table.source, ended, cut, ids, times, cuts_stated=stated)
        parts["next_observations"] = rows.take(np.asarray(parts["observations"], dtype=np.float64))
        if "logged_action_probs" in probs and "next_action_probs" not in probs:
            probs["next_action_probs"] = rows.take(probs["logged_action_probs"])
            self.notes.append("`next_action_probs` were taken from `logged_action_probs` of the following rows.")
        if rows.timesteps is not None:
            parts["timesteps"] = rows.timesteps
        parts["episode_ids"] = rows.episode_ids
        for part, values in parts.items():
            parts[part] = None if values is None else values[rows.keep]
        for part, values in probs.items():
            probs[part] = values[rows.keep] if len(values) == n else values
        self.dropped = int((~rows.keep).sum())
        self.notes += rows.notes
        self.doubts += rows.doubts

    def _transitions(self, parts: dict[str, Any]) -> Transitions:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ValidityWarning)
            try:
                log = Transitions(**parts)
            except InvalidInput as problem:
                if not self.dropped:
                    raise
                raise InvalidInput(
                    f"{problem} (Rows are counted without the {self.dropped} that have no next observation.)"
                ) from problem
        self.doubts += [str(entry.message) for entry in caught]
        return log

    def _with_probabilities(self, log: Transitions, probs: dict[str, FloatArray], encoded: Encoded) -> LoadedLog:
        rows = np.arange(len(log))
        for part in ("next_action_probs", "logged_action_probs"):
            if part in probs:
                counts = rows if part == "logged_action_probs" else rows[~log.terminations]
                probabilities.refuse_gaps(self.table.source, part, probs[part][counts], counts, log)
        if "next_action_probs" in probs:
            probs["next_action_probs"][log.terminations] = 0.0  # nothing follows: never asked for
        if "initial_action_probs" not in probs and "logged_action_probs" in probs and _starts_known(log):
            probs["initial_action_probs"] = probs["logged_action_probs"]
            self.notes.append("`initial_action_probs` were taken from `logged_action_probs` of first rows.")
        if "initial_action_probs" in probs:
            first = probabilities.first_rows(log)
            if len(probs["initial_action_probs"]) == len(log):  # else: one row per episode, see read_probabilities
                probs["initial_action_probs"] = probs["initial_action_probs"][first]
            elif len(probs["initial_action_probs"]) != first.size:
                raise InvalidInput(
                    f"{self.table.source}: `initial_action_probs` has {len(probs['initial_action_probs'])} rows. One per episode "
                    f"({first.size}) or one per row of the log ({len(log)}) is needed."
                )
            probabilities.refuse_gaps(
                self.table.source, "initial_action_probs", probs["initial_action_probs"], first, log
            )
        for doubt in self.doubts:
            warnings.warn(doubt, ValidityWarning, stacklevel=5)
        return LoadedLog(log, (*self.notes, *self.doubts), encoded.names, dict(self.encodings), **probs)


def _starts_known(log: Transitions) -> bool:
    return log.episode_ids is not None or bool((log.terminations | np.asarray(log.truncations)).any())
