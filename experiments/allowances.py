"""States that are numbers: is the curve right at the true allowance, and how long is it?

Every world has a known q*. For a log, model and groups come from its pilot; then the true numbers of (23) are computed: e(c) is
the mean of q* - q̂ over the pilot's pairs of a cell (fixed before the certified rows), β̄ the largest average of what varies, over
blocks and cells, over next points and over the starts, β_∞ the largest single value after a row. Counted are

    miss       J* outside the interval at the true (β̄, β_∞), a rejection included: must not exceed alpha
    control    the same at half of both, where the interval is shorter than the range: should fail where averages matter
    β_min      larger than the true half-group numbers: must not exceed alpha
    at zero    J* inside the interval at allowance 0, and its length

    python experiments/allowances.py [--seeds 20] [--rows 5000] [--only REGEX] [--lengths] [--page docs/allowances.md]
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from pathlib import Path

import numpy as np

sys.path[0] = str(Path(__file__).resolve().parents[1])  # not this folder: its coverage.py is no library

from experiments.number_worlds import length_worlds, number_worlds  # noqa: E402

import bondic  # noqa: E402
from bondic.claims import Status  # noqa: E402

ALPHA = 0.1


def true_numbers(world, problem, result):
    """(β̄, β_∞, the same over halves): from the known q*."""
    proof, certified = result.proof, problem.select(result.proof.asked.rows[0])
    cells, slots, batch = proof.cells, problem.layout.slots, certified.whole()
    pilot = problem.select(problem.rows.start, certified.rows.start).whole()
    fitted = result.curve.fitted
    k = 0 if problem.layout.discrete else problem.layout.action_dim

    def q(points, action):
        return world.q_star(points[:, :-k] if k else points, points[:, -k:] if k else action)

    group = fitted.group(pilot.logged)
    cell = group * slots + pilot.slots
    error = q(pilot.logged, pilot.slots) - fitted.values(pilot.logged, pilot.slots)
    count = np.bincount(cell, minlength=cells.size(slots))
    e = np.bincount(cell, error, minlength=count.size) / np.maximum(count, 1)
    own = cells.group * slots + batch.slots
    zeta = q(batch.logged, batch.slots) - cells.value - e[own]

    def ahead(points, groups, weights):
        """The policy's mean of ζ at points."""
        if k:
            return (q(points, None) - fitted.values(points, None) - e[groups]) * weights[:, 0]
        found = np.zeros(len(points))
        for action in range(slots):
            here = weights[:, action] > 0
            chosen = np.full(int(here.sum()), action)
            value = q(points[here], chosen) - fitted.values(points[here], chosen) - e[groups[here] * slots + action]
            found[here] += weights[here, action] * value
        return found

    following = np.bincount(batch.next.rows, ahead(batch.next.points, cells.next_group, batch.next.weights), len(batch))
    cloud = problem.initial
    start = problem.initial_states.weights[cloud.rows] @ ahead(cloud.points, cells.start_group, cloud.weights)
    block = np.searchsorted(proof.events.stops, batch.log_rows, side="right")

    def averages(key):
        total = np.bincount(key)
        sums = [np.abs(np.bincount(key, part)[total > 0] / total[total > 0]) for part in (zeta, following)]
        return max(float(one.max()) for one in sums)

    single = float(np.abs(following).max(initial=0.0))
    mean = max(averages(block * count.size + own), abs(float(start)))
    half = max(averages(2 * own + cells.half), mean)
    return mean, single, half


def run(world, rows, seed):
    problem = world.problem(rows, seed)
    began = time.perf_counter()
    result = bondic.estimate_interval(problem, alpha=ALPHA, method=bondic.Groups())
    seconds = time.perf_counter() - began
    curve = result.curve
    mean, single, half = true_numbers(world, problem, result)

    def holds(point):
        return point.status is not Status.REJECTED and point.low <= world.truth <= point.high

    at_truth, at_half, at_zero = curve.at((mean, single)), curve.at((mean / 2, single / 2)), curve.at(0.0)
    return {
        "chosen": any(item.state == "chosen" for item in result.assumptions) or result.status is not Status.TRIVIAL,
        "miss": not holds(at_truth), "short": at_truth.length < 0.98 * curve.value_range.width,
        "control": not holds(at_half), "zero": holds(at_zero), "zero_length": at_zero.length, "length": at_truth.length,
        "mean": mean, "single": single, "ruled_out": curve.ruled_out, "over": curve.ruled_out > max(half, single),
        "groups": len(curve.groups), "seconds": seconds, "range": curve.value_range.width,
        "needed": needed(curve, world.truth), "marks": {mark.name: mark.value for mark in curve.marks},
    }  # fmt: skip


def needed(curve, truth):
    """The least allowance (both numbers alike) at which the interval holds the value; inf where none of the range does."""
    if curve.at(0.0).low <= truth <= curve.at(0.0).high:
        return 0.0
    low, high = 0.0, curve.value_range.width
    for _ in range(12):
        middle = 0.5 * (low + high)
        point = curve.at(middle)
        low, high = (low, middle) if point.low <= truth <= point.high else (middle, high)
    return high


def row(name, runs):
    def median(key):
        return float(np.median([one[key] for one in runs]))

    def count(key):
        return sum(one[key] for one in runs)

    cells = [name, len(runs), *(count(key) for key in ("chosen", "miss", "short", "control", "over", "zero"))]
    cells += [f"{median(key):.3g}" for key in ("zero_length", "length", "range")]
    cells += [f"{median('mean'):.2g}, {median('single'):.2g}", f"{median('needed'):.2g}", f"{median('ruled_out'):.2g}"]
    cells += [f"{median('groups'):.0f}", f"{median('seconds'):.1f}"]
    return f"| {' | '.join(str(cell) for cell in cells)} |"


HEAD = (
    "| world | logs | rests on a choice | misses at the true allowance | shorter than the range there | misses at half of it | "
    "β_min too large | J* inside at 0 | length at 0 | length at the true one | range | true β̄, β_∞ | needed | β_min | groups | "
    "seconds |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def rank_correlation(first, second):
    ranks = [np.argsort(np.argsort(np.asarray(one, dtype=float))) for one in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1]) if len(first) > 2 else math.nan


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--only", default="")
    parser.add_argument("--lengths", action="store_true", help="the worlds of the table of lengths")
    parser.add_argument("--page", default="")
    given = parser.parse_args()
    worlds = [w for w in (length_worlds() if given.lengths else number_worlds()) if re.search(given.only, w.name)]
    lines, everything = [HEAD], []
    print(HEAD, flush=True)
    for world in worlds:
        if getattr(world, "noisy", False):
            continue
        runs = [run(world, given.rows, seed) for seed in range(given.seeds)]
        everything += runs
        lines.append(row(f"{world.name}, {given.rows} rows", runs))
        print(lines[-1], flush=True)
    misses, short = sum(r["miss"] for r in everything), sum(r["short"] for r in everything)
    closing = [
        f"{misses} misses of {len(everything)} at the true allowance ({short} shorter than the range), "
        f"{sum(r['control'] for r in everything)} at half of it; β_min too large in {sum(r['over'] for r in everything)}."
    ]
    want = [r["needed"] / r["range"] for r in everything]
    for name in ("two models", "halves of groups", "starts"):
        having = [
            (r["marks"][name] / r["range"], w) for r, w in zip(everything, want, strict=True) if name in r["marks"]
        ]
        closing.append(
            f"Rank correlation of the mark `{name}` and the needed allowance: {rank_correlation(*zip(*having, strict=True)):.2f}."
        )
    print("\n".join(closing))
    if given.page:
        text = f"{__doc__.splitlines()[0]}\n\n" + "\n".join(lines) + "\n\n" + "\n".join(closing) + "\n"
        Path(given.page).write_text(f"# Allowances on worlds with a known value function\n\n{text}")
    allowed = ALPHA * len(everything) + 3 * math.sqrt(ALPHA * (1 - ALPHA) * len(everything))
    return int(misses > allowed or any(r["chosen"] for r in everything))


if __name__ == "__main__":
    raise SystemExit(main())
