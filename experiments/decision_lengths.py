"""Differences against two intervals, and against what one would use instead, on published data and on the demonstration.

    python experiments/decision_lengths.py [--logs 50] [--seed 0] [--page docs/decision-lengths.md]

Classification sets as logged decisions (digits, breast cancer, wine): a decision tree of 15 leaves against one of 5, and against
the behavior; truths are finite sums. Open Bandit: Thompson sampling's shares of items against the random policy that made the
log. Beside them: the ends of two intervals at half of alpha subtracted (finite-sample), a normal interval for the mean of paired
weighted rewards and a percentile bootstrap of it (both asymptotic). Twenty policies at once, in seconds. Policies that
are learned and certified on one log. Exit status 1 when differences miss too often for their level.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.coverage import write_atomically
from experiments.coverage_checks import ALPHA
from experiments.defaults_cells import one_step_log
from experiments.defaults_problems_bandits import CAMPAIGNS, OBP_ABSENT, SETS, campaign, labeled_data, shares_policy
from scipy import stats
from sklearn.tree import DecisionTreeClassifier

import bondic
from bondic.decisions.difference import difference_interval, other_rows
from bondic.decisions.learned import mixture_of
from bondic.decisions.ranking import rank_policies
from bondic.policies.learned import LearnedPolicy
from bondic.policies.logged_target import LoggedBehavior

ROWS, DRAWS = 1000, 500


@dataclass(frozen=True)
class Row:
    """One comparison: mean lengths, and misses of `logs` logs (of those with a known truth)."""

    name: str
    paired: float
    separate: float
    normal: float
    bootstrap: float
    misses: tuple[int, int, int, int] | None
    logs: int


def decisions(name: str, rng: np.random.Generator) -> tuple[Any, Any, Any, float, float]:
    """A log, two policies, and the true gains of the first over the second and over the behavior."""
    features, labels = labeled_data(name)
    actions, order = int(labels.max()) + 1, rng.permutation(len(labels))
    fit, rest = order[: len(order) // 2], order[len(order) // 2 :]
    trees = [DecisionTreeClassifier(max_leaf_nodes=n, random_state=0).fit(features[fit], labels[fit]) for n in (15, 5)]
    weights = rng.standard_normal((features.shape[1], actions)) / np.sqrt(features.shape[1])
    scores = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-12) @ weights
    softmax = np.exp(scores - scores.max(axis=1, keepdims=True))
    behavior = 0.5 * softmax / softmax.sum(axis=1, keepdims=True) + 0.5 / actions
    drawn = rng.choice(rest, ROWS)
    taken = np.sum(rng.random(ROWS)[:, None] >= np.cumsum(behavior[drawn], axis=1)[:, :-1], axis=1)
    rewards = (taken == labels[drawn]).astype(float)
    log = one_step_log(features[drawn], taken, rewards, propensities=behavior[drawn, taken])
    policies = [bondic.DeterministicPolicy(tree.predict, n_actions=actions) for tree in trees]
    right = [float(np.mean(tree.predict(features[rest]) == labels[rest])) for tree in trees]
    today = float(behavior[rest, labels[rest]].mean())
    return log, policies[0], policies[1], right[0] - right[1], right[0] - today


def peers(log: Any, first: Any, second: Any | None, rng: np.random.Generator) -> list[tuple[float, float]]:
    """A normal interval, and a percentile bootstrap, for the mean of (ρ¹ - ρ²) r."""
    rows = np.arange(len(log))
    ratio = first.action_probs(log.observations)[rows, log.actions] / log.behavior_action_probs
    if second is None:
        other: Any = 1.0
    else:
        other = second.action_probs(log.observations)[rows, log.actions] / log.behavior_action_probs
    values = (ratio - other) * log.rewards
    half = stats.norm.ppf(1 - ALPHA / 2) * values.std(ddof=1) / np.sqrt(len(values))
    means = rng.choice(values, (DRAWS, len(values))).mean(axis=1)
    low, high = np.quantile(means, [ALPHA / 2, 1 - ALPHA / 2])
    return [(values.mean() - half, values.mean() + half), (float(low), float(high))]


def compared(log: Any, first: Any, second: Any | None, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Paired, two intervals, normal, bootstrap."""
    problem = bondic.make_problem(log, first, gamma=0.0, reward_range=(0, 1), accept=None)
    paired = difference_interval(problem, "today" if second is None else second, alpha=ALPHA)
    ends = [bondic.estimate_interval(problem, alpha=ALPHA / 2)]
    if second is None:
        own = bondic.make_problem(log, LoggedBehavior(), gamma=0.0, reward_range=(0, 1), accept=None)
    else:
        own = bondic.make_problem(log, second, gamma=0.0, reward_range=(0, 1), accept=None)
    ends.append(bondic.estimate_interval(own, alpha=ALPHA / 2, method=bondic.Propensities()))
    apart = (ends[0].low - ends[1].high, ends[0].high - ends[1].low)
    return [(paired.low, paired.high), apart, *peers(log, first, second, rng)]


def classified(name: str, today: bool, logs: int, seed: int) -> Row:
    lengths, misses = np.zeros(4), [0, 0, 0, 0]
    for t in range(logs):
        rng = np.random.default_rng([seed, zlib.crc32(name.encode()), t])
        log, first, second, apart, over_today = decisions(name, rng)
        truth = over_today if today else apart
        found = compared(log, first, None if today else second, rng)
        lengths += [high - low for low, high in found]
        for k, (low, high) in enumerate(found):
            misses[k] += not low <= truth <= high
    counted = (misses[0], misses[1], misses[2], misses[3])
    return Row(f"{name}, {'today' if today else 'two trees'}", *(lengths / logs).tolist(), counted, logs)


def shop(name: str) -> Row:
    """The random policy made the log: Thompson sampling against today."""
    data = campaign(name)
    log = one_step_log(data.contexts, data.items, data.clicks, propensities=data.propensities)
    found = compared(log, shares_policy(data.shares), None, np.random.default_rng(0))
    return Row(f"Open Bandit, {name}", *(high - low for low, high in found), None, 1)


def twenty() -> tuple[float, float, float]:
    """Seconds: one policy, twenty at once, twenty runs from the file."""
    rng, n = np.random.default_rng(0), 50_000
    states, actions = rng.normal(size=(n, 3)), rng.integers(0, 10, n)
    rewards = (rng.random(n) < 0.2).astype(float)
    log = one_step_log(states, actions, rewards, propensities=np.full(n, 0.1))
    tables = [rng.normal(size=(3, 10)) for _ in range(20)]

    def soft(table: Any) -> Any:
        def probs(s: Any) -> Any:
            scores = np.exp(s @ table)
            return scores / scores.sum(axis=1, keepdims=True)

        return bondic.CallablePolicy(probs)

    def made(table: Any) -> Any:
        return bondic.make_problem(log, soft(table), gamma=0.0, reward_range=(0, 1))

    begun = time.perf_counter()
    difference_interval(made(tables[0]))
    one = time.perf_counter() - begun
    begun = time.perf_counter()
    first = made(tables[0])
    others = {str(k): other_rows(first, soft(table)) for k, table in enumerate(tables[1:])}
    rank_policies({"first": first, **others})
    together = time.perf_counter() - begun
    begun = time.perf_counter()
    for table in tables:
        difference_interval(made(table), alpha=0.1 / 20)
    return one, together, time.perf_counter() - begun


@dataclass(frozen=True)
class Gain:
    """A way to learn on a log: mean proved and true gains over today's policy, and how often the first was above 0, or wrong."""

    name: str
    proved: float
    true: float
    shown: int
    misses: int
    logs: int


WAYS = {
    "the first half": {"rows": 0.5},
    "the first fifth": {"rows": 0.2},
    "before each of 8 blocks": {"rows": 0.2, "blocks": 8},
}


def weighted_tree(rows: Any) -> Any:
    """What was rewarded, weighed by one over its probability: a classifier of the best action."""
    good = rows.rewards > 0
    tree = DecisionTreeClassifier(max_leaf_nodes=15, random_state=0)
    tree.fit(rows.observations[good], rows.actions[good], sample_weight=1.0 / rows.behavior_action_probs[good])
    return tree.predict


def learned(name: str, logs: int, seed: int) -> list[Gain]:
    """Learned and certified on one log; the true gain is a finite sum over the data that contexts are drawn from."""
    features, labels = labeled_data(name)
    actions, found = int(labels.max()) + 1, {way: list[tuple[float, float, bool]]() for way in WAYS}
    for t in range(logs):
        rng = np.random.default_rng([seed, zlib.crc32(f"learned {name}".encode()), t])
        weights = rng.standard_normal((features.shape[1], actions)) / np.sqrt(features.shape[1])
        scores = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-12) @ weights
        softmax = np.exp(scores - scores.max(axis=1, keepdims=True))
        behavior = 0.5 * softmax / softmax.sum(axis=1, keepdims=True) + 0.5 / actions
        drawn = rng.choice(len(labels), 2 * ROWS)
        taken = np.sum(rng.random(2 * ROWS)[:, None] >= np.cumsum(behavior[drawn], axis=1)[:, :-1], axis=1)
        rewards = (taken == labels[drawn]).astype(float)
        log = one_step_log(features[drawn], taken, rewards, propensities=behavior[drawn, taken])
        today = behavior[np.arange(len(labels)), labels].mean()
        for way, how in WAYS.items():
            learner = LearnedPolicy(weighted_tree, **how)  # type: ignore[arg-type]
            problem = bondic.make_problem(log, learner, gamma=0.0, reward_range=(0, 1), accept=None)
            result = difference_interval(problem, alpha=ALPHA).with_question(problem)
            mixture = mixture_of(result) if learner.blocks > 1 else ((1.0, problem.policy),)
            right = (
                share * one.action_probs(features)[np.arange(len(labels)), labels].mean() for share, one in mixture
            )
            true = float(sum(right) - today)
            found[way].append((result.low, true, not result.low <= true <= result.high))
    gains = []
    for way, made in found.items():
        low, true, wrong = (np.array(column) for column in zip(*made, strict=True))
        counts = (int((low > 0).sum()), int(wrong.sum()), logs)
        gains.append(Gain(f"{name}, {way}", float(low.mean()), float(true.mean()), *counts))
    return gains


_HEAD = """# Differences: how long they are

Made by `python experiments/decision_lengths.py --page docs/decision-lengths.md`. Mean lengths at alpha = {alpha}, rewards 0 or 1.
*Paired* is `evaluate_policy(..., against=...)`; *two intervals* has each policy at half of alpha (both finite-sample). *Normal*
and *bootstrap* are those of the mean of (ρ¹ − ρ²) r (asymptotic). Misses in parentheses, of the logs with a known truth.

| log | logs | paired | two intervals | factor | normal | bootstrap |
|---|---:|---:|---:|---:|---:|---:|
"""


_LEARNED = """
## Learned and certified on one log

2 000 logged decisions, contexts drawn from the whole set. A decision tree of 15 leaves is learned from the rewarded rows, each
weighed by one over its propensity (`LearnedPolicy`), once or again before each block, and compared with today's policy on rows
that it has not seen. *Proved* is the mean lower end at alpha = {alpha}, *true* the mean true gain of what it is about: the
policy, or the mixture.

| learned on | logs | proved | true | shown to be better | misses |
|---|---:|---:|---:|---:|---:|
"""


def page(rows: list[Row], seconds: tuple[float, float, float], gains: list[Gain]) -> str:
    lines = [_HEAD.format(alpha=ALPHA)]
    for row in rows:
        lengths = (row.paired, row.separate, row.normal, row.bootstrap)
        shown = [
            f"{x:.3g}" + ("" if row.misses is None else f" ({m})")
            for x, m in zip(lengths, row.misses or (0,) * 4, strict=True)
        ]
        factor = f"{row.separate / row.paired:.2g}"
        lines.append(f"| {row.name} | {row.logs} | {shown[0]} | {shown[1]} | {factor} | {shown[2]} | {shown[3]} |\n")
    one, together, runs = seconds
    lines.append(
        f"\nTwenty policies against today's on 50 000 decisions with ten actions: all at once {together / one:.1f} times one "
        f"policy, {together / runs:.2f} times twenty runs.\n"
    )
    lines.append(_LEARNED.format(alpha=ALPHA))
    lines += [f"| {g.name} | {g.logs} | {g.proved:.3f} | {g.true:.3f} | {g.shown} | {g.misses} |\n" for g in gains]
    return "".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Lengths of differences.")
    parser.add_argument("--logs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    rows = [classified(name, today, options.logs, options.seed) for name in SETS for today in (False, True)]
    rows += [] if OBP_ABSENT else [shop(name) for name in CAMPAIGNS]
    gains = [gain for name in SETS for gain in learned(name, options.logs, options.seed)]
    text = page(rows, twenty(), gains)
    print(text)
    if options.page is not None:
        write_atomically(options.page, text)
    most = stats.binom.ppf(1 - 1e-4, options.logs, ALPHA)
    wrong = any(row.misses is not None and max(row.misses[:2]) > most for row in rows)
    return int(wrong or any(gain.misses > most for gain in gains))


if __name__ == "__main__":
    sys.exit(main())
