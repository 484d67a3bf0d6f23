"""Log in memory -> certified interval: time and peak memory; automatic engine, all pairs, blocked NumPy.

python benchmarks/estimate.py --rows 100000            both engines, each in a process of its own, and the ratio
python benchmarks/estimate.py --rows 10000 --engine auto --one     one run, JSON on the last line
python benchmarks/estimate.py --slope                  10^3 ... 10^6 rows, and the slope of log time against log rows
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from machine import describe

import bondic
from bondic.tuning.defaults import Advanced
from bondic_lab.worlds.synthetic import SyntheticMDP

LENGTH = 100


def run(rows: int, engine: str) -> dict[str, float | str]:
    """4-d state, 2 actions, 256 features per action (128 cos/sin pairs)."""
    mdp = SyntheticMDP.default(0.9, seed=1, dimension=4)
    data = mdp.rollout(max(1, rows // LENGTH), min(LENGTH, rows), np.random.default_rng(7))
    columns = {name: getattr(data, name) for name in data.__dataclass_fields__}
    start = time.perf_counter()
    log = bondic.Transitions(**columns)
    problem = bondic.make_problem(
        log,
        bondic.CallablePolicy(mdp.target_probs),
        bondic.InitialStates.exact(mdp.initial_states, mdp.initial_probs),
        gamma=mdp.gamma,
        reward_range=mdp.reward_range,
    )
    method = bondic.Dual(radius="paper", engine=engine, advanced=Advanced(pairs=128))
    result = bondic.estimate_interval(problem, method=method)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    stages = {f"{name} s": round(value, 2) for name, value in result.seconds.items()}
    return {
        "engine": engine, "rows": rows, "seconds": round(seconds, 2), **stages, "peak GB": round(peak, 3),
        "low": result.low, "high": result.high, "rounding": result.upper.rounding, "status": result.status.name,
    }  # fmt: skip


def apart(rows: int, engine: str) -> dict[str, float]:
    """One run in a process of its own, so that peaks do not mix."""
    command = [sys.executable, __file__, "--rows", str(rows), "--engine", engine, "--one"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    print(done.stdout.splitlines()[-1], flush=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def slope(sizes: list[int]) -> None:
    """Time and memory against the number of rows; a quadratic method would double the exponent."""
    found = [apart(rows, "auto") for rows in sizes]
    rows, seconds = np.log([run["rows"] for run in found]), np.log([run["seconds"] for run in found])
    steps = np.diff(seconds) / np.diff(rows)
    print(
        "slope between sizes:",
        ", ".join(f"{step:.2f}" for step in steps),
        f"; overall {np.polyfit(rows, seconds, 1)[0]:.2f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--engine", choices=("auto", "pairs", "reference"), default="auto")
    parser.add_argument("--one", action="store_true")
    parser.add_argument("--slope", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run(args.rows, args.engine)))
        return
    print(json.dumps(describe()))
    if args.slope:
        slope(args.sizes)
        return
    results = [apart(args.rows, engine) for engine in ("auto", "pairs", "reference")]
    first = results[0]
    for other in results[1:]:
        print(
            f"{other['engine']:6} certify {other['certify s'] / first['certify s']:6.1f} x, "
            f"whole run {other['seconds'] / first['seconds']:5.1f} x, as long as auto"
        )


if __name__ == "__main__":
    main()
