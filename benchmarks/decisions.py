"""Twenty policies compared with one, all at once: against one policy, and against twenty runs.

python benchmarks/decisions.py                       100 000 and 1 000 000 decisions, ten actions
python benchmarks/decisions.py --rows 20000          quick

Processor seconds, as ratios within one run. A run begins with the log, in memory or as a Parquet file, and ends with one
difference and its certificate; all at once reads, checks and hashes the log once. On the command line `bondic compare` with
twenty policies stands against `bondic evaluate` with one.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from machine import describe

import bondic
from bondic.decisions.difference import difference_interval, other_rows
from bondic.decisions.ranking import rank_policies

POLICIES, ACTIONS, COLUMNS, ALPHA = 20, 10, 3, 0.1
STATED: dict[str, Any] = {"gamma": 0.0, "reward_range": (0.0, 1.0)}


def log_table(rows: int) -> pa.Table:
    """Decisions of a uniform policy."""
    rng = np.random.default_rng(0)
    states = {f"s{k}": rng.normal(size=rows) for k in range(COLUMNS)}
    taken = rng.integers(0, ACTIONS, rows)
    rest = {"reward": (rng.random(rows) < 0.2).astype(float), "terminated": np.ones(rows, dtype=bool)}
    return pa.table({**states, "action": taken, **rest, "propensity": np.full(rows, 1 / ACTIONS)})


def softmax(seed: int) -> bondic.CallablePolicy:
    weights = np.random.default_rng([1, seed]).normal(size=(COLUMNS, ACTIONS))

    def probs(states: Any) -> Any:
        raised = np.exp(states @ weights)
        return raised / raised.sum(axis=1, keepdims=True)

    return bondic.CallablePolicy(probs)


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def measured(source: Any, against: Any, runs: int) -> tuple[float, float, float]:
    """One policy, twenty at once, twenty runs (from so many)."""

    def problem(k: int) -> Any:
        return bondic.make_problem(source, softmax(k), **STATED)

    def run(k: int, alpha: float) -> object:
        return difference_interval(problem(k), against, alpha=alpha)

    def together() -> object:
        first = problem(0)
        others = {str(k): other_rows(first, softmax(k)) for k in range(1, POLICIES)}
        return rank_policies({"0": first, **others}, against, alpha=ALPHA)

    run(0, ALPHA)  # imports, and memory
    one, at_once = seconds(lambda: run(0, ALPHA)), seconds(together)
    each = seconds(lambda: [run(k, ALPHA / POLICIES) for k in range(runs)]) / runs
    return one, at_once, POLICIES * each


RULES = """import numpy as np

def made(seed):
    weights = np.random.default_rng([1, seed]).normal(size=({columns}, {actions}))
    def probs(states):
        raised = np.exp(states @ weights)
        return raised / raised.sum(axis=1, keepdims=True)
    return probs

for k in range({policies}):
    globals()[f"p{{k}}"] = made(k)
"""


def tool(path: Path, runs: int) -> tuple[float, float, float]:
    """The same on the command line, against today's policy."""
    rules = path.with_name("rules.py")
    rules.write_text(RULES.format(columns=COLUMNS, actions=ACTIONS, policies=POLICIES))

    def command(name: str, *policies: int) -> None:
        named = [text for k in policies for text in ("--policy", f"{rules}:p{k}")]
        stated = ["--against", "today", "--gamma", "0", "--reward-range", "0", "1", "--quiet"]
        stated += [] if name == "compare" else ["--out", str(path.with_name("out")), "--force"]
        line = [sys.executable, "-m", "bondic", name, str(path), *named, *stated]
        subprocess.run(line, check=True, capture_output=True)

    def children(work: Callable[[], object]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        work()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    at_once = children(lambda: command("compare", *range(POLICIES)))
    each = children(lambda: [command("evaluate", k) for k in range(runs)]) / runs
    return each, at_once, POLICIES * each


def row(name: str, against: str, found: tuple[float, float, float]) -> str:
    one, at_once, runs = found
    return f"{name} | {against} | {one:.2f} s | {at_once:.2f} s | {at_once / one:.1f} | {at_once / runs:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Twenty policies at once.")
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--runs", type=int, default=5, help="runs behind the seconds of twenty")
    options = parser.parse_args()
    print(describe())
    print("| rows | log | against | one policy | twenty at once | / one policy | / twenty runs |")
    print("|---|---|---|---|---|---|---|")
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.parquet"
            pq.write_table(log_table(rows), path)
            held = bondic.make_problem(path, softmax(0), **STATED).log
            for name, source in (("in memory", held), ("Parquet", path)):
                for words, against in (("today", "today"), ("another policy", softmax(POLICIES))):
                    print(f"| {rows} | {row(name, words, measured(source, against, options.runs))}", flush=True)
            print(f"| {rows} | {row('command line', 'today', tool(path, options.runs))}", flush=True)


if __name__ == "__main__":
    main()
