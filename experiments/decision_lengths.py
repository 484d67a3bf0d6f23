"""Differences against two intervals, and against what one would use instead, on published data and on the demonstration.

    python experiments/decision_lengths.py [--only TEXT] [--logs 50] [--seed 0] [--page out/decision-lengths.md]

Classification sets as logged decisions (digits, breast cancer, wine): a decision tree of 15 leaves against one of 5, and against
the behavior; truths are finite sums. A marketing log with text and numbers, tables of Gymnasium, and the demonstration
(`decision_worlds.py`). Open Bandit: Thompson sampling's shares of items against the random policy that made the log. Beside them:
the ends of two intervals at half of alpha subtracted (finite-sample), a normal interval of the mean of paired weighted rewards
and a percentile bootstrap of it (both asymptotic). Policies
that are learned and certified on one log. Exit status 1 when differences miss too often for their level.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.coverage import write_atomically
from experiments.coverage_checks import ALPHA, FloatArray
from experiments.decision_peers import (
    bootstrap,
    decisions,
    normal,
    paired_values,
    problem_of,
    shown,
    two_intervals,
)
from experiments.decision_worlds import WORLDS, Pair
from experiments.defaults_cells import one_step_log, truth_about
from experiments.defaults_problems_bandits import CAMPAIGNS, OBP_ABSENT, SETS, campaign, labeled_data, shares_policy
from scipy import stats
from sklearn.tree import DecisionTreeClassifier

import bondic
from bondic.decisions.difference import difference_interval
from bondic.policies.learned import LearnedPolicy

ROWS = 1000


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


def compared(pair: Pair, rng: np.random.Generator) -> tuple[list[tuple[float, float]], float]:
    """Paired, two intervals, normal, bootstrap, the last two where the log has propensities; and what the first two are about."""
    problem, other = pair.problem, pair.other
    paired = difference_interval(problem, "today" if other is None else other, alpha=ALPHA, method=pair.method)
    found = [shown(paired), two_intervals(problem, other, pair.method)]
    if problem.log.behavior_action_probs is None:
        return [*found, *[(math.nan, math.nan)] * 2], pair.asked(paired)
    values = paired_values(problem, other)
    return [*found, normal(values), bootstrap(values, rng)], pair.asked(paired)


def measured(name: str, make: Callable[[np.random.Generator], Pair], logs: int, seed: int) -> Row:
    """Mean lengths and misses over logs; log t is made from (seed, name, t)."""
    lengths, misses = list[FloatArray](), np.zeros(4, dtype=int)
    for t in range(logs):
        rng = np.random.default_rng([seed, zlib.crc32(name.encode()), t])
        pair = make(rng)
        found, asked = compared(pair, rng)
        ends, truths = np.array(found), np.array([asked, asked, pair.truth, pair.truth])
        lengths.append(ends[:, 1] - ends[:, 0])
        misses += ~((ends[:, 0] <= truths) & (truths <= ends[:, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no propensities, no length
        means = np.nanmean(lengths, axis=0)
    return Row(name, *means.tolist(), tuple(misses.tolist()), logs)


def classified(name: str, today: bool, rng: np.random.Generator) -> Pair:
    """A tree of 15 leaves against one of 5, or against the behavior."""
    made = decisions(name, rng)
    first, second = (made.tree(leaves) for leaves in (15, 5))
    own = made.behavior[np.arange(len(made.labels)), made.labels] if today else made.right(second)
    gains = made.right(first) - own
    return Pair(problem_of(made.log, first), None if today else second, made.over(gains), own=gains[made.drawn])


def shop(name: str) -> Row:
    """The random policy made the log: Thompson sampling against today."""
    data = campaign(name)
    log = one_step_log(data.contexts, data.items, data.clicks, propensities=data.propensities)
    found, _ = compared(Pair(problem_of(log, shares_policy(data.shares)), None, math.nan), np.random.default_rng(0))
    return Row(f"Open Bandit, {name}", *(high - low for low, high in found), None, 1)


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
    """Learned and certified on one log; the true gain is over the contexts of the certified rows."""
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
        today, each = behavior[drawn, labels[drawn]], np.arange(2 * ROWS)
        for way, how in WAYS.items():
            learner = LearnedPolicy(weighted_tree, **how)  # type: ignore[arg-type]
            problem = bondic.make_problem(log, learner, gamma=0.0, reward_range=(0, 1), accept=None)
            result = difference_interval(problem, alpha=ALPHA)
            policies = getattr(problem.policy, "policies", (problem.policy,))
            blocks = problem.policy.blocks(each) if learner.blocks > 1 else np.zeros(len(each), dtype=int)
            right = np.array([one.action_probs(features[drawn])[each, labels[drawn]] for one in policies])
            true = truth_about(result, right[blocks, each] - today)
            found[way].append((result.low, true, not result.low <= true <= result.high))
    gains = []
    for way, made in found.items():
        low, true, wrong = (np.array(column) for column in zip(*made, strict=True))
        counts = (int((low > 0).sum()), int(wrong.sum()), logs)
        gains.append(Gain(f"{name}, {way}", float(low.mean()), float(true.mean()), *counts))
    return gains


_HEAD = """# Differences: how long they are

Made by `python experiments/decision_lengths.py --page out/decision-lengths.md`. Mean lengths at alpha = {alpha}, misses in
parentheses where the truth is known (a rejection is one). *Paired* is `evaluate_policy(..., against=...)`; *two intervals* has
each policy at half of alpha (both finite-sample). *Normal* and *bootstrap* are those of the mean of (ρ¹ − ρ²) r (asymptotic),
where the log has propensities. Ours are judged over the contexts of the log, the others over the population. How often
these and others are wrong: [what one would use instead](decision-peers.md).

| log | logs | paired | two intervals | factor | normal | bootstrap |
|---|---:|---:|---:|---:|---:|---:|
"""


_LEARNED = """
## Learned and certified on one log

2 000 logged decisions. A decision tree of 15 leaves is learned from the rewarded rows, each
weighed by one over its propensity (`LearnedPolicy`), once or again before each block, and compared with today's policy on rows
that it has not seen. *Proved* is the mean lower end at alpha = {alpha}, *true* the mean true gain of what it is about: the
policy, or the mixture.

| learned on | logs | proved | true | shown to be better | misses |
|---|---:|---:|---:|---:|---:|
"""


def page(rows: list[Row], gains: list[Gain]) -> str:
    lines = [_HEAD.format(alpha=ALPHA)]
    for row in rows:
        lengths = (row.paired, row.separate, row.normal, row.bootstrap)
        cells = [
            "–" if math.isnan(x) else f"{x:.3g}" + ("" if row.misses is None else f" ({m})")
            for x, m in zip(lengths, row.misses or (0,) * 4, strict=True)
        ]
        factor = f"{row.separate / row.paired:.2g}"
        lines.append(f"| {row.name} | {row.logs} | {cells[0]} | {cells[1]} | {factor} | {cells[2]} | {cells[3]} |\n")
    if gains:
        lines.append(_LEARNED.format(alpha=ALPHA))
    lines += [f"| {g.name} | {g.logs} | {g.proved:.3f} | {g.true:.3f} | {g.shown} | {g.misses} |\n" for g in gains]
    return "".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Lengths of differences.")
    parser.add_argument("--only", default="", metavar="TEXT", help="logs whose name contains this text")
    parser.add_argument("--logs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    sets = {
        f"{name}, {'today' if today else 'two trees'}": (partial(classified, name, today), 1.0)
        for name in SETS
        for today in (False, True)
    }
    rows = []
    for name, (make, share) in {**sets, **WORLDS}.items():
        if options.only in name:
            rows.append(measured(name, make, max(1, round(share * options.logs)), options.seed))
            print(rows[-1], flush=True)
    rows += [] if OBP_ABSENT else [shop(name) for name in CAMPAIGNS if options.only in "Open Bandit"]
    gains = [one for name in SETS if options.only in "learned" for one in learned(name, options.logs, options.seed)]
    text = page(rows, gains)
    print(text)
    if options.page is not None:
        write_atomically(options.page, text)
    most = {row.name: stats.binom.ppf(1 - 1e-4, row.logs, ALPHA) for row in rows}
    wrong = any(row.misses is not None and max(row.misses[:2]) > most[row.name] for row in rows)
    return int(wrong or any(gain.misses > stats.binom.ppf(1 - 1e-4, gain.logs, ALPHA) for gain in gains))


if __name__ == "__main__":
    sys.exit(main())
