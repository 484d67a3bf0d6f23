"""A point estimate comes from rows, or there is none: wide answers used to show the center of Q."""

import math
from functools import cache

import numpy as np
import pytest

import bondic
from bondic.summary import summarize

RATE = 0.0075
"""Of clicks on the item that the policy shows; ten items are shown at random."""


def clicks(rows, *, propensities=False, seed=0):
    rng = np.random.default_rng(seed)
    states, shown = rng.integers(0, 50, (rows, 1)).astype(float), rng.integers(0, 10, rows)
    paid, ends = (rng.random(rows) < RATE).astype(float), np.ones(rows, bool)
    behavior = {"behavior_action_probs": np.full(rows, 0.1)} if propensities else {}
    return bondic.Transitions(states, shown, paid, states, ends, ~ends, **behavior)


def ask(log, item=3, **options):
    policy = bondic.DeterministicPolicy(lambda states: np.full(len(states), item), n_actions=10)
    accept = ["unseen-actions"]
    return bondic.evaluate_policy(log, policy, gamma=0.0, reward_range=(0, 1), accept=accept, **options)


@cache
def wide():
    return ask(clicks(1000))


@pytest.mark.parametrize("rows", [300, 2000])
def test_a_wide_answer_on_clicks_shows_no_invented_rate(rows):
    """The centers of the bounds were .485, .276 and .047, for a rate of .0075."""
    found = ask(clicks(rows))
    assert found.high > 10 * RATE
    assert not found.estimated
    assert math.isnan(found.estimate)
    assert "estimate" not in found.choices


def test_a_log_that_decides_the_value_has_an_estimate_with_its_source():
    found = ask(clicks(20_000))
    assert found.estimate == pytest.approx(RATE, abs=0.005)
    assert "doubly robust" in found.choices["estimate"]
    assert found.choices["estimate"] in summarize(found).lines[0]
    demo = bondic.load_demo()
    asked = {"initial": demo.initial, "gamma": 0.8, "reward_range": (0.0, 1.0)}
    assert bondic.evaluate_policy(demo.log, demo.policy, **asked).estimate == pytest.approx(4.466, abs=0.01)


def test_weighted_rewards_are_a_real_estimate_however_wide_the_interval_is():
    found = ask(clicks(5000, propensities=True))
    assert found.method == "propensities"
    assert found.estimate == pytest.approx(RATE, abs=0.006)
    assert "mean over the log" in found.choices["estimate"]


def test_without_any_weighted_row_there_is_none():
    log = clicks(500, propensities=True)
    kept = log.actions != 3
    columns = {name: column[kept] for name, column in log.columns().items() if column is not None}
    found = ask(bondic.Transitions(**columns), method=bondic.Propensities())
    assert not found.estimated
    assert "estimate" not in found.choices
