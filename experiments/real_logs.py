"""Data from published packages, default settings, and the truth beside the interval: a gallery for newcomers.

    python experiments/real_logs.py [--only TEXT] [--seed 0] [--page out/real-logs.md]

The packages obp, scikit-learn and gymnasium bring the data; nothing of them is copied. One log each: how often defaults miss is
counted by experiments/defaults.py.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.coverage import write_atomically
from experiments.coverage_checks import missed
from experiments.defaults_cells import Trial, one_step_log, table_trial, truth_about
from experiments.defaults_problems_bandits import campaign, labeled_data, logged_labels, shares_policy
from experiments.defaults_problems_gym import TABLES, gym_table, pole_cell

import bondic

ALPHA = 0.1


@dataclass(frozen=True, eq=False)
class Example:
    """A log, in words and as a program."""

    name: str
    source: str
    estimand: str
    make: Callable[[np.random.Generator], Trial]
    truth: str = "exact"


def shop(name: str, rng: np.random.Generator) -> Trial:
    """The log of the random policy, with its propensities; Thompson sampling's own log stands in for the truth.

    Who drew items at random knows that none had less than its share, and what the new policy does most. Both are stated.
    """
    del rng
    data = campaign(name)
    log = one_step_log(data.contexts, data.items, data.clicks, data.propensities)
    least = (1 - 1e-9) / len(data.rates)
    method = bondic.Propensities(min_propensity=least, max_ratio=float(data.shares.max()) / least)
    policy = shares_policy(data.shares)
    return Trial(log, policy, 0.0, (0.0, 1.0), data.bts_mean, data.bts_error, statements={"method": method})


def labels(name: str, rows: int, rng: np.random.Generator) -> Trial:
    data = logged_labels(*labeled_data(name), rng, rows)
    log = one_step_log(data.features, data.actions, data.rewards, data.propensities)
    return Trial(log, data.policy, 0.0, (0.0, 1.0), data.right)


def maze(name: str, rows: int, known: tuple[float, float] | None, rng: np.random.Generator) -> Trial:
    """Half the best action and half any were logged; the best is asked for."""
    identifier, settings, gamma, reward_range, _, longest = TABLES[name]
    table, start = gym_table(identifier, **settings)
    best = table.greedy(gamma)
    even = np.full(best.shape, 1.0 / best.shape[1])
    trial = table_trial(
        table,
        start,
        target=best,
        behavior=lambda _: 0.5 * best + 0.5 * even,
        gamma=gamma,
        reward_range=reward_range,
        rows=rows,
        longest=longest,
        rng=rng,
    )
    return replace(trial, statements={**trial.statements, **({"value_range": known} if known else {})})


def pole(rows: int, rng: np.random.Generator) -> Trial:
    return replace(pole_cell("standing", rows, rng), gamma=0.9, truth=(1 - 0.9**500) / (1 - 0.9))


OBP, SKLEARN, GYM = "obp 0.4.1, Open Bandit", "scikit-learn", "Gymnasium"
EXAMPLES = (
    *(
        Example(
            f"a shop's clicks, campaign {name}",
            OBP,
            "which of the items to show: Thompson sampling, from the log of a random policy",
            partial(shop, name),
            truth="measured on its own days",
        )
        for name in ("men", "women", "all")
    ),
    *(
        Example(f"{name}, {rows} decisions", SKLEARN, "a decision tree that labels them", partial(labels, name, rows))
        for name, rows in (("digits", 5000), ("breast_cancer", 2000), ("wine", 2000))
    ),
    Example(
        "FrozenLake, 50 000 steps",
        GYM,
        "the best policy, γ = 0.95, values stated in [0, 1]",
        partial(maze, "FrozenLake", 50_000, (0.0, 1.0)),
    ),
    Example("CliffWalking, 20 000 steps", GYM, "the best policy, γ = 0.9", partial(maze, "CliffWalking", 20_000, None)),
    Example("Taxi, 100 000 steps", GYM, "the best policy, γ = 0.9", partial(maze, "Taxi", 100_000, None)),
    Example("CartPole, 20 000 steps", GYM, "a rule that never falls, γ = 0.9", partial(pole, 20_000)),
)


def line(example: Example, seed: int) -> str:
    rng = np.random.default_rng([seed, zlib.crc32(example.name.encode())])
    trial = example.make(rng)
    begun = time.perf_counter()
    result = trial.evaluate(ALPHA)
    seconds = time.perf_counter() - begun
    low, high = trial.statements.get("value_range") or _range(trial)
    share = (result.high - result.low) / (high - low)
    truth = truth_about(result, trial.truth)
    held = not missed(result, truth, trial.slack)
    return (
        f"| {example.name} | {example.source} | {example.estimand} | {truth:.4g} ({example.truth}) | "
        f"[{result.low:.4g}, {result.high:.4g}]{'' if held else ' **missed**'} | {share:.1%} | {result.method}, "
        f"{_believed(result)} | {seconds:.0f} |"
    )


def _range(trial: Trial) -> tuple[float, float]:
    low, high = trial.reward_range
    return min(low / (1 - trial.gamma), low), max(high / (1 - trial.gamma), high)


def _believed(result: bondic.Result) -> str:
    if result.method == "propensities":
        return "propensities believed"
    return "nothing assumed" if result.is_assumption_free else "Q stated"


def page(lines: list[str]) -> str:
    return PAGE.replace("LINES", "\n".join(lines))


PAGE = """# Real logs

Data that come with published packages and were not made for bondic. Each line is one log, evaluated with default settings at
α = 0.1, with the true value before the interval. For the shop two more statements were made: every item was shown with the
same probability (`min_propensity`), and what the new policy does most, relative to it (`max_ratio`). In the
shop's log items were drawn at random. Labels were drawn uniformly half of the time, and otherwise from a softmax of a
random linear score. In games, half of the logged actions were the best ones and half were random. How often the defaults miss
on many such logs is counted on the page
[default settings](defaults.md). This page is written by

```sh
python experiments/real_logs.py --page out/real-logs.md  # part of make experiments
```

| log | from | asked | value | interval | share of the value range | method | seconds |
|---|---|---|---|---|---|---|---|
LINES

Values of the shop are clicks per visit. Values of labels are the share that is right. Values of games are discounted sums.
"Measured on its own days" is the mean of another log, recorded under the new policy. It is uncertain itself. Times were
measured on two cores that other jobs used at the same time.

Tutorials for logs of these kinds: clicks and prices for the shop and for labels,
reinforcement learning for games.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    lines = []
    for example in EXAMPLES:
        if given.only in example.name:
            lines.append(line(example, given.seed))
            print(lines[-1], flush=True)
    if given.page:
        write_atomically(given.page, page(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
