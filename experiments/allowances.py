"""States that are numbers: is the curve right at the true allowance, and how long is it?

Every world has a known q*. For a log, model and groups come from its pilot (or are the user's); then the true numbers of (23) are
computed, cell by cell (`allowances_truth.py`). Counted are

    miss       J* outside the interval at the true allowance, a rejection included: must not exceed alpha
    control    the same at half of the true averages, where that interval is shorter than the range: has to fail at a hidden cliff
    β_min      larger than the true number over halves of groups: must not exceed alpha
    at zero    J* inside the interval at allowance 0, and its length

    python experiments/allowances.py [--seeds 20] [--rows N] [--only REGEX] [--workers 2]      the worlds
    python experiments/allowances.py --lengths [--seeds 5] [--workers 2]                          lengths
    python experiments/allowances.py --seeds 0 --page out/allowances.md                          the page, from what was run

Every run is a line of the file `--runs`; what is there is not run again (remove the file when the library has changed).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])  # not this folder: its coverage.py is no library
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before NumPy is loaded: processes, not threads

from experiments.allowances_page import page, summary  # noqa: E402
from experiments.allowances_truth import true_numbers  # noqa: E402
from experiments.number_worlds import length_worlds, number_worlds  # noqa: E402

import bondic  # noqa: E402
from bondic.core.cells.allowance import CellAllowance  # noqa: E402
from bondic.core.claims import Status, conclude  # noqa: E402
from bondic.core.sequential.proof import claims_of  # noqa: E402

ALPHA = 0.1
OTHER_ROWS = 30_000
SHORT = 0.98
HALVINGS = 10


@cache
def worlds(kind: str) -> dict[str, Any]:
    return {world.name: world for world in (length_worlds() if kind == "lengths" else number_worlds())}


def run(task: tuple[str, str, int, int]) -> dict[str, Any]:
    """One log, in any process: kind, world, rows, seed."""
    kind, name, rows, seed = task
    world = worlds(kind)[name]
    problem = world.problem(rows, seed)
    began = time.perf_counter()
    result = bondic.estimate_interval(problem, alpha=ALPHA, method=bondic.Groups(**world.statements))
    curve = result.curve
    ruled_out, zero = curve.ruled_out, curve.at(0.0)
    seconds = time.perf_counter() - began
    known = {"kind": kind, "world": name, "gamma": world.gamma, "rows": rows, "seed": seed, "truth": world.truth}
    return {
        **known,
        "chosen": any(item.state == "chosen" for item in result.assumptions) or result.status is not Status.TRIVIAL,
        "range": curve.value_range.width, "zero": holds(zero, world.truth), "zero_length": zero.length,
        "zero_status": zero.status.name, "ruled_out": ruled_out, "groups": len(curve.groups), "cells": proof_cells(curve),
        "model": curve.model, "needed": needed(curve, world.truth), "seconds": round(seconds, 2),
        "marks": {mark.name: mark.value for mark in curve.marks},
        **({} if world.noisy else at_the_truth(world, problem, result)),
    }  # fmt: skip


def proof_cells(curve: Any) -> int:
    return int(curve.bound.tally.shape.cells)


def at_the_truth(world: Any, problem: Any, result: Any) -> dict[str, Any]:
    """The interval at the true numbers of (23), and at half of the averages."""
    truth = true_numbers(world, problem, result, OTHER_ROWS)
    own = truth.allowance
    right = interval(result.curve, own)
    half = interval(result.curve, CellAllowance(own.averages / 2, own.single))
    width = result.curve.value_range.width
    return {
        "miss": not holds(right, world.truth), "length": right.high - right.low,
        "short": right.status is Status.REJECTED or right.high - right.low < SHORT * width,
        "control": not holds(half, world.truth), "half_length": half.high - half.low,
        "half_short": half.status is Status.REJECTED or half.high - half.low < SHORT * width,
        "mean": truth.mean, "largest": float(own.averages.max()), "single": truth.largest_single,
        "halves": truth.half, "halves_single": truth.half_single,
        "over": result.curve.ruled_out > max(truth.half, truth.half_single),
    }  # fmt: skip


def interval(curve: Any, allowance: CellAllowance) -> Any:
    """That of the curve's event, at an allowance of every cell."""
    shown = claims_of(curve.proof.evaluate(curve.rows, curve.bound, allowance), curve.proof.budget)
    return conclude(curve.value_range, shown.ends, shown.rejected, curve.proof.side)


def holds(point: Any, truth: float) -> bool:
    slack = 1e-6 * max(1.0, abs(truth))  # truths are simulated up to 1e-7
    return point.status is not Status.REJECTED and bool(point.low - slack <= truth <= point.high + slack)


def needed(curve: Any, truth: float) -> float:
    """The least allowance (both numbers alike) at which the interval holds the value."""
    if holds(curve.at(0.0), truth):
        return 0.0
    low, high = 0.0, curve.value_range.width
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(curve.at(middle), truth) else (middle, high)
    return high


def stored(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tasks(given: Any, known: set[tuple[Any, ...]]) -> list[tuple[str, str, int, int]]:
    kind = "lengths" if given.lengths else "worlds"
    chosen = [world for name, world in worlds(kind).items() if re.search(given.only, name)]
    found = [(kind, one.name, given.rows or one.rows, seed) for one in chosen for seed in range(given.seeds)]
    return [task for task in found if task not in known]


def parsed() -> Any:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=0, help="those of the world, unless given")
    parser.add_argument("--only", default="")
    parser.add_argument("--lengths", action="store_true", help="the worlds of the table of lengths")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("out/allowances.jsonl"))
    parser.add_argument("--page", type=Path)
    return parser.parse_args()


def main() -> int:
    given = parsed()
    given.runs.parent.mkdir(parents=True, exist_ok=True)
    found = stored(given.runs)
    todo = tasks(given, {(run["kind"], run["world"], run["rows"], run["seed"]) for run in found})
    with multiprocessing.get_context("spawn").Pool(given.workers) as pool, given.runs.open("a") as file:
        for one in pool.imap_unordered(run, todo) if given.workers > 1 else map(run, todo):
            file.write(json.dumps(one) + "\n")
            file.flush()
            found.append(one)
            shown = {key: one[key] for key in ("world", "seed", "zero_length", "seconds")}
            print(
                shown | {key: one[key] for key in ("miss", "control", "length", "ruled_out") if key in one}, flush=True
            )
    order = [(kind, name) for kind in ("worlds", "lengths") for name in worlds(kind)]
    found.sort(key=lambda one: (order.index((one["kind"], one["world"])), one["seed"]))
    if given.page:
        given.page.write_text(page(found))
    failures = summary(found, ALPHA)
    print("\n".join(failures) or "no more misses than alpha, and the control fails at hidden cliffs")
    return int(bool(failures))


if __name__ == "__main__":
    raise SystemExit(main())
