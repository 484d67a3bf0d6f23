"""Plain means, where published betting intervals exist: `Propensities` with ratios of 1 beside the hedged capital.

    python experiments/betting_numbers.py [--logs 100] [--page out/betting-numbers.md]

If the policy is the one that was logged, the value is the mean of rewards in [0, 1], and intervals for this log (40), or for one
population (22), can be held against the hedged capital interval of Waudby-Smith and Ramdas (2024, Theorem 3 with the predictable
plug-in for a fixed n),

    { m : max( K+_n(m), K-_n(m) ) / 2 < 1/alpha },    K±_n(m) = prod_i ( 1 ± λ±_i(m) (X_i - m) ),
    λ+_i(m) = min( λ_i, c/m ),  λ-_i(m) = min( λ_i, c/(1 - m) ),  λ_i = sqrt( 2 log(2/alpha) / (n s^2_{i-1}) ),  c = 1/2,

s^2 the running variance that starts at 1/4, and against Hoeffding's and the empirical Bernstein interval of Maurer and Pontil.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import numpy.typing as npt
from experiments.coverage import write_atomically

import bondic

FloatArray = npt.NDArray[np.float64]
ALPHA = 0.05
GRID = 2001

WORLDS: dict[str, tuple[float, Callable[[np.random.Generator, int], FloatArray]]] = {
    "Bernoulli(0.5)": (0.5, lambda rng, n: (rng.random(n) < 0.5).astype(float)),
    "Bernoulli(0.1)": (0.1, lambda rng, n: (rng.random(n) < 0.1).astype(float)),
    "uniform": (0.5, lambda rng, n: rng.random(n)),
    "Beta(10, 30)": (0.25, lambda rng, n: rng.beta(10, 30, n)),
}


def ours(values: FloatArray, population: Any = None) -> tuple[float, float]:
    """One action, taken with probability 1 by both policies."""
    count = len(values)
    log = bondic.Transitions.one_step(
        np.arange(count, dtype=float)[:, None],
        np.zeros(count, dtype=np.int64),
        values,
        behavior_action_probs=np.ones(count),
    )
    problem = bondic.make_problem(
        log,
        bondic.UniformPolicy(1),
        population=population,
        gamma=0.0,
        reward_range=(0.0, 1.0),
        accept=None,
    )
    result = bondic.estimate_interval(problem, alpha=ALPHA, method=bondic.Propensities())
    return result.low, result.high


def hedged(values: FloatArray, c: float = 0.5) -> tuple[float, float]:
    """The hull of what is not rejected on a grid."""
    count = np.arange(1, len(values) + 1)
    means = (0.5 + np.cumsum(values)) / (count + 1)
    spread = (0.25 + np.cumsum((values - means) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], spread[:-1]])
    rates = np.sqrt(2 * math.log(2 / ALPHA) / (len(values) * before))
    grid = np.linspace(0, 1, GRID)[1:-1, None]
    up = np.log1p(np.minimum(rates, c / grid) * (values - grid)).sum(axis=1)
    down = np.log1p(-np.minimum(rates, c / (1 - grid)) * (values - grid)).sum(axis=1)
    kept = grid[np.maximum(up, down) < math.log(2 / ALPHA), 0]
    return float(kept[0]), float(kept[-1])


def hoeffding(values: FloatArray) -> tuple[float, float]:
    half = math.sqrt(math.log(2 / ALPHA) / (2 * len(values)))
    return max(values.mean() - half, 0.0), min(values.mean() + half, 1.0)


def bernstein(values: FloatArray) -> tuple[float, float]:
    price, n = math.log(4 / ALPHA), len(values)
    half = math.sqrt(2 * values.var(ddof=1) * price / n) + 7 * price / (3 * (n - 1))
    return max(values.mean() - half, 0.0), min(values.mean() + half, 1.0)


METHODS = {
    "`Propensities()`, this log, any means": ours,
    "`population='iid'`, every n at once": partial(ours, population="iid"),
    "hedged capital, one n": hedged,
    "empirical Bernstein (Maurer, Pontil), one n": bernstein,
    "Hoeffding, one n": hoeffding,
}


def table(count: int, logs: int, seed: int) -> list[str]:
    names = list(WORLDS)
    lines = [f"## n = {count}", "", "| interval | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    draws = {
        name: [make(np.random.default_rng([seed, count, k]), count) for k in range(logs)]
        for name, (_, make) in WORLDS.items()
    }
    for words, method in METHODS.items():
        cells = []
        for name, (truth, _) in WORLDS.items():
            found = [method(values) for values in draws[name]]
            missed = sum(not low <= truth <= high for low, high in found)
            cells.append(f"{np.mean([high - low for low, high in found]):.4f}, {missed}")
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--rows", default="100,1000")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    text = [
        "# Means: beside published betting intervals",
        "",
        "Where the policy is the one that was logged, every ratio is 1 and `Propensities` bounds a plain "
        f"mean of rewards in [0, 1]. Mean length and misses of {options.logs} samples, level 95 %. *Hedged capital* is the "
        f"interval of Waudby-Smith and Ramdas (2024) with their plug-in rates, on a grid of {GRID} means. For one "
        "population ours is what all times up to n have in common, which is why it can be the shortest; over this log every "
        "value may have a mean of its own. Written by",
        "",
        "```sh",
        "python experiments/betting_numbers.py --page out/betting-numbers.md  # part of make experiments",
        "```",
        "",
    ]
    for count in map(int, options.rows.split(",")):
        text += table(count, options.logs, options.seed)
        print("\n".join(text[-8:]), flush=True)
    if options.page is not None:
        write_atomically(options.page, "\n".join(text))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
