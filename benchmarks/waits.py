"""Seconds of the default where states are names and repeat, beside NumPy's means of the rewards of every state and action.

Four kinds of logs without propensities, one seed each: three covariates that are whole numbers (thousands of states, one
decision a row), 50 states with 4 actions of which each leads everywhere (episodes of 10 steps, γ = .9), the same with 100 states,
and Blackjack with an infinite deck (gymnasium's states, γ = .99, a random player; the policy sticks from 17 on).

    python benchmarks/waits.py                       every log
    python benchmarks/waits.py --most 100000         those of at most so many rows

Processor seconds, so that other work on the machine counts less. "interval" is `estimate_interval` with the starts of the log as
a list; "default" is all of `evaluate_policy`: starts as a sample, and the comparison with today's policy. To compare commits,
run it with PYTHONPATH at the sources of each.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from machine import describe

import bondic


@dataclass(frozen=True)
class Case:
    """A log with its question."""

    name: str
    rows: int
    make: Callable[[int], tuple[bondic.Transitions, Any]]
    stated: dict[str, Any]


def covariates(rows: int) -> tuple[bondic.Transitions, Any]:
    rng = np.random.default_rng(0)
    states = np.column_stack([rng.integers(0, most, rows) for most in (60, 10, 5)]).astype(float)
    actions = rng.integers(0, 2, rows)
    chance = 1 / (1 + np.exp(-(states[:, 0] / 30 - 1 + actions * (states[:, 1] / 10 - 0.5))))
    log = bondic.Transitions.one_step(states, actions, (rng.random(rows) < chance).astype(float))
    return log, lambda states: np.eye(2)[(states[:, 1] > 5).astype(int)]


def chain(states: int) -> Callable[[int], tuple[bondic.Transitions, Any]]:
    def make(rows: int) -> tuple[bondic.Transitions, Any]:
        rng, actions, steps = np.random.default_rng(0), 4, 10
        reach = rng.dirichlet(np.ones(states), size=(states, actions)).cumsum(axis=-1)
        chance, policy = rng.random((states, actions)), rng.dirichlet(np.full(actions, 0.3), size=states)
        state, columns = rng.integers(0, states, rows // steps), []
        for _ in range(steps):
            action, draw = rng.integers(0, actions, state.size), rng.random(state.size)
            after = np.array([np.searchsorted(reach[s, a], u) for s, a, u in zip(state, action, draw, strict=True)])
            after = np.minimum(after, states - 1)
            columns.append((state, action, rng.random(state.size) < chance[state, action], after))
            state = after
        here, action, reward, after = (np.stack(one, axis=1).reshape(-1) for one in zip(*columns, strict=True))
        step = np.tile(np.arange(steps), rows // steps)
        log = bondic.Transitions(
            here[:, None].astype(float), action, reward.astype(float), after[:, None].astype(float),
            np.zeros(rows, dtype=bool), step == steps - 1, episode_ids=np.repeat(np.arange(rows // steps), steps),
            timesteps=step, discrete_observations=True,
        )  # fmt: skip
        return log, lambda points: policy[points[:, 0].astype(int)]

    return make


def blackjack(episodes: int) -> tuple[bondic.Transitions, Any]:
    rng, columns = np.random.default_rng(0), []

    def dealt(count: int) -> Any:
        return np.minimum(rng.integers(1, 14, count), 10)

    def total(hard: Any, aces: Any) -> tuple[Any, Any]:
        usable = aces & (hard + 10 <= 21)
        return hard + 10 * usable, usable

    first, second, shown = dealt(episodes), dealt(episodes), dealt(episodes)
    hard, aces, ids, step = first + second, (first == 1) | (second == 1), np.arange(episodes), 0
    bank, bank_aces = shown + dealt(episodes), shown == 1
    while np.any(low := total(bank, bank_aces)[0] < 17):
        card = np.where(low, dealt(episodes), 0)
        bank, bank_aces = bank + card, bank_aces | (card == 1)
    bank = total(bank, bank_aces)[0]
    while ids.size:
        (points, usable), hit = total(hard, aces), rng.integers(0, 2, ids.size)
        card = np.where(hit, dealt(ids.size), 0)
        after, after_aces = hard + card, aces | (card == 1)
        against = np.where(bank[ids] > 21, 0, bank[ids])
        reward = np.where(hit, -1.0 * (after > 21), np.sign(points - against))
        ended, (then, soft) = (hit == 0) | (after > 21), total(after, after_aces)
        state, following = np.column_stack([points, shown[ids], usable]), np.column_stack([then, shown[ids], soft])
        columns.append((state.astype(float), hit, reward, following.astype(float), ended, ids, np.full(ids.size, step)))
        hard, aces, ids, step = after[~ended], after_aces[~ended], ids[~ended], step + 1
    found = [np.concatenate(one) for one in zip(*columns, strict=True)]
    order = np.lexsort((found[6], found[5]))
    state, hit, reward, following, ended, ids, steps = (one[order] for one in found)
    log = bondic.Transitions(
        state, hit, reward, following, ended, episode_ids=ids, timesteps=steps, discrete_observations=True
    )
    return log, lambda points: np.eye(2)[(points[:, 0] < 17).astype(int)]


def starts(log: bondic.Transitions) -> bondic.InitialStates:
    """The starts of the log, each state once with its share."""
    first = np.ones(len(log), dtype=bool) if log.timesteps is None else log.timesteps == 0
    states, times = np.unique(log.observations[first], axis=0, return_counts=True)
    return bondic.InitialStates.exact(states, times / times.sum())


def means(log: bondic.Transitions) -> object:
    """What NumPy takes for the mean reward of every state and action."""
    pairs = np.column_stack([log.observations, log.actions])
    places = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    return np.bincount(places, log.rewards) / np.bincount(places)


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    found = work()
    return time.process_time() - begun, found


CASES = (
    Case("covariates", 4_000, covariates, {"gamma": 0.0, "reward_range": (0.0, 1.0)}),
    Case("covariates", 20_000, covariates, {"gamma": 0.0, "reward_range": (0.0, 1.0)}),
    Case("50 states", 100_000, chain(50), {"gamma": 0.9, "reward_range": (0.0, 1.0)}),
    Case("50 states", 1_000_000, chain(50), {"gamma": 0.9, "reward_range": (0.0, 1.0)}),
    Case("100 states", 200_000, chain(100), {"gamma": 0.9, "reward_range": (0.0, 1.0)}),
    Case("Blackjack", 50_000, blackjack, {"gamma": 0.99, "reward_range": (-1.0, 1.0)}),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Tables: seconds of the default, beside NumPy's means.")
    parser.add_argument("--most", type=int, default=1_000_000, help="rows (episodes) of the largest log")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    print("| log | rows | means | interval | × means | default | interval | value range |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        if case.rows > options.most:
            continue
        log, policy = case.make(case.rows)
        problem = bondic.make_problem(log, policy, starts(log), **case.stated)
        named, _ = seconds(lambda log=log: means(log))
        alone, found = seconds(lambda problem=problem: bondic.estimate_interval(problem))
        every, _ = seconds(lambda log=log, policy=policy, case=case: bondic.evaluate_policy(log, policy, **case.stated))
        width = found.value_range.high - found.value_range.low
        print(
            f"| {case.name} | {len(log)} | {named:.3f} s | {alone:.2f} s | {alone / named:.0f} | {every:.2f} s | "
            f"[{found.low:.4g}, {found.high:.4g}] | {width:.3g} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
