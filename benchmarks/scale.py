"""Logs that no machine here holds, on paper: a pass of the defaults on 100 workers, simulated from measured tasks.

python benchmarks/scale.py --rows 2000000          writes the logs into a temporary folder; uses two processes

Measured are seconds and bytes of every task, and what one process does alone: opening, bets or plan. The simulation hands
out tasks as the library does (at most so many on their way, results in order); processor seconds are drawn from the measured,
one task in a hundred takes three times as long, one worker is lost half-way, and what it worked on is done again. Before that
it repeats the runs with one and two workers, with their own durations, beside the seconds that these took.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from large import GAMMA, write
from machine import describe

import bondic
from bondic.engines import remote

RULES = """
from large import clicks_policy, table_policy

def clicks(states):
    return clicks_policy(states, 10)

table = table_policy
"""
PLANNED, WORKERS, STRAGGLERS, SLOWER = (10**9, 10**10), 100, 0.01, 3.0


def timed(task: Any, *arguments: Any) -> tuple[float, float, int, Any]:
    """In a worker: a task with its seconds, those of the processor, and the bytes that it sends back."""
    begun, processor = time.perf_counter(), time.process_time()
    found = task(*arguments)
    seconds, processor = time.perf_counter() - begun, time.process_time() - processor
    return seconds, processor, len(pickle.dumps(found)), found


@dataclass
class Timing(Executor):
    """Notes what every task took; and when the first was handed in and the last came back."""

    pool: Executor
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    size: int = 0
    begun: float = 0.0
    ended: float = 0.0

    def submit(self, task: Any, /, *arguments: Any, **how: Any) -> Future[Any]:
        self.begun = self.begun or time.perf_counter()
        outer: Future[Any] = Future()

        def note(inner: Future[Any]) -> None:
            seconds, processor, size, found = inner.result()
            self.seconds.append(seconds)
            self.processor.append(processor)
            self.size += size
            self.ended = time.perf_counter()
            outer.set_result(found)

        self.pool.submit(timed, task, *arguments, **how).add_done_callback(note)
        return outer


def simulated(
    durations: Sequence[float], workers: int, ahead: int, each: float, lost: float = np.inf, merge: float = 0.0
) -> float:
    """Seconds until the last task is merged; `each` is what handing one out costs, `lost` when a worker is lost.

    One event after the other: the collector hands out the next task when fewer than `ahead` are on their way, and merges results
    in their order.
    """
    free, now, done = [0.0] * workers, 0.0, np.full(len(durations), np.inf)
    heapq.heapify(free)
    gone = False
    for number, seconds in enumerate(durations):
        if number >= ahead:  # the oldest one has to be merged first
            now = max(now, done[number - ahead]) + merge
        now += each
        begun = max(now, heapq.heappop(free))
        if not gone and begun <= lost < begun + seconds:  # this worker is lost: another one begins anew
            gone, begun = True, max(lost, heapq.heappop(free) if free else lost)
        done[number] = begun + seconds
        heapq.heappush(free, done[number])
    return float(max(now, done.max()) + merge * min(ahead, len(durations)))


@dataclass
class Work:
    """A default on a log of files."""

    log: str
    folder: Path

    def run(self, executor: Executor | None) -> dict[str, Any]:
        cpu = time.process_time()
        rows = bondic.stream_log(self.folder / self.log, memory="1GB", one_step=self.log == "clicks", executor=executor)
        opened, cpu = time.process_time() - cpu, time.process_time()
        policy = bondic.load_policy(f"{self.folder / 'rules.py'}:{self.log}")
        start = bondic.InitialStates.exact([[0.0]]) if self.log == "table" else None
        gamma = GAMMA if self.log == "table" else 0.0
        problem = bondic.make_problem(rows, policy, start, gamma=gamma, reward_range=(0.0, 1.0))
        found = bondic.estimate_interval(problem)
        seconds = time.process_time() - cpu
        return {"ends": (found.low, found.high), "open": opened, "rest": seconds, "block": problem.block_rows}


def measure(work: Work, rows: int) -> None:
    alone, durations, sizes, collector = work.run(None), {}, {}, {}
    for count in (1, 2):
        with ProcessPoolExecutor(count, get_context("spawn")) as pool:
            work.run(pool)  # processes start, code is loaded
            timing = Timing(pool)
            found = work.run(timing)
            empty = Timing(pool)
            list(remote.Remote(empty).parts(nothing, b"", range(200)))
        wall, each = timing.ended - timing.begun, max((empty.ended - empty.begun) / 200, 0.0)
        durations[count], sizes[count], collector[count] = timing.processor, timing.size, found
        guess = simulated(timing.seconds, count, remote.AHEAD + 1, each)
        show(
            f"{work.log}, {count} worker(s)", tasks=len(timing.seconds), measured_s=round(wall, 2),
            simulated_s=round(guess, 2), same_bits=found["ends"] == alone["ends"], load=round(os.getloadavg()[0], 1),
        )  # fmt: skip
    opened, inside = (
        min(one[name] for one in collector.values()) for name in ("open", "rest")
    )  # where results are collected
    blocks, measured = rows / len(durations[1]), np.array(durations[1])
    files = sum(part.stat().st_size for part in (work.folder / work.log).iterdir())
    show(f"{work.log}, a row", open_us=1e6 * opened / rows, task_us=1e6 * float(measured.sum()) / rows,
         alone_us=1e6 * inside / rows, bytes_back=sizes[1] / rows, bytes_in_files=files / rows)  # fmt: skip
    rng = np.random.default_rng(0)
    for planned in PLANNED:
        tasks = min(int(planned / blocks), remote.MAX_TASKS)
        per_task = int(planned / blocks / tasks)
        drawn = rng.choice(measured, size=(tasks, per_task)).sum(axis=1)
        drawn[rng.random(tasks) < STRAGGLERS] *= SLOWER
        ideal = float(drawn.sum()) / WORKERS
        passes = {
            f"pass_s_{name}": round(simulated(drawn, WORKERS, ahead, each, lost=ideal / 2))
            for name, ahead in (("ahead_33", remote.AHEAD + 1), ("ahead_200", 2 * WORKERS))
        }
        show(
            f"{work.log}, {planned:.0e} rows on {WORKERS} workers", tasks=tasks, ideal_s=round(ideal), **passes,
            opening_s=round(planned * opened / rows), alone_s=round(planned * inside / rows),
            GB_read=round(2 * planned * files / rows / 1e9), GB_moved=round(planned * sizes[1] / rows / 1e9),
            MB_of_a_task=round(planned * sizes[1] / rows / tasks / 1e6),
        )  # fmt: skip


def nothing(job: bytes, place: int) -> int:
    del job
    return place


def show(name: str, **figures: Any) -> None:
    print(json.dumps({"what": name, **figures}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--logs", nargs="+", default=["clicks", "table"], choices=["clicks", "table"])
    args = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    print(json.dumps(describe()))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "rules.py").write_text(RULES)
        sys.path.append(str(folder))
        here = [os.environ.get("PYTHONPATH"), str(folder), str(Path(__file__).parent)]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, here))
        for log in args.logs:
            write(folder / log, log, args.rows, 10)
            measure(Work(log, folder), args.rows)


if __name__ == "__main__":
    main()
