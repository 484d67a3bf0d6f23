"""Differences, choices and gates: how often they are wrong, on logs whose truth is known exactly.

    python experiments/decisions.py [--only TEXT] [--trials 2000] [--seed 0] [--out out/decisions.json]
        [--page out/decision-coverage.md]

Controls are wrong on purpose, and the same test must catch them: the best of many null policies at alpha each, a difference
with the range of one value, half of the allowance that groups need, a policy that was learned on the certified rows, subgroups
at alpha each, weights made for every subgroup without dividing alpha, fifty looks without a planned length, the best end of all
looks at a difference that changes with the rows. Exit status 1 when a statement is not as expected. Log t of a case is made from
(seed, name of the case, t).
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments import cases
from experiments.coverage_checks import Check, FloatArray, Role, Tally, missed
from experiments.decision_cells import sharp
from experiments.defaults_cells import truth_about

import bondic
from bondic.core.cells.allowance import NOTHING_ALLOWED
from bondic.core.cells.ends import EndWeights, end_terms
from bondic.core.propensities.bound import LowerEnd
from bondic.core.question import Question
from bondic.core.subgroups import conclude_by_subgroup
from bondic.core.sums.reference import REFERENCE
from bondic.decisions.choose import choose_policy
from bondic.decisions.difference import difference_interval, other_rows
from bondic.decisions.gate import gate
from bondic.decisions.learned import mixture_of
from bondic.decisions.ranking import rank_policies
from bondic.decisions.subgroups import with_subgroups
from bondic.methods.propensities import Propensities
from bondic.policies.learned import LearnedPolicy
from bondic.rows.estimand import question_of
from bondic.rows.subgroups import labels_by

LEVELS = (0.1, 0.5)
ROWS, ACTIONS = 300, 3
MEANS = np.array([[0.1, 0.5, 0.8], [0.7, 0.3, 0.2], [0.02, 0.05, 0.9]])  # of rewards 0 or 1 in three situations
NEW = np.array([[0.1, 0.2, 0.7], [0.8, 0.1, 0.1], [0.3, 0.3, 0.4]])
OLD = np.array([[0.1, 0.2, 0.7], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])  # differs in one situation
BEHAVIOR = np.array([[0.5, 0.3, 0.2], [0.3, 0.3, 0.4], [0.45, 0.45, 0.1]])
NULLS = 30


def value(table: FloatArray, log: Any) -> FloatArray:
    """Of a policy at each row."""
    return np.asarray((table * MEANS).sum(axis=1)[log.observations[:, 0].astype(np.int64)])


def answers(table: FloatArray) -> Callable[[FloatArray], FloatArray]:
    return lambda observations: table[observations[:, 0].astype(np.int64)]


def log_of(situations: Any, actions: Any, rewards: Any, propensities: Any) -> bondic.Transitions:
    states = np.asarray(situations, dtype=np.float64)[:, None]
    return bondic.Transitions(
        states, np.asarray(actions), np.asarray(rewards, dtype=np.float64), states, np.ones(len(states), dtype=bool),
        behavior_action_probs=np.asarray(propensities),
    )  # fmt: skip


def drawn(rng: np.random.Generator, rows: int, behavior: FloatArray = BEHAVIOR, means: FloatArray = MEANS) -> Any:
    situations = rng.integers(0, len(means), rows)
    chances = behavior[situations].cumsum(axis=1)
    actions = (chances < rng.random((rows, 1))).sum(axis=1).clip(max=behavior.shape[1] - 1)
    rewards = rng.random(rows) < means[situations, actions]
    return log_of(situations, actions, rewards, behavior[situations, actions])


def problem_of(log: Any, table: FloatArray, **stated: Any) -> Any:
    stated = {"gamma": 0.0, "reward_range": (0.0, 1.0)} | stated
    return bondic.make_problem(log, answers(table), accept=None, **stated)


def part(log: bondic.Transitions, rows: slice) -> bondic.Transitions:
    return bondic.Transitions(**{name: column[rows] for name, column in log.columns().items() if column is not None})


def judged(name: str, result: Any, truth: float | FloatArray, alpha: float, role: Role = "claim") -> Check:
    """`truth` is a number, or one for each row of the log."""
    length = (result.high - result.low) / result.value_range.width
    return Check(f"{name}, alpha {alpha:g}", missed(result, truth_about(result, truth)), role, alpha, length=length)


# --- cases ----------------------------------------------------------------------------------------------


def one_step(rng: np.random.Generator) -> list[Check]:
    """Two policies, and the behavior; weighted rewards, and doubly robust."""
    log = drawn(rng, ROWS)
    problem, found = problem_of(log, NEW), list[Check]()
    cap = float(max((NEW / BEHAVIOR).max(), (OLD / BEHAVIOR).max()))
    for alpha in LEVELS:
        for name, method in (("weighted", Propensities()), ("doubly robust", Propensities(max_ratio=cap))):
            apart = difference_interval(problem, answers(OLD), alpha=alpha, method=method)
            found.append(judged(f"two policies, {name}", apart, value(NEW, log) - value(OLD, log), alpha))
            today = difference_interval(problem, alpha=alpha, method=method)
            found.append(judged(f"today, {name}", today, value(NEW - BEHAVIOR, log), alpha))
    return found


def no_range(rng: np.random.Generator) -> list[Check]:
    """TV_i B is left out, as if the second policy's rewards were counted from r_lo as well."""
    log = drawn(rng, 4000)
    problem = problem_of(log, NEW, population="iid")
    proof = difference_interval(problem, answers(OLD), method=Propensities(model=None)).proof
    units = proof.columns(question_of((problem, other_rows(problem, answers(OLD)))))  # type: ignore[union-attr]
    (right,) = units.free_estimators(1.0)
    claims = {}
    for name, estimator in (("right", right), ("wrong", replace(right, values=right.values - right.floors))):
        claims[name] = LowerEnd(units, (estimator,), proof.strategy, False, len(log), 0.05).population(())  # type: ignore[union-attr]
    truth = float(((NEW - OLD) * MEANS).sum(axis=1).mean())
    return [
        Check("lower end", claims["right"].bound > truth, level=0.05),
        Check("lower end with the range of one value", claims["wrong"].bound > truth, "control", 0.05),
    ]


def learning(rng: np.random.Generator) -> list[Check]:
    """The behavior runs after what paid so far: today's value is the mean over the rows of what it was worth at each."""
    counts, sums = np.ones((3, ACTIONS)), 0.5 * np.ones((3, ACTIONS))
    rows, worth = [], []
    for _ in range(ROWS):
        situation = int(rng.integers(0, 3))
        chance = np.full(ACTIONS, 0.1 / ACTIONS)
        chance[np.argmax(sums[situation] / counts[situation])] += 0.9
        action = int(rng.choice(ACTIONS, p=chance))
        reward = float(rng.random() < MEANS[situation, action])
        counts[situation, action] += 1
        sums[situation, action] += reward
        rows.append((situation, action, reward, chance[action]))
        worth.append(float((NEW - chance)[situation] @ MEANS[situation]))
    log = log_of(*zip(*rows, strict=True))
    found = []
    for alpha in LEVELS:
        result = difference_interval(problem_of(log, NEW), alpha=alpha)
        found.append(judged("today, over the certified rows", result, np.array(worth), alpha))
    return found


def looks(rng: np.random.Generator) -> list[Check]:
    """The log grows, and is looked at after every thirtieth row: the worst of all looks, each about its own rows."""
    log, found = drawn(rng, 600), list[Check]()
    truths, ends = value(NEW, log) - value(OLD, log), range(150, 601, 30)
    for alpha in LEVELS:
        results = (
            difference_interval(
                problem_of(part(log, slice(stop)), NEW),
                answers(OLD),
                alpha=alpha,
                method=Propensities(planned_rows=600),
            )
            for stop in ends
        )
        wrong = any(missed(one, truth_about(one, truths)) for one in results)
        found.append(Check(f"all looks with a planned length, alpha {alpha:g}", wrong, level=alpha))
    return found


FAIR = np.full(
    (1, 2), 0.5
)  # both actions pay 1 with probability 1/2, and the policy is the behavior: bets are those on a coin
HAIR = 1e-9


def approvals(rng: np.random.Generator) -> list[Check]:
    """A requirement a hair above the truth, a log that goes on eight times as long as planned: the first approval is an error."""
    log, found = drawn(rng, 800, FAIR, FAIR), list[Check]()
    problems = [problem_of(part(log, slice(stop)), FAIR) for stop in (100, 300, 800)]
    for alpha in LEVELS:
        with tempfile.TemporaryDirectory() as folder:
            options: dict[str, Any] = {"above": 0.5 + HAIR, "alpha": alpha, "method": bondic.Default(planned_rows=100)}
            verdicts = (gate(one, **options, state=Path(folder) / "looks.json").verdict for one in problems)
            wrong = any(one == "approve" for one in verdicts)
        found.append(Check(f"approved wrongly at some look, alpha {alpha:g}", wrong, level=alpha))
    return found


def replanned(rng: np.random.Generator) -> list[Check]:
    """The same coin without a planned length: each of fifty looks has an end of its own at alpha, made for its own rows."""
    log = drawn(rng, 3000, FAIR, FAIR)
    problems = [
        problem_of(part(log, slice(int(stop))), FAIR, population="iid")
        for stop in np.unique(np.geomspace(10, 3000, 50).astype(int))
    ]
    found, method = list[Check](), Propensities(side="lower")
    for alpha in LEVELS:
        wrong = any(method.run(one, alpha, None).low > 0.5 + HAIR for one in problems)
        found.append(Check(f"approved wrongly at some look, alpha {alpha:g}", wrong, "control", alpha))
    return found


def improving(rng: np.random.Generator) -> list[Check]:
    """The behavior becomes the better policy on the way: the gain over it falls from look to look."""
    share = np.linspace(0.0, 1.0, 1500)[:, None]
    chances = (1 - share) * np.array([0.9, 0.1]) + share * np.array([0.1, 0.9])
    actions = (rng.random(1500) < chances[:, 1]).astype(int)
    rewards = rng.random(1500) < np.array([0.2, 0.8])[actions]
    log = log_of(np.zeros(1500), actions, rewards, chances[np.arange(1500), actions])
    table = np.array([[0.5, 0.5]])
    gains, found = 0.5 - chances @ np.array([0.2, 0.8]), list[Check]()
    for alpha in LEVELS:
        wrong, ends, gain = False, list[float](), 0.0
        with tempfile.TemporaryDirectory() as folder:
            for stop in (400, 700, 1000, 1500):
                problem, state = problem_of(part(log, slice(stop)), table), Path(folder) / "looks.json"
                options: dict[str, Any] = {"alpha": alpha, "method": bondic.Default(planned_rows=1500), "state": state}
                verdict = gate(problem, better_than="today", above=-1.0, **options)
                gain = float(gains[verdict.result.rows[0] : stop].mean())
                ends.append(verdict.result.low)
                wrong |= gate(problem, better_than="today", above=gain + HAIR, **options).verdict == "approve"
        found.append(Check(f"approved wrongly at some look, alpha {alpha:g}", wrong, level=alpha))
        found.append(Check(f"the best end of all looks, alpha {alpha:g}", max(ends) > gain, "control", alpha))
    return found


def null_looks(rng: np.random.Generator) -> list[Check]:
    """Null policies, as below, chosen from at every look: any choice is an error."""
    situations, actions = rng.integers(0, 60, 900), rng.integers(0, 2, 900)
    log = log_of(situations, actions, rng.random(900) < 0.5, np.full(900, 0.5))
    tables, found = np.eye(2)[rng.integers(0, 2, (6, 60))], list[Check]()
    for alpha in LEVELS:
        taken = False
        with tempfile.TemporaryDirectory() as folder:
            for stop in (450, 600, 900):
                problems = {str(k): problem_of(part(log, slice(stop)), table) for k, table in enumerate(tables)}
                method, state = bondic.Default(planned_rows=600), Path(folder) / "looks.json"
                taken |= choose_policy(problems, alpha=alpha, method=method, state=state).chosen is not None
        found.append(Check(f"a null policy is chosen at some look, alpha {alpha:g}", taken, level=alpha))
    return found


def null_choice(rng: np.random.Generator) -> list[Check]:
    """Rewards do not depend on actions: every policy is worth what today's is, and every choice is an error."""
    situations, actions = rng.integers(0, 60, ROWS), rng.integers(0, 2, ROWS)
    log = log_of(situations, actions, rng.random(ROWS) < 0.5, np.full(ROWS, 0.5))
    tables = np.eye(2)[rng.integers(0, 2, (NULLS, 60))]
    problems = {str(k): problem_of(log, table) for k, table in enumerate(tables)}
    found = []
    for alpha in LEVELS:
        chosen = choose_policy(problems, alpha=alpha).chosen is not None
        found.append(Check(f"a null policy is chosen, alpha {alpha:g}", chosen, level=alpha))
    lower = Propensities(side="lower")
    each = any(difference_interval(one, alpha=0.5, method=lower).low > 0 for one in problems.values())
    found.append(Check("the best of many at alpha each, alpha 0.5", each, "control", 0.5))
    # learned and certified on the same rows: the action that paid more in each situation
    paid = np.zeros((60, 2))
    np.add.at(paid, (situations, actions), log.rewards - 0.5)
    learned = np.eye(2)[paid.argmax(axis=1)]
    same = difference_interval(problem_of(log, learned), alpha=0.1).low > 0
    found.append(Check("learned on the certified rows, alpha 0.1", same, "control", 0.1))
    half = ROWS // 2
    paid = np.zeros((60, 2))
    np.add.at(paid, (situations[:half], actions[:half]), log.rewards[:half] - 0.5)
    rest = problem_of(part(log, slice(half, None)), np.eye(2)[paid.argmax(axis=1)])
    found.append(
        Check("learned on the rows before, alpha 0.1", difference_interval(rest, alpha=0.1).low > 0, level=0.1)
    )
    return found


CELLS = 60


def paid_most(rows: Any, cells: int = 3, actions: int = ACTIONS) -> FloatArray:
    """The action with the largest mean reward in each situation, as a table."""
    places = rows.observations[:, 0].astype(int), rows.actions
    paid, taken = np.full((cells, actions), 0.5), np.ones((cells, actions))
    np.add.at(paid, places, rows.rewards)
    np.add.at(taken, places, 1.0)
    return np.asarray(np.eye(actions)[(paid / taken).argmax(axis=1)])


def prequential(rng: np.random.Generator) -> list[Check]:
    """A policy for every block, learned on all rows before it: the mixture over these contexts."""
    log, found = drawn(rng, ROWS), list[Check]()
    kinds = {"mixture": LearnedPolicy(lambda rows: answers(paid_most(rows)), 0.1, 6)}
    kinds["first half"] = LearnedPolicy(lambda rows: answers(paid_most(rows)), 0.5)
    for kind, learner in kinds.items():
        problem = bondic.make_problem(log, learner, gamma=0.0, reward_range=(0.0, 1.0), accept=None)
        for alpha in LEVELS:
            today = difference_interval(problem, alpha=alpha).with_question(problem)
            rows, states = np.arange(len(log)), np.arange(3.0)[:, None]
            policies = getattr(problem.policy, "policies", (problem.policy,))
            worth = np.array([((one.action_probs(states) - BEHAVIOR) * MEANS).sum(axis=1) for one in policies])
            blocks = problem.policy.blocks(rows) if kind == "mixture" else np.zeros(rows.size, dtype=int)
            here = worth[blocks, log.observations[:, 0].astype(int)]
            found.append(judged(f"{kind}, today", today, here, alpha))
            if kind == "mixture":
                alone = bondic.estimate_interval(problem, alpha=alpha)
                found.append(judged("mixture, its value", alone, here + value(BEHAVIOR, log), alpha))
    return found


def learned_noise(rng: np.random.Generator) -> list[Check]:
    """Rewards do not depend on actions: a gain, whatever was learned, is an error. Controls have seen their own rows."""
    situations, actions = rng.integers(0, CELLS, ROWS), rng.integers(0, 2, ROWS)
    log = log_of(situations, actions, rng.random(ROWS) < 0.5, np.full(ROWS, 0.5))
    learner, found = LearnedPolicy(lambda rows: answers(paid_most(rows, CELLS, 2)), 0.1, 6), list[Check]()
    problem = bondic.make_problem(log, learner, gamma=0.0, reward_range=(0.0, 1.0), accept=None)
    ends = [row for row, _ in problem.policy.learned[1:]] + [ROWS]
    own = tuple(bondic.CallablePolicy(answers(paid_most(part(log, slice(stop)), CELLS, 2))) for stop in ends)
    cheat = replace(problem, policy=replace(problem.policy, policies=own))  # says what is not true
    family = np.array([np.arange(CELLS) > cut for cut in np.linspace(0, CELLS, 22)[1:-1]]).astype(int)
    thresholds = {str(k): problem_of(log, np.eye(2)[one]) for k, one in enumerate(family)}
    lower = Propensities(side="lower")
    for alpha in LEVELS:
        found.append(judged("mixture", difference_interval(problem, alpha=alpha), 0.0, alpha))
        wrong = difference_interval(cheat, alpha=alpha, method=lower).low > 0
        found.append(Check(f"mixture that has seen its own blocks, alpha {alpha:g}", wrong, "control", alpha))
        same = difference_interval(problem_of(log, paid_most(log, CELLS, 2)), alpha=alpha, method=lower).low > 0
        found.append(Check(f"learned on the certified rows, alpha {alpha:g}", same, "control", alpha))
        chosen = choose_policy(thresholds, alpha=alpha).chosen is not None
        found.append(
            Check(f"one of twenty thresholds is chosen on the whole log, alpha {alpha:g}", chosen, level=alpha)
        )
    return found


def together(rng: np.random.Generator) -> list[Check]:
    """Ten policies at once: all of their differences to today's hold."""
    log, found = drawn(rng, ROWS), list[Check]()
    tables = {f"mix{k}": (1 - k / 10) * BEHAVIOR + k / 10 * NEW for k in range(1, 11)}
    problems = {name: problem_of(log, table) for name, table in tables.items()}
    for alpha in LEVELS:
        ranking = rank_policies(problems, alpha=alpha)
        gains = {name: value(table - BEHAVIOR, log) for name, table in tables.items()}
        wrong = any(missed(one, truth_about(one, gains[name])) for name, one in ranking.differences.items())
        found.append(Check(f"all ten hold, alpha {alpha:g}", wrong, level=alpha))
    return found


def gates(rng: np.random.Generator) -> list[Check]:
    """A requirement at the truth of this log, a hair above it and a hair below it: approval and refusal are errors."""
    log, found = drawn(rng, ROWS), list[Check]()
    problem, hair = problem_of(log, NEW), 1e-9
    for alpha in LEVELS:
        truth = truth_about(gate(problem, above=0.0, alpha=alpha).result, value(NEW, log))
        passed = gate(problem, above=truth + hair, alpha=alpha).verdict == "approve"
        refused = gate(problem, above=truth - hair, alpha=alpha).verdict == "refuse"
        found.append(Check(f"approved wrongly, alpha {alpha:g}", passed, level=alpha))
        found.append(Check(f"refused wrongly, alpha {alpha:g}", refused, level=alpha))
    return found


MOVE = np.array([[[0.5, 0.2, 0.3], [0.1, 0.6, 0.3]], [[0.3, 0.3, 0.4], [0.1, 0.4, 0.5]]])  # the last one is the end
GAIN = np.array([[0.9, 0.1], [0.4, 0.6]])  # of rewards 0 or 1
TWO = {
    "new": np.array([[0.7, 0.3], [0.2, 0.8]]),
    "old": np.array([[0.3, 0.7], [0.2, 0.8]]),
    "today": np.full((2, 2), 0.5),
}
GAMMA, STEPS = 0.8, 3


def walk_value(table: FloatArray) -> float:
    found = np.zeros(2)
    for _ in range(STEPS):
        found = (table * (GAIN + GAMMA * MOVE[:, :, :2] @ found)).sum(axis=1)
    return float(found[0])


def walks(rng: np.random.Generator, episodes: int) -> bondic.Transitions:
    rows = []
    for episode in range(episodes):
        state = 0
        for step in range(STEPS):
            action = int(rng.random() < 0.5)
            after = int(rng.choice(3, p=MOVE[state, action]))
            reward = float(rng.random() < GAIN[state, action])
            rows.append((state, action, reward, after % 2, after == 2, episode, step))
            state = after
            if after == 2:
                break
    state_, action_, reward_, after_, ended, episode_, step_ = map(np.array, zip(*rows, strict=True))
    last = np.append(np.diff(episode_) != 0, True)
    return bondic.Transitions(
        state_[:, None].astype(float), action_, reward_, after_[:, None].astype(float), ended, truncations=last & ~ended,
        episode_ids=episode_, timesteps=step_, behavior_action_probs=np.full(len(rows), 0.5),
    )  # fmt: skip


def episodes(rng: np.random.Generator) -> list[Check]:
    """Three steps at most: two policies, and the behavior."""
    log, found = walks(rng, 120), list[Check]()
    problem = problem_of(log, TWO["new"], gamma=GAMMA, horizon=STEPS)
    for alpha in LEVELS:
        for name, method in (("weighted", Propensities()), ("doubly robust", Propensities(max_ratio=2.0))):
            apart = difference_interval(problem, answers(TWO["old"]), alpha=alpha, method=method)
            truth = walk_value(TWO["new"]) - walk_value(TWO["old"])
            found.append(judged(f"two policies, {name}", apart, truth, alpha))
            today = difference_interval(problem, alpha=alpha, method=method)
            found.append(judged(f"today, {name}", today, walk_value(TWO["new"]) - walk_value(TWO["today"]), alpha))
    return found


def learned_episodes(rng: np.random.Generator) -> list[Check]:
    """Learned before each block of episodes, and once: the action that paid more at a state."""
    log, found = walks(rng, 160), list[Check]()
    for name, learner in (
        ("mixture", LearnedPolicy(better_action, 0.1, 5)),
        ("first half", LearnedPolicy(better_action)),
    ):
        stated: dict[str, Any] = {"gamma": GAMMA, "reward_range": (0.0, 1.0), "horizon": STEPS, "accept": None}
        problem = bondic.make_problem(log, learner, **stated)
        for alpha in LEVELS:
            today = difference_interval(problem, alpha=alpha).with_question(problem)
            mixture = mixture_of(today) if name == "mixture" else ((1.0, problem.policy),)
            states = np.arange(2.0)[:, None]
            worth = sum(share * walk_value(one.action_probs(states)) for share, one in mixture)
            found.append(judged(f"{name}, today", today, worth - walk_value(TWO["today"]), alpha))
    return found


def better_action(rows: bondic.Transitions) -> Callable[[FloatArray], FloatArray]:
    return answers(paid_most(rows, 2, 2))


def tables(rng: np.random.Generator) -> list[Check]:
    """States are names, and nothing is known of the propensities: as the default answers, and as one event for both policies."""
    logged, found = walks(rng, 700), list[Check]()
    columns = {name: column for name, column in logged.columns().items() if column is not None}
    log = bondic.Transitions(**{name: column for name, column in columns.items() if "behavior" not in name})
    for alpha in LEVELS:
        start = bondic.InitialStates.exact([[0.0]])
        stated: dict[str, Any] = {"gamma": GAMMA, "reward_range": (0.0, 1.0), "horizon": STEPS, "accept": None}
        problem = bondic.make_problem(log, answers(TWO["new"]), start, **stated)
        for name, against in (("two policies", answers(TWO["old"])), ("today", "today")):
            second = TWO["today" if name == "today" else "old"]
            result = difference_interval(problem, against, alpha=alpha)
            found.append(judged(name, result, walk_value(TWO["new"]) - walk_value(second), alpha))
        other = other_rows(problem, answers(TWO["old"]))
        result = bondic.Table().run(problem, alpha, None, against=other)
        found.append(judged("two policies, one event", result, walk_value(TWO["new"]) - walk_value(TWO["old"]), alpha))
    return found


STORES, VISITS = 8, 50
SALES = np.column_stack([np.linspace(0.1, 0.8, STORES), np.linspace(0.6, 0.2, STORES)])  # of rewards 0 or 1, by action


def subgroups(rng: np.random.Generator) -> list[Check]:
    """Eight subgroups of the contexts: all values hold, and all differences to the behavior."""
    uniform, second = np.full((STORES, 2), 0.5), np.eye(2)[np.ones(STORES, dtype=np.int64)]
    log, found = drawn(rng, STORES * VISITS, uniform, SALES), list[Check]()
    problem, values, gains = problem_of(log, second), SALES[:, 1], SALES[:, 1] - SALES.mean(axis=1)

    def wrong(result: Any, truths: FloatArray) -> bool:
        lines = with_subgroups(result.with_question(problem), 0, "today" if result.is_difference else None).subgroups
        return any(missed(one, float(truths[int(name)])) for name, one in lines.results.items())  # type: ignore[union-attr]

    for alpha in LEVELS:
        own, today = Propensities().run(problem, alpha, None), difference_interval(problem, alpha=alpha)
        found.append(Check(f"all eight values, alpha {alpha:g}", wrong(own, values), level=alpha))
        found.append(Check(f"all eight gains, alpha {alpha:g}", wrong(today, gains), level=alpha))
    problem = problem_of(log, second, population="iid")  # equal shares
    each = wrong(Propensities().run(problem, STORES * 0.1, None), values)
    found.append(Check("at alpha each, alpha 0.1", each, "control", 0.1))
    return found


@cache
def table_plan(alpha: float) -> Any:
    """The proof of an upper bound, from a log whose rewards are rare: its plan is older than the logs it is used on."""
    log = visits(np.random.default_rng(0), 0.01)
    return bondic.Table(side="upper").run(table_problem(log), alpha, None).proof


def visits(rng: np.random.Generator, chance: float) -> bondic.Transitions:
    states = np.tile(np.arange(STORES, dtype=np.float64), VISITS + 25)[:, None]
    rewards = (rng.random(len(states)) < chance).astype(np.float64)
    return bondic.Transitions(
        states, np.zeros(len(states), np.int64), rewards, states, np.ones(len(states), dtype=bool), discrete_observations=True
    )  # fmt: skip


def table_problem(log: bondic.Transitions) -> Any:
    starts = bondic.InitialStates.exact(np.arange(STORES, dtype=np.float64)[:, None])
    return bondic.make_problem(
        log, lambda states: np.ones((len(states), 1)), starts, gamma=0.0, reward_range=(0.0, 1.0), accept=None
    )


def subgroups_of_a_table(rng: np.random.Generator) -> list[Check]:
    """Eight start states that pay just more than a log without a reward leaves possible: shared weights, and those of each."""
    found = []
    for alpha in LEVELS:
        proof, bet = table_plan(alpha), 0.99
        first, stop = proof.estimand.rows
        chance = 1.001 * math.log(1 / proof.budget["upper"]) / (bet * ((stop - first) // STORES))
        rows = table_problem(visits(rng, chance)).select(first, stop)
        shown = conclude_by_subgroup(proof, Question.value(rows), labels_by(0, ()), REFERENCE)
        wrong = any(one.conclusion.high < chance for one in shown.values())
        found.append(Check(f"all eight with shared weights, alpha {alpha:g}", wrong, level=alpha))
        bound, each = proof.bound(rows), list[bool]()
        located, counts = bound.locate(NOTHING_ALLOWED), bound.tally.count
        for place in range(STORES):
            weights = np.where(np.arange(counts.shape[1]) == place, bet, 0.0) * np.ones(counts.shape)
            tail = EndWeights(weights, bet * float(counts[:, place].sum()))
            starts = proof.cells.starts(rows.pick_starts(np.array([place])))
            end = end_terms(located, starts, tail, 1.0, proof.budget["upper"])
            each.append(end.value.mid + end.spread < chance)
        found.append(Check(f"all eight with weights of their own, alpha {alpha:g}", any(each), "control", alpha))
    return found


CASES: cases.Cases = {
    "one step": (one_step, 1.0),
    "range of one value": (no_range, 0.1),
    "behavior that learns": (learning, 0.5),
    "worst of all looks": (looks, 0.25),
    "looks at a gate": (approvals, 1.0),
    "looks without a plan": (replanned, 0.1),
    "looks, today improves": (improving, 0.25),
    "looks at a choice": (null_looks, 0.25),
    "null policies": (null_choice, 0.1),
    "learned block by block": (prequential, 1.0),
    "learned noise": (learned_noise, 0.1),
    "ten policies": (together, 0.25),
    "gates": (gates, 1.0),
    "episodes": (episodes, 0.5),
    "learned episodes": (learned_episodes, 0.25),
    "tables": (tables, 0.05),
    "tables, one bet": (partial(sharp, False), 1.0),
    "groups, one bet": (partial(sharp, True), 1.0),
    "subgroups": (subgroups, 1.0),
    "start states of a table": (subgroups_of_a_table, 1.0),
}
"""Every case, and the share of the trials that it gets: some take long."""


_HEAD = """# Decisions: how often they are wrong

Made by `python experiments/decisions.py --page out/decision-coverage.md` ({trials} trials in a full case). Truths are exact. A
claim holds if its failures are not too many for its level (a true one is called violated with probability 1e-4); a control is
wrong on purpose, and must be caught by the same test. `length` is a share of the range of a difference.

"""
_COLUMNS = ("case", "statement", "role", "failed", "level", "length", "verdict")


def page(rows: list[Tally], trials: int) -> str:
    table = [_COLUMNS, ("---", "---", "---", "---:", "---:", "---:", "---"), *map(_cells, rows)]
    return _HEAD.format(trials=trials) + "".join(f"| {' | '.join(cells)} |\n" for cells in table)


def _cells(row: Tally) -> tuple[str, ...]:
    length = "" if math.isnan(row.length) else f"{100 * row.length:.3g} %"
    words = {"claim": "holds", "control": "caught", "no guarantee": "counted"}
    verdict = words[row.role] if row.as_expected else "NOT AS EXPECTED"
    return row.case, row.statement, row.role, f"{row.misses} / {row.trials}", f"{row.level:g}", length, verdict


def main(arguments: list[str] | None = None) -> int:
    return cases.run_cases(CASES, page, "Coverage of differences, choices and gates.", 2000, arguments)


if __name__ == "__main__":
    sys.exit(main())
