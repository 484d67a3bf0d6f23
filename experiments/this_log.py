"""Whether the default is right about the situations of a log, in worlds that stand still and in worlds that do not.

Propensities are right, the truth is the policy's mean value over the certified rows (episodes). Counted are misses + rejections
of the default and of `population="iid"` where nobody knows of a population (the control: it fails where the world moves), and
misses of a bootstrap. Then: differences of two policies and to today's, gates and monitors on worlds that move, and misses among
the shortest intervals of still logs, since a method whose short intervals are the wrong ones is not honest about them.

    python experiments/this_log.py --page out/this-log.md
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic import Result, SequentialMonitor, Status, Transitions, evaluate_policy, make_problem
from bondic.core.columns import RowRange
from bondic.decisions.gate import gate

FloatArray = npt.NDArray[np.float64]
ROWS, ALPHA, OTHER = 4000, 0.1, 0.3
"""The other action succeeds with this chance at every row."""
World = Callable[[int, np.random.Generator], FloatArray]
"""From a number of rows to the chance that the policy's own action succeeds at each of them."""


def _always(curve: Callable[[FloatArray], FloatArray]) -> World:
    """The same in every log, from the share of its rows that are over."""
    return lambda n, _: np.asarray(curve(np.arange(n) / n))


def _users(n: int, rng: np.random.Generator) -> FloatArray:
    return np.repeat(rng.uniform(0.1, 0.6, n // 50 + 1), 50)[:n]


WORLDS: dict[str, World] = {
    "stands still": _always(lambda t: 0.35 + 0 * t),
    "drifts .5 to .2": _always(lambda t: 0.5 - 0.3 * t),
    "four seasons, .2 up and down": _always(lambda t: 0.35 + 0.2 * np.sin(8 * np.pi * t)),
    "day and night": _always(lambda t: np.where(40 * t % 2 < 1, 0.5, 0.2)),
    "users one after the other": _users,
}
GAIN_FALLS = _always(lambda t: OTHER + 0.2 - 0.4 * t)
VALUE_FALLS = _always(lambda t: 0.5 - 0.45 * t)


def one_step_log(world: World, seed: int, rows: int = ROWS) -> tuple[Transitions, FloatArray]:
    """A log of two actions, each with probability .5 at every row, and the chance of the policy's action at each row."""
    rng = np.random.default_rng(seed)
    means = world(rows, rng)
    states = rng.integers(0, 4, rows).astype(float)[:, None]
    actions = rng.integers(0, 2, rows)
    rewards = (rng.uniform(size=rows) < np.where(actions == 1, means, OTHER)).astype(float)
    chances = np.full(rows, 0.5)
    return Transitions(states, actions, rewards, states, np.ones(rows, bool), behavior_action_probs=chances), means


def two_step_log(world: World, seed: int, rows: int = ROWS) -> tuple[Transitions, FloatArray]:
    """Episodes of two steps; the mean return of the policy for each episode stands at both of its rows."""
    rng = np.random.default_rng(seed)
    means = world(rows, rng)
    actions, steps = rng.integers(0, 2, rows), np.arange(rows) % 2
    rewards = (rng.uniform(size=rows) < np.where(actions == 1, means, OTHER)).astype(float)
    log = Transitions(
        steps.astype(float)[:, None], actions, rewards, 1.0 - steps.astype(float)[:, None], steps == 1,
        episode_ids=np.arange(rows) // 2, timesteps=steps, behavior_action_probs=np.full(rows, 0.5),
    )  # fmt: skip
    returns = np.repeat(means.reshape(-1, 2).sum(axis=1), 2)
    return log, returns


def one(states: FloatArray) -> FloatArray:
    return np.tile([0.0, 1.0], (len(states), 1))


def zero(states: FloatArray) -> FloatArray:
    return np.tile([1.0, 0.0], (len(states), 1))


MAKERS = {"decisions": one_step_log, "episodes of two steps": two_step_log}
QUESTIONS: dict[str, dict[str, Any]] = {
    "decisions": {"gamma": 0.0},
    "episodes of two steps": {"gamma": 1.0, "horizon": 2},
}


def outcome(result: Result, truth: float) -> tuple[bool, bool, float]:
    """Missed, rejected, length."""
    rejected = result.status is Status.REJECTED
    return not rejected and not result.low <= truth <= result.high, rejected, result.high - result.low


def bootstrap(log: Transitions, rng: np.random.Generator) -> tuple[float, float]:
    """Percentiles of the weighted mean over resampled rows; an asymptotic guarantee at best."""
    values = np.where(log.actions == 1, 2.0, 0.0) * log.rewards
    means = rng.poisson(1.0, (200, values.size)) @ values / values.size
    return float(np.quantile(means, ALPHA / 2)), float(np.quantile(means, 1 - ALPHA / 2))


def intervals(kind: str, trials: int) -> list[str]:
    """Misses + rejections in every world, and lengths."""
    lines = [
        f"| {kind}: the world | default | `population='iid'` | bootstrap | length, beside iid |",
        "|---|---|---|---|---|",
    ]
    for name, world in WORLDS.items():
        found: dict[str, list[tuple[bool, bool, float]]] = {"default": [], "iid": [], "bootstrap": []}
        for seed in range(trials):
            log, means = MAKERS[kind](world, seed)
            for label, population in (("default", None), ("iid", "iid")):
                asked = {**QUESTIONS[kind], "reward_range": (0, 1), "alpha": ALPHA, "population": population}
                result = evaluate_policy(log, one, **asked)
                found[label].append(outcome(result, float(means[slice(*result.rows)].mean())))
            if kind == "decisions":
                low, high = bootstrap(log, np.random.default_rng([seed, 1]))
                found["bootstrap"].append((not low <= means.mean() <= high, False, high - low))
        cells = [
            f"{sum(m for m, _, _ in own)} + {sum(r for _, r, _ in own)} of {len(own)}" if own else ""
            for own in found.values()
        ]
        length = np.mean([size for _, _, size in found["default"]])
        other = [size for _, rejected, size in found["iid"] if not rejected]
        beside = f", {length / np.mean(other):.2f} x" if other else ""
        lines.append(f"| {name} | {' | '.join(cells)} | {length:.4f}{beside} |")
    return lines


def differences(trials: int) -> str:
    """A gain that drifts from +.2 to -.2: silently wrong claims of both comparisons."""
    counts = {"another policy": [0, 0], "today": [0, 0]}
    for seed in range(trials):
        log, means = one_step_log(GAIN_FALLS, 50_000 + seed)
        for name, against in (("another policy", zero), ("today", "today")):
            result = evaluate_policy(log, one, gamma=0.0, reward_range=(0, 1), alpha=ALPHA, against=against)
            gain = float((means[slice(*result.rows)] - OTHER).mean()) * (1.0 if name != "today" else 0.5)
            missed, rejected, _ = outcome(result, gain)
            counts[name][0] += missed
            counts[name][1] += rejected
    words = "; ".join(f"against {name} {missed} + {rejected}" for name, (missed, rejected) in counts.items())
    return f"Differences, {trials} logs whose gain drifts from +.2 to -.2, misses + rejections: {words}."


def decisions(trials: int) -> str:
    """Gates and monitors where the chance drifts from .5 to .05: approvals of .45 are wrong at the end of the log."""
    approved, rejected, missed = 0, 0, 0
    for seed in range(trials):
        log, means = one_step_log(VALUE_FALLS, 90_000 + seed)
        problem = make_problem(log, one, gamma=0.0, reward_range=(0, 1))
        approved += gate(problem, above=0.45, alpha=ALPHA).verdict == "approve"
        monitor = SequentialMonitor(one, gamma=0.0, reward_range=(0, 1), planned_rows=ROWS, alpha=ALPHA)
        wrong = False
        for first in range(0, ROWS, ROWS // 4):
            result = monitor.update(log.cut(RowRange(first, first + ROWS // 4)))
            wrong |= outcome(result, float(means[slice(*result.rows)].mean()))[0]
        missed += wrong
        rejected += monitor.status is Status.REJECTED
    return (
        f"Gates and monitors on {trials} logs that drift from .5 to .05: {approved} approvals of 'at least .45', {missed} "
        f"monitors with a wrong update of four, {rejected} rejected."
    )


def shortest(logs: int, rows: int) -> str:
    """Misses among the shortest tenth of the intervals of still logs."""
    found: dict[str, list[tuple[bool, bool, float]]] = {"default": [], "iid": []}
    for seed in range(logs):
        log, means = one_step_log(WORLDS["stands still"], 10_000 + seed, rows)
        for label, population in (("default", None), ("iid", "iid")):
            result = evaluate_policy(log, one, gamma=0.0, reward_range=(0, 1), alpha=ALPHA, population=population)
            found[label].append(outcome(result, float(means[slice(*result.rows)].mean())))
    words = []
    for label, own in found.items():
        ordered = sorted((one for one in own if not one[1]), key=lambda one: one[2])
        missed = [one[0] for one in ordered]
        words.append(
            f"{label} {sum(missed)} of {len(missed)} in all, {sum(missed[: logs // 10])} of the shortest {logs // 10}"
        )
    return f"{logs} still logs of {rows} rows: {'; '.join(words)}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--still", type=int, default=400)
    parser.add_argument("--few", type=int, default=100, help="logs for differences, gates and monitors")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    lines = [f"alpha = {ALPHA:g}, {ROWS} rows, misses + rejections; the truth is the mean over the certified rows.", ""]
    for kind in MAKERS:
        lines += [*intervals(kind, options.trials), ""]
    lines += [differences(options.few), decisions(options.few), shortest(options.still, 3000)]
    print("\n".join(lines))
    if options.page:
        options.page.parent.mkdir(parents=True, exist_ok=True)
        options.page.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
