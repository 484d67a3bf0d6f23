"""Files read in batches; `read_log` reads the same files as a whole."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput, ValidityWarning
from bondic.data import _arrays
from bondic.data.io.encode import Treatment
from bondic.data.io.parts import Given, Parts, find_parts, known_actions
from bondic.data.io.scan import Files
from bondic.data.stream import LogStream, RawColumns, code_identifiers


class FileStream(LogStream):
    """Parquet, CSV or Feather: a file, or parts whose natural order is the order of time."""

    def __init__(
        self,
        files: Files,
        *,
        batch_rows: int,
        columns: Given | None = None,
        actions: Sequence[str | int] | int | None = None,
        one_step: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self.path: Path = files.path
        self._files, self._actions, self._one_step = files, known_actions(actions), one_step
        found, _, _ = find_parts(files.names, columns or {}, ("next_observations",), one_step=one_step)
        if "next_observations" not in found.columns and "observations" in found.columns and not one_step:
            raise InvalidInput(
                f"{files.label} has no column for `next_observations`. A streamed log cannot take them from the following rows: "
                "name the column, columns={'next_observations': 'name'} (--columns next_observations=NAME), load the log with "
                "read_log, or state that every row ends: one_step=True (--one-step)."
            )
        self.column_map = found
        for note in found.notes:
            warnings.warn(note, ValidityWarning, stacklevel=3)
        self._codes: dict[str, int] = {}
        super().__init__(batch_rows, progress)

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which opens the same files, and need not check their rows again."""
        where = self.path.resolve(), self._files.stamps()
        return {**vars(self), "_files": where, "_inspection": None, "_codes": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        path, stamps = state["_files"]
        files = Files(path)
        files.refuse_others(stamps)
        vars(self).update(state, _files=files)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def observation_names(self) -> tuple[str, ...]:
        """Those of its columns; a column of lists has one name for many dimensions."""
        names = self.column_map.columns.get("observations", ())
        return names if len(names) == self.observation_dim else ()

    def _still_the_same(self, rows: RowRange) -> None:
        self._files.refuse_changes(rows)

    def _raw(self, rows: RowRange, size: int) -> Iterator[RawColumns]:
        first = rows.start
        for table in self._files.tables(rows, size, list(dict.fromkeys(self.column_map.all))):
            with _arrays.counting_from(first):
                reader = Parts(
                    table, self.column_map.columns, Treatment(streamed=True), self._actions, one_step=self._one_step
                )
                found, _ = reader.read()
                if reader.unrecorded:
                    found["unrecorded"] = reader.unrecorded
            if found.get("episode_ids") is not None:
                found["episode_ids"] = code_identifiers(found["episode_ids"], self._codes)
            first += len(found["rewards"])
            yield found
