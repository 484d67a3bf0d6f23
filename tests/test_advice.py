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


# --- what a statement is said to give -------------------------------------------------------------------


def numbers(rewards, **statements):
    """(result, steps) of numbers that never come again, so that no method predicts a length."""
    rng, rows = np.random.default_rng(5), 1500
    log = bondic.Transitions(
        rng.random((rows, 1)), rng.integers(0, 2, rows), rng.choice(rewards, rows), rng.random((rows, 1)),
        np.zeros(rows, bool), np.zeros(rows, bool),
    )  # fmt: skip
    stated = {"gamma": 0.9, "reward_range": (0.0, 1.0), "initial": bondic.InitialStates.exact([[0.5]]), **statements}
    result = bondic.evaluate_policy(log, bondic.UniformPolicy(2), **stated)
    return result, next_steps(result)


@pytest.mark.parametrize("statements", [{}, {"may_terminate": False}], ids=["ends", "never ends"])
def test_no_range_of_one_value_is_proposed(statements):
    result, steps = numbers([1.0], **statements)
    assert result.status is bondic.Status.TRIVIAL
    assert not [step for step in only(steps, "range") if "low" in step.numbers]


def test_a_narrower_range_of_rewards_is_proposed_where_values_get_narrower():
    """Rewards in [7, 9], 10 steps count: with an early end the value may be anything from 7 to 90, without from 70 to 90."""
    _, steps = numbers([7.0, 9.0], reward_range=(0.0, 10.0))
    assert not [step for step in only(steps, "range") if "low" in step.numbers]
    result, steps = numbers([7.0, 9.0], reward_range=(0.0, 10.0), may_terminate=False)
    (step,) = [step for step in only(steps, "range") if "low" in step.numbers]
    assert (step.numbers["low"], step.numbers["high"]) == (7.0, 9.0)
    assert step.numbers["length"] == pytest.approx(0.2 * result.length)


@pytest.mark.parametrize("against", [None, "today"])
def test_the_length_with_the_least_propensity_is_the_one_that_stating_it_gives(against):
    rng, rows = np.random.default_rng(3), 3000
    log = bondic.Transitions.one_step(
        rng.integers(0, 3, (rows, 1)).astype(float), actions := rng.integers(0, 10, rows),
        (rng.random(rows) < np.where(actions == 1, 0.06, 0.03)).astype(float), behavior_action_probs=np.full(rows, 0.1),
    )  # fmt: skip
    policy = bondic.TablePolicy(np.eye(10)[np.ones(3, int)])
    stated = {"gamma": 0.0, "reward_range": (0.0, 1.0), **({} if against is None else {"against": against})}
    result = bondic.evaluate_policy(log, policy, **stated)
    (step,) = [step for step in next_steps(result) if "min_propensity" in step.text]
    assert "If you know from how the log was made that no logged probability can be below 0.1, state it" in step.text
    told = bondic.evaluate_policy(log, policy, **stated, method=bondic.Propensities(min_propensity=0.1))
    assert step.numbers["length"] == pytest.approx(told.length)
    assert told.length < 0.8 * result.length
    (hidden,) = [step for step in next_steps(result, no_rows=True) if "min_propensity" in step.text]
    assert "0.1" not in hidden.text


def cut_episodes(episodes, length):
    """Steps that pay 0.2 or 0.5, whatever the state; every episode is cut."""
    rng, rows = np.random.default_rng(0), episodes * length
    steps, actions, states = (
        np.tile(np.arange(length), episodes),
        rng.integers(0, 2, rows),
        rng.integers(0, 2, rows + 1),
    )
    return bondic.Transitions(
        states[:-1, None].astype(float), actions, (rng.random(rows) < 0.2 + 0.3 * actions).astype(float),
        states[1:, None].astype(float), np.zeros(rows, bool), steps == length - 1,
        episode_ids=np.repeat(np.arange(episodes), length), timesteps=steps,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("episodes", "length", "gamma", "named"),
    [(100, 4, 0.9, True), (1000, 4, 0.9, False), (80, 20, 0.95, False)],
    ids=["wide", "says something already", "a horizon would make it longer"],
)
def test_a_horizon_is_named_for_todays_value_where_it_is_predicted_to_help(episodes, length, gamma, named):
    policy = bondic.TablePolicy(np.array([[0.3, 0.7]] * 2))
    accept = ["resets"]
    result = bondic.evaluate_policy(
        cut_episodes(episodes, length), policy, gamma=gamma, reward_range=(0.0, 1.0), accept=accept
    )
    assert result.comparison is not None
    steps = next_steps(result)
    assert bool([step for step in steps if "episodes were cut" in step.text]) is named
    later = [step for step in only(steps, "decision") if "rows" in step.numbers]
    assert all("rows like these in all would show" in step.text for step in later)
