"""Intervals from propensities against somebody who wants them to miss: adaptive behavior, rare large ratios, cut episodes.

    python experiments/propensity_coverage.py [--only TEXT] [--trials 400] [--seed 0]
        [--out out/propensity-coverage.json] [--page out/propensity-coverage.md]

Controls are made wrong on purpose, and the same test must catch them: propensities that are not those of the behavior, a bound
of the ratios taken from the log, half of the log term, rates that see their own row, a population stated where the world drifts.
Exit status 1 when a statement is not as expected. Log t of a case is made from (seed, name of the case, t).
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments import cases
from experiments.coverage_checks import ALPHA, Check, FloatArray, Tally, missed
from experiments.defaults_cells import truth_about
from experiments.this_log import WORLDS, one, one_step_log

import bondic
from bondic.core.propensities.betting import BettingProcess, LogProcess, Strategy, plug_in_rates, this_log_end
from bondic.core.propensities.wealth import lower_end
from bondic.methods.propensities import Propensities

BETS = Strategy().bets
ROWS = 400
ACTIONS = 3
MEANS = np.array([[0.1, 0.5, 0.8], [0.7, 0.3, 0.2]])  # of rewards 0 or 1 in two situations
TARGET = np.array([[0.1, 0.2, 0.7], [0.8, 0.1, 0.1]])
BEHAVIOR = np.array([[0.5, 0.3, 0.2], [0.3, 0.3, 0.4]])
VALUES = (TARGET * MEANS).sum(axis=1)  # of the policy in each situation; both are equally likely
LARGEST = float((TARGET / BEHAVIOR).max())


class Fixed:
    """A policy as a table of two situations."""

    def __init__(self, table: FloatArray) -> None:
        self.table = table

    def action_probs(self, observations: FloatArray) -> FloatArray:
        return self.table[observations[:, 0].astype(np.int64)]


def decisions(situations: Any, actions: Any, rewards: Any, propensities: Any) -> bondic.Transitions:
    states = np.asarray(situations, dtype=np.float64)[:, None]
    return bondic.Transitions(
        states,
        np.asarray(actions),
        np.asarray(rewards, dtype=np.float64),
        np.zeros_like(states),
        np.ones(len(states), dtype=bool),
        behavior_action_probs=np.asarray(propensities),
    )


def drawn(
    rng: np.random.Generator, rows: int, behavior: FloatArray = BEHAVIOR, stated: FloatArray | None = None
) -> Any:
    situations = rng.integers(0, 2, rows)
    actions = (behavior[situations].cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=ACTIONS - 1)
    rewards = rng.random(rows) < MEANS[situations, actions]
    written = (behavior if stated is None else stated)[situations, actions]
    return decisions(situations, actions, rewards, written)


def judged(
    name: str,
    log: Any,
    method: Propensities,
    value: float | FloatArray = VALUES,
    role: Any = "claim",
    **stated: Any,
) -> Check:
    """One interval: whether it holds the mean value over the certified rows, or in the population that is stated.

    A value for each situation is that of the rows with this situation.
    """
    stated = {"gamma": 0.0, "reward_range": (0.0, 1.0), "policy": Fixed(TARGET)} | stated
    problem = bondic.make_problem(log, stated.pop("policy"), accept=None, **stated)
    result = bondic.estimate_interval(problem, alpha=ALPHA, method=method)
    if np.ndim(value) and len(value) != len(log):
        value = value.mean() if stated.get("population") else value[log.observations[:, 0].astype(np.int64)]
    failed = missed(result, truth_about(result, value))
    return Check(name, failed, role, length=(result.high - result.low) / result.value_range.width)


# --- cases ----------------------------------------------------------------------------------------------


def single(rng: np.random.Generator) -> list[Check]:
    log = drawn(rng, ROWS)
    wrong = BEHAVIOR.copy()
    wrong[0], wrong[1] = (0.6, 0.3, 0.1), (0.15, 0.45, 0.4)  # good actions are written down as rarer than they were
    misstated = drawn(rng, ROWS, stated=wrong)
    factor = float((BEHAVIOR / wrong).max())
    return [
        judged("weighted rewards", log, Propensities()),
        judged("doubly robust", log, Propensities(max_ratio=LARGEST)),
        judged("a population, weighted rewards", log, Propensities(), population="iid"),
        judged("a population, doubly robust", log, Propensities(max_ratio=LARGEST), population="iid"),
        judged("propensities off by Γ, which is stated", misstated, Propensities(gamma_sensitivity=factor)),
        judged("propensities off by Γ, not stated, lower end", misstated, Propensities(side="lower"), role="control"),
    ]


def adaptive(rng: np.random.Generator) -> list[Check]:
    """The behavior runs after what paid so far; its probabilities are written down as they were."""
    counts, sums = np.ones((2, ACTIONS)), 0.5 * np.ones((2, ACTIONS))
    rows = []
    for _ in range(ROWS):
        situation = int(rng.integers(0, 2))
        chance = np.full(ACTIONS, 0.1 / ACTIONS)
        chance[np.argmax(sums[situation] / counts[situation])] += 0.9
        action = int(rng.choice(ACTIONS, p=chance))
        reward = float(rng.random() < MEANS[situation, action])
        counts[situation, action] += 1
        sums[situation, action] += reward
        rows.append((situation, action, reward, chance[action]))
    log = decisions(*zip(*rows, strict=True))
    return [
        judged("weighted rewards", log, Propensities()),
        judged("doubly robust", log, Propensities(min_propensity=0.1 / ACTIONS)),
    ]


RARE = 0.005


def rare(rng: np.random.Generator) -> list[Check]:
    """The target takes an action half of the time that the behavior hardly ever takes, and that earns nothing."""
    rows = 100
    actions = (rng.random(rows) < RARE).astype(np.int64)
    log = decisions(np.zeros(rows), actions, 1.0 - actions, np.where(actions == 1, RARE, 1.0 - RARE))
    policy = Fixed(np.array([[0.5, 0.5]]))
    seen = 0.5 / float(np.asarray(log.behavior_action_probs).min())
    return [
        judged("weighted rewards", log, Propensities(), 0.5, policy=policy),
        judged("doubly robust, true bound of the ratios", log, Propensities(max_ratio=0.5 / RARE), 0.5, policy=policy),
        judged(
            "doubly robust, largest ratio of the log",
            log,
            Propensities(max_ratio=seen),
            0.5,
            "control",
            policy=policy,
        ),
    ]


CLICK, OFFERS = 0.01, 20


def clicks(rng: np.random.Generator) -> list[Check]:
    """Rare rewards and ratios up to 14, offers shown at random."""
    scores = np.exp(1.5 * np.random.default_rng(1).normal(size=(2, OFFERS)))
    target, means = scores / scores.sum(axis=1, keepdims=True), CLICK * np.minimum(scores, 5.0)
    rows = 5 * ROWS
    situations, actions = rng.integers(0, 2, rows), rng.integers(0, OFFERS, rows)
    rewards = rng.random(rows) < means[situations, actions]
    log = decisions(situations, actions, rewards, np.full(rows, 1 / OFFERS))
    value, policy = (target * means).sum(axis=1), Fixed(target)
    return [
        judged("weighted rewards", log, Propensities(), value, policy=policy),
        judged("doubly robust", log, Propensities(min_propensity=1 / OFFERS), value, policy=policy),
    ]


def drifting(rng: np.random.Generator) -> list[Check]:
    """Logs of `experiments/this_log.py`, in worlds that stand still and that do not."""
    found, asked = list[Check](), {"policy": one}
    for world, role in (("stands still", "claim"), ("drifts .5 to .2", "control")):
        log, values = one_step_log(WORLDS[world], int(rng.integers(2**31)))
        found.append(judged(f"this log, {world}", log, Propensities(), values, **asked))
        found.append(judged(f"a population, {world}", log, Propensities(), values, role, population="iid", **asked))
    return found


GOES_ON, STEPS = 0.7, 4


def episodes(rng: np.random.Generator) -> list[Check]:
    """Up to four steps, after which the process ends or recording stops; the behavior changes from episode to episode."""
    pi, mean = np.array([0.3, 0.7]), np.array([0.2, 0.6])
    rows, taken = [], 0.5
    for episode in range(ROWS // 2):
        for step in range(STEPS):
            action = int(rng.random() < taken)
            reward = float(rng.random() < mean[action])
            ended = rng.random() >= GOES_ON
            cut, chance = step == STEPS - 1 and not ended, taken if action else 1 - taken
            rows.append((0.0, action, reward, ended, cut, episode, step, chance))
            if ended:
                break
        taken = 0.4 if rows[-1][2] else 0.6
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    state, actions, rewards, ends, cuts, numbers, steps, chances = columns
    log = bondic.Transitions(
        state[:, None], actions, rewards, state[:, None], ends, truncations=cuts, episode_ids=numbers, timesteps=steps,
        behavior_action_probs=chances,
    )  # fmt: skip
    gamma, policy = 0.9, Fixed(pi[None, :])
    stated = {"gamma": gamma, "policy": policy}
    value = float(pi @ mean) / (1 - gamma * GOES_ON)
    early = float(pi @ mean) * (1 + gamma * GOES_ON)
    return [
        judged("cut after four steps", log, Propensities(), value, **stated),
        judged("two steps", log, Propensities(), early, horizon=2, **stated),
        judged("two steps, doubly robust", log, Propensities(min_propensity=0.4), early, horizon=2, **stated),
        judged("propensities off by 1.2, which is stated", log, Propensities(gamma_sensitivity=1.2), value, **stated),
    ]


TAIL = ALPHA / 2


def fair_coins(rng: np.random.Generator) -> list[Check]:
    """One end with the true mean as candidate: rejected if the wealth reaches 1/δ once."""
    values = (rng.random(1000) < 0.5).astype(np.float64)
    start = (0.5, 0.25, 1.0)

    def misses(probability: float, rates: FloatArray) -> bool:
        processes = [BettingProcess(values, 0.0, multiple * rates, risk, 1 / len(BETS)) for multiple, risk in BETS]
        return lower_end([processes], 0.0, 1.0, probability) > 0.5

    rates = plug_in_rates(values, values.size, TAIL, start)
    return [
        Check("lower end", misses(TAIL, rates), level=TAIL),
        Check("half of the log term", misses(math.sqrt(TAIL), rates), "control", TAIL),
        Check("rates that see their own row", misses(TAIL, rates * np.where(values > 0.5, 1.2, 0.8)), "control", TAIL),
    ]


LEFT = TAIL - min(1e-3, TAIL / 50)
"""What the check of the propensities leaves to the end."""
JUMP = 1.0 + (1.0 / LEFT - 1.0) / float(np.mean([most for _, most in BETS]))
"""ρ r / J of the one outcome that lets the wealth reach 1/δ after a single row: both bets are at their largest share."""
JUMP_RATE = 1.0 / (JUMP * (1 + 1e-6))


LARGE = 1e4
"""A rate at which (40) is nearly sharp for one value from above 0."""


def log_jump(level: float, rng: np.random.Generator) -> tuple[bool, float]:
    """Whether the lower end (40) misses the mean 1 of one value that is 0 or 1/p, and p, with which it does."""
    chance = LARGE / ((1.0 + LARGE) / level - 1.0) / (1 + 1e-6)
    process = LogProcess(LARGE, 0.99, 1.0)
    process.bet(np.array([(rng.random() < chance) / chance]), np.zeros(1), np.zeros(1))
    return this_log_end([process], 1 / chance, level) > 1.0, chance


def one_jump(rng: np.random.Generator) -> list[Check]:
    """One row: an action of the target that comes with probability JUMP_RATE, and then the end misses."""
    chance = JUMP_RATE
    action = int(rng.random() < chance)
    log = decisions([0.0], [action], [float(action)], [chance if action else 1 - chance])
    problem = bondic.make_problem(
        log,
        Fixed(np.array([[0.5, 0.5]])),
        population="iid",
        gamma=0.0,
        reward_range=(0.0, 1.0),
        accept=None,
    )
    result = bondic.estimate_interval(problem, alpha=TAIL, method=Propensities(side="lower"))
    sharp, rate = log_jump(TAIL, rng)
    wrong, _ = log_jump(math.sqrt(TAIL), rng)
    return [
        Check("lower end, exact rate known", result.low > 0.5, level=TAIL, rate=chance),
        Check("lower end of this log, exact rate known", sharp, level=TAIL, rate=rate),
        Check("half of the log term, this log", wrong, "control", TAIL),
    ]


CASES: cases.Cases = {
    "decisions": (single, 1.0),
    "adaptive behavior": (adaptive, 1.0),
    "rare large ratios": (rare, 1.0),
    "clicks": (clicks, 1.0),
    "drift": (drifting, 0.25),
    "episodes": (episodes, 1.0),
    "fair coins": (fair_coins, 1.0),
    "one jump": (one_jump, 1.0),
}


def run_case(name: str, trials: int, seed: int) -> list[Tally]:
    return cases.run_case(CASES, name, trials, seed)


# --- the page -------------------------------------------------------------------------------------------

_HEAD = """# Coverage of intervals from propensities

Intervals from propensities on seeded logs whose value is known, and with the mistakes that would break them.
Generated from one run of

```sh
python experiments/propensity_coverage.py --page out/propensity-coverage.md  # part of make experiments
```

with {trials} logs in each of {cases} cases, α = {alpha:g} for intervals, α/2 for single ends. A failed interval is one without
the value, or a rejection. A *claim* is violated if its failures have probability below 10⁻⁴ at its level, and must not be; a
*control* is made wrong on purpose, and must be. Lengths are shares of the value range.

| case | is |
|---|---|
| decisions | two situations, three actions, {rows} rows |
| adaptive behavior | it takes what paid best so far, and explores with probability 0.1 |
| rare large ratios | 100 rows; the target takes half of the time what the behavior takes once in 200 rows: a ratio of 100 |
| clicks | 20 offers shown at random, about one click in 40 rows |
| drift | 4000 rows in worlds that stand still and that do not; over this log, and over a population that somebody states |
| episodes | of at most four recorded steps; the behavior depends on the last reward of the episode before |
| fair coins | 1000 values of mean ½, one end: what is sharp about Theorem 39 |
| one jump | one row whose failure has a known probability, {share:.2f} of its level, nearly all of it over this log |

"""
_COLUMNS = ("case", "statement", "role", "failed", "level", "exact rate", "length", "verdict")


def page(rows: list[Tally], trials: int) -> str:
    head = _HEAD.format(trials=trials, cases=len(CASES), alpha=ALPHA, rows=ROWS, share=JUMP_RATE / TAIL)
    table = [_COLUMNS, ("---", "---", "---", "---:", "---:", "---:", "---:", "---"), *map(_cells, rows)]
    return head + "".join(f"| {' | '.join(cells)} |\n" for cells in table)


def _cells(row: Tally) -> tuple[str, ...]:
    length = "" if math.isnan(row.length) else f"{100 * row.length:.3g} %"
    rate = "" if row.rate is None else f"{row.rate:.3g}"
    verdict = ("holds" if row.role == "claim" else "caught") if row.as_expected else "NOT AS EXPECTED"
    counts = f"{row.misses} / {row.trials}"
    return row.case, row.statement, row.role, counts, f"{row.level:g}", rate, length, verdict


def main(arguments: list[str] | None = None) -> int:
    return cases.run_cases(CASES, page, "Coverage of intervals from propensities.", 400, arguments)


if __name__ == "__main__":
    sys.exit(main())
