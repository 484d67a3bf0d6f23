"""The check of the propensities by themselves (17.8): an e-value that every question about a log shares."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from bondic import Propensities, Status, Transitions, ValidityWarning, evaluate_policy
from bondic.core.propensities.sampling import RATES, block_borders, check_sampling, log_products

REFERENCE = Path(__file__).parent / "reference"


def shop(seed, rows, *, drawn=0.5, logged=0.5):
    """Two actions; the second one is drawn with a probability, and the log states one."""
    rng = np.random.default_rng(seed)
    actions = (rng.random(rows) < drawn).astype(int)
    rewards = (rng.random(rows) < 0.3).astype(float)
    stated = np.where(actions == 1, logged, 1 - np.asarray(logged))
    states = np.zeros((rows, 1))
    return Transitions(states, actions, rewards, states, np.ones(rows, bool), behavior_action_probs=stated)


def pay_all(states):
    return np.tile([0.0, 1.0], (len(states), 1))


@pytest.mark.parametrize("number", [1, 2])
def test_reference_values(number):
    data = json.loads((REFERENCE / f"metrics-{number}.json").read_text(encoding="utf-8"))
    actions = np.array(data["actions"])
    behavior = np.array(data["propensities"])[np.arange(actions.size), actions]
    found = np.exp(log_products(actions, behavior, 3, (0.1, 0.5, 0.9))).mean()
    assert found == pytest.approx(float(data["expected"]["propensity_check"]["value"]), rel=1e-10)


def test_the_e_value_is_that_of_a_slow_loop_however_rows_come():
    rng, count = np.random.default_rng(3), 2500
    actions, behavior = rng.integers(0, 3, count), rng.uniform(0.2, 0.9, count)
    borders = [*block_borders(count).tolist(), count]
    assert borders == [0, 1024, 1280, 1536, 1792, 2048, 2500]
    stretches = [
        (0, count, 0.5),
        *((a, b, 0.5 / (i * (i + 1))) for i, (a, b) in enumerate(itertools.pairwise(borders), 1)),
    ]
    came = sorted((int(np.argmax(actions == action)), action) for action in range(3))
    total = mp.mpf(0)  # what is missing of the weights is never bet
    for first, stop, share in stretches:
        for rank, (begun, action) in enumerate(came, 1):
            for v in RATES:
                rows = range(max(first, begun + 1), stop)
                seen = (mp.mpf(1) / mp.mpf(behavior[i]) if actions[i] == action else mp.mpf(0) for i in rows)
                product = mp.fprod(1 + mp.mpf(v) * (x - 1) for x in seen)
                total += mp.mpf(share) / (3 * rank * (rank + 1)) * product
    cuts = [0, 700, 1024, 2047, count]
    parts = [(a, actions[a:b], behavior[a:b]) for a, b in itertools.pairwise(cuts)]
    for given in ([(0, actions, behavior)], parts):
        found = check_sampling(given, count, 3, 1.0).log_e
        assert float(mp.log(total)) - 1e-6 <= found <= float(mp.log(total))


def test_right_propensities_are_seldom_refuted_and_wrong_ones_for_every_question():
    rejected = [
        evaluate_policy(shop(seed, 2000), pay_all, reward_range=(0, 1), gamma=0.0).status is Status.REJECTED
        for seed in range(40)
    ]
    assert not any(rejected)
    wrong = shop(7, 4000, drawn=0.65)
    for more in ({}, {"against": "today"}, {"against": lambda states: np.full((len(states), 2), 0.5)}):
        found = evaluate_policy(wrong, pay_all, reward_range=(0, 1), gamma=0.0, **more)
        assert found.status is Status.REJECTED, more
        assert "action 1" in found.choices["propensities"]


def test_a_share_of_alpha_is_set_aside_and_a_stated_error_is_granted():
    wrong = shop(7, 4000, drawn=0.65)
    found = evaluate_policy(wrong, pay_all, reward_range=(0, 1), gamma=0.0, alpha=0.05)
    assert found.proof.budget["propensities"] == pytest.approx(0.001, rel=1e-6)
    assert sum(found.proof.budget.parts.values()) <= 0.05
    granted = Propensities(gamma_sensitivity=1.4)
    assert evaluate_policy(wrong, pay_all, reward_range=(0, 1), gamma=0.0, method=granted).status is Status.INTERVAL


def test_a_fault_in_one_stretch_is_named():
    rng = np.random.default_rng(1)
    log = shop(1, 4096)
    actions = log.actions.copy()
    actions[2048:2560] = (rng.random(512) < 0.8).astype(int)
    with pytest.warns(ValidityWarning, match="the share of action 0"):
        found = evaluate_policy(replace(log, actions=actions), pay_all, reward_range=(0, 1), gamma=0.0)
    assert found.status is Status.REJECTED
    assert "rows 2048 to 2559" in found.choices["propensities"]


def test_how_many_actions_came_says_nothing():
    """One row of a thousand equally likely actions: an average over the actions that the log has is no e-value."""
    rng, found = np.random.default_rng(5), []
    for _ in range(400):
        actions = rng.integers(0, 1000, 3)
        known = np.unique(actions, return_inverse=True)[1]
        log_e = check_sampling([(0, known, np.full(3, 1e-3))], 3, int(known.max()) + 1, 1.0).log_e
        products = np.exp(log_products(known, np.full(3, 1e-3), int(known.max()) + 1))
        found.append((np.exp(log_e), products.mean()))
    sound, average = np.mean(found, axis=0)
    assert sound <= 1.0
    assert average > 2.0
