"""The default's pass over a log of clicks on local workers: same bits, a worker that dies, speed-up, cost of a task.

python benchmarks/cluster.py --rows 1000000          needs bondic[dask]; writes the log into a temporary folder
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import signal
import sys
import tempfile
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from large import write
from machine import describe

import bondic
from bondic.engines.remote import Remote

RULES = """
from large import clicks_policy

def target(states):
    return clicks_policy(states, 10)

def compute(job, place):
    total = 0.0
    for k in range(20_000_000):
        total += k
    return total
"""
EMPTY = 200


class Clicks:
    """The default on a streamed log, with any executor: its workers read the rows and ask the policy."""

    def __init__(self, folder: Path) -> None:
        self.policy = bondic.load_policy(f"{folder / 'rules.py'}:target")
        self.log = bondic.stream_log(folder / "log", one_step=True)

    def run(self, executor: Executor | None) -> tuple[tuple[float, float], float]:
        """Both ends, and the seconds of the pass."""
        self.log.executor = executor
        problem = bondic.make_problem(self.log, self.policy, gamma=0.0, reward_range=(0.0, 1.0))
        self.tasks = -(-len(self.log) // problem.block_rows)
        found = bondic.estimate_interval(problem)
        return (found.low, found.high), found.seconds["ratios"]


def pin(started: Any) -> None:
    """A worker is one core: reading ahead takes no other one, as on a cluster whose cores are all in use."""
    if hasattr(os, "sched_setaffinity"):
        with started.get_lock():
            number, started.value = started.value, started.value + 1
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})


class Killing(Executor):
    """Kills a process once some tasks are on their way."""

    def __init__(self, pool: Executor, pid: int, after: int) -> None:
        self.pool, self.pid, self.left = pool, pid, after

    def submit(self, task: Any, /, *arguments: Any, **how: Any) -> Future[Any]:
        self.left -= 1
        if self.left == 0:
            os.kill(self.pid, signal.SIGKILL)
        return self.pool.submit(task, *arguments, **how)


def show(name: str, **figures: Any) -> None:
    print(json.dumps({"what": name, **figures}), flush=True)


def seconds_of(pool: Executor, task: Any, count: int) -> float:
    list(Remote(pool).parts(operator.mul, b"", range(4)))
    begun = time.perf_counter()
    list(Remote(pool).parts(task, b"", range(count)))
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    args = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    print(json.dumps(describe()))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "rules.py").write_text(RULES)
        sys.path.append(str(folder))
        here = [os.environ.get("PYTHONPATH"), str(folder), str(Path(__file__).parent)]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, here))
        write(folder / "log", "clicks", args.rows, 10)
        measure(Clicks(folder), args.rows)


def measure(work: Clicks, rows: int) -> None:
    from distributed import Client
    from rules import compute  # type: ignore[import-not-found]  # written beside the log, and found by the workers

    used = time.process_time()
    alone, seconds = work.run(None)
    per_task = seconds / work.tasks
    show("this process", rows=rows, tasks=work.tasks, seconds=round(seconds, 2), s_per_task=round(per_task, 3))
    walls, ceilings, empty = {}, {}, 0.0
    for count in (1, 2):
        spawn = get_context("spawn")
        with ProcessPoolExecutor(count, spawn, pin, (spawn.Value("i", 0),)) as pool:
            work.run(pool)  # processes start, code is loaded
            found, walls[count] = work.run(pool)
            empty = seconds_of(pool, operator.mul, EMPTY) / EMPTY
            ceilings[count] = seconds_of(pool, compute, 8)
            show(
                f"{count} process(es)",
                seconds=round(walls[count], 2),
                same_bits=found == alone,
                ms_empty=round(1e3 * empty, 1),
            )
    ratios = {"speed_up": round(walls[1] / walls[2], 2), "tasks_that_only_compute": round(ceilings[1] / ceilings[2], 2)}
    show("1 -> 2 processes", **ratios, load=round(os.getloadavg()[0], 1), cpu_s=round(time.process_time() - used, 1))
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        pids, pool = list(client.run(os.getpid).values()), client.get_executor(pure=False)
        empty = seconds_of(pool, operator.mul, EMPTY) / EMPTY
        found, _ = work.run(Killing(pool, pids[0], 4))
        gone = pids[0] not in client.run(os.getpid, on_error="ignore").values()
        show(
            "dask, 2 workers, one killed half-way",
            killed=gone,
            same_bits=found == alone,
            ms_empty=round(1e3 * empty, 1),
        )


if __name__ == "__main__":
    main()
