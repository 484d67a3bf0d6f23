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
from bondic.advice.levers import growth, next_steps
from bondic.advice.situation import count_facts
from bondic.core.dual.bound import BIAS, NOISE
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.sequential.ends import RARE
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


def test_a_trivial_answer_names_rows_and_a_discount_in_every_view(trivial):
    problem, result = trivial
    assert result.status is bondic.Status.TRIVIAL
    steps = next_steps(result, problem)
    assert {"term", "rows", "discount"} <= set(kinds(steps))
    (rows,), (discount,) = only(steps, "rows"), only(steps, "discount")
    assert rows.numbers["rows"] > 800
    assert discount.numbers["gamma"] < problem.gamma
    page = report_page(result, problem, title="t")
    assert page.index('id="answer"') < page.index('id="next"') < page.index('id="terms"')
    told = replace(result, steps=steps)
    assert [item["text"] for item in json.loads(told.to_json())["next_steps"]] == list(map(str, steps))
    assert "## What to do next" in told.to_markdown()
    assert "<h3>What to do next</h3>" in told._repr_html_()
    assert result.next_steps() == steps


def test_a_sharp_answer_needs_none():
    problem, result = ask(8000, 0.5)
    assert result.length < 0.25 * result.value_range.width
    assert next_steps(result, problem) == ()


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


def test_pairs_without_a_row_are_counted():
    """Both actions were logged, but each in one state only."""
    rng = np.random.default_rng(0)
    states = rng.integers(0, 2, 400).astype(float)[:, None]
    following = rng.integers(0, 2, 400).astype(float)[:, None]
    log = bondic.Transitions(
        states, states[:, 0].astype(np.int64), rng.random(400), following, np.zeros(400, dtype=bool)
    )
    policy = bondic.TablePolicy(np.full((2, 2), 0.5))
    problem = bondic.make_problem(
        log, policy, bondic.InitialStates.exact([[0.0]]), gamma=0.9, reward_range=(0, 1), accept=None
    )
    facts = count_facts(problem)
    assert facts.states == 2
    assert facts.unseen == pytest.approx(0.5)
    assert facts.target == pytest.approx([0.5, 0.5])
    assert facts.logged.sum() == 400
    steps = next_steps(bondic.estimate_interval(problem), problem)
    assert any("was never tried there" in step.text for step in only(steps, "overlap"))


# --- parts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "rates", "factor"),
    [
        ({NOISE: 2.0}, {NOISE: 0.5}, 4.0),
        ({RARE: 2.0}, {RARE: 1.0}, 2.0),
        ({NOISE: 1.0, BIAS: 3.0}, {NOISE: 0.5, BIAS: 0.0}, np.inf),
        ({NOISE: 3.0, BIAS: 1.0}, {NOISE: 0.5, BIAS: 0.0}, 9.0),
    ],
)
def test_rows_for_half_the_length_follow_the_rates(parts, rates, factor):
    assert growth(parts, rates, 0.5) == pytest.approx(factor)


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
    assert "--reward-range" in step.text
    assert "not from this log" in step.text
    least = float(problem.select(*result.rows).whole().rewards.min())
    assert f"{least:.3g}" in step.text
    assert not only(next_steps(result, problem, no_rows=True), "range")


def test_episodes_that_end_soon_suggest_a_horizon():
    rng = np.random.default_rng(1)
    steps = np.tile(np.arange(3), 30)
    states = rng.integers(0, 3, 90).astype(float)[:, None]
    log = bondic.Transitions(
        states, rng.integers(0, 2, 90), rng.random(90), rng.integers(0, 3, 90).astype(float)[:, None], steps == 2,
        episode_ids=np.repeat(np.arange(30), 3), timesteps=steps,
    )  # fmt: skip
    policy = bondic.TablePolicy(np.full((3, 2), 0.5))
    problem = bondic.make_problem(
        log, policy, bondic.InitialStates.exact([[0.0]]), gamma=0.99, reward_range=(0, 1), accept=None
    )
    facts = count_facts(problem)
    assert facts.longest == 3
    assert facts.ends == 30
    sums = (log.rewards * 0.99**steps).reshape(-1, 3).sum(axis=1)
    assert facts.returns == pytest.approx((sums.min(), sums.max()))
    texts = [step.text for step in only(next_steps(bondic.estimate_interval(problem), problem), "range")]
    assert any("--horizon 3" in text for text in texts)
    assert any("--value-range" in text for text in texts)


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
