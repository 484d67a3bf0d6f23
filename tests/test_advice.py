"""Ways out: every kind of answer that says little names what would help, nothing else does, and no interval moves."""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bondic
from bondic.advice.levers import next_steps
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.report.page import report_page
from bondic_lab.worlds.tabular import TabularMDP
from builders import as_log, tabular
from propensity_cases import decisions

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there
from experiments.ways_out import CASES, follow, line


def ask(rows=1000, gamma=0.95, starts="exact", policy=None, actions=3, **statements):
    """(problem, result) of a table with six states."""
    mdp = TabularMDP.random(np.random.default_rng(11), gamma=gamma, n_actions=actions, reward_noise=0.1)
    log = as_log(mdp.rollout(rows // 20, 20, np.random.default_rng(0)))
    states = np.arange(6.0)[:, None]
    initial = bondic.InitialStates.exact(states, mdp.initial_probs)
    if starts == "log":
        initial = bondic.InitialStates.from_log(log)
    target = bondic.TablePolicy(mdp.target) if policy is None else policy
    statements = {"gamma": gamma, "reward_range": mdp.reward_range, **statements}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bondic.ValidityWarning)
        problem = bondic.make_problem(log, target, initial, **statements)
    return problem, bondic.estimate_interval(problem)


@pytest.fixture(scope="module")
def trivial():
    return ask()


def kinds(steps):
    return [step.kind for step in steps]


def only(steps, kind):
    return [step for step in steps if step.kind == kind]


# --- which answers get advice ---------------------------------------------------------------------------


def test_a_trivial_answer_names_rows_in_every_view(trivial):
    problem, result = trivial
    assert result.status is bondic.Status.TRIVIAL
    steps = next_steps(result, problem)
    assert {"term", "rows"} <= set(kinds(steps))
    (rows,) = only(steps, "rows")
    assert rows.numbers["rows"] > 800
    for discount in only(steps, "discount"):  # a nearer question, never a far one
        assert (1 - problem.gamma) < 1 - discount.numbers["gamma"] <= 2 * (1 - problem.gamma)
    page = report_page(result, problem, title="t")
    assert page.index('id="answer"') < page.index('id="next"') < page.index('id="assumptions"')
    told = replace(result, steps=steps)
    assert [item["text"] for item in json.loads(told.to_json())["next_steps"]] == list(map(str, steps))
    assert "## What to do next" in told.to_markdown()
    assert "<h3>What to do next</h3>" in told._repr_html_()
    assert result.next_steps() == steps


# --- overlap --------------------------------------------------------------------------------------------


def test_actions_that_were_never_logged_come_first_and_loud():
    log = decisions(400)
    never = bondic.Transitions.one_step(log.observations, np.zeros(400, dtype=int), log.rewards)
    policy = bondic.CallablePolicy(lambda s: np.tile([0.4, 0.6], (len(s), 1)))
    problem = bondic.make_problem(never, policy, gamma=0.0, reward_range=(0.0, 1.0), accept=None)
    first = next_steps(bondic.estimate_interval(problem, method=bondic.Dual()), problem)[0]
    assert (first.kind, first.loud) == ("overlap", True)
    assert "never took action 1" in first.text
    assert first.numbers == {"never_logged": 1, "share": pytest.approx(0.6)}


# --- parts ----------------------------------------------------------------------------------------------


# --- ranges ---------------------------------------------------------------------------------------------


def test_a_start_that_the_log_never_left_is_said_and_costs_no_warning():
    """State 6 is where episodes end: no row has a weight, whatever its rate."""
    unknown = 6.0
    mdp = TabularMDP.random(np.random.default_rng(11), gamma=0.8, n_actions=3, reward_noise=0.1)
    log = as_log(mdp.rollout(200, 20, np.random.default_rng(0)))
    last = np.arange(19, len(log), 20)
    following, ended = log.next_observations.copy(), log.terminations.copy()
    following[last], ended[last] = 6.0, True
    log = replace(log, next_observations=following, terminations=ended, truncations=None)
    policy = bondic.TablePolicy(np.vstack([mdp.target, mdp.target[:2]]))
    for states, share in (([[unknown]], 1.0), ([[0.0], [unknown]], 0.5)):
        initial = bondic.InitialStates.exact(states)
        problem = bondic.make_problem(log, policy, initial, gamma=0.8, reward_range=mdp.reward_range, accept=None)
        result = bondic.estimate_interval(problem)
        step = next_steps(result, problem)[0]
        assert (step.kind, step.loud, step.numbers) == ("start", True, {"not_left": share})
        assert f"state {unknown:g}" in step.text
        assert "never left" in step.text
        assert str(unknown)[0] not in next_steps(result, problem, no_rows=True)[0].text.split(":")[0]
        assert bondic.verify(result.certificate, log, policy).status == result.status.name
        if share == 1.0:
            assert result.status is bondic.Status.TRIVIAL


def test_generous_ranges_are_asked_about_and_extremes_are_not_quoted_without_rows():
    problem, result = ask(400, 0.9, reward_range=(-10.0, 10.0))
    (step,) = only(next_steps(result, problem), "range")
    assert step.basis == "yours"
    assert "reward_range=(" in step.text
    assert "--" not in step.text
    assert "--reward-range" in only(next_steps(result, problem, command=True), "range")[0].text
    assert step.numbers["length"] < 0.8 * result.length
    assert "not from this log" in step.text
    least = float(problem.select(*result.rows).whole().rewards.min())
    assert f"{least:.3g}" in step.text
    assert not only(next_steps(result, problem, no_rows=True), "range")


# --- rejections -----------------------------------------------------------------------------------------


def rejected_result():
    mdp, log, policy, initial = tabular(4000, gamma=0.5)
    problem = bondic.make_problem(log, policy, initial, gamma=0.5, reward_range=mdp.reward_range)
    ball = bondic.Ball(bondic.Gaussian(1.0) * Dirac() + Constant(1.0), 1e-3)
    return problem, bondic.estimate_interval(problem, method=bondic.Dual(ball=ball))


def test_a_rejection_is_explained():
    problem, result = rejected_result()
    assert result.status is bondic.Status.REJECTED
    steps = next_steps(result, problem)
    assert kinds(steps) == ["rejected"] * 3
    assert steps[0].loud
    assert "p-value" in steps[0].text
    assert "No interval is given" in steps[0].text
    assert "radius" in steps[2].text


# --- methods --------------------------------------------------------------------------------------------


# --- guesses --------------------------------------------------------------------------------------------


# --- ways out that were followed ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["60 decisions, propensities", "300 decisions, second action never logged"])
def test_following_a_way_out_does_what_it_says(name):
    """Two of the twenty of the experiment, which take no time."""
    (case,) = (case for case in CASES if case.name == name)
    outcome = follow(case)
    assert outcome.kept
    assert line(outcome).endswith("| yes |")


# --- views ----------------------------------------------------------------------------------------------


# --- hints beside sharp answers ----------------------------------------------------------------------------------------------
