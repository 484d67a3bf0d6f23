"""Runs of cells: seeded, spread over processes, kept in a file so that a run that was stopped goes on."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
import time
import traceback
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
from experiments.coverage import THREADS, write_atomically
from experiments.defaults_cells import Cell
from experiments.defaults_judge import ALPHA, REFUSED, Row, ask

import bondic

SEED = 0
TOO_SLOW, DIED = "too slow", "the process died, perhaps for lack of memory"
Cells = Callable[[], dict[str, Cell]]
Key = tuple[str, int]
_ROOT = Path(__file__).resolve().parents[1]


def code_digest() -> str:
    """Names the sources of library and experiment: rows made by other sources are not used again."""
    digest = hashlib.sha256()
    files = [*(_ROOT / "src" / "bondic").rglob("*.py"), *(_ROOT / "experiments").glob("*defaults*.py")]
    for path in sorted(files):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def read_rows(path: Path, code: str) -> list[Row]:
    """Rows of an earlier run of the same sources."""
    if not path.exists():
        return []
    stored = json.loads(path.read_text())
    return list(stored["rows"]) if stored["code"] == code else []


def record(rows: Iterable[Row], code: str, **more: Any) -> dict[str, Any]:
    return {"bondic": bondic.__version__, "code": code, "alpha": ALPHA, "seed": SEED, **more, "rows": list(rows)}


def one(make_cells: Cells, name: str, seed: int) -> Row:
    """Log `seed` of a cell, from (SEED, name, seed) alone."""
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), seed])
    return ask(name, make_cells()[name], seed, rng)


def run(make_cells: Cells, names: list[str], *, seeds: int, jobs: int, limit: float, out: Path) -> list[Row]:
    """Every (cell, seed) that the file does not hold yet. A run over `limit` seconds is stopped and written down as such.

    Once a log of a cell took too long or too much memory, its other logs are not tried.
    """
    code, cells = code_digest(), make_cells()
    rows = {(row["cell"], row["seed"]): row for row in read_rows(out, code)}
    wanted = [(name, seed) for seed in range(seeds) for name in names if seed == 0 or cells[name].judged]
    todo = [key for key in wanted if key not in rows]
    print(f"{len(wanted)} runs, {len(wanted) - len(todo)} of them in {out} already", file=sys.stderr)
    slow = {row["cell"]: row["why"] for row in rows.values() if row.get("why") in (TOO_SLOW, DIED)}
    with Crew(make_cells, jobs, limit) as crew:
        for count, (key, answer) in enumerate(crew.answers(todo, slow), 1):
            rows[key] = _no_answer(key, cells[key[0]], answer, limit) if isinstance(answer, str) else answer
            write_atomically(out, json.dumps(record(rows.values(), code), indent=1) + "\n")
            print(f"{count} of {len(todo)}: {key[0]}, {rows[key]['seconds']:.1f} s", file=sys.stderr)
    return [rows[key] for key in wanted]


def _no_answer(key: Key, cell: Cell, why: str, limit: float) -> Row:
    stopped: Row = {"status": REFUSED, "why": why, "seconds": limit}
    return {"cell": key[0], "seed": key[1], "judged": cell.judged, **stopped}


class Crew:
    """Processes that answer one question at a time and are stopped when it takes too long."""

    def __init__(self, make_cells: Cells, jobs: int, limit: float) -> None:
        self.make_cells, self.jobs, self.limit = make_cells, jobs, limit
        self.context = multiprocessing.get_context("spawn")  # nothing compiled is forked
        self.idle: list[tuple[Any, Connection]] = []
        self.busy: dict[Connection, tuple[Any, Key, float]] = {}
        for variable in THREADS:  # read by the new processes
            os.environ.setdefault(variable, "1")

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *problem: object) -> None:
        for process, _ in [*self.idle, *((entry[0], None) for entry in self.busy.values())]:
            process.terminate()

    def answers(self, todo: list[Key], slow: dict[str, str]) -> Iterator[tuple[Key, Row | str]]:
        """In the order in which they are done; in place of a row, why there is none. `slow` are cells not to be tried."""
        waiting = deque(todo)
        while waiting or self.busy:
            while waiting and len(self.busy) < self.jobs:
                key = waiting.popleft()
                if key[0] in slow:
                    yield key, slow[key[0]]
                else:
                    self._start(key)
            ready = wait(list(self.busy), timeout=0.5)
            for connection, (process, key, began) in list(self.busy.items()):
                if connection in ready:
                    answer = self._receive(connection)
                elif time.monotonic() - began > self.limit:
                    process.kill()
                    del self.busy[connection]
                    answer = TOO_SLOW
                else:
                    continue
                if isinstance(answer, str):
                    slow[key[0]] = answer
                yield key, answer

    def _receive(self, connection: Connection) -> Row | str:
        process, key, _ = self.busy.pop(connection)
        try:
            good, answer = connection.recv()
        except EOFError:
            return DIED
        if not good:
            raise RuntimeError(f"{key[0]}, seed {key[1]}:\n{answer}")
        self.idle.append((process, connection))
        return answer  # type: ignore[no-any-return]

    def _start(self, key: Key) -> None:
        if not self.idle:
            ours, theirs = self.context.Pipe()
            process = self.context.Process(target=_work, args=(self.make_cells, theirs), daemon=True)
            process.start()
            theirs.close()  # or the end of the process would not be noticed
            self.idle.append((process, ours))
        process, connection = self.idle.pop()
        connection.send(key)
        self.busy[connection] = process, key, time.monotonic()


def _work(make_cells: Cells, connection: Connection) -> None:
    """Answer until the other side is gone; what goes wrong is sent as text."""
    while True:
        try:
            name, seed = connection.recv()
        except EOFError:
            return
        try:
            connection.send((True, one(make_cells, name, seed)))
        except Exception:
            connection.send((False, traceback.format_exc()))
