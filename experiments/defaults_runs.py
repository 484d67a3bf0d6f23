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
TOO_SLOW = "too slow"
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

    Once a log of a cell took too long, its other logs are not tried.
    """
    code, cells = code_digest(), make_cells()
    rows = {(row["cell"], row["seed"]): row for row in read_rows(out, code)}
    wanted = [(name, seed) for seed in range(seeds) for name in names if seed == 0 or cells[name].judged]
    todo = [key for key in wanted if key not in rows]
    print(f"{len(wanted)} runs, {len(wanted) - len(todo)} of them in {out} already", file=sys.stderr)
    slow = {row["cell"] for row in rows.values() if row.get("why") == TOO_SLOW}
    with Crew(make_cells, jobs, limit) as crew:
        for count, (key, row) in enumerate(crew.answers(todo, slow), 1):
            rows[key] = row or _no_answer(key, cells[key[0]], limit)
            if count % 10 == 0 or count == len(todo):
                write_atomically(out, json.dumps(record(rows.values(), code), indent=1) + "\n")
                print(f"{count} of {len(todo)}", file=sys.stderr)
    return [rows[key] for key in wanted]


def _no_answer(key: Key, cell: Cell, limit: float) -> Row:
    stopped: Row = {"status": REFUSED, "why": TOO_SLOW, "seconds": limit}
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

    def answers(self, todo: list[Key], slow: set[str]) -> Iterator[tuple[Key, Row | None]]:
        """Pairs in the order in which they are done; None for a run that was stopped, or not tried after one."""
        waiting = deque(todo)
        while waiting or self.busy:
            while waiting and len(self.busy) < self.jobs:
                key = waiting.popleft()
                if key[0] in slow:
                    yield key, None
                else:
                    self._start(key)
            for connection in wait(list(self.busy), timeout=0.5):
                process, key, _ = self.busy.pop(connection)  # type: ignore[index, arg-type]
                answer = connection.recv()  # type: ignore[union-attr]
                if isinstance(answer, str):
                    raise RuntimeError(f"{key[0]}, seed {key[1]}:\n{answer}")
                self.idle.append((process, connection))  # type: ignore[arg-type]
                yield key, answer
            for connection, (process, key, began) in list(self.busy.items()):
                if time.monotonic() - began > self.limit:
                    process.kill()
                    del self.busy[connection]
                    slow.add(key[0])
                    yield key, None

    def _start(self, key: Key) -> None:
        if not self.idle:
            ours, theirs = self.context.Pipe()
            process = self.context.Process(target=_work, args=(self.make_cells, theirs), daemon=True)
            process.start()
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
            connection.send(one(make_cells, name, seed))
        except Exception:
            connection.send(traceback.format_exc())
