"""The page for whoever decides: it says what bondic says, and loads nothing."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import bondic
from bondic.core.errors import InvalidInput
from bondic.report import exports, plots
from bondic.report.health import examine, range_bins
from bondic.report.html import script_json
from bondic.report.logged_value import logged_value
from bondic.report.page import report_page
from bondic.rows.episodes import recorded_returns
from bondic.summary import summarize
from bondic.tuning.defaults import Choices
from bondic_lab.noise.plug_in import PlugIn
from builders import continuous, synthetic, tabular
from propensity_cases import BEHAVIOR, REWARD, decisions, question

FEW = Choices(pairs=24)


def ask(kind="synthetic", rows=600, **options):
    """(log, policy, problem, result) of a small question."""
    starts = options.pop("starts", None)
    terms = options.pop("terms", {})
    if kind == "continuous":
        log, policy, initial = continuous(rows)
        terms = {"gamma": 0.5, "reward_range": (-1.0, 1.0), **terms}
    else:
        mdp, log, policy, initial = (synthetic if kind == "synthetic" else tabular)(rows, gamma=0.5)
        terms = {"gamma": 0.5, "reward_range": mdp.reward_range, **terms}
    if starts == "log":
        initial = bondic.InitialStates.from_log(log)
    elif starts == "sample":
        initial = bondic.InitialStates.sample(log.observations[:40])
    problem = bondic.make_problem(log, policy, initial, **terms)
    options.setdefault("choices", FEW)
    if kind != "tabular" and "ball" not in options:
        options.setdefault("radius", "paper")
    return log, policy, problem, bondic.estimate_interval(problem, method=bondic.Dual(**options))


@pytest.fixture(scope="module")
def world():
    """(log, policy, problem, result) of a small question."""
    return ask(gauge=PlugIn(0.02))


@pytest.fixture(scope="module")
def one_step():
    problem = question(decisions(300))
    return problem, bondic.estimate_interval(problem)


# --- the page ----------------------------------------------------------------------------------------------------------

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \"quotes' "


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen, self.words, self._skip = [], [], 0

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self._skip += tag in ("script", "style")

    def handle_endtag(self, tag):
        self._skip -= tag in ("script", "style")

    def handle_data(self, data):
        if not self._skip:
            self.words.append(data)


def parse(page):
    tags = Tags()
    tags.feed(page)
    return tags


@pytest.fixture(scope="module")
def page(world):
    _, _, problem, result = world
    return report_page(replace(result, notes=(EVIL,)), problem, title=EVIL)


def test_texts_are_escaped_and_nothing_is_loaded(page):
    tags = parse(page)
    names = [tag for tag, _ in tags.seen]
    assert names.count("script") == 1
    assert not {"img", "link", "iframe", "object", "embed", "video", "audio", "source", "base"} & set(names)
    for _, attributes in tags.seen:
        assert not {"src", "href", "srcset", "action", "background", "poster"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert not any(word in page.replace("http-equiv", "") for word in ("http", "url(", "@import"))
    assert "".join(tags.words).count(EVIL) == 3  # title, heading and note


def test_it_shows_the_interval_every_term_and_every_assumption(world, page):
    result = world[3]
    words = " ".join("".join(parse(page).words).split())
    assert " ".join(result.summary().split()) in words
    rows = {name: cells for name, *cells in summarize(result).parts.rows}
    # parts that are 0 at both ends are left out, and rounding that no digit shows
    assert set(rows) == {name for end in result.terms().values() for name, size in end.items() if size} - {"rounding"}
    assert all(word in words for name, cells in rows.items() for word in (name, *cells))
    low, high = map(float, rows["end point"])
    assert low <= result.terms()["lower"]["end point"]
    assert high >= result.terms()["upper"]["end point"]
    assert all(" ".join(item.text.split()) in words for item in result.assumptions)
    assert "rows of the new policy" in words


def test_data_in_scripts_cannot_leave_them():
    text = script_json({"x": "</script><!--", "y": [1.5, "&"]})
    assert "<" not in text
    assert ">" not in text
    assert json.loads(text) == {"x": "</script><!--", "y": [1.5, "&"]}
    with pytest.raises(ValueError, match="Out of range"):
        script_json({"x": math.inf})


@pytest.mark.parametrize("case", ["continuous", "streamed"])
def test_other_questions_have_pages_too(case):
    if case == "streamed":
        log, policy, whole, _ = ask()
        stream = bondic.stream_log(log.columns(), batch_rows=100)
        terms = {"gamma": 0.5, "reward_range": whole.terms.reward_range}
        problem = bondic.make_problem(stream, policy, whole.initial_states, **terms)
        result = bondic.estimate_interval(problem, method=bondic.Dual(radius="paper", gauge=PlugIn(0.02), choices=FEW))
    else:
        log, _, problem, result = ask(case, rows=300, gauge=PlugIn(0.01))
    page = report_page(result, problem, title="t")
    words = "".join(parse(page).words)
    assert "How to check this number" in words
    assert ("log, policy)" in words) == (case == "streamed")
    assert "episodes" in words


def test_a_contradiction_is_said_first():
    _, _, problem, result = ask(rows=2000, radius=1e-3, gauge=PlugIn(1e-4))
    assert result.status is bondic.Status.REJECTED
    page = report_page(result, problem, title="t")
    assert page.index("No answer: the log contradicts the assumptions") < page.index('id="next"')
    assert "proved for this finite log" not in page
    assert 'id="terms"' not in page


def test_a_trivial_answer_shows_no_estimate_and_no_parts_of_it():
    mdp, log, policy, initial = tabular(300, gamma=0.98)
    problem = bondic.make_problem(log, policy, initial, gamma=0.98, reward_range=mdp.reward_range)
    result = bondic.estimate_interval(problem)
    page = report_page(result, problem, title="t")
    assert result.status is bondic.Status.TRIVIAL
    top = page[page.index('id="answer"') : page.index('id="next"')]
    assert "No point estimate" in top
    assert "circle" not in top


def test_without_a_command_line_the_check_names_blanks(world):
    _, _, problem, result = world
    assert ">bondic verify certificate.json LOG</pre>" in report_page(result, problem, title="t")
    bare = report_page(result.without_rows(problem), problem, title="t", no_rows=True)
    assert "bondic verify certificate.json LOG --policy POLICY</pre>" in bare
    with pytest.raises(InvalidInput, match="another log"):
        report_page(result, ask(rows=400)[2], title="x")


# --- what is counted and drawn -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-9.3, 11.2), (5.0, 5.0), (1e-7, 3e-7), (-1e6, 17.0)])
def test_bins_are_round_few_and_complete(low, high):
    bins = range_bins(low, high)
    assert 1 <= len(bins) <= 24
    assert bins.edges[0] <= low
    assert bins.edges[-1] >= high
    assert all(len(f"{abs(edge):.12g}".replace(".", "").strip("0").split("e")[0]) <= 4 for edge in bins.edges)
    assert bins.of(np.array([low - 1, high + 1])).tolist() == [0, len(bins) - 1]


def test_health_counts_what_is_there(world):
    log, _, problem, result = world
    certified = problem.select(*result.rows)
    health = examine(certified, log)
    rows = range(*result.rows)
    assert (health.rows, health.certified, health.dropped) == (len(log), len(rows), 0)
    assert health.episodes == len(set(log.episode_ids.tolist()))
    assert health.terminations == sum(bool(x) for x in log.terminations)
    assert health.truncations == sum(bool(x) for x in log.truncations)
    assert health.copies == 0
    assert health.reward_counts.sum() == len(rows)
    edges = health.reward_bins.edges
    slow = [sum(a <= log.rewards[i] < b for i in rows) for a, b in itertools.pairwise(edges)]
    assert health.reward_counts.tolist() == slow
    for action, use in enumerate(health.actions):
        assert use.rows == sum(int(log.actions[i]) == action for i in rows)
    assert sum(use.target for use in health.actions) == pytest.approx(1.0)
    thin = examine(certified, log, no_rows=True)
    assert set(thin.reward_counts.tolist()) == {c if c >= 5 else 0 for c in slow}


def test_the_policy_is_asked_at_the_logged_states_of_a_one_step_log(one_step):
    problem, _ = one_step
    health = examine(problem)
    assert health.asked_at == "logged states"
    at = np.searchsorted(np.unique(problem.log.observations[:, 0]), problem.log.observations[:, 0])
    wanted = problem.policy.action_probs(problem.log.observations).mean(axis=0)
    assert at.max() == 2
    assert [use.target for use in health.actions] == pytest.approx(wanted.tolist())
    assert min(use.target for use in health.actions) > 0


# --- the logging policy -------------------------------------------------------------------------------------------------


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


# --- other formats -----------------------------------------------------------------------------------------------------


def test_json_csv_and_markdown_hold_the_result(world):
    result = world[3]
    data = json.loads(result.to_json())
    assert data["format"] == "bondic result 1"
    assert (data["low"], data["high"], data["alpha"]) == (result.low, result.high, result.alpha)
    assert data["terms"] == result.terms()
    assert data["status"] == result.status.name
    assert {item["name"] for item in data["assumptions"]} == {item.name for item in result.assumptions}
    documented = set(re.findall(r"`(\w+)`", exports.__doc__)) | {"format"}
    assert set(data) <= documented
    (row,) = csv.DictReader(io.StringIO(result.to_csv()))
    assert tuple(row) == exports.CSV_COLUMNS
    assert (float(row["low"]), float(row["high"])) == (result.low, result.high)
    assert result.to_csv(header=False).count("\n") == 1
    text = result.to_markdown("a | b <i>")
    assert text.startswith("# a \\| b &lt;i&gt;\n")
    assert result.summary() in text.replace("\\", "")
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 4


def test_plots_are_written(world, tmp_path):
    result = world[3]
    png = plots.save_plot(result.plot(), tmp_path / "terms.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    svg = plots.save_plot(result.plot(), tmp_path / "terms.svg").read_text()
    assert "<svg" in svg
    assert "dc:date" not in svg
    with pytest.raises(InvalidInput, match=r"\.png, \.svg or \.pdf"):
        plots.save_plot(result.plot(), tmp_path / "terms.gif")
