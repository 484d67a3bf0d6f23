"""What tells a user that something is off, in every view; logs that stand still are left in peace."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import bondic

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments.findings import FAULTY, STILL, decisions, rng_of, told

OUTSIDE = "outside of its own interval"


def evaluated(log, policy=None, **asked):
    """The result, with its warnings where everybody sees them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bondic.ValidityWarning)
        asked = {"one_step": True, "reward_range": (0, 1), "columns": {"observations": ["x", "y"]}} | asked
        return bondic.evaluate_policy(log, bondic.UniformPolicy(2) if policy is None else policy, **asked)


@pytest.mark.parametrize("fault", FAULTY)
def test_every_fault_is_told(fault):
    make, words = FAULTY[fault]
    assert all(any(words in text for text in told(make(rng_of("test", seed)))) for seed in range(2))


@pytest.mark.parametrize("name", STILL)
def test_logs_that_stand_still_are_left_in_peace(name):
    found = [text for seed in range(3) for text in told(STILL[name](rng_of("peace", seed))) if OUTSIDE not in text]
    assert not found


def test_a_finding_stands_in_the_result_on_the_terminal_and_on_the_page(tmp_path):
    log = decisions(rng_of("views")).assign(user_id=lambda log: np.arange(len(log)) // 2)
    log["reward"] = (np.arange(len(log)) < 1500) * log.reward
    result = evaluated(log)
    page = result.report(tmp_path / "page.html").read_text()
    for words in (
        "Users come back: column user_id has 1500 values in 3000 rows",
        "does not stand still",
        "eighths of the log: ",
    ):
        assert any(words in text for text in result.warnings)
        for view in (str(result), result.summary(), result.to_markdown().replace("\\", ""), result._repr_html_(), page):
            assert words in view
    assert not evaluated(log.drop(columns="user_id"), accept=["drift"]).warnings


def test_findings_change_no_end():
    log = decisions(rng_of("ends"))
    named = log.assign(customer_id=np.arange(len(log)) // 3)
    assert evaluated(log).interval == evaluated(named).interval
    assert evaluated(named).warnings


def test_the_same_users_every_day_are_no_copies():
    """Equal rows with equal keys alone are refused, by the log itself."""
    assert not told(STILL["panel of 250 users"](rng_of("days")))
    twice = np.tile(np.arange(40.0), 2)
    log = bondic.Transitions.one_step(twice[:, None] / 4, np.zeros(80, int), np.zeros(80))
    assert all(item.severity == "warn" for item in bondic.inspect_log(log))


def test_a_policy_that_knows_rows_is_refused():
    log = decisions(rng_of("place"))
    best = np.eye(2)[np.where(log.reward > 0, log.action, 1 - log.action)]
    with pytest.raises(
        bondic.BondicError, match=r"answers .* of 64 states differently .* depends on the place in the log"
    ):
        evaluated(log, lambda states: best[: len(states)])
    assert evaluated(log, lambda states: (states[:, 0] > 0).astype(int)).low > 0


def test_a_rejection_names_the_propensities_the_rows_and_a_way_out(tmp_path):
    rng = rng_of("rejected")
    action = (rng.random(8000) < np.where(np.arange(8000) < 6000, 0.5, 0.95)).astype(int)
    states, rewards = rng.normal(size=(8000, 2)), (rng.random(8000) < 0.1 + 0.8 * action).astype(float)
    log = bondic.Transitions.one_step(states, action, rewards, behavior_action_probs=np.full(8000, 0.5))
    with pytest.warns(bondic.ValidityWarning, match="does not stand still"):
        result = bondic.evaluate_policy(log, bondic.UniformPolicy(2), gamma=0.0, reward_range=(0, 1))
    assert result.status is bondic.Status.REJECTED
    told = [str(step) for step in result.next_steps() if "do not fit the logged actions" in str(step)]
    assert len(told) == 1
    assert "1/propensity of action 0" in told[0]
    assert "in rows 6016 to 7007" in told[0] or "in rows 7008 to 7999" in told[0]
    assert "do not fit the logged actions" in result.report(tmp_path / "page.html").read_text()
