"""Plans: expected lengths follow the formulas they name, come near what the methods give, and are called expected."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import bondic
from bondic.advice.lengths import LogDesign
from bondic.cli.main import group
from bondic.core.errors import InvalidInput
from propensity_cases import one_step
from test_advice import ask


def worst_decisions(n, ratio, seed=0):
    """Ratios 0 or `ratio`, rewards 0 or 1: what a plan for single decisions supposes."""
    rng = np.random.default_rng(seed)
    actions = (rng.random(n) >= 1 / ratio).astype(np.int64)
    probs = np.where(actions == 0, 1 / ratio, 1 - 1 / ratio)
    return one_step(np.zeros((n, 1)), actions, (rng.random(n) < 0.5).astype(float), behavior_action_probs=probs)


@pytest.mark.parametrize(("ratio", "rows"), [(2.0, 500), (2.0, 5000), (10.0, 5000)])
def test_single_decisions_come_out_as_planned(ratio, rows):
    """The median of five logs: at most a third longer than planned, and not half as long."""
    planned = LogDesign("one-step", (0.0, 1.0), max_ratio=ratio).length(rows)
    policy = bondic.CallablePolicy(lambda s: np.tile([1.0, 0.0], (len(s), 1)))
    lengths = []
    for seed in range(5):
        log = worst_decisions(rows, ratio, seed)
        start = bondic.InitialStates.from_log(log)
        problem = bondic.make_problem(log, policy, start, gamma=0.0, reward_range=(0.0, 1.0), accept=None)
        lengths.append(bondic.estimate_interval(problem).length)
    assert planned / 2 < np.median(lengths) < 1.33 * planned


@pytest.mark.parametrize(("rows", "gamma"), [(4000, 0.95), (8000, 0.9)])
def test_tables_come_out_within_a_factor_of_three(rows, gamma):
    design = LogDesign("table", (0.0, 1.0), gamma=gamma, n_states=6, n_actions=3, noise=0.05)
    found = ask(rows, gamma)[1].length
    assert design.length(rows) / 3 < found < 3 * design.length(rows)


@pytest.mark.parametrize("kind", ["one-step", "episodes", "table"])
def test_rows_and_lengths_are_inverse_and_monotone(kind):
    design = LogDesign(kind, (-1.0, 2.0), gamma=0.5, horizon=4)
    lengths = [design.length(rows) for rows in (1, 100, 1e4, 1e6)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == design.limits.width
    for share in (0.5, 0.1):
        assert design.length(design.rows_for(share * design.limits.width)) == pytest.approx(share * design.limits.width)
    assert LogDesign(kind, (-1.0, 2.0), gamma=0.5, horizon=4, max_ratio=8.0).length(1e4) > lengths[2]
    assert LogDesign(kind, (-1.0, 2.0), gamma=0.5, horizon=4, alpha=0.01).length(1e4) > lengths[2]


def test_statements_that_make_no_sense_are_refused():
    for wrong in (
        {"max_ratio": 0.5},
        {"noise": 0.6},
        {"n_states": 0},
        {"alpha": 1.0},
        {"reward_range": (0.0, 0.0)},
    ):
        with pytest.raises(InvalidInput):
            LogDesign(**{"kind": "table", "reward_range": (0.0, 1.0), "gamma": 0.5, **wrong})
    with pytest.raises(InvalidInput, match="horizon"):
        LogDesign("episodes", (0.0, 1.0), gamma=0.5)
    with pytest.raises(InvalidInput, match="between 0 and"):
        LogDesign("table", (0.0, 1.0), gamma=0.5).rows_for(3.0)


def run(*words):
    return CliRunner().invoke(group, ["plan", *words], catch_exceptions=True)


def test_the_command_plans_without_a_log():
    common = ("--kind", "table", "--gamma", "0.9", "--reward-range", "0", "1")
    data = json.loads(run(*common, "--length", "1", "--json").output)
    assert data["guaranteed"] is False
    design = LogDesign("table", (0.0, 1.0), gamma=0.9)
    assert data["answer"]["rows"] == pytest.approx(design.rows_for(1.0))
    words = " ".join(run(*common, "--rows", "20000").output.split())
    assert "about 20 000 rows: an interval of length" in words
    assert "Expected, not guaranteed." in words
    assert isinstance(run("--kind", "table", "--reward-range", "0", "1").exception, InvalidInput)
    assert run("--reward-range", "0", "1").exit_code == 2
    assert isinstance(run(*common, "--rows", "5", "--length", "1").exception, InvalidInput)
