"""The default on logs whose states are numbers, beside reading the file and beside fitting one model to it.

A smooth 3-d world, γ = .9, two actions. Measured in one run: pyarrow reading the Parquet file, scikit-learn's gradient boosting
fitted once to the rewards, and the default of bondic, curve included. Peak memory is that of the whole process.

    python benchmarks/groups.py [--rows 10000 100000 1000000]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from machine import describe
from sklearn.ensemble import HistGradientBoostingRegressor

import bondic


def make_log(rows: int, seed: int = 0) -> bondic.Transitions:
    """s' = .7 s + noise + a push; reward is smooth in the state; episodes of 50 rows."""
    rng = np.random.default_rng(seed)
    chains = -(-rows // 50)
    state, columns = rng.uniform(-1, 1, size=(chains, 3)), []
    for step in range(50):
        action = rng.integers(2, size=chains)
        mean = 0.5 + 0.3 * np.sin(2 * state[:, 0]) + 0.1 * (2 * action - 1) * state[:, 1]
        reward = (rng.uniform(size=chains) < np.clip(mean, 0, 1)).astype(float)
        after = np.clip(
            0.7 * state + 0.2 * (2 * action - 1)[:, None] + 0.2 * rng.standard_normal((chains, 3)), -1.5, 1.5
        )
        columns.append((state, action, reward, after, np.arange(chains), np.full(chains, step)))
        state = after
    found = [np.stack(one, axis=1).reshape(chains * 50, *one[0].shape[1:])[:rows] for one in zip(*columns, strict=True)]
    ends = np.append(found[4][1:] != found[4][:-1], True)
    return bondic.Transitions(
        observations=found[0], actions=found[1], rewards=found[2], next_observations=found[3],
        terminations=np.zeros(rows, dtype=bool), truncations=ends, episode_ids=found[4], timesteps=found[5],
    )  # fmt: skip


def policy(states: np.ndarray) -> np.ndarray:
    right = (states[:, 1] > 0).astype(float)
    return np.column_stack([1 - right, right])


def columns(log: bondic.Transitions) -> dict[str, np.ndarray]:
    """By the names that files have."""
    return (
        {f"obs_{k}": log.observations[:, k] for k in range(3)}
        | {f"next_obs_{k}": log.next_observations[:, k] for k in range(3)}
        | {"action": log.actions, "reward": log.rewards, "terminated": log.terminations, "truncated": log.truncations}
        | {"episode_id": log.episode_ids, "timestep": log.timesteps}
    )


def reading(log: bondic.Transitions) -> float:
    """Seconds that pyarrow takes for the same columns, in record batches."""
    table = pa.table(columns(log))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        pq.write_table(table, path)
        return fastest(lambda: sum(batch.num_rows for batch in pq.ParquetFile(path).iter_batches()))


def fastest(work: Callable[[], object]) -> float:
    """Seconds of the fastest of three runs after one that starts threads and caches."""
    spent = []
    for _ in range(4):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return min(spent[1:])


def question(log: Any) -> Any:
    starts = bondic.InitialStates.exact(np.linspace(-0.5, 0.5, 5)[:, None] * np.ones(3))
    chosen = bondic.CallablePolicy(policy)
    return bondic.make_problem(log, chosen, starts, gamma=0.9, reward_range=(0.0, 1.0), may_terminate=False)


def fitting(log: bondic.Transitions) -> float:
    """Seconds for one regression of the rewards."""
    began = time.perf_counter()
    HistGradientBoostingRegressor(random_state=0).fit(np.column_stack([log.observations, log.actions]), log.rewards)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    print(describe())
    print(
        "| rows | bondic, s | curve, s | times one fit | certified pass, s | times reading | length at 0 | peak memory, GB |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for rows in parser.parse_args().rows:
        log = make_log(rows)
        read, fit = reading(log), fitting(log)
        began = time.perf_counter()
        problem = question(log)
        result = bondic.estimate_interval(problem)
        spent, began = time.perf_counter() - began, time.perf_counter()
        assert result.curve is not None
        points = result.curve.line()
        curve = time.perf_counter() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        whole = spent + curve
        certified = fastest(partial(result.proof.bound, result.question.select(*result.rows)))
        ratios = f"{whole / fit:.1f} | {certified:.3f} | {certified / read:.1f}"
        print(f"| {rows} | {spent:.1f} | {curve:.1f} | {ratios} | {points[0].length:.3g} | {memory:.2f} |", flush=True)


if __name__ == "__main__":
    main()
