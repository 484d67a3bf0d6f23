"""Whether the default is right about the situations of a log, in worlds that stand still and in worlds that do not.

One-step logs with right propensities; the truth is the policy's mean value over the certified rows. Counted are misses and
rejections of the default, of `population="iid"` where nothing was stated about a population (the control: it fails on drift), and
misses of a plain bootstrap. A second table looks at the shortest intervals of still logs: a method whose short intervals are the
wrong ones is not honest about them.

    python experiments/this_log.py --page out/this-log.md
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bondic import Status, Transitions, evaluate_policy

ROWS, ALPHA = 4000, 0.1
World = Callable[[int, np.random.Generator], np.ndarray]
"""From a number of rows to the chance of a success of the policy's own action at each of them."""


def _seasons(n: int, rng: np.random.Generator) -> np.ndarray:
    del rng
    return 0.35 + 0.2 * np.sin(8 * np.pi * np.arange(n) / n)


def _users(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.repeat(rng.uniform(0.1, 0.6, n // 50 + 1), 50)[:n]


WORLDS: dict[str, World] = {
    "stands still": lambda n, rng: np.full(n, 0.35) + 0 * rng.uniform(),
    "drifts .5 to .2": lambda n, rng: np.linspace(0.5, 0.2, n) + 0 * rng.uniform(),
    "four seasons, .2 up and down": _seasons,
    "day and night": lambda n, rng: np.where(np.arange(n) // 100 % 2 == 0, 0.5, 0.2) + 0 * rng.uniform(),
    "users one after the other": _users,
}


def one_step_log(world: World, seed: int, rows: int = ROWS) -> tuple[Transitions, np.ndarray]:
    """A log of two actions, each with probability .5 at every row, and the mean of the policy's action at each row."""
    rng = np.random.default_rng(seed)
    means = world(rows, rng)
    states = rng.integers(0, 4, rows).astype(float)[:, None]
    actions = rng.integers(0, 2, rows)
    chance = np.where(actions == 1, means, 0.3)
    rewards = (rng.uniform(size=rows) < chance).astype(float)
    log = Transitions(
        states, actions, rewards, states, np.ones(rows, dtype=bool), behavior_action_probs=np.full(rows, 0.5)
    )
    return log, means


def always_one(states: np.ndarray) -> np.ndarray:
    return np.tile([0.0, 1.0], (len(states), 1))


def bootstrap(log: Transitions, rng: np.random.Generator) -> tuple[float, float]:
    """Percentiles of the weighted mean over resampled rows; an asymptotic guarantee at best."""
    values = np.where(log.actions == 1, 2.0, 0.0) * log.rewards
    means = rng.poisson(1.0, (200, values.size)) @ values / values.size
    return float(np.quantile(means, ALPHA / 2)), float(np.quantile(means, 1 - ALPHA / 2))


def one_log(name: str, seed: int, rows: int = ROWS) -> dict[str, object]:
    """Misses, rejections and lengths of one log."""
    log, means = one_step_log(WORLDS[name], seed, rows)
    found: dict[str, object] = {"world": name, "seed": seed}
    for label, stated in (("default", {}), ("iid", {"population": "iid"})):
        result = evaluate_policy(log, always_one, reward_range=(0, 1), alpha=ALPHA, gamma=0.0, **stated)
        truth = float(means[result.rows[0] : result.rows[1]].mean())
        rejected = result.status is Status.REJECTED
        missed = not rejected and not result.low <= truth <= result.high
        found[label] = {"missed": missed, "rejected": rejected, "length": result.high - result.low}
    low, high = bootstrap(log, np.random.default_rng([seed, 1]))
    found["bootstrap"] = {"missed": not low <= float(means.mean()) <= high, "rejected": False, "length": high - low}
    return found


def table(logs: list[dict[str, object]]) -> list[str]:
    """Markdown lines, a world each."""
    lines = [
        '| the world | logs | default | `population="iid"` | bootstrap | length, beside iid |',
        "|---|---|---|---|---|---|",
    ]
    for name in WORLDS:
        mine = [one for one in logs if one["world"] == name]
        cells = [
            f"{sum(one[label]['missed'] for one in mine)} + {sum(one[label]['rejected'] for one in mine)}"  # type: ignore[index]
            for label in ("default", "iid", "bootstrap")
        ]
        lengths = [one["default"]["length"] for one in mine]  # type: ignore[index]
        other = [one["iid"]["length"] for one in mine if not one["iid"]["rejected"]]  # type: ignore[index]
        ratio = (
            f"{np.mean(lengths):.4f}, {np.mean(lengths) / np.mean(other):.2f} x" if other else f"{np.mean(lengths):.4f}"
        )
        lines.append(f"| {name} | {len(mine)} | {' | '.join(cells)} | {ratio} |")
    return lines


def shortest(logs: int, kept: int, rows: int) -> str:
    """Misses among the shortest intervals of still logs."""
    found = [one_log("stands still", 10_000 + seed, rows) for seed in range(logs)]
    words = []
    for label in ("default", "iid"):
        own = sorted((one[label] for one in found if not one[label]["rejected"]), key=lambda one: one["length"])  # type: ignore[index]
        missed = [bool(one["missed"]) for one in own]
        words.append(f"{label}: {sum(missed)} of {len(own)} in all, {sum(missed[:kept])} of the shortest {kept}")
    return f"{logs} still logs of {rows} rows: " + "; ".join(words) + "."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--still", type=int, default=400)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    logs = [one_log(name, seed) for name in WORLDS for seed in range(options.trials)]
    lines = [
        f"Misses + rejections at alpha = {ALPHA:g}, {ROWS} rows, truth: the mean over the certified rows.",
        "",
        *table(logs),
        "",
        shortest(options.still, options.still // 10, 3000) if options.still else "",
    ]
    print("\n".join(lines))
    if options.page:
        options.page.parent.mkdir(parents=True, exist_ok=True)
        options.page.write_text("\n".join(lines) + "\n")
    if options.out:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        about = {"commit": commit, "machine": platform.machine(), "trials": options.trials}
        options.out.write_text(json.dumps({"about": about, "logs": logs}) + "\n")


if __name__ == "__main__":
    main()
