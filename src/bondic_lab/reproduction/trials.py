"""Seeded trials in parallel processes, each stored as it finishes; what is stored is not run again."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput
from bondic_lab.reproduction.store import Row, read_trial, write_trial

Cell = Mapping[str, Any]
"""Parameters of one point of a figure: plain numbers, strings and lists."""

Trial = Callable[[Cell, np.random.Generator], list[Row]]
Progress = Callable[[int, int], None]

SEED = 2021
RECIPE = 1
"""Raised when a trial's content changes without a change of its parameters: stored trials are then run again."""

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """One trial of one cell. `trial` must be a module's function: it travels to other processes by name."""

    figure: str
    cell: Cell
    number: int
    trial: Trial

    @property
    def identity(self) -> dict[str, Any]:
        return {"figure": self.figure, "cell": dict(self.cell), "trial": self.number, "seed": SEED, "recipe": RECIPE}

    def rng(self) -> np.random.Generator:
        """Made from figure, cell and number alone; neither the order of trials nor the number of processes matters."""
        stream = zlib.crc32(repr((self.figure, sorted(self.cell.items()))).encode())
        return np.random.default_rng([SEED, stream, self.number])

    def run(self) -> list[Row]:
        return [{**_plain(self.cell), "trial": self.number, **row} for row in self.trial(self.cell, self.rng())]


def run_jobs(jobs: list[Job], folder: Path, *, processes: int = 1, progress: Progress | None = None) -> list[Row]:
    """Rows of all jobs in their order; those found in `folder` are read, the others run and are stored at once."""
    if processes < 1:
        raise InvalidInput(f"--jobs {processes}: at least one process is needed.")
    found: dict[int, list[Row]] = {}
    missing: list[int] = []
    for index, job in enumerate(jobs):
        stored = read_trial(folder, job.identity)
        if stored is None:
            missing.append(index)
        else:
            found[index] = stored
    done = _in_process(jobs, missing, folder) if processes == 1 else _spawned(jobs, missing, folder, processes)
    if progress is not None:
        progress(len(found), len(jobs))
    for index, rows in done:
        found[index] = rows
        if progress is not None:
            progress(len(found), len(jobs))
    return [row for index in range(len(jobs)) for row in found[index]]


def _run_and_store(job: Job, folder: Path) -> list[Row]:
    rows = job.run()
    write_trial(folder, job.identity, rows)
    return rows


def _in_process(jobs: list[Job], missing: list[int], folder: Path) -> Iterator[tuple[int, list[Row]]]:
    for index in missing:
        yield index, _run_and_store(jobs[index], folder)


def _spawned(jobs: list[Job], missing: list[int], folder: Path, processes: int) -> Iterator[tuple[int, list[Row]]]:
    """A fresh interpreter per process (no fork of a threaded parent), one numerical thread in each."""
    if not missing:
        return
    context = multiprocessing.get_context("spawn")
    with _one_thread(), ProcessPoolExecutor(min(processes, len(missing)), mp_context=context) as pool:
        waiting: dict[Future[list[Row]], int] = {
            pool.submit(_run_and_store, jobs[index], folder): index for index in missing
        }
        try:
            while waiting:
                ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield waiting.pop(future), future.result()
        finally:
            for future in waiting:
                future.cancel()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """The numbers of threads are read when a library is loaded, so they must stand in the children's environment."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _plain(cell: Cell) -> Row:
    """Lists of a cell are parameters, not columns."""
    return {key: value for key, value in cell.items() if not isinstance(value, list | tuple | dict)}
