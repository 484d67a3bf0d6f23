"""The log D_n = (s_i, a_i, r_i, s'_i), i = 1..n, in the order of time (theory, section 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput
from bondic.data import _arrays
from bondic.data._arrays import BoolArray, FloatArray, IntArray, numbered
from bondic.data.content_hash import COLUMNS, ContentHash
from bondic.data.episodes import KeyCheck
from bondic.data.log import Log
from bondic.data.propensities import PROPENSITIES, checked_propensities

if TYPE_CHECKING:
    from bondic.data.hygiene.inspection import Inspection


@dataclass(frozen=True, eq=False)
class Transitions(Log):
    """A frozen log of transitions; row order is time and is never changed.

    The one assumption about the log: given everything before row i and (s_i, a_i), the pair (r_i, s'_i) was
    drawn from the environment. How (s_i, a_i) was chosen is free. Rows may have been selected only by what was
    known before (r_i, s'_i). Nothing here can check that; what can be checked is.

    Actions are discrete when given as integers (0, 1, ...), continuous when given as floats. `terminations`
    means that nothing follows (the value after is 0); `truncations` means that recording stopped although the
    process went on: s' is real and is used.

    Parameters
    ----------
    observations : array of float, (n, d)
        s_i: the whole state before each step, one row per step.
    actions : array of int, (n,), or of float, (n, k)
        a_i: whole numbers are discrete actions, floats continuous ones.
    rewards : array of float, (n,)
        r_i: what the step earned.
    next_observations : array of float, (n, d)
        s'_i: the state after the step; it may be missing (nan) where the process ended.
    terminations : array of bool, (n,)
        Whether the process ended with this step: the value after it is 0.
    truncations : array of bool, (n,), default none
        Whether recording stopped after this step although the process went on.
    episode_ids : array, (n,), default None
        Which episode a row belongs to. Needed to find the starts of episodes, and copies.
    timesteps : array of int, (n,), default None
        The step within the episode, from 0 on. Needed for a finite horizon.
    behavior_action_probs : array of float, (n,), default None
        b_i(a_i | s_i): probability (density, for continuous actions) with which the logged action was taken. Methods that
        weigh rows need it, the dual does not.
    behavior_log_probs : array of float, (n,), default None
        Its logarithm; give one of the two.
    target_action_probs : array of float, (n,), default None
        π(a_i | s_i): probability with which the target policy takes the logged action. With it no policy object is needed:
        see `LoggedTarget`.
    target_log_probs : array of float, (n,), default None
        Its logarithm, -inf for 0; give one of the two.
    discrete_observations : bool, default None
        Whether observations hold codes rather than measurements, so that equal rows are no surprise; None: whole
        numbers.
    unrecorded : tuple of str, default ()
        Columns that stand in for what was not recorded, "observations" or "actions": such a log serves `LoggedTarget` alone.
    """

    observations: FloatArray
    actions: npt.NDArray[Any]
    rewards: FloatArray
    next_observations: FloatArray
    terminations: BoolArray
    truncations: BoolArray | None = None
    episode_ids: npt.NDArray[Any] | None = None
    timesteps: IntArray | None = None
    behavior_action_probs: FloatArray | None = None
    behavior_log_probs: FloatArray | None = None
    target_action_probs: FloatArray | None = None
    target_log_probs: FloatArray | None = None
    discrete_observations: bool | None = None
    unrecorded: tuple[str, ...] = ()
    content_hash: str = field(init=False, default="")
    held: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._convert()
        _arrays.setter(self)("unrecorded", tuple(self.unrecorded))
        if set(self.unrecorded) - {"observations", "actions"}:
            raise InvalidInput(f"unrecorded={self.unrecorded}: only 'observations' and 'actions' can be unrecorded.")
        KeyCheck().add(self)
        digest = ContentHash()
        digest.add(self.columns())
        _arrays.setter(self)("content_hash", digest.hexdigest())

    @staticmethod
    def one_step(observations: Any, actions: Any, rewards: Any, **optional: Any) -> Transitions:
        """A log in which every row is an episode of its own (a bandit log): nothing follows, and nothing has to be stored."""
        states = _arrays.matrix("observations", observations)
        superfluous = [
            name for name in ("next_observations", "terminations", "truncations", "timesteps") if name in optional
        ]
        if superfluous:
            raise InvalidInput(
                f"Every row of a one-step log ends: leave out {', '.join(superfluous)}, or use Transitions(...)."
            )
        ends = np.ones(states.shape[0], dtype=bool)
        return Transitions(observations, actions, rewards, np.zeros(states.shape), ends, **optional)

    @staticmethod
    def part(columns: Mapping[str, Any], first_row: int, content_hash: str) -> Transitions:
        """Rows `first_row`, ... of a longer log with that hash; keys are checked for the log as a whole elsewhere."""
        rows = _unchecked(columns, columns.get("discrete_observations"), columns.get("unrecorded", ()), content_hash)
        with _arrays.counting_from(first_row):
            rows._convert()
        return rows

    def like(self, columns: Mapping[str, Any], content_hash: str) -> Transitions:
        """Rows that were checked before, with the types and dimensions of these."""
        count = len(columns["rewards"])
        found: dict[str, Any] = {}
        for name, mine in self.columns().items():
            given = columns.get(name)
            if mine is not None:
                shape = (count, *mine.shape[1:])
                found[name] = np.zeros(shape, mine.dtype) if given is None else _shaped(given, mine.dtype, shape)
        if columns.get("next_observations") is not None:
            following = found["next_observations"]
            if (missing := found["terminations"] & ~np.isfinite(following).all(axis=1)).any():
                found["next_observations"] = np.where(missing[:, None], 0.0, following)
        return self.of_columns(found, content_hash)

    def cut(self, rows: RowRange) -> Transitions:
        """These rows, with the hash of the whole log."""
        where = slice(rows.start, rows.stop)
        return self.of_columns(
            {name: c[where] for name, c in self.columns().items() if c is not None}, self.content_hash
        )

    def of_columns(self, columns: Mapping[str, Any], content_hash: str) -> Transitions:
        """Rows of the same log, as they were checked."""
        return _unchecked(columns, self.discrete_observations, self.unrecorded, content_hash)

    def batches(self, rows: RowRange | None = None, size: int | None = None) -> Iterator[tuple[RowRange, Transitions]]:
        """These rows in order, `size` at a time: by default one batch."""
        requested = RowRange(0, len(self)) if rows is None else rows
        for top in range(requested.start, requested.stop, size or max(1, len(requested))):
            part = RowRange(top, requested.stop if size is None else min(top + size, requested.stop))
            yield part, self.read(part)

    def read(self, rows: RowRange | None = None) -> Transitions:
        return self if rows is None or len(rows) == len(self) else self.cut(rows)

    def columns(self) -> dict[str, npt.NDArray[Any] | None]:
        """All columns by name."""
        return {name: getattr(self, name) for name in COLUMNS}

    def refuse_other_form(self, later: Transitions, row: int) -> None:
        """Rows of one log, those from `row` on among them, have the same columns, types and dimensions."""
        for name, mine in self.columns().items():
            theirs = getattr(later, name)
            if (mine is None) != (theirs is None) or (
                mine is not None and (mine.shape[1:] != theirs.shape[1:] or mine.dtype != theirs.dtype)
            ):
                raise InvalidInput(
                    f"`{name}` changes its form at row {row}: {_form(theirs)} there, {_form(mine)} before. All rows of a log "
                    "have the same columns, of the same types and dimensions."
                )

    def _convert(self) -> None:
        """Types, shapes and values of every column."""
        put = _arrays.setter(self)
        put("observations", _arrays.matrix("observations", self.observations))
        whole = _arrays.looks_whole(self.observations)
        n = self.observations.shape[0]
        if n == 0:
            raise InvalidInput("The log is empty. An interval needs at least one transition.")
        put("actions", _arrays.actions("actions", self.actions, n))
        put("rewards", _arrays.vector("rewards", self.rewards, n))
        put("terminations", _arrays.flags("terminations", self.terminations, n))
        truncations = np.zeros(n, dtype=bool) if self.truncations is None else self.truncations
        put("truncations", _arrays.flags("truncations", truncations, n))
        put("next_observations", self._next_observations(n))
        if self.discrete_observations is None:
            put("discrete_observations", whole)
        self._optional_columns(n, put)

    def _next_observations(self, n: int) -> FloatArray:
        values = _arrays.matrix("next_observations", self.next_observations, missing_ok=self.terminations)
        if values.shape != self.observations.shape:
            raise InvalidInput(
                f"`next_observations` has shape {values.shape}, `observations` {(n, self.observations.shape[1])}. "
                "They describe the same space and the same rows: pass arrays of one shape."
            )
        return values

    def _optional_columns(self, n: int, put: _arrays.Setter) -> None:
        if self.episode_ids is not None:
            put("episode_ids", _arrays.identifiers("episode_ids", self.episode_ids, n))
        if self.timesteps is not None:
            put("timesteps", _arrays.integers("timesteps", self.timesteps, n))
            if (row := _arrays.first(np.asarray(self.timesteps) < 0)) is not None:
                raise InvalidInput(f"`timesteps` is negative at row {numbered(row)}. Time starts at 0.")
        given = {name: getattr(self, name) for name in PROPENSITIES}
        for name, column in checked_propensities(given, n, discrete=self.discrete_actions).items():
            put(name, column)

    def row_matrix(self) -> FloatArray:
        """Every row's numbers side by side, -0.0 as 0.0."""
        known = [column for name in PROPENSITIES if (column := getattr(self, name)) is not None]
        rows = [self.observations, self._action_matrix(), self.next_observations, self.rewards, *known]
        return np.ascontiguousarray(np.column_stack(rows) + 0.0)

    def _action_matrix(self) -> FloatArray:
        return np.asarray(self.actions, dtype=np.float64).reshape(len(self), -1)

    @cached_property
    def inspection(self) -> Inspection:
        """What looks wrong in this log: see `inspect_log`."""
        from bondic.data.hygiene.single_rows import inspection_of  # verification has no use for it

        return inspection_of(self)

    @cached_property
    def single_rows(self) -> bool:
        return self.episode_ids is None and self.timesteps is None and bool(self.terminations.all())

    @property
    def reward_span(self) -> tuple[float, float]:
        return float(self.rewards.min()), float(self.rewards.max())

    @property
    def form(self) -> Transitions:
        return self

    def __len__(self) -> int:
        return int(self.observations.shape[0])

    def __repr__(self) -> str:
        kind = "discrete" if self.discrete_actions else f"{self.actions.shape[1]}-d"
        return (
            f"Transitions(n={len(self)}, observation_dim={self.observations.shape[1]}, actions={kind}, "
            f"terminations={int(self.terminations.sum())}, hash={self.content_hash[:12]})"
        )


def _unchecked(
    columns: Mapping[str, Any], discrete: bool | None, unrecorded: tuple[str, ...], content_hash: str
) -> Transitions:
    rows: Transitions = object.__new__(Transitions)
    put = _arrays.setter(rows)
    for name in COLUMNS:
        put(name, columns.get(name))
    put("discrete_observations", discrete)
    put("unrecorded", unrecorded)
    put("content_hash", content_hash)
    return rows


def _form(column: npt.NDArray[Any] | None) -> str:
    if column is None:
        return "absent"
    return f"{column.dtype} of {int(np.prod(column.shape[1:], dtype=np.int64))} number(s) a row"


def _shaped(values: Any, kind: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return np.array(values, dtype=kind, order="C", copy=True).reshape(shape)
