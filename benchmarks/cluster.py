"""The certified pass over a Parquet log on local workers: same bits, workers that die, speed-up, cost of a task.

python benchmarks/cluster.py --rows 400000          needs bondic[dask]; writes the log into a temporary folder
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
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from machine import describe
from streaming import model, write

import bondic
from bondic.core.dual.weighing import ProposedWeights, Weighing, weigh
from bondic.engines import sums as forms
from bondic.engines.remote import Remote
from bondic.engines.sums import EngineSums
from bondic.engines.threads import Serial
from bondic.methods.setting import make_setting
from bondic.search.search import kernel_search
from bondic.tuning.defaults import Advanced

RULES = """
from bondic_lab.worlds.synthetic import SyntheticMDP

target = SyntheticMDP.default(0.9, seed=1, dimension=4).target_probs
"""
WAITING = """
import time

def wait(job, place):
    time.sleep(0.25)
    return b""
"""
TRIVIAL = 200
PLANNED = 10**8


class Pass:
    """One certified pass with two candidates, on any executor."""

    def __init__(self, folder: Path, pairs: int) -> None:
        mdp = model()
        policy = bondic.load_policy(f"{folder / 'rules.py'}:target")
        start = bondic.InitialStates.exact(mdp.initial_states, mdp.initial_probs)
        log = bondic.stream_log(folder / "log")
        question = bondic.make_problem(log, policy, start, gamma=mdp.gamma, reward_range=mdp.reward_range)
        method = bondic.Dual(radius="paper", advanced=Advanced(pairs=pairs, rank=100))
        self.setting = make_setting(method, question, 0.1)[0]
        search, kappa = kernel_search(self.setting, 100), self.setting.epsilon().upper
        found = [search.propose(sign=sign, radius=self.setting.ball.radius, kappa=kappa).omega for sign in (1.0, -1.0)]
        self.candidates = [*map(ProposedWeights, found)]
        self.blocks = -(-len(question) // question.block_rows)

    def run(self, executor: Any, progress: Callable[[float], None] | None = None) -> tuple[list[Weighing], float]:
        begun = time.perf_counter()
        setting = self.setting
        found = weigh(
            setting.problem, setting.ball, self.candidates, sums=EngineSums(executor=executor), progress=progress
        )
        return found, time.perf_counter() - begun


def once(action: Callable[[], None], share: float) -> Callable[[float], None]:
    left = [action]

    def progress(done: float) -> None:
        if done >= share and left:
            left.pop()()

    return progress


def show(name: str, **figures: Any) -> None:
    print(json.dumps({"what": name, **figures}), flush=True)


def overhead(pool: Executor) -> float:
    """Milliseconds of a task that does nothing, with as many on their way as there is room for."""
    executor = Remote(pool)
    list(executor.parts(operator.mul, b"", range(4)))
    begun = time.perf_counter()
    list(executor.parts(operator.mul, b"", range(TRIVIAL)))
    return 1000 * (time.perf_counter() - begun) / TRIVIAL


def waiting(pool: Executor) -> float:
    """Seconds of 24 tasks that only wait: what the executor adds where cores are not what is short."""
    from waiting import wait  # type: ignore[import-not-found]  # written beside the log, and found by the workers

    executor = Remote(pool)
    list(executor.parts(wait, b"", range(4)))
    begun = time.perf_counter()
    list(executor.parts(wait, b"", range(24)))
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--pairs", type=int, default=32)
    args = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    forms.MOST_HELD = 0  # as for a log that is too long to be held: workers add up, and send sums
    print(json.dumps(describe()))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "log").mkdir()
        (folder / "rules.py").write_text(RULES)
        (folder / "waiting.py").write_text(WAITING)
        sys.path.append(str(folder))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(folder)]))
        write(folder / "log", args.rows)
        measure(Pass(folder, args.pairs), args.rows)


def measure(work: Pass, rows: int) -> None:
    from distributed import Client

    used = time.process_time()
    alone, seconds = work.run(Serial())
    used = time.process_time() - used
    show(
        "this process",
        rows=rows,
        tasks=work.blocks,
        seconds=round(seconds, 1),
        processor_s_per_task=round(used / work.blocks, 2),
    )
    walls, waits = {}, {}
    for count in (1, 2):
        with ProcessPoolExecutor(count, get_context("spawn")) as pool:
            work.run(pool)  # processes start, code is loaded
            found, walls[count] = work.run(pool)
            figures = {"seconds": round(walls[count], 1), "same_bits": found == alone}
            show(f"{count} process(es)", **figures, ms_per_empty_task=round(overhead(pool), 1))
            waits[count] = waiting(pool)
    ratios = {"speed_up": round(walls[1] / walls[2], 2), "tasks_that_wait": round(waits[1] / waits[2], 2)}
    show("1 -> 2 processes", **ratios, load=round(os.getloadavg()[0], 1))
    with Client(n_workers=4, threads_per_worker=1, dashboard_address=None) as client:
        pids, pool = list(client.run(os.getpid).values()), client.get_executor(pure=False)
        found, _ = work.run(pool, once(lambda: os.kill(pids[0], signal.SIGKILL), 0.5))
        gone = pids[0] not in client.run(os.getpid, on_error="ignore").values()
        show("dask, 4 workers, one killed half-way", killed=gone, same_bits=found == alone)
    per_row = used / work.blocks / (rows / work.blocks)
    show("on paper", rows=PLANNED, processor_hours_per_pass=round(per_row * PLANNED / 3600, 2))


if __name__ == "__main__":
    main()
