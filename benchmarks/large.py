"""The defaults on large logs: seconds and peak memory of clicks and tables, beside reading the same columns.

python benchmarks/large.py --rows 100000 1000000 10000000        both logs, every size, with ratios and slopes
python benchmarks/large.py --rows 1000000 --rivals --tool        also means, obp, a fitted Q, confseq; `bondic evaluate`
python benchmarks/large.py --rows 1000000 --logs clicks logged --actions 1000   ("logged": the policy is a column)
python benchmarks/large.py --rows 1000000 10000000 --logs groups    states that are numbers, in batches; others: `groups.py`
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from machine import describe

import bondic
import bondic.data.open
import bondic.estimate  # what is imported is no part of the times

PART, MOST_ROWS = 1_000_000, 1_000_000
"""Rows of a file; and those that are given to rivals that hold all rows, some of them times actions or bootstrap samples."""
STATES, CHOICES, GAMMA = 50, 4, 0.9
FloatArray = npt.NDArray[np.float64]


# -- two logs whose truth is known


def prices(actions: int) -> FloatArray:
    return np.linspace(-1.0, 1.0, actions)


def clicks_policy(states: FloatArray, actions: int) -> FloatArray:
    """Prefers actions near the first coordinate of the state."""
    logits = -2.0 * (states[:, :1] - prices(actions)) ** 2
    weights = np.exp(logits)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def clicks(rows: int, actions: int, rng: np.random.Generator) -> dict[str, Any]:
    """One decision a row: three numbers, an action with its propensity, and a click."""
    states = np.round(rng.uniform(-1.0, 1.0, (rows, 3)), 6)
    favorite = rng.integers(actions, size=rows)
    taken = np.where(rng.random(rows) < 0.3, np.argmin(np.abs(states[:, :1] - prices(actions)), axis=1), favorite)
    near = np.argmin(np.abs(states[:, :1] - prices(actions)), axis=1)
    propensity = 0.7 / actions + 0.3 * (taken == near)
    click = rng.random(rows) < 0.4 - 0.1 * (states[:, 0] - prices(actions)[taken]) ** 2
    return {
        **{f"obs_{k}": states[:, k] for k in range(3)},
        "action": taken,
        "reward": click.astype(np.float64),
        "behavior_action_probs": propensity,
    }


def logged(rows: int, actions: int, rng: np.random.Generator) -> dict[str, Any]:
    """Clicks with a column of the policy's probabilities of the logged actions."""
    found = clicks(rows, actions, rng)
    places = [slice(top, top + 2**14) for top in range(0, rows, 2**14)]
    states = np.stack([found[f"obs_{k}"] for k in range(3)], axis=1)
    target = [
        np.take_along_axis(clicks_policy(states[k], actions), found["action"][k, None], axis=1)[:, 0] for k in places
    ]
    return found | {"target_action_probs": np.concatenate(target)}


def episodes(rows: int, first: int, actions: int, rng: np.random.Generator) -> dict[str, Any]:
    """Clicks in episodes of three."""
    found, step = clicks(rows, actions, rng), np.arange(rows) % 3
    following = {f"next_obs_{k}": np.append(found[f"obs_{k}"][1:], 0.0) for k in range(3)}
    return {
        **found,
        **following,
        "terminated": step == 2,
        "episode_id": (first + np.arange(rows)) // 3,
        "timestep": step,
    }


def chain() -> tuple[FloatArray, FloatArray]:
    """Next states (S, A, 3) that are equally likely, and mean rewards (S, A)."""
    rng = np.random.default_rng(5)
    return rng.integers(STATES, size=(STATES, CHOICES, 3)), np.round(rng.uniform(0.1, 0.9, (STATES, CHOICES)), 3)


def table(rows: int, first: int, actions: int, rng: np.random.Generator) -> dict[str, Any]:
    """Episodes of ten steps that begin in state 0; actions are taken at random."""
    del actions
    following, means = chain()
    episodes = rows // 10
    states, out = np.zeros(episodes, np.int64), []
    for step in range(10):
        actions = rng.integers(CHOICES, size=episodes)
        rewards = (rng.random(episodes) < means[states, actions]).astype(np.float64)
        after = following[states, actions, rng.integers(3, size=episodes)]
        out.append((states, actions, rewards, after, np.full(episodes, step)))
        states = after
    state, action, reward, after, step = (np.stack(one, axis=1).ravel() for one in zip(*out, strict=True))
    return {
        "obs_0": state,
        "action": action,
        "reward": reward,
        "next_obs_0": after,
        "terminated": np.zeros(state.size, bool),
        "truncated": step == 9,
        "episode_id": np.repeat(np.arange(episodes) + first // 10, 10),
        "timestep": step,
    }


def groups(rows: int, first: int, actions: int, rng: np.random.Generator) -> dict[str, Any]:
    """Episodes of fifty steps whose states are numbers (`groups.py`)."""
    import groups as world  # needs scikit-learn

    del actions
    found = world.columns(world.make_log(rows, int(rng.integers(2**31))))
    return found | {"episode_id": found["episode_id"] + first // 50}


def table_policy(states: FloatArray) -> FloatArray:
    favorite = states[:, 0].astype(int) % CHOICES
    return 0.1 + 0.6 * (favorite[:, None] == np.arange(CHOICES))


def write(folder: Path, log: str, rows: int, actions: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    part = PART if log != "episodes" else PART - PART % 3
    for number, first in enumerate(range(0, rows, part)):
        rng, count = np.random.default_rng([11, number]), min(part, rows - first)
        made = {
            "clicks": clicks,
            "logged": logged,
            "episodes": partial(episodes, first=first),
            "table": partial(table, first=first),
            "groups": partial(groups, first=first),
        }
        columns = made[log](count, actions=actions, rng=rng)
        pq.write_table(pa.table(columns), folder / f"part-{number}.parquet", row_group_size=2**16)


# -- what is timed, each in a process of its own


def read(folder: Path, actions: int) -> dict[str, Any]:
    """Every column once, in record batches."""
    del actions
    rows = 0
    for part in sorted(folder.iterdir()):
        for batch in pq.ParquetFile(part).iter_batches():
            rows += batch.num_rows
    return {"rows": rows}


def tool(folder: Path, actions: int) -> dict[str, Any]:
    """`bondic evaluate` with report and certificate, as a user types it."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        name = "table_policy(states)" if "table" in folder.name else f"clicks_policy(states, {actions})"
        path = f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\n"
        (place / "rules.py").write_text(f"{path}import large\ndef target(states):\n    return large.{name}\n")
        (place / "starts.csv").write_text("obs_0,weight\n0,1\n")
        more = (
            ["--gamma", str(GAMMA), "--initial", str(place / "starts.csv")]
            if "table" in folder.name
            else ["--one-step"]
        )
        command = [
            sys.executable,
            "-m",
            "bondic",
            "evaluate",
            str(folder),
            "--policy",
            f"{place / 'rules.py'}:target",
            *more,
        ]
        command += ["--reward-range", "0", "1", "--out", str(place / "out"), "--with", "memory=1GB"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        files = sum(file.stat().st_size for file in (place / "out").iterdir())
        return {"said": done.stderr.strip().splitlines()[-1], "MB written": round(files / 1e6, 1)}


def ours(folder: Path, actions: int) -> dict[str, Any]:
    clock, asking = time.perf_counter(), [0.0]

    def asked(states: FloatArray) -> FloatArray:
        begun = time.process_time()
        found = clicks_policy(states, actions)
        asking[0] += time.process_time() - begun
        return found

    single = folder.name.startswith(("clicks", "logged"))
    log = bondic.stream_log(folder, memory="1GB", one_step=single)
    opened = time.perf_counter() - clock
    if "groups" in folder.name:
        import groups as world

        problem = world.question(log)
    elif "table" in folder.name:
        initial = bondic.InitialStates.exact([[0.0]])
        problem = bondic.make_problem(
            log, bondic.CallablePolicy(table_policy), initial, reward_range=(0.0, 1.0), gamma=GAMMA
        )
    else:
        policy = bondic.LoggedTarget() if "logged" in folder.name else bondic.CallablePolicy(asked)
        problem = bondic.make_problem(log, policy, reward_range=(0.0, 1.0), gamma=0.0 if single else 0.5)
    made = time.perf_counter() - clock - opened
    result = bondic.estimate_interval(problem, alpha=0.1)
    return {
        "low": result.low,
        "high": result.high,
        "method": result.method,
        "policy cpu s": round(asking[0], 2),
        "open s": round(opened, 2),
        "question s": round(made, 2),
        "stages": {name: round(value, 2) for name, value in result.seconds.items()},
    }


def task(what: str) -> Callable[[Path, int], dict[str, Any]]:
    """What is timed, with its libraries loaded."""
    if what in TIMED:
        return TIMED[what]
    import rivals

    rivals.imported(what)
    return rivals.on_folder(what)


TIMED = {"read": read, "ours": ours, "tool": tool}
RIVALS = ("numpy", "polars", "normal", "obp IPS", "obp DR", "FQE", "confseq")


def timed(what: str, folder: Path, actions: int) -> dict[str, Any]:
    """In a process of its own, so that the peak is its own; imports do not count."""
    command = [sys.executable, __file__, "--one", what, "--folder", str(folder), "--actions", str(actions)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **os.environ},
    )
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument(
        "--logs", nargs="+", default=["clicks", "table"], choices=["clicks", "logged", "episodes", "table", "groups"]
    )
    parser.add_argument("--actions", type=int, default=10)
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--tool", action="store_true")
    parser.add_argument("--keep", type=Path, default=None, help="where the logs stay; used again if they are there")
    parser.add_argument("--one", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one is not None:
        work = task(args.one)
        clock, processor = time.perf_counter(), time.process_time()
        found = work(args.folder, args.actions)
        seconds, processor = time.perf_counter() - clock, time.process_time() - processor
        status = Path("/proc/self/status").read_text()  # ru_maxrss would hold the parent's
        peak = int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e9
        print(json.dumps({"s": round(seconds, 4), "cpu s": round(processor, 4), "GB": round(peak, 3), **found}))
        return
    print(json.dumps(describe()), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        for log in args.logs:
            before: tuple[int, float] | None = None
            for rows in args.rows:
                folder = (args.keep or Path(temporary)) / f"{log}-{rows}-{args.actions}"
                if not folder.exists():
                    write(folder, log, rows, args.actions)
                reading, answer = timed("read", folder, args.actions), timed("ours", folder, args.actions)
                print(f"{log} {rows}: read {reading}\n  bondic {answer}", flush=True)
                if "failed" not in answer:
                    cost = answer["cpu s"]  # other work on the machine does not count
                    slope = math.nan if before is None else math.log(cost / before[1]) / math.log(rows / before[0])
                    print(f"  {cost / reading['cpu s']:.1f} x reading, slope {slope:.2f}", flush=True)
                    before = rows, cost
                others = RIVALS if args.rivals and log == "clicks" else ()
                others = others if rows <= MOST_ROWS else others[:2]
                for other in (*others, *(("tool",) if args.tool else ())):
                    print(f"  {other} {timed(other, folder, args.actions)}", flush=True)


if __name__ == "__main__":
    main()
