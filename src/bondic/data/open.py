"""Open a log that does not have to fit into memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput, one_line
from bondic.data import _arrays
from bondic.data.compact import CompactColumns
from bondic.data.io.encode import Treatment
from bondic.data.io.formats import FORMATS
from bondic.data.io.parts import Given, Parts, find_parts, known_actions, stated_propensity, with_propensity
from bondic.data.io.read import KNOWN
from bondic.data.io.scan import Files
from bondic.data.memory import MemoryPlan, keep_freed_memory, parse_memory
from bondic.data.stream import ArrayStream, LogStream, RawColumns, code_identifiers
from bondic.errors import ValidityWarning


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
        held_bytes: int = 0,
    ) -> None:
        self.path: Path = files.path
        self._files, self._actions = files, known_actions(actions)
        found, _, _ = find_parts(files.names, columns or {}, ("next_observations",), one_step=one_step)
        self._own = {
            "stateless": found.stateless,
            "propensity": stated_propensity(columns),
            "one_step": one_step or found.single,
        }
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
        super().__init__(batch_rows, progress, held_bytes)

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which opens the same files, and need not check their rows again."""
        where = self.path.resolve(), self._files.stamps()
        return {
            **vars(self),
            "_files": where,
            "_inspection": None,
            "_codes": {},
            "executor": None,
            "_compact": CompactColumns(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        keep_freed_memory()
        path, stamps = state["_files"]
        files = Files(path)
        files.refuse_others(stamps)
        vars(self).update(state, _files=files)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def one_step(self) -> bool:
        """Whether every row was stated, or is known, to be an episode of its own."""
        return bool(self._own["one_step"])

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
                reader = Parts(table, self.column_map.columns, Treatment(streamed=True), self._actions, **self._own)
                found, _ = reader.read()
                self._own.setdefault("whole", found["actions"].dtype.kind != "f")
                if reader.unrecorded:
                    found["unrecorded"] = reader.unrecorded
            if found.get("episode_ids") is not None:
                found["episode_ids"] = code_identifiers(found["episode_ids"], self._codes)
            first += len(found["rewards"])
            yield found


def stream_log(
    source: str | Path | Mapping[str, Any],
    *,
    memory: int | float | str = "2GB",
    batch_rows: int | None = None,
    columns: Given | None = None,
    actions: Sequence[str | int] | int | None = None,
    propensity: str | float | Mapping[str, float] | None = None,
    one_step: bool = False,
    progress: Callable[[float], None] | None = None,
    executor: Executor | None = None,
) -> LogStream:
    """Open a log that is larger than memory: it is read in batches, and used in place of `Transitions`.

    What needs the whole log at once is refused: text observations, marks for gaps, next observations from following rows.
    Neither `memory` nor `batch_rows` changes an interval.

    Parameters
    ----------
    source : path or mapping
        A Parquet, CSV or Feather file, a folder or a pattern of parts; or arrays by name, memory-mapped ones for instance.
        Parquet is entered at any row, other files are read from their beginning each time.
    memory : int, float or str, default "2GB"
        Memory for the whole estimate; refused where the work on one block of rows does not fit.
    batch_rows : int, default None
        Rows that are read at a time in plain passes over the log. None: as many as fit.
    columns, actions, propensity, one_step
        As in `read_log`.
    progress : callable, default None
        Called with the share of the log that was read.
    executor : concurrent.futures.Executor, default None
        Its workers read the files and query the policy themselves.
    """
    budget, columns = parse_memory(memory), with_propensity(columns, propensity) or None
    if isinstance(source, Mapping):
        if columns is not None or actions is not None:
            raise InvalidInput(
                "columns= and actions= are for files. Arrays go by the names of the parts of a transition (observations, "
                "actions, rewards, ...), and actions are numbers: rename the keys of the mapping, or use read_log."
            )
        source = _ending_everywhere(source) if one_step else source
        width = sum(_numbers(column) for column in source.values() if column is not None)
        plan = MemoryPlan.of(budget, width)
        stream: LogStream = ArrayStream(source, batch_rows=batch_rows or plan.batch_rows, progress=progress)
    elif isinstance(source, str | Path):
        _refuse_other_formats(Path(source))
        files = Files(Path(source))
        plan = MemoryPlan.of(budget, files.numbers_per_row())
        reading: dict[str, Any] = {
            "batch_rows": batch_rows or plan.batch_rows,
            "progress": progress,
            "one_step": one_step,
            "held_bytes": budget // 4,
        }
        stream = FileStream(files, columns=columns, actions=actions, **reading)
    else:
        raise InvalidInput(f"A path or a mapping of arrays can be streamed, not {type(source).__name__}.")
    single = one_step or (isinstance(stream, FileStream) and stream.one_step)
    stated = {"columns": columns, "actions": known_actions(actions), "one_step": single}
    stream.reading = {name: value for name, value in stated.items() if value}
    stream.plan, stream.executor = plan if batch_rows is None else None, executor
    return stream


def _refuse_other_formats(path: Path) -> None:
    """By its ending: a file that read_log knows is not a damaged Parquet file."""
    other = next((ending for ending in KNOWN if path.name.lower().endswith(ending)), None)
    if other is not None and not any(form.fits(path) for form in FORMATS) and path.is_file():
        raise InvalidInput(
            f"{one_line(path.name)} is a {other} file; Parquet, CSV and Feather can be read in batches. Read it as a whole, "
            "read_log(path) (leave out --with memory), or write it as Parquet first."
        )


def _ending_everywhere(source: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of a one-step log with what stands for its ends; nothing is copied, and nothing takes memory."""
    rows, states = len(source["rewards"]), np.shape(source["observations"])
    given = {name: column for name, column in source.items() if column is not None}
    superfluous = [name for name in ("next_observations", "terminations", "truncations", "timesteps") if name in given]
    if superfluous:
        raise InvalidInput(
            f"one_step=True states that every row ends and nothing follows: leave out {', '.join(superfluous)}, or one_step."
        )
    return {
        **given,
        "next_observations": np.broadcast_to(0.0, states),
        "terminations": np.broadcast_to(np.True_, (rows,)),
    }


def _numbers(column: Any) -> int:
    shape = getattr(column, "shape", (0, 1))
    return int(shape[1]) if len(shape) > 1 else 1
