"""The certified pass over a Parquet log on local workers: same bits, workers that die, resuming, speed-up, cost of a task.

python benchmarks/cluster.py --rows 400000          needs bondic[cluster]; writes the log into a temporary folder
"""

from __future__ import annotations

import argparse
import contextlib
import json
import operator
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from machine import describe
from streaming import model, write

import bondic
from bondic.bounds.elsewhere import weigh_block
from bondic.bounds.weighing import Candidate, Weighing, weigh
from bondic.errors import ExecutorError
from bondic.executors.dask import Dask
from bondic.executors.here import Here
from bondic.executors.named import named_executor
from bondic.executors.ray import Ray
from bondic.methods.setting import make_setting
from bondic.policies.travel import PolicyFile
from bondic.search.search import kernel_search
from bondic.sums import forms
from bondic.sums.forms import Sums
from bondic.tuning.defaults import Choices

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
        self.policy = PolicyFile(f"{folder / 'rules.py'}:target")
        start = bondic.InitialStates.exact(mdp.initial_states, mdp.initial_probs)
        log = bondic.stream_log(folder / "log")
        question = bondic.make_problem(
            log, bondic.load_policy(self.policy.spec), start, gamma=mdp.gamma, reward_range=mdp.reward_range
        )
        method = bondic.Dual(radius="paper", choices=Choices(pairs=pairs), rank=100)
        self.setting = make_setting(method, question, 0.1)[0]
        search, kappa = kernel_search(self.setting, 100), self.setting.epsilon().upper
        found = [search.propose(sign=sign, radius=self.setting.ball.radius, kappa=kappa).omega for sign in (1.0, -1.0)]
        self.candidates = [*map(Candidate, found)]
        self.blocks = -(-len(question) // question.block_rows)

    def run(self, executor: Any, progress: Callable[[float], None] | None = None) -> tuple[list[Weighing], float]:
        begun = time.perf_counter()
        setting = self.setting
        found = weigh(setting.problem, setting.ball, self.candidates, sums=Sums(executor=executor), progress=progress)
        return found, time.perf_counter() - begun


def once(action: Callable[[], None], share: float) -> Callable[[float], None]:
    left = [action]

    def progress(done: float) -> None:
        if done >= share and left:
            left.pop()()

    return progress


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def scheduler(port: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler with two workers, as somebody else would have them."""
    where = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show"]
    workers = [
        f"tcp://127.0.0.1:{port}",
        "--nworkers",
        "2",
        "--nthreads",
        "1",
        "--no-dashboard",
        "--death-timeout",
        "20",
    ]
    commands = (["distributed.cli.dask_scheduler", *where], ["distributed.cli.dask_worker", *workers])
    quiet: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = [subprocess.Popen([sys.executable, "-m", *command], **quiet) for command in commands]
    try:
        yield running[0]
    finally:
        for process in running:
            process.terminate()
            process.wait()


def show(name: str, **figures: Any) -> None:
    print(json.dumps({"what": name, **figures}), flush=True)


def overhead(executor: Any) -> float:
    """Milliseconds of a task that does nothing, with as many on their way as there is room for."""
    list(executor.parts(operator.mul, b"", range(4)))
    begun = time.perf_counter()
    list(executor.parts(operator.mul, b"", range(TRIVIAL)))
    return 1000 * (time.perf_counter() - begun) / TRIVIAL


def waiting(executor: Any) -> float:
    """Seconds of 24 tasks that only wait: what the executor adds where cores are not what is short."""
    from waiting import wait  # type: ignore[import-not-found]  # written beside the log, and found by the workers

    list(executor.parts(wait, b"", range(4)))
    begun = time.perf_counter()
    list(executor.parts(wait, b"", range(24)))
    return time.perf_counter() - begun


def lost_scheduler(work: Pass, folder: Path, alone: list[Weighing]) -> None:
    port, kept = free_port(), folder / "kept"
    with scheduler(port, folder) as first:
        dask = named_executor(f"dask://127.0.0.1:{port}", policy=work.policy, checkpoints=kept)
        assert isinstance(dask, Dask)
        with dask, contextlib.suppress(ExecutorError):
            work.run(dask, once(first.kill, 0.05))
    done = len(list(kept.glob("*/*.part")))
    with scheduler(port, folder):
        dask = named_executor(f"dask://127.0.0.1:{port}", policy=work.policy, checkpoints=kept)
        assert isinstance(dask, Dask)
        with dask:
            found, _ = work.run(dask)
    show("scheduler killed, started again", tasks=work.blocks, kept=done, same_bits=found == alone)


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
        measure(Pass(folder, args.pairs), folder, args.rows)


def measure(work: Pass, folder: Path, rows: int) -> None:
    alone, seconds = work.run(None)
    show("this process", rows=rows, tasks=work.blocks, seconds=round(seconds, 1))
    used = time.process_time()
    found, _ = work.run(Here(work.policy))
    used = time.process_time() - used
    show("tasks one after the other", processor_s_per_task=round(used / work.blocks, 2), same_bits=found == alone)
    walls, waits = {}, {}
    for count in (1, 2):
        with Dask(workers=count, policy=work.policy) as dask:
            work.run(dask)  # processes start, code is loaded
            found, walls[count] = work.run(dask)
            figures = {"seconds": round(walls[count], 1), "same_bits": found == alone}
            show(f"dask, {count} worker(s)", **figures, ms_per_empty_task=round(overhead(dask), 1))
            waits[count] = waiting(dask)
    ratios = {"speed_up": round(walls[1] / walls[2], 2), "tasks_that_wait": round(waits[1] / waits[2], 2)}
    show("dask, 1 -> 2 workers", **ratios, load=round(os.getloadavg()[0], 1))
    with Dask(workers=4, policy=work.policy) as dask:
        pids = list(dask.client().run(os.getpid).values())
        found, _ = work.run(dask, once(lambda: os.kill(pids[0], signal.SIGKILL), 0.5))
        gone = pids[0] not in dask.client().run(os.getpid, on_error="ignore").values()
        show("dask, 4 workers, one killed half-way", killed=gone, same_bits=found == alone)
    lost_scheduler(work, folder, alone)
    with Ray(workers=2, policy=work.policy) as ray:
        work.run(ray)
        found, wall = work.run(ray)
        figures = {"seconds": round(wall, 1), "same_bits": found == alone}
        show("ray, 2 workers", **figures, ms_per_empty_task=round(overhead(ray), 1))
    per_row = used / work.blocks / (rows / work.blocks)
    show(
        "on paper", rows=PLANNED, task=weigh_block.__name__, processor_hours_per_pass=round(per_row * PLANNED / 3600, 2)
    )


if __name__ == "__main__":
    main()
