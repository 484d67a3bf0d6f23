"""A stated ball through the core of features, beside `Sequential(ball=...)` on the same log: the paper's synthetic problem.

python -m experiments.feature_ball 5000 1 old
"""

from __future__ import annotations

import sys
import time

import numpy as np
from experiments.feature_plan import Columns, Plan, interval, make_bound
from experiments.tightness import RADIUS, synthetic

import bondic
from bondic.core.dual.bound import START


def kernel(x, y, h=1.5):
    return np.exp(-((x[:, None] - y[None]) ** 2).sum(axis=2) / (2 * h * h))


def landmarks(points, most, tolerance):
    """Pivoted Cholesky: the point with the largest power function next."""
    rest, chosen, rows = np.ones(len(points)), [], np.zeros((0, len(points)))
    while len(chosen) < most and rest.max() > tolerance:
        k = int(np.argmax(rest))
        row = (kernel(points[k : k + 1], points)[0] - rows[:, k] @ rows) / np.sqrt(rest[k])
        rows = np.vstack([rows, row])
        rest = np.maximum(rest - row**2, 0)
        chosen.append(k)
    return points[chosen]


def columns(problem, pilot_rows, radius, most, tolerance):
    batch, gamma = problem.whole(), problem.gamma
    n = len(batch)
    early = batch.next.rows < pilot_rows
    seen = np.concatenate([batch.logged[:pilot_rows], batch.next.points[early][::3], problem.initial.points[:300]])
    z = landmarks(seen, most, tolerance)
    gram = kernel(z, z)
    val, vec = np.linalg.eigh(gram)
    val = np.maximum(val, val.max() * 1e-15)
    root = vec / np.sqrt(val)

    def phi(points):
        parts = [kernel(points[i : i + 20000], z) @ root for i in range(0, len(points), 20000)]
        found = np.concatenate(parts)
        return found, np.sqrt(np.maximum(1 - (found**2).sum(axis=1), 0) + 1e-12)

    own, power = phi(batch.logged)
    cloud, ahead_power = phi(batch.next.points)
    w = batch.next.weights[:, 0]
    nxt, nxt_power = np.zeros((n, own.shape[1])), np.bincount(batch.next.rows, w * ahead_power, minlength=n)
    np.add.at(nxt, batch.next.rows, w[:, None] * cloud)
    first, start_power = phi(problem.initial.points)
    w0 = problem.initial_states.weights[problem.initial.rows] * problem.initial.weights[:, 0]
    low, high = -14.0, 4.8
    return Columns(
        own, nxt, batch.rewards, np.zeros(n), power, nxt_power, w0 @ first, 0.0, float(w0 @ start_power), gamma,
        low, high, float(np.abs(batch.rewards).max()), radius=radius,
    ), power  # fmt: skip


def main(rows, seeds, old):
    case = synthetic()
    for seed in range(seeds):
        problem = case.make(rows, seed)
        pilot = max(int(0.05 * rows), 250)
        line = f"n {rows} seed {seed} J* {case.truth:.4f}"
        if old:
            t = time.time()
            result = bondic.estimate_interval(problem, alpha=0.1, method=bondic.Sequential(ball=case.ball))
            ends = {c.end: c for c in result.claims}
            spread = {e: sum(p.size.upper for p in c.parts if p.name == START) for e, c in ends.items()}
            length = ends["upper"].bound - ends["lower"].bound - sum(spread.values())
            line += f" | sequential {length:.4f} without the part of sampled starts, {time.time() - t:.0f} s"
        began = time.time()
        data, power = columns(problem, pilot, RADIUS, 120, 1e-10)
        bound = make_bound(data, Plan(pilot, ridge=1.0, floor_margin=1.5))
        low, high = interval(bound, RADIUS)
        line += (
            f" | features D {data.start.size} {high - low:.4f} [{low:.3f}, {high:.3f}], {time.time() - began:.0f} s, "
        )
        line += f"power function at most {power.max():.1e}"
        print(line, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), len(sys.argv) > 3)
