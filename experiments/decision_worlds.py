"""Two policies on one log with a known difference: what decisions are measured on beside classification sets and Open Bandit.

Tables of Gymnasium and the demonstration have exact values by a linear solve and no propensities; a marketing log has text and
numbers side by side, and contexts from a finite list of customers, so that values are finite sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from experiments.defaults_cells import FloatArray, at_starts, truth_about
from experiments.defaults_problems_gym import ABSENT, TABLES, gym_table, table_cell
from scripts.make_demo_log import LEVELS, machine

import bondic
from bondic_lab.worlds.tabular import TabularMDP


@dataclass(frozen=True, eq=False)
class Pair:
    """A problem, the policy that it is compared with (None: today's), and the true difference: of the population, of the log."""

    problem: Any
    other: Any
    truth: float
    method: Any = None  # None: the default
    own: FloatArray | None = None  # at each row, see `truth_about`; None: starts are stated, or all alike

    def asked(self, result: bondic.Result) -> float:
        """What an answer of ours is about."""
        return truth_about(result, self.truth if self.own is None else self.own)


# --- tables -----------------------------------------------------------------------------------------------

KNOWN = {"FrozenLake": (0.0, 1.0), "Taxi": (-100.0, 20.0)}
"""Values that a user of these knows."""


def gym_pair(name: str, rng: np.random.Generator) -> Pair:
    """Nine tenths of the best policy against eight tenths; one half made the log."""
    identifier, settings, gamma, rewards, _, _ = TABLES[name]
    table, _ = gym_table(identifier, **settings)
    best = table.greedy(gamma)
    other = 0.8 * best + 0.2 / best.shape[1]
    trial = table_cell(name, rng)
    second = np.sum(other * table.q_values(other, gamma), axis=1)
    stated: dict[str, Any] = {"value_range": KNOWN.get(name), "accept": None}
    problem = bondic.make_problem(trial.log, trial.policy, trial.initial, gamma=gamma, reward_range=rewards, **stated)
    own = np.asarray(trial.truth) - at_starts(trial.log, second)
    return Pair(problem, bondic.TablePolicy(other), float(np.nanmean(own)), own=own)


def random_table(states: int, actions: int, gamma: float, rows: int, rng: np.random.Generator) -> Pair:
    """A random table with four next states a pair and rewards 0 or 1; rows are drawn evenly, and policies differ at a tenth."""
    moves = np.zeros((states, actions, states))
    for s in range(states):
        for a in range(actions):
            moves[s, a, rng.choice(states, 4, replace=False)] = rng.dirichlet(np.ones(4))
    gains, other = rng.random((states, actions)), rng.dirichlet(np.ones(actions), states)
    new = np.concatenate([np.roll(other[: max(states // 10, 1)], 1, axis=1), other[max(states // 10, 1) :]])
    state, action = rng.integers(states, size=rows), rng.integers(actions, size=rows)
    after = (rng.random(rows)[:, None] > moves.cumsum(axis=2)[state, action]).sum(axis=1).clip(max=states - 1)
    rewards = (rng.random(rows) < gains[state, action]).astype(float)
    columns = (state[:, None].astype(float), action, rewards, after[:, None].astype(float), np.zeros(rows, dtype=bool))

    def value(policy: FloatArray) -> float:
        step = np.einsum("sa,sat->st", policy, moves)
        return float(np.linalg.solve(np.eye(states) - gamma * step, (policy * gains).sum(axis=1)).mean())

    starts = bondic.InitialStates.exact(np.arange(states)[:, None].astype(float))
    stated: dict[str, Any] = {"gamma": gamma, "reward_range": (0, 1), "accept": None}
    problem = bondic.make_problem(bondic.Transitions(*columns), bondic.TablePolicy(new), starts, **stated)
    return Pair(problem, bondic.TablePolicy(other), value(new) - value(other))


def numbers(rows: int, gamma: float, allowance: Any, rng: np.random.Generator) -> Pair:
    """Two numbers a state, drawn anew from a list after every row: one action pays above a threshold, the other one smoothly.

    The least true allowances of a few of these logs are 0.010 to 0.017 for averages, and 0.15 to 0.41 for single values.
    """
    points = np.random.default_rng(5).random((2000, 2))
    gains = np.column_stack([0.2 + 0.2 * points[:, 1], 0.2 + 0.5 * (points[:, 0] > 0.5)])
    state, after, action = (rng.integers(0, most, rows) for most in (2000, 2000, 2))
    columns = points[state], action, (rng.random(rows) < gains[state, action]).astype(float), points[after]
    log = bondic.Transitions(*columns, np.zeros(rows, dtype=bool))

    def policy(cut: float) -> Callable[[FloatArray], FloatArray]:
        return lambda states: np.where(states[:, :1] > cut, [[0.2, 0.8]], [[0.8, 0.2]])

    values = [float((policy(cut)(points) * gains).sum(axis=1).mean()) / (1 - gamma) for cut in (0.5, 0.6)]
    starts, stated = bondic.InitialStates.exact(points), {"gamma": gamma, "reward_range": (0, 1), "accept": None}
    problem = bondic.make_problem(log, policy(0.5), starts, **stated)  # type: ignore[arg-type]
    return Pair(problem, policy(0.6), values[0] - values[1], bondic.Groups(allowance=allowance))


def demo_pair(today: bool, rng: np.random.Generator) -> Pair:
    """Maintenance from wear 3 on (the demonstration's policy) against maintenance from wear 4 on, or against today's."""
    del rng  # one log
    demo, world = bondic.load_demo(), machine()
    late = np.repeat(np.eye(2), [4, LEVELS - 4], axis=0)
    other = world.behavior if today else late
    value = TabularMDP(world.transitions, world.rewards, world.initial_probs, other, other, 0.8, (0.0, 1.0)).value
    problem = bondic.make_problem(demo.log, demo.policy, demo.initial, gamma=0.8, reward_range=(0, 1), accept=None)
    return Pair(problem, None if today else bondic.TablePolicy(late), world.value - value)


# --- a marketing log --------------------------------------------------------------------------------------

SEGMENTS, REGIONS = ("lapsed", "loyal", "new"), ("north", "south")
OFFERS, COSTS = ("none", "mail", "coupon", "call"), np.array([0.0, 0.01, 0.05, 0.1])
CUSTOMERS, MAILED = 5000, 2000


@cache
def customers() -> tuple[pd.DataFrame, FloatArray]:
    """A list of customers, and the profit that each offer brings with each on average: chance of a purchase times its margin,
    less the cost."""
    rng = np.random.default_rng(2026)
    people = pd.DataFrame(
        {
            "segment": rng.choice(SEGMENTS, CUSTOMERS, p=(0.3, 0.2, 0.5)),
            "region": rng.choice(REGIONS, CUSTOMERS),
            "age": rng.normal(45, 15, CUSTOMERS).clip(18, 90).round(),
            "days_since": rng.exponential(60, CUSTOMERS).round(1),
            "spend": rng.lognormal(3, 0.8, CUSTOMERS).clip(5, 200).round(2),
        }
    )
    lift = np.array([[-2.5, -2.3, -1.2, -1.4], [-1.0, -0.9, -0.9, 0.4], [-2.0, -1.4, -1.3, -1.2]])
    scores = lift[people["segment"].map(SEGMENTS.index)]
    scores = (
        scores
        - 0.004 * people["days_since"].to_numpy()[:, None]
        + 0.3 * (people["region"] == "north").to_numpy()[:, None]
    )
    return people, margins(people)[:, None] / (1 + np.exp(-scores)) - COSTS


def margins(people: pd.DataFrame) -> FloatArray:
    """Profit of a purchase, in [0.2, 1]."""
    return np.asarray(0.2 + 0.8 * people["spend"].to_numpy() / 200)


def targeted(people: pd.DataFrame, *, calls: bool) -> FloatArray:
    """Offers by rule, as numbers; without calls loyal customers who spend much get mail."""
    loyal, lapsed = (people["segment"] == name for name in ("loyal", "lapsed"))
    rich = loyal & (people["spend"] > 30)
    chosen = np.where(rich, 3 if calls else 1, np.where(lapsed & (people["days_since"] < 90), 2, np.where(loyal, 0, 1)))
    return np.eye(len(OFFERS))[chosen]


def sent_before(people: pd.DataFrame) -> FloatArray:
    """Today's policy: half of the time any offer, otherwise more expensive ones to those who spend more."""
    scores = np.log(people["spend"].to_numpy()[:, None] / 20) * np.arange(len(OFFERS))
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return 0.5 / len(OFFERS) + 0.5 * raised / raised.sum(axis=1, keepdims=True)


def marketing_log(rng: np.random.Generator, rows: int = MAILED) -> tuple[pd.DataFrame, Any]:
    """With the places of its customers in the list."""
    people, profit = customers()
    drawn = rng.integers(0, CUSTOMERS, rows)
    seen, chances = people.iloc[drawn].reset_index(drop=True), sent_before(people)[drawn]
    taken = np.sum(rng.random(rows)[:, None] >= np.cumsum(chances, axis=1)[:, :-1], axis=1)
    margin, cost = margins(seen), COSTS[taken]
    bought = rng.random(rows) < (profit[drawn, taken] + cost) / margin
    log = seen.assign(
        offer=np.array(OFFERS)[taken],
        profit=np.where(bought, margin, 0.0) - cost,
        propensity=chances[np.arange(rows), taken],
    )
    return log, drawn


def read_back(states: FloatArray) -> pd.DataFrame:
    """The columns that a rule is written in, from those of the log: text is one 0/1 column for each word."""
    count = len(SEGMENTS)
    named = {
        "segment": np.array(SEGMENTS)[states[:, :count].argmax(axis=1)],
        "days_since": states[:, -2],
        "spend": states[:, -1],
    }
    return pd.DataFrame(named)


def marketing_pair(today: bool, rng: np.random.Generator) -> Pair:
    """A targeted policy against the same one without calls, or against today's."""
    people, profit = customers()
    rules = [partial(targeted, calls=True), sent_before if today else partial(targeted, calls=False)]
    first, second = ((rule(people) * profit).sum(axis=1) for rule in rules)
    log, drawn = marketing_log(rng)
    policies = [bondic.CallablePolicy(lambda states, rule=rule: rule(read_back(states))) for rule in rules]
    names = {"actions": "offer", "rewards": "profit", "behavior_action_probs": "propensity"}
    problem = bondic.make_problem(
        log, policies[0], gamma=0.0, reward_range=(-0.1, 1.0), one_step=True, actions=OFFERS, accept=None,
        columns={"observations": ["segment", "region", "age", "days_since", "spend"], **names},
    )  # fmt: skip
    gains = first - second
    return Pair(problem, None if today else policies[1], float(gains.mean()), own=gains[drawn])


WORLDS: dict[str, tuple[Callable[[np.random.Generator], Pair], float]] = {
    "marketing, two rules": (partial(marketing_pair, False), 1.0),
    "marketing, today": (partial(marketing_pair, True), 1.0),
    "the demonstration, two policies": (partial(demo_pair, False), 0.0),
    "the demonstration, today": (partial(demo_pair, True), 0.0),
    "random table, 8 states x 2 actions, gamma .9, 20 000 rows": (partial(random_table, 8, 2, 0.9, 20_000), 0.4),
    "random table, 50 states x 4 actions, gamma .95, 100 000 rows": (partial(random_table, 50, 4, 0.95, 100_000), 0.2),
    "random table, 50 states x 4 actions, gamma .95, 1 000 000 rows": (partial(random_table, 50, 4, 0.95, 10**6), 0.04),
    "numbers, gamma .8, 10 000 rows, allowance .005": (partial(numbers, 10_000, 0.8, 0.005), 0.1),
    "numbers, gamma .8, 10 000 rows, allowance .02 and .4": (partial(numbers, 10_000, 0.8, (0.02, 0.4)), 0.06),
    **{name: (partial(gym_pair, name), 0.06) for name in (() if ABSENT else TABLES)},
}
"""Pairs by name, and the share of the logs that each gets; at least one."""
