"""What one would use instead, on the same logs: how often intervals of differences, and choices, are wrong.

    python experiments/decision_peers.py [--logs 200] [--seed 0] [--page out/decision-peers.md]

Differences: normal intervals and percentile bootstraps of paired weighted rewards, and the bootstrap of the Open Bandit Pipeline
(obp) on the rounds of its estimators (weighted, self-normalized, doubly robust), one policy less the other. Choices among twenty
policies: the largest point estimate, as SCOPE-RL ranks policies (a baseline of that style, not its code), with and without a
comparison with the incumbent's; normal lower ends. Classification sets as logs, and worlds that are made to break what is
asymptotic: a rare large reward, and large ratios, 300 rows each. Truths are finite sums. Exit status 1 when an answer with a
finite-sample guarantee is wrong too often for its level.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import types
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.coverage import write_atomically
from experiments.coverage_checks import ALPHA, FALSE_ALARM, FloatArray
from experiments.decision_worlds import Pair
from experiments.decisions import answers, log_of
from experiments.defaults_cells import one_step_log
from experiments.defaults_problems_bandits import labeled_data
from scipy import stats
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier

import bondic
from bondic.decisions.choose import choose_policy
from bondic.decisions.difference import difference_interval
from bondic.policies.logged_target import LoggedBehavior

Ends = tuple[float, float]
DRAWS, POLICIES = 500, 20
GUARANTEES = {
    "bondic, the difference": "finite-sample",
    "bondic, two intervals": "finite-sample",
    "bondic, choose": "finite-sample",
    "normal": "asymptotic",
    "bootstrap": "asymptotic",
    "obp, weighted": "asymptotic",
    "obp, self-normalized": "asymptotic",
    "obp, doubly robust": "asymptotic",
    "largest estimate": "none",
    "largest estimate, if above the incumbent's": "none",
    "largest normal lower end": "none",  # of each policy by itself
}


# --- intervals of a difference ----------------------------------------------------------------------------


def paired_values(problem: Any, other: Any | None) -> FloatArray:
    """(ρ¹ - ρ²) r of every row; ρ² = 1 for today's policy."""
    log, rows = problem.log, np.arange(len(problem.log))
    policies = (problem.policy,) if other is None else (problem.policy, other)
    ratios = [one.action_probs(log.observations)[rows, log.actions] / log.behavior_action_probs for one in policies]
    return np.asarray((ratios[0] - (1.0 if other is None else ratios[1])) * log.rewards)


def normal(values: FloatArray, alpha: float = ALPHA) -> Ends:
    half = stats.norm.ppf(1 - alpha / 2) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def bootstrap(values: FloatArray, rng: np.random.Generator) -> Ends:
    """Percentiles of resampled means."""
    means = rng.choice(values, (DRAWS, len(values))).mean(axis=1)
    low, high = np.quantile(means, [ALPHA / 2, 1 - ALPHA / 2])
    return float(low), float(high)


def shown(result: bondic.Result) -> Ends:
    """The ends; none after a rejection, which is a miss on a log that satisfies the assumptions."""
    return (math.nan, math.nan) if result.status.name == "REJECTED" else (result.low, result.high)


def two_intervals(problem: Any, other: Any | None, named: Any = None) -> Ends:
    """The ends of each policy at half of alpha, subtracted; by the method that was `named`."""
    terms = problem.terms
    stated: dict[str, Any] = {
        "gamma": terms.gamma,
        "reward_range": terms.reward_range,
        "value_range": terms.value_range,
    }
    policy = LoggedBehavior() if other is None else other
    second = bondic.make_problem(problem.log, policy, problem.initial_states, accept=None, **stated)
    method = bondic.Propensities() if other is None else named
    one = shown(bondic.estimate_interval(problem, alpha=ALPHA / 2, method=named))
    two = shown(bondic.estimate_interval(second, alpha=ALPHA / 2, method=method))
    return one[0] - two[1], one[1] - two[0]


@cache
def obp_estimators() -> Any:
    """obp.ope needs seaborn and tqdm for what is not used here; its estimators do not."""
    if find_spec("obp") is None:
        return None
    try:
        return importlib.import_module("obp.ope")
    except ModuleNotFoundError:
        package = types.ModuleType("obp.ope")
        package.__path__ = [str(Path(folder) / "ope") for folder in importlib.import_module("obp").__path__]
        sys.modules["obp.ope"] = package
        return importlib.import_module("obp.ope.estimators")


def obp_intervals(problem: Any, other: Any | None, rng: np.random.Generator) -> dict[str, Ends]:
    """obp's bootstrap of its own rounds, of one policy less the other; today's rounds are the rewards."""
    if (found := obp_estimators()) is None:
        return {}
    log, rows = problem.log, np.arange(len(problem.log))
    resample = importlib.import_module("obp.utils").estimate_confidence_interval_by_bootstrap
    logged = {
        "reward": log.rewards,
        "action": log.actions,
        "pscore": log.behavior_action_probs,
        "position": np.zeros(len(rows), int),
    }
    slots = problem.layout.slots
    model, half = np.zeros((len(rows), slots)), rng.random(len(rows)) < 0.5
    for action, here in product(range(slots), (half, ~half)):  # cross-fitted, as obp recommends
        mine = (log.actions == action) & ~here
        if mine.any():
            fitted = Ridge(1.0).fit(log.observations[mine], log.rewards[mine])
            model[here, action] = fitted.predict(log.observations[here])
    kinds = {
        "obp, weighted": (found.InverseProbabilityWeighting(), {}),
        "obp, self-normalized": (found.SelfNormalizedInverseProbabilityWeighting(), {}),
        "obp, doubly robust": (found.DoublyRobust(), {"estimated_rewards_by_reg_model": model[:, :, None]}),
    }
    out = {}
    for name, (estimator, more) in kinds.items():
        with np.errstate(invalid="ignore"):  # no row may have a weight
            rounds = [
                estimator._estimate_round_rewards(
                    action_dist=one.action_probs(log.observations)[:, :, None], **logged, **more
                )
                for one in ((problem.policy,) if other is None else (problem.policy, other))
            ]
        values = rounds[0] - (log.rewards if other is None else rounds[1])
        ends = resample(
            np.nan_to_num(values), alpha=ALPHA, n_bootstrap_samples=DRAWS, random_state=int(rng.integers(2**31))
        )
        out[name] = (
            float(ends[f"{100 * (1.0 - ALPHA)}% CI (lower)"]),
            float(ends[f"{100 * (1.0 - ALPHA)}% CI (upper)"]),
        )
    return out


def intervals(pair: Pair, rng: np.random.Generator) -> dict[str, tuple[Ends, float]]:
    """Ends, and the difference that they are about: ours in this log, those of others in the population."""
    problem, other = pair.problem, pair.other
    ours = difference_interval(problem, "today" if other is None else other, alpha=ALPHA)
    values, own = paired_values(problem, other), pair.asked(ours)
    others = {"normal": normal(values), "bootstrap": bootstrap(values, rng), **obp_intervals(problem, other, rng)}
    return {
        "bondic, the difference": (shown(ours), own),
        "bondic, two intervals": (two_intervals(problem, other), own),
        **{name: (ends, pair.truth) for name, ends in others.items()},
    }


# --- worlds -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Classified:
    """A classification set, and a log of it: half to fit on, the rest is the population that contexts are drawn from."""

    log: Any
    features: FloatArray
    labels: Any
    behavior: FloatArray  # its probabilities at every row of the set
    fit: Any  # rows to fit on
    rest: Any  # rows of the population
    drawn: Any  # those that the log has

    def tree(self, leaves: int, rows: Any = None, seed: int = 0) -> Any:
        mine = self.fit if rows is None else self.fit[rows]
        grown = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=seed)
        grown.fit(self.features[mine], self.labels[mine])
        return bondic.DeterministicPolicy(grown.predict, n_actions=self.behavior.shape[1])

    def right(self, policy: Any) -> FloatArray:
        """What a policy earns at every row of the set."""
        return np.asarray(policy.action_probs(self.features)[np.arange(len(self.labels)), self.labels])

    def over(self, values: FloatArray) -> float:
        """The mean in the population."""
        return float(values[self.rest].mean())


def decisions(name: str, rng: np.random.Generator, rows: int = 1000) -> Classified:
    """Behavior: half uniform, half softmax of a random linear score."""
    features, labels = labeled_data(name)
    actions, order = int(labels.max()) + 1, rng.permutation(len(labels))
    fit, rest = order[: len(order) // 2], order[len(order) // 2 :]
    weights = rng.standard_normal((features.shape[1], actions)) / np.sqrt(features.shape[1])
    scores = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-12) @ weights
    softmax = np.exp(scores - scores.max(axis=1, keepdims=True))
    behavior = 0.5 * softmax / softmax.sum(axis=1, keepdims=True) + 0.5 / actions
    drawn = rng.choice(rest, rows)
    taken = np.sum(rng.random(rows)[:, None] >= np.cumsum(behavior[drawn], axis=1)[:, :-1], axis=1)
    rewards = (taken == labels[drawn]).astype(float)
    log = one_step_log(features[drawn], taken, rewards, propensities=behavior[drawn, taken])
    return Classified(log, features, labels, behavior, fit, rest, drawn)


def problem_of(log: Any, policy: Any, reward_range: Ends = (0.0, 1.0)) -> Any:
    return bondic.make_problem(log, policy, gamma=0.0, reward_range=reward_range, accept=None)


def two_trees(name: str, rng: np.random.Generator) -> Pair:
    """A tree of 15 leaves against one of 5."""
    made = decisions(name, rng)
    first, second = (made.tree(leaves) for leaves in (15, 5))
    gains = made.right(first) - made.right(second)
    return Pair(problem_of(made.log, first), second, made.over(gains), own=gains[made.drawn])


def needle(rng: np.random.Generator) -> Pair:
    """The first action pays 0.004 for sure, the second 1 once in a hundred times: it is the better one, and most logs of 300 rows
    hold one or two such rewards, or none."""
    actions = rng.integers(0, 2, 300)
    rewards = np.where(actions == 0, 0.004, rng.random(300) < 0.01)
    log = log_of(np.zeros(300), actions, rewards, np.full(300, 0.5))
    first, second = (bondic.CallablePolicy(answers(np.eye(2)[[k]])) for k in (0, 1))
    return Pair(problem_of(log, first), second, 0.004 - 0.01)


def large_ratios(rng: np.random.Generator) -> Pair:
    """The new policy does what the log did once in two hundred rows."""
    actions = (rng.random(300) < 0.005).astype(int)
    rewards = rng.random(300) < np.where(actions == 1, 0.8, 0.5)
    log = log_of(np.zeros(300), actions, rewards, np.where(actions == 1, 0.005, 0.995))
    first, second = (bondic.CallablePolicy(answers(np.eye(2)[[k]])) for k in (1, 0))
    return Pair(problem_of(log, first), second, 0.3)


DIFFERENCES: dict[str, Callable[[np.random.Generator], Pair]] = {
    **{name: partial(two_trees, name) for name in ("digits", "breast_cancer", "wine")},
    "a rare large reward": needle,
    "large ratios": large_ratios,
}


# --- choices ----------------------------------------------------------------------------------------------


Choices = tuple[dict[str, Any], Any, FloatArray, FloatArray]
"""Problems, the incumbent, and each one's gain over it: in the population, and at each row of the log."""


def grown_trees(name: str, rng: np.random.Generator) -> Choices:
    """Twenty trees, each grown on a random third of the data, against one of the same size grown on another third."""
    made = decisions(name, rng)
    grown = [made.tree(10, rng.permutation(len(made.fit))[: len(made.fit) // 3], k) for k in range(POLICIES + 1)]
    values = np.array([made.right(one) for one in grown])
    problems = {str(k): problem_of(made.log, one) for k, one in enumerate(grown[1:])}
    gains = values[1:] - values[0]
    return problems, grown[0], gains[:, made.rest].mean(axis=1), gains[:, made.drawn]


def rare_rewards(rng: np.random.Generator) -> Choices:
    """Sixty situations, rewards in three of a hundred rows at most, twenty tables at random: half of them are worse than one."""
    situations, actions = rng.integers(0, 60, 300), rng.integers(0, 2, 300)
    means = 0.03 * rng.random((60, 2))
    log = log_of(situations, actions, rng.random(300) < means[situations, actions], np.full(300, 0.5))
    tables = np.eye(2)[rng.integers(0, 2, (POLICIES + 1, 60))]
    values = (tables * means).sum(axis=2)
    gains = values[1:] - values[0]
    policies = [bondic.CallablePolicy(answers(table)) for table in tables]
    problems = {str(k): problem_of(log, one) for k, one in enumerate(policies[1:])}
    return problems, policies[0], gains.mean(axis=1), gains[:, situations]


CHOICES: dict[str, Callable[[np.random.Generator], Choices]] = {
    **{name: partial(grown_trees, name) for name in ("digits", "breast_cancer", "wine")},
    "rare rewards": rare_rewards,
}


def chosen(problems: dict[str, Any], incumbent: Any) -> dict[str, tuple[str | None, tuple[int, int] | None]]:
    """The policy that each rule takes, None: it keeps the incumbent; and the rows that this is about, None: the population."""
    gains = {name: paired_values(one, incumbent) for name, one in problems.items()}
    best = max(gains, key=lambda name: gains[name].mean())
    ends = {name: normal(values, 2 * ALPHA)[0] for name, values in gains.items()}
    surest = max(ends, key=lambda name: ends[name])
    ours = choose_policy(problems, incumbent, alpha=ALPHA)
    return {
        "bondic, choose": (ours.chosen, next(iter(ours.results.values())).rows),
        "largest estimate": (best, None),
        "largest estimate, if above the incumbent's": (best if gains[best].mean() > 0 else None, None),
        "largest normal lower end": (surest if ends[surest] > 0 else None, None),
    }


# --- counts -----------------------------------------------------------------------------------------------


def counted(world: str, logs: int, seed: int) -> tuple[Counter[str], dict[str, float]]:
    """Misses, and mean lengths, of every interval."""
    misses, lengths = Counter[str](), defaultdict[str, list[float]](list)
    for t in range(logs):
        rng = np.random.default_rng([seed, zlib.crc32(world.encode()), t])
        for name, ((low, high), truth) in intervals(DIFFERENCES[world](rng), rng).items():
            misses[name] += not low - 1e-12 <= truth <= high + 1e-12
            lengths[name].append(high - low)
    return misses, {name: float(np.nanmean(each)) for name, each in lengths.items()}


def taken(world: str, logs: int, seed: int) -> tuple[Counter[str], Counter[str], dict[str, float]]:
    """Of every rule: how often it takes a policy, and a worse one than the incumbent; and its mean gain."""
    took, worse, gain = Counter[str](), Counter[str](), Counter[str]()
    for t in range(logs):
        rng = np.random.default_rng([seed, zlib.crc32(f"choice {world}".encode()), t])
        problems, incumbent, population, own = CHOICES[world](rng)
        for name, (choice, rows) in chosen(problems, incumbent).items():
            gains = population if rows is None else own[:, slice(*rows)].mean(axis=1)
            mine = 0.0 if choice is None else float(gains[int(choice)])
            took[name] += choice is not None
            worse[name] += mine < 0
            gain[name] += mine  # type: ignore[assignment]
    return took, worse, {name: total / logs for name, total in gain.items()}


_HEAD = """# Decisions: what one would use instead

Made by `python experiments/decision_peers.py --page out/decision-peers.md`: {logs} logs a column, alpha = {alpha}, exact truths.
1 000 rows of classification sets as logs; 300 rows of worlds that are made to break what holds for long logs only. An interval
that is called 90 % may miss in about {most} of {logs} logs; {many} or more are too many for chance (probability 1e-4).
A rejection counts as a miss. Answers of bondic are about the contexts of the log, and are judged there; the others about the
population that contexts are drawn from.

## Intervals of a difference: misses, and mean lengths

*obp* is the Open Bandit Pipeline: its bootstrap on the rounds of its estimators, one policy less the other; the model of the
doubly robust one is a ridge regression on the other half of the rows.

"""
_CHOICES = """
## Choices among twenty policies

Logs on which a policy that is worse than the incumbent is taken, in parentheses those on which any is taken, and the mean gain
over the incumbent in thousandths. *Largest estimate* is how SCOPE-RL ranks policies (that style, not its code).

"""


def table(names: list[str], worlds: list[str], cells: Callable[[str, str], str]) -> str:
    lines = [("", "guarantee", *worlds), ("---", "---", *["---:"] * len(worlds))]
    lines += [(name, GUARANTEES[name], *(cells(name, world) for world in worlds)) for name in names]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Decisions beside what one would use instead.")
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    found = {world: counted(world, options.logs, options.seed) for world in DIFFERENCES}
    choices = {world: taken(world, options.logs, options.seed) for world in CHOICES}
    many = int(stats.binom.isf(FALSE_ALARM, options.logs, ALPHA)) + 1
    text = _HEAD.format(logs=options.logs, alpha=ALPHA, most=round(ALPHA * options.logs), many=many)
    names = list(next(iter(found.values()))[1])
    text += table(names, list(found), lambda name, world: f"{found[world][0][name]}, {found[world][1][name]:.3g}")
    text += _CHOICES
    rules = list(next(iter(choices.values()))[2])

    def cell(rule: str, world: str) -> str:
        took, worse, gain = choices[world]
        return f"{worse[rule]} ({took[rule]}), {1000 * gain[rule]:+.1f}"

    text += table(rules, list(choices), cell)
    print(text)
    if options.page is not None:
        write_atomically(options.page, text)
    ours = [name for name in GUARANTEES if GUARANTEES[name] == "finite-sample"]
    wrong = [misses[name] for misses, _ in found.values() for name in ours]
    wrong += [worse["bondic, choose"] for _, worse, _ in choices.values()]
    return int(max(wrong) >= many)


if __name__ == "__main__":
    sys.exit(main())
