"""From a table to a log: find the columns, encode them, build what is missing, say what was done."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.data import _arrays
from bondic.data._arrays import FloatArray
from bondic.data.episodes import OutOfOrder
from bondic.data.io import probabilities
from bondic.data.io.encode import Encoded, Treatment
from bondic.data.io.loaded import LoadedLog
from bondic.data.io.missing_columns import Following, following_rows, refuse_long_lines
from bondic.data.io.parts import Given, Parts, checked_columns, find_parts, known_actions, stated_propensity
from bondic.data.io.side_columns import order_notes, returning_notes
from bondic.data.io.table import SourceTable
from bondic.data.transitions import Transitions
from bondic.errors import ValidityNote, ValidityWarning, shown


class Assembly:
    """One log being put together from one table."""

    def __init__(
        self,
        table: SourceTable,
        columns: Given | None,
        treatment: Treatment,
        actions: Sequence[str | int] | int | None = None,
        *,
        one_step: bool = False,
        episodes: Sequence[str] = (),
    ) -> None:
        self._episodes = {name: number for number, name in enumerate(episodes)}  # of a log that was read before; grows
        self.table, one_step = table, one_step or table.one_step
        if one_step:
            refuse_long_lines(table)
        found, self.absent, self.probs = find_parts(
            table.names,
            {**table.groups, **checked_columns(columns)},
            ("next_observations",),
            one_step=one_step,
            look=table.load,
        )
        one_step = one_step or found.single
        if probabilities.lists_of_all_actions(table, found.columns):
            self.probs["logged_action_probs"] = found.columns["target_action_probs"]
            found = replace(
                found, columns={p: group for p, group in found.columns.items() if p != "target_action_probs"}
            )
        own = {"one_step": one_step, "stateless": found.stateless, "propensity": stated_propensity(columns)}
        self.parts = Parts(table, found.columns, treatment, known_actions(actions), **own)
        self.notes = [
            *(note for note in table.notes if not isinstance(note, ValidityNote)),
            *(self._says(part, group) for part, group in {**found.columns, **self.probs}.items()),
        ]
        self.validity_notes = [*(note for note in table.notes if isinstance(note, ValidityNote)), *found.notes]
        self.dropped = 0

    @staticmethod
    def _says(part: str, group: tuple[str, ...]) -> str:
        return f"`{part}`: column{'s' if len(group) > 1 else ''} {shown(group)}."

    def build(self) -> LoadedLog:
        """The log; errors at a row also name its place in the file."""
        try:
            return self._built()
        except InvalidInput as problem:
            named = map(int, re.findall(r"\b[Rr]ows? (\d+)\b", str(problem)))
            rows = [] if self.dropped else [row for row in dict.fromkeys(named) if row < self.table.placed][:2]
            if not rows:
                raise
            places = "; ".join(f"row {row} is {self.table.place(row)}" for row in rows)
            raise type(problem)(f"{problem} (In the file {places}.)") from problem

    def _built(self) -> LoadedLog:
        parts, encoded = self.parts.read()
        self.notes += self.parts.notes
        n = len(parts["rewards"])
        if parts["episode_ids"] is not None:
            parts["episode_ids"] = self._numbered_episodes(parts["episode_ids"], n)
        probs = {
            part: probabilities.read_probabilities(self.table, part, group, n) for part, group in self.probs.items()
        }
        if self.parts.one_step:
            self.notes.append("Every row is an episode of one step: nothing follows it.")
            if "logged_action_probs" in probs and "next_action_probs" not in probs:
                probs["next_action_probs"] = np.zeros_like(probs["logged_action_probs"])
        self._note_order(parts, n)
        if encoded.following is None and not self.parts.one_step:
            self._follow(parts, probs)
        log = self._transitions(parts)
        return self._with_probabilities(log, probs, encoded)

    def _numbered_episodes(self, ids: npt.NDArray[Any], rows: int) -> npt.NDArray[np.int64]:
        """Whole numbers as they are, text in the order of first appearance, after that of a log that was read before."""
        numbers, text = _arrays.identifiers("episode_ids", ids, rows), ids.dtype.kind not in "biuf"
        if text and self.parts.treatment.like and not self._episodes:
            raise InvalidInput(
                f"{self.table.source}: episode ids are text, and those of the rows before are numbers, or there are none. All "
                "rows of a log have ids of one kind."
            )
        return _arrays.coded(ids, self._episodes) if text or self._episodes else numbers

    def _note_order(self, parts: dict[str, Any], rows: int) -> None:
        """Time that goes back, from one row to the next where every row ends, else within episodes; users who come back."""
        ended, joined = parts["terminations"], np.ones(rows - 1, dtype=bool)
        if not ended.all() and parts["episode_ids"] is not None:
            joined = np.diff(parts["episode_ids"]) == 0
        elif not ended.all():
            cut = parts["truncations"]
            joined = ~(ended if cut is None else ended | cut)[:-1]
        used = {name for group in (*self.parts.columns.values(), *self.probs.values()) for name in group}
        self.validity_notes += order_notes(self.table, used, joined)
        known = self.parts.columns.get("episode_ids", ())
        self.validity_notes += returning_notes(
            self.table, known, np.cumsum(np.append(0, ~joined)) if not ended.all() else None
        )

    def _follow(self, parts: dict[str, Any], probs: dict[str, FloatArray]) -> None:
        """Build next observations, leave out rows that have none, and keep every column in step."""
        keys = [parts[name] for name in ("terminations", "truncations", "episode_ids", "timesteps")]
        n, stated = len(keys[0]), "truncations" in self.absent
        try:
            rows: Following = following_rows(self.table.source, *keys, cuts_stated=stated)
        except OutOfOrder as problem:
            raise InvalidInput(f"{problem}{self._sorting()}") from problem
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
        self.validity_notes += rows.validity_notes

    def _transitions(self, parts: dict[str, Any]) -> Transitions:
        try:
            return Transitions(**parts, unrecorded=self.parts.unrecorded)
        except InvalidInput as problem:
            more = self._sorting() if isinstance(problem, OutOfOrder) else ""
            if self.dropped:
                more += f" (Rows are counted without the {self.dropped} that have no next observation.)"
            if not more:
                raise
            raise InvalidInput(f"{problem}{more}") from problem

    def _sorting(self) -> str:
        """How to sort the table that was read, by its own names."""
        keys = [self.parts.columns[part][0] for part in ("episode_ids", "timesteps") if part in self.parts.columns]
        return f" A table: table.sort_values({keys!r}), if episodes are numbered in the order in which they were made."

    def _with_probabilities(self, log: Transitions, probs: dict[str, Any], encoded: Encoded) -> LoadedLog:
        rows = np.arange(len(log))
        for part in ("next_action_probs", "logged_action_probs"):
            if part in probs:
                counts = rows if part == "logged_action_probs" else rows[~log.terminations]
                probabilities.refuse_gaps(self.table.source, part, probs[part][counts], counts, log)
        if "next_action_probs" in probs:
            probs["next_action_probs"][log.terminations] = 0.0  # nothing follows: never used
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
        for validity_note in self.validity_notes:
            warnings.warn(validity_note, ValidityWarning, stacklevel=5)
        notes, encodings = (*self.notes, *self.validity_notes), dict(self.parts.encodings)
        return LoadedLog(
            log,
            notes,
            encoded.names,
            encodings,
            **probs,
            one_step=self.parts.one_step,
            episode_names=tuple(self._episodes),
        )


def _starts_known(log: Transitions) -> bool:
    return log.episode_ids is not None or bool((log.terminations | np.asarray(log.truncations)).any())
