"""One-step logs with many actions: what an action costs, against 34 of them, and capped coordinates against dense ones.

python benchmarks/many_actions.py                                  10 000 rows, 34 to 1000 actions
python benchmarks/many_actions.py --rows 2000 --actions 34 200     quick
"""

from __future__ import annotations

import argparse
import resource
import time
from unittest import mock

import numpy as np
from machine import describe

import bondic
from bondic.rows.rows import Rows
from bondic.tuning.defaults import Choices, default_instruments, default_value_kernel
from bondic.tuning.radius import held_out_radius

COLUMNS = 5
DENSE = 200
"""Actions at which the fit of the radius is also made without groups: more would take many minutes."""


class Softmax:
    """pi(a | s) ~ exp(s . w_a)."""

    def __init__(self, actions: int) -> None:
        self.weights = np.random.default_rng(1).normal(size=(COLUMNS, actions)) / np.sqrt(COLUMNS)

    def action_probs(self, states: np.ndarray) -> np.ndarray:
        raised = np.exp(states @ self.weights)
        return raised / raised.sum(axis=1, keepdims=True)


def clicks(rows: int, actions: int) -> tuple[bondic.Transitions, Softmax, float]:
    """Decisions of a uniform policy, reward 1 with a probability of its own for every state and action."""
    rng, policy = np.random.default_rng(0), Softmax(actions)
    states, taken = rng.normal(size=(rows, COLUMNS)), rng.integers(0, actions, size=rows)
    rate = 1 / (1 + np.exp(2 - states @ policy.weights))
    log = bondic.Transitions(
        observations=states,
        actions=taken,
        rewards=(rng.uniform(size=rows) < rate[np.arange(rows), taken]).astype(float),
        next_observations=states,
        terminations=np.ones(rows, bool),
        truncations=np.zeros(rows, bool),
        episode_ids=np.arange(rows),
        timesteps=np.zeros(rows, int),
    )
    return log, policy, float((policy.action_probs(states) * rate).sum(axis=1).mean())


def whole(rows: int, actions: int) -> tuple[float, bondic.Result, float]:
    """Seconds of all cores for the default, its result and the truth."""
    log, policy, truth = clicks(rows, actions)
    begun = time.process_time()
    result = bondic.evaluate_policy(log, policy, gamma=0.0, reward_range=(0.0, 1.0), accept=("unseen-actions",))
    return time.process_time() - begun, result, truth


def fit(problem: Rows) -> float:
    """Seconds of all cores for the fit behind the radius, the largest decomposition of the default."""
    kernel = default_value_kernel(problem, Choices())
    weights = default_instruments(problem, problem, Choices())
    begun = time.process_time()
    held_out_radius(problem, kernel, weights.kernel, factor=10.0, half_range=0.5)
    return time.process_time() - begun


def capped_against_dense(actions: int) -> tuple[float, float]:
    """Seconds of the same fit with groups of actions, and with coordinates for every action."""
    log, policy, _ = clicks(1000, actions)
    told = {"gamma": 0.0, "reward_range": (0.0, 1.0), "accept": ("unseen-actions",)}
    problem = bondic.make_problem(log, policy, **told)
    capped = fit(problem)
    with mock.patch("bondic.search.basis.action_groups", return_value=None):
        return capped, fit(problem)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--actions", type=int, nargs="+", default=[34, 100, 300, 1000])
    options = parser.parse_args()
    print(describe())
    whole(1000, 34)  # compiled code is loaded
    print(
        f"{options.rows} rows, {COLUMNS} columns; the truth inside, length, and processor seconds as multiples of the first line"
    )
    print("| actions | seconds | ratio | ratio per action | length | inside | peak GB |")
    print("|---|---|---|---|---|---|---|")
    first = 0.0
    for actions in options.actions:
        seconds, result, truth = whole(options.rows, actions)
        first = first or seconds
        ratio, more = seconds / first, actions / options.actions[0]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        inside = result.low <= truth <= result.high
        length = result.high - result.low
        print(
            f"| {actions} | {seconds:.1f} | {ratio:.2f} | {ratio / more:.3f} | {length:.3g} | {inside} | {peak:.2f} |"
        )
    capped, dense = capped_against_dense(DENSE)
    print(
        f"fit of the radius with {DENSE} actions: groups {capped:.1f} s, dense {dense:.1f} s, {dense / capped:.0f} times"
    )


if __name__ == "__main__":
    main()
