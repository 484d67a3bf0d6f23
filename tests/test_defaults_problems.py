"""The problems of experiments/defaults.py: their values agree with brute force, and the judge counts what it should."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import bondic

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments import defaults, defaults_judge
from experiments.defaults_cells import Cell, Trial, draw_actions
from experiments.defaults_problems_bandits import (
    Campaign,
    classification_trial,
    labeled_data,
    open_bandit_trial,
)
from experiments.defaults_problems_worlds import (
    corridor,
    drift_step,
    drift_value,
    steering_step,
    steering_value,
    stroll,
    stroll_value,
)

EPISODES = 40_000


def mean_return(starts, act, step, gamma, length, rng, episodes=EPISODES):
    """E Σ_{t < length} γ^t r_t by simulation, with its standard error."""
    states = np.repeat(starts, episodes // len(starts), axis=0)
    total, alive = np.zeros(len(states)), np.ones(len(states), dtype=bool)
    for turn in range(length):
        rewards, states, ends = step(states, act(states, rng), rng)
        total += np.where(alive, gamma**turn * rewards, 0.0)
        alive &= ~ends
    return total.mean(), total.std() / np.sqrt(len(total))


def assert_close(value, simulated, *, slack=0.0):
    mean, error = simulated
    assert abs(value - mean) <= 5.0 * error + slack


def test_table_values_are_those_of_simulation():
    table, target = corridor(0.01), np.tile([0.05, 0.95], (10, 1))
    q = table.q_values(target, 0.95)
    act = partial(draw_actions, target)
    simulated = mean_return(np.zeros((1, 1)), act, table.step, 0.95, 300, np.random.default_rng(0))
    assert_close(target[0] @ q[0], simulated)


def mostly_right(states, rng):
    return (rng.random(len(states)) < 0.9).astype(int)


def steer(states, rng):
    return -states + 0.1 * rng.standard_normal(states.shape)


@pytest.mark.parametrize(
    ("value", "starts", "act", "step", "gamma", "length", "episodes", "slack"),
    [
        (stroll_value(0.01, 200), np.arange(10)[:, None] / 100, mostly_right, partial(stroll, 0.01), 0.95, 250, EPISODES, 1e-4),
        (drift_value(0.9, 0.9), np.zeros((1, 1)), mostly_right, drift_step, 0.9, 200, EPISODES, 1e-6),
        (steering_value(np.array([0.0, 0.3]), 0.8), np.array([[0.0], [0.3]]), steer, steering_step, 0.8, 50, 200_000, 1e-4),
    ],
    ids=["stroll", "drift", "steering"],
)  # fmt: skip
def test_values_are_those_of_simulation(value, starts, act, step, gamma, length, episodes, slack):
    simulated = mean_return(starts, act, step, gamma, length, np.random.default_rng(2), episodes)
    assert_close(value, simulated, slack=slack)


def test_the_value_of_a_classifier_is_its_hit_rate_on_the_population():
    features, labels = labeled_data("wine")
    trial = classification_trial(features, labels, np.random.default_rng(7), rows=20_000, known_contexts=True)
    chosen = trial.policy.action_probs(trial.log.observations).argmax(axis=1)
    hits = trial.log.rewards[trial.log.actions == chosen]
    assert abs(hits.mean() - trial.truth) < 0.05  # behavior takes every action everywhere, so hits are nearly unbiased
    population = trial.initial.observations
    assert len(population) == len(labels) // 2
    right = [labels[np.all(features == row, axis=1)][0] for row in population]
    assert trial.truth == np.mean(trial.policy.action_probs(population).argmax(axis=1) == right)
    assert trial.log.terminations.all()


def small_campaign() -> Campaign:
    rng = np.random.default_rng(8)
    contexts = np.column_stack([rng.integers(2, size=600), rng.integers(3, size=600)]).astype(float)
    shares, rates = rng.dirichlet(np.ones(4), 3), np.array([0.1, 0.4, 0.2, 0.9])
    return Campaign(
        contexts, rng.integers(4, size=600), rng.random(600).round(), shares, rates, np.full(600, 0.25), 0.4, 0.1
    )


def test_the_value_of_item_shares_is_that_of_simulation():
    data = small_campaign()
    trial = open_bandit_trial(data, np.random.default_rng(9))
    rng = np.random.default_rng(10)
    contexts = data.contexts[rng.integers(600, size=EPISODES)]
    probs = trial.policy.action_probs(contexts)
    items = np.sum(rng.random(EPISODES)[:, None] >= np.cumsum(probs, axis=1)[:, :-1], axis=1)
    clicks = rng.random(EPISODES) < data.rates[items]
    assert_close(trial.truth, (clicks.mean(), clicks.std() / np.sqrt(EPISODES)))


def test_gymnasium_tables_and_rollouts():
    from experiments.defaults_problems_gym import CAR_STARTS, car_value, gym_log, gym_table, pump, table_cell

    table, start = gym_table("FrozenLake-v1", is_slippery=True)
    target = table.greedy(0.95)
    simulated = mean_return(
        np.flatnonzero(start)[:, None].astype(float),
        partial(draw_actions, target),
        table.step,
        0.95,
        200,
        np.random.default_rng(11),
    )
    assert_close(start @ np.sum(target * table.q_values(target, 0.95), axis=1), simulated, slack=1e-4)
    assert table_cell("CliffWalking", np.random.default_rng(12)).truth < -13
    log = gym_log("MountainCarContinuous-v0", pump, 300, seed=0)
    end = int(np.flatnonzero(log.terminations)[0]) + 1
    first = float(np.sum(0.99 ** np.arange(end) * log.rewards[:end]))
    assert abs(first - car_value()) < 10.0  # one start among the 21 of d_0
    assert len(CAR_STARTS) == 21


def coin_trial(truth: float = 0.5) -> Trial:
    rng = np.random.default_rng(13)
    states = np.zeros((200, 1))
    log = bondic.Transitions(
        states, np.zeros(200, dtype=int), rng.integers(2, size=200), states, np.ones(200, dtype=bool)
    )
    start = bondic.InitialStates.exact(np.zeros((1, 1)))
    return Trial(log, bondic.UniformPolicy(1), 0.0, (0.0, 1.0), truth, initial=start)


def test_a_run_is_judged_by_its_truth():
    good = defaults_judge.ask("good", Cell("", lambda _: coin_trial()), 0, np.random.default_rng(0))
    bad = defaults_judge.ask("bad", Cell("", lambda _: coin_trial(5.0)), 0, np.random.default_rng(0))
    granted = defaults_judge.ask(
        "granted", Cell("", lambda _: replace(coin_trial(5.0), error=5.0)), 0, np.random.default_rng(0)
    )
    rows = [row | {"seed": seed} for row in (good, bad, granted) for seed in range(20)]
    lines = {line["cell"]: line for line in defaults_judge.summarize(rows)}
    assert [lines[name]["misses"] for name in ("good", "bad", "granted")] == [0, 20, 0]
    assert [lines[name]["violated"] for name in ("good", "bad", "granted")] == [False, True, False]
    assert lines["good"]["used"] == coin_trial().evaluate(0.1).method
    data = {
        "rows": rows,
        "not_run": {"x": "obp not installed, cell not run"},
        "limit": 9.0,
        "words": {"good": "a coin"},
    }
    text = defaults.page(data)
    assert re.search(r"\| bad \|.*\*\*violated\*\*", text)
    assert "- x: obp not installed, cell not run." in text


def test_a_rejection_counts_as_a_miss_and_trivial_runs_are_no_evidence():
    """Every log satisfies what was stated: a tool that rejects it is as wrong as one whose interval misses."""
    row = {
        "cell": "a",
        "rows": 9,
        "gamma": 0.0,
        "truth": 0.5,
        "slack": 0.0,
        "alpha": 0.1,
        "method": "default",
        "width": 1.0,
    }
    row |= {"guarantee": "finite-sample", "used": "table", "seconds": 0.0}
    ends = {"INTERVAL": (0.4, 0.6), "missing": (0.6, 0.7), "TRIVIAL": (0.0, 1.0), "REJECTED": (0.0, 1.0)}
    rows = [
        {**row, "status": status if status.isupper() else "INTERVAL", "low": low, "high": high}
        for status, (low, high) in ends.items()
    ]
    (line,) = defaults_judge.summarize(rows)
    assert [line[name] for name in ("runs", "misses", "rejected", "trivial", "informative")] == [4, 2, 1, 1, 3]
    page = defaults.page({"rows": rows, "not_run": {}, "words": {}, "limit": 1.0})
    assert "2 misses in 3 informative runs (of 4)" in page
    assert "2 / 4" in page
