"""Lengths of the default before groups: `estimate_interval(problem)` of an older commit on the logs of `allowances.py --lengths`.

That code is gone, so its figures are kept in `old_default_lengths.json`. To make them again:

    git worktree add ../old cf9e298
    python experiments/old_default_lengths.py --tree ../old [--only REGEX] [--seeds 2] [--seconds 150]

Every log is a process of its own, with the library of that tree and the worlds of this one. A run that takes longer than
`--seconds` has no interval. What is in the file is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[0] = str(HERE.parents[1])  # not this folder: its coverage.py is no library
FIGURES = HERE.with_suffix(".json")


def one(name: str, rows: int, seed: int) -> dict:
    """In a process of its own."""
    from experiments.number_worlds import length_worlds

    import bondic

    world = next(world for world in length_worlds() if world.name == name)
    problem = world.problem(rows, seed)
    began = time.perf_counter()
    result = bondic.estimate_interval(problem)
    found = {"low": result.low, "high": result.high, "status": result.status.name, "method": result.method}
    return {**found, "seconds": round(time.perf_counter() - began, 1)}


def written(stored: dict) -> str:
    """A run a line."""
    lines = ",\n".join(json.dumps(run, ensure_ascii=False) for run in stored["runs"])
    return f'{{"commit": "{stored["commit"]}", "runs": [\n{lines}\n]}}\n'


def ask(tree: Path, name: str, rows: int, seed: int, seconds: float) -> dict:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, str(HERE), "--one", name, "--rows", str(rows), "--seed", str(seed)]
    environment = {**os.environ, **threads, "PYTHONPATH": str(tree / "src")}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"status": "no answer in time", "seconds": seconds}
    if done.returncode:
        return {"status": done.stderr.strip().splitlines()[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--one", default="")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, given.rows, given.seed)))
        return 0
    from experiments.number_worlds import length_worlds

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=given.tree, capture_output=True, text=True)
    stored = json.loads(FIGURES.read_text()) if FIGURES.exists() else {"commit": commit.stdout.strip(), "runs": []}
    known = {(run["world"], run["rows"], run["seed"]) for run in stored["runs"]}
    for seed in range(given.seeds):
        for world in length_worlds():
            if not re.search(given.only, world.name) or (world.name, world.rows, seed) in known:
                continue
            found = {"world": world.name, "rows": world.rows, "seed": seed}
            stored["runs"].append(found | ask(given.tree, world.name, world.rows, seed, given.seconds))
            print(stored["runs"][-1], flush=True)
            FIGURES.write_text(written(stored))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
