"""A log in Parquet parts -> certified interval under a memory budget: time and peak memory.

python benchmarks/streaming.py --rows 10000000 --memory 2GB      writes the parts (in batches), then evaluates them
python benchmarks/streaming.py --rows 10000000 --keep DIR        keeps or reuses the parts in DIR
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from machine import describe

import bondic
from bondic.tuning.defaults import Advanced
from bondic_lab.worlds.synthetic import SyntheticMDP

LENGTH = 100
PART = 500_000


def model() -> SyntheticMDP:
    """4-d state, 2 actions."""
    return SyntheticMDP.default(0.9, seed=1, dimension=4)


def write(folder: Path, rows: int) -> None:
    """Parts of half a million rows, each simulated from a seed of its own."""
    for number, first in enumerate(range(0, rows, PART)):
        target = folder / f"part-{number}.parquet"
        if target.exists():
            continue
        episodes = min(PART, rows - first) // LENGTH
        data = model().rollout(episodes, LENGTH, np.random.default_rng([7, number]))
        columns = {}
        for name in data.__dataclass_fields__:
            column = getattr(data, name)
            if name == "episode_ids":
                column = column + first // LENGTH
            flat = pa.array(np.ascontiguousarray(column).ravel())
            columns[name] = flat if column.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, column.shape[1])
        pq.write_table(pa.table(columns), target.with_suffix(".part"))
        target.with_suffix(".part").rename(target)


def evaluate(folder: Path, memory: str) -> dict[str, float | str]:
    mdp = model()
    start = time.perf_counter()
    stream = bondic.stream_log(folder, memory=memory)
    opened = time.perf_counter() - start
    problem = bondic.make_problem(
        stream,
        bondic.CallablePolicy(mdp.target_probs),
        bondic.InitialStates.exact(mdp.initial_states, mdp.initial_probs),
        gamma=mdp.gamma,
        reward_range=mdp.reward_range,
    )
    result = bondic.estimate_interval(problem, method=bondic.Dual(radius="paper", advanced=Advanced(pairs=128)))
    stages = {f"{name} s": round(value, 1) for name, value in result.seconds.items()}
    return {
        "rows": len(stream),
        "batch rows": stream.batch_rows,
        "seconds": round(time.perf_counter() - start, 1),
        "processor s": round(time.process_time(), 1),
        "open s": round(opened, 1),
        **stages,
        "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3),
        "low": result.low,
        "high": result.high,
        "value": mdp.value,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--keep", type=Path, default=None)
    parser.add_argument("--one", type=Path, default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one is not None:
        print(json.dumps(evaluate(args.one, args.memory)))
        return
    print(json.dumps(describe()))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if args.keep is None else args.keep
        folder.mkdir(exist_ok=True)
        write(folder, args.rows)
        size = sum(part.stat().st_size for part in folder.iterdir())
        print(f"{args.rows} rows in {len(list(folder.iterdir()))} parts, {size / 1e9:.2f} GB on disk", flush=True)
        # in a process of its own, so that the peak is that of the estimate
        command = [sys.executable, __file__, "--one", str(folder), "--memory", args.memory]
        alone = {"OPENBLAS_NUM_THREADS": "1", **os.environ}  # rows are worked on in threads: see docs/large-logs.md
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=alone)
        print(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
