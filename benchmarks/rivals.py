"""What a user would take instead on a log of clicks: means, obp, confseq's bets, a fitted Q; seconds, memory, length, misses.

python benchmarks/large.py --rows 1000000 --logs clicks --rivals      each in a process of its own, on one log
python benchmarks/rivals.py --rows 10000 --seeds 200                   misses and lengths over many logs

Answers of bondic are judged by the mean over the certified rows of a log, the others by that of the population. A rival that is
not installed says so. Of confseq only bets are used, which are Python (`pip install confseq` builds C++).
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from large import clicks, clicks_policy, prices
from machine import describe

import bondic

ALPHA, LARGEST = 0.1, 10 / 0.7
"""The largest ratio that the behavior of the clicks allows with 10 actions: confseq and obp's peers are told it."""
BOOTSTRAPS, FITS, BREAKS = 100, 20, 1000
Columns = dict[str, Any]
Ends = tuple[float, ...]
"""Low and high; of bondic also the first row that is certified, which decides what the answer is about."""


def truth(actions: int, states: Any = None) -> float:
    """The value of the policy, in the population or at some states: clicks have the probability 0.4 - 0.1 (state - price)^2."""
    if states is None:
        states = np.zeros((200_000, 3))
        states[:, 0] = (np.arange(len(states)) + 0.5) / len(states) * 2 - 1
    means = 0.4 - 0.1 * (states[:, :1] - prices(actions)) ** 2
    return float(np.mean(np.sum(clicks_policy(states, actions) * means, axis=1)))


def states_of(columns: Columns) -> Any:
    return np.column_stack([columns[f"obs_{k}"] for k in range(3)])


def floor(folder: Path, actions: int) -> dict[str, Any]:
    """The IPS mean of clicks in a few lines of NumPy, without an interval."""
    total = rows = 0.0
    for part in sorted(folder.iterdir()):
        for batch in pq.ParquetFile(part).iter_batches():
            column = {name: batch.column(name).to_numpy() for name in batch.schema.names}
            policy = clicks_policy(states_of(column), actions)[np.arange(batch.num_rows), column["action"]]
            total += float(np.sum(policy / column["behavior_action_probs"] * column["reward"]))
            rows += batch.num_rows
    return {"estimate": total / rows}


def polars(folder: Path, actions: int) -> dict[str, Any]:
    """The same as one lazy expression of polars."""
    import polars as pl

    def weight(price: Any) -> Any:
        return (-2.0 * (pl.col("obs_0") - price) ** 2).exp()

    taken = -1.0 + 2.0 * pl.col("action") / (actions - 1)
    policy = weight(taken) / pl.sum_horizontal([weight(price) for price in prices(actions).tolist()])
    mean = (policy / pl.col("behavior_action_probs") * pl.col("reward")).mean()
    return {"estimate": pl.scan_parquet(folder / "*.parquet").select(mean).collect(engine="streaming").item()}


def ours(columns: Columns, actions: int) -> Ends:
    log = bondic.Transitions(
        observations=states_of(columns), actions=columns["action"], rewards=columns["reward"],
        next_observations=states_of(columns), terminations=np.ones(len(columns["reward"]), bool),
        behavior_action_probs=columns["behavior_action_probs"],
    )  # fmt: skip
    policy = bondic.CallablePolicy(lambda states: clicks_policy(states, actions))
    found = bondic.estimate_interval(bondic.make_problem(log, policy, gamma=0.0, reward_range=(0.0, 1.0)), alpha=ALPHA)
    return found.low, found.high, found.rows[0]


def weighed(columns: Columns, actions: int) -> Any:
    policy = clicks_policy(states_of(columns), actions)[np.arange(len(columns["reward"])), columns["action"]]
    return policy / columns["behavior_action_probs"] * columns["reward"]


def normal(columns: Columns, actions: int) -> Ends:
    """Mean plus and minus 1.645 standard errors."""
    values = weighed(columns, actions)
    half = 1.6448536 * float(values.std()) / len(values) ** 0.5
    return float(values.mean()) - half, float(values.mean()) + half


def obp(columns: Columns, actions: int, doubly_robust: bool = False) -> Ends:
    """IPS of the Open Bandit Pipeline with its bootstrap; or DR, with a model that was fitted on the same log."""
    from obp.ope import DoublyRobust, InverseProbabilityWeighting

    policy = clicks_policy(states_of(columns), actions)
    given = {
        "reward": columns["reward"], "action": columns["action"], "pscore": columns["behavior_action_probs"],
        "action_dist": policy[:, :, None], "alpha": ALPHA, "n_bootstrap_samples": BOOTSTRAPS, "random_state": 0,
    }  # fmt: skip
    if doubly_robust:
        model = fitted(columns, np.arange(len(policy)))
        given["estimated_rewards_by_reg_model"] = predicted(model, columns, actions)[:, :, None]
    found = (DoublyRobust() if doubly_robust else InverseProbabilityWeighting()).estimate_interval(**given)
    return found["90.0% CI (lower)"], found["90.0% CI (upper)"]


def fitted(columns: Columns, rows: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    inputs = np.column_stack([states_of(columns), columns["action"]])
    return HistGradientBoostingRegressor(max_iter=50, random_state=0).fit(inputs[rows], columns["reward"][rows])


def predicted(model: Any, columns: Columns, actions: int) -> Any:
    states = states_of(columns)
    each = [model.predict(np.column_stack([states, np.full(len(states), action)])) for action in range(actions)]
    return np.column_stack(each)


def fqe(columns: Columns, actions: int) -> Ends:
    """Fitted Q evaluation, which for single decisions is one regression; refitted on resampled rows."""
    rng, policy, means = np.random.default_rng(0), clicks_policy(states_of(columns), actions), []
    for _ in range(FITS):
        rows = rng.integers(len(policy), size=len(policy))
        model = fitted(columns, rows)
        means.append(float(np.mean(np.sum(policy * predicted(model, columns, actions), axis=1)[rows])))
    return float(np.quantile(means, ALPHA / 2)), float(np.quantile(means, 1 - ALPHA / 2))


def confseq(columns: Columns, actions: int) -> Ends:
    """The hedged capital bets of confseq on the same ratios, which need a bound of them."""
    from confseq.betting import betting_ci

    low, high = betting_ci(weighed(columns, actions) / LARGEST, alpha=ALPHA, breaks=BREAKS)
    return float(low) * LARGEST, float(high) * LARGEST


INTERVALS: dict[str, Callable[[Columns, int], Ends]] = {
    "bondic": ours,
    "normal": normal,
    "obp IPS": obp,
    "obp DR": lambda columns, actions: obp(columns, actions, doubly_robust=True),
    "FQE": fqe,
    "confseq": confseq,
}
NEEDS = {
    "obp IPS": "obp.ope",
    "obp DR": "obp.ope",
    "FQE": "sklearn.ensemble",
    "confseq": "confseq.betting",
    "polars": "polars",
}


def imported(what: str) -> None:
    """Libraries are loaded before the clock starts; what they plot with, and progress bars, are not needed."""
    for name in ("seaborn", "tqdm", "matplotlib", "matplotlib.pyplot", "multiprocess", "pandas"):
        if name not in sys.modules and what in NEEDS and _absent(name.partition(".")[0]):
            sys.modules[name] = stand_in = types.ModuleType(name)
            vars(stand_in).update(tqdm=lambda items, **_: items, DataFrame=object)
    if what == "confseq":
        vars(np).setdefault("float_", np.float64)  # it was written for NumPy 1
    if what in NEEDS:
        importlib.import_module(NEEDS[what])


def _absent(name: str) -> bool:
    return name in sys.modules or importlib.util.find_spec(name) is None


def on_folder(what: str) -> Callable[[Path, int], dict[str, Any]]:
    """A rival on a folder of Parquet parts."""
    if what in ("numpy", "polars"):
        return {"numpy": floor, "polars": polars}[what]

    def run(folder: Path, actions: int) -> dict[str, Any]:
        table = pq.read_table(folder)
        low, high, *_ = INTERVALS[what]({name: table[name].to_numpy() for name in table.column_names}, actions)
        return {"low": low, "high": high}

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--only", nargs="+", default=list(INTERVALS), choices=list(INTERVALS))
    args = parser.parse_args()
    value = truth(10)
    print(json.dumps({**describe(), "truth": round(value, 6), "alpha": ALPHA}), flush=True)
    for rows in args.rows:
        logs = [clicks(rows, 10, np.random.default_rng([12, seed])) for seed in range(args.seeds)]
        for name in args.only:
            try:
                imported(name)
            except ImportError as problem:
                print(json.dumps({"rows": rows, "what": name, "missing": str(problem)}), flush=True)
                continue
            begun = time.process_time()
            ends = np.array([INTERVALS[name](log, 10) for log in logs])
            seconds = (time.process_time() - begun) / len(logs)
            truths = np.full(len(logs), value)
            if name == "bondic":
                truths = np.array(
                    [truth(10, states_of(log)[int(own[2]) :]) for log, own in zip(logs, ends, strict=True)]
                )
            missed = int(np.sum((ends[:, 0] > truths) | (ends[:, 1] < truths)))
            figures = {"length": round(float(np.mean(ends[:, 1] - ends[:, 0])), 5), "cpu_s": round(seconds, 3)}
            print(json.dumps({"rows": rows, "what": name, "misses": missed, "of": len(logs), **figures}), flush=True)


if __name__ == "__main__":
    main()
