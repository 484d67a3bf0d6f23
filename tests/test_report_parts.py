"""Pieces of the page: the axis of the parts, bars of actions, what the logging policy earned, comparisons."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

import bondic
from bondic.claims import Claim, Part
from bondic.report.drawings import action_bars, stacked_terms
from bondic.report.health import ActionUse, examine
from bondic.report.logged_value import logged_value
from bondic.rounding import Enclosure
from bondic.rows.recorded import recorded_returns
from bondic.terms import ValueRange
from bondic.view import stacks_between
from builders import tabular
from propensity_cases import BEHAVIOR, REWARD, STATES, decisions, question


@pytest.fixture(scope="module")
def one_step():
    problem = question(decisions(300))
    return problem, bondic.estimate_interval(problem)


# --- parts ----------------------------------------------------------------------------------------------------------------


def claim(end, value, **spreads):
    return Claim(
        end,
        (
            Part("value", Enclosure(value), "value"),
            *(Part(name, Enclosure(size), "spread") for name, size in spreads.items()),
        ),
    )


def test_a_part_larger_than_the_value_range_is_drawn_to_its_end(one_step):
    """A noise of 467 on a range of [0, 100]: the axis is that of the parts, and the range is marked on it."""
    limits = ValueRange(0.0, 100.0)
    ends = (claim("lower", 50.0, noise=467.0, bias=10.0), claim("upper", 50.0, noise=467.0, bias=10.0))
    first, last = stacks_between(ends, limits)
    assert (first, last) == (ends[0].bound, ends[1].bound)
    drawn = stacked_terms(replace(one_step[1], claims=ends, value_range=limits))
    widths = [float(width) for width in re.findall(r'class="t0" x="[\d.]+%" width="([\d.]+)%"', drawn)]
    assert len(widths) == 2
    assert widths[0] == pytest.approx(96 * 467 / (last - first), abs=0.1)
    assert drawn.count('class="chosen"') == 2
    assert "dashed: the value range [0, 100]" in drawn


def test_short_stacks_are_enlarged_and_say_so(one_step):
    limits = ValueRange(0.0, 100.0)
    ends = (claim("lower", 50.0, noise=1.0), claim("upper", 50.0, noise=1.0))
    first, last = stacks_between(ends, limits)
    assert 48 < first < 49 < 51 < last < 52
    drawn = stacked_terms(replace(one_step[1], claims=ends, value_range=limits))
    assert "enlarged; the value range is [0, 100]" in drawn


def test_parts_that_are_nothing_are_left_out(one_step):
    found = replace(
        one_step[1], claims=(claim("lower", 0.5, noise=0.1, bias=0.0), claim("upper", 0.5, noise=0.1, bias=0.0))
    )
    assert "bias" not in [row[0] for row in found.view().parts.rows]
    assert "bias" not in stacked_terms(found)


# --- actions --------------------------------------------------------------------------------------------------------------


def test_the_policy_is_asked_at_the_logged_states_of_a_one_step_log(one_step):
    problem, _ = one_step
    health = examine(problem)
    assert health.asked_at == "logged states"
    at = np.searchsorted(STATES[:, 0], problem.log.observations[:, 0])
    wanted = problem.policy.action_probs(problem.log.observations).mean(axis=0)
    assert at.max() == 2
    assert [use.target for use in health.actions] == pytest.approx(wanted.tolist())
    assert min(use.target for use in health.actions) > 0


def test_the_policy_is_asked_at_the_logged_states_of_episodes_too():
    mdp, log, policy, initial = tabular(400)
    problem = bondic.make_problem(log, policy, initial, gamma=0.8, reward_range=mdp.reward_range)
    health = examine(problem)
    assert [use.target for use in health.actions] == pytest.approx(
        mdp.target[log.observations[:, 0].astype(int)].mean(axis=0).tolist()
    )


def uses(count):
    return [ActionUse(f"action {k}", 1 / count, (k + 1) / (count * (count + 1) / 2), 10) for k in range(count)]


def test_every_action_has_its_bars_and_many_are_grouped():
    few = action_bars([*uses(3), ActionUse("action 3", 0.0, 0.5, 0)])
    assert few.count('class="wanted"') == 4
    assert few.count('class="never"') == 1
    assert "many" not in few
    assert action_bars(uses(34)).count('class="wanted"') == 34
    crowd = action_bars(uses(300))
    assert crowd.count('class="wanted"') == 40
    assert "261 others" in crowd
    shares = [float(share) for share in re.findall(r"→ ([\d.e-]+)%", crowd)]
    assert sum(shares) == pytest.approx(100, abs=0.5)


def test_tiles_of_nothing_are_left_out(one_step):
    problem, result = one_step
    page = bondic.report_page(result, problem, title="t")
    assert "truncations" not in page
    assert "rows certified" in page


# --- the logging policy ---------------------------------------------------------------------------------------------------


def by_hand(log, gamma):
    found = []
    for episode in dict.fromkeys(log.episode_ids.tolist()):
        rows = np.flatnonzero(log.episode_ids == episode)
        total = math.fsum(gamma**t * log.rewards[i] for t, i in enumerate(rows))
        found.append((total, len(rows), bool(log.terminations[rows].any())))
    return found


def test_recorded_returns_are_those_of_the_episodes():
    mdp, log, policy, initial = tabular(600, termination=0.3)
    problem = bondic.make_problem(log, policy, initial, gamma=0.8, reward_range=mdp.reward_range)
    found, slow = recorded_returns(problem), by_hand(log, 0.8)
    assert found.returns == pytest.approx([one[0] for one in slow])
    assert found.steps.tolist() == [one[1] for one in slow]
    assert found.ended.tolist() == [one[2] for one in slow]
    cut = bondic.make_problem(log, policy, initial, gamma=0.8, reward_range=mdp.reward_range, horizon=3)
    short = recorded_returns(cut)
    assert short.ended.all() or (short.steps < 3).any()
    assert short.returns.max() <= 1 + 0.8 + 0.64


def test_the_logging_policy_is_covered():
    """Single decisions: the mean reward is known; at alpha = 0.1 no more than 8 of 40 logs may miss it (p < 0.05)."""
    truth = float((BEHAVIOR * REWARD).sum(axis=1).mean())
    missed = 0
    for seed in range(40):
        found = logged_value(question(decisions(200, seed)), 0.1)
        missed += not found.low <= truth <= found.high
    assert missed <= 8
    assert logged_value(question(decisions(10)), 0.1) is None


def test_cut_episodes_pay_for_what_they_missed():
    mdp, log, policy, _ = tabular(2000, gamma=0.9)
    start = bondic.InitialStates.from_log(log)
    problem = bondic.make_problem(log, policy, start, gamma=0.9, reward_range=mdp.reward_range)
    found = logged_value(problem, 0.1)
    assert found.cut == found.episodes == 100
    left = 0.9**20 * 10
    assert found.high - found.low > left
    value = replace(mdp, target=mdp.behavior).value
    assert found.low <= value <= found.high


# --- rejections, baselines, comparisons -----------------------------------------------------------------------------------


def test_a_page_of_a_rejection_opens_with_it():
    mdp, log, policy, initial = tabular(4000, gamma=0.5)
    problem = bondic.make_problem(log, policy, initial, gamma=0.5, reward_range=mdp.reward_range)
    tiny = bondic.Ball(bondic.Gaussian(1.0) * bondic.Dirac() + bondic.Constant(1.0), 1e-3)
    result = bondic.estimate_interval(problem, method=bondic.Dual(ball=tiny))
    page = bondic.report_page(result, problem, title="t")
    assert page.index("No answer: the log contradicts the assumptions") < page.index('id="next"')
    assert 'id="terms"' not in page


def test_a_trivial_answer_shows_no_estimate():
    mdp, log, policy, initial = tabular(300, gamma=0.98)
    problem = bondic.make_problem(log, policy, initial, gamma=0.98, reward_range=mdp.reward_range)
    result = bondic.estimate_interval(problem)
    page = bondic.report_page(result, problem, title="t")
    assert result.status is bondic.Status.TRIVIAL
    assert not result.estimated
    top = page[page.index('id="answer"') : page.index('id="next"')]
    assert "No point estimate" in top
    assert "circle" not in top
    assert "do not use the log" in page


def test_comparisons_have_a_page(one_step, tmp_path):
    problem, _ = one_step
    found = bondic.compare(problem, ["propensities", "dual", "lipschitz"])
    page = found.report(tmp_path / "page.html", title="<b>which</b>").read_text()
    assert "<b>which</b>" not in page
    assert page.count('class="strong">') == 2
    assert "Without an interval" in page
    assert "holds for this finite log" in page
    assert page.count('<circle class="estimate') == 2
