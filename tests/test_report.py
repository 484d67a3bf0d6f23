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
from bondic.report import exports
from bondic.report.health import examine
from bondic.report.html import script_json
from bondic.report.logged_value import logged_value
from bondic.report.page import report_page
from bondic.rows.recorded import recorded_returns
from bondic.summary import summarize
from bondic.tuning.defaults import Choices
from bondic_lab.noise.plug_in import PlugIn
from builders import continuous, synthetic, tabular
from propensity_cases import BEHAVIOR, REWARD, decisions, question

FEW = Choices(pairs=24)


def ask(kind="synthetic", rows=600, **options):
    """(log, policy, problem, result) of a small question."""
    if kind == "continuous":
        log, policy, initial = continuous(rows)
        terms = {"gamma": 0.5, "reward_range": (-1.0, 1.0)}
    else:
        mdp, log, policy, initial = (synthetic if kind == "synthetic" else tabular)(rows, gamma=0.5)
        terms = {"gamma": 0.5, "reward_range": mdp.reward_range}
    problem = bondic.make_problem(log, policy, initial, **terms)
    options.setdefault("choices", FEW)
    if kind != "tabular" and "ball" not in options:
        options.setdefault("radius", "paper")
    return log, policy, problem, bondic.estimate_interval(problem, method=bondic.Dual(**options))


@pytest.fixture(scope="module")
def world():
    """(log, policy, problem, result) of a small question."""
    return ask(gauge=PlugIn(0.02))


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


def test_without_a_command_line_the_check_names_blanks(world):
    _, _, problem, result = world
    assert ">bondic verify certificate.json LOG</pre>" in report_page(result, problem, title="t")
    bare = report_page(result.without_rows(problem), problem, title="t", no_rows=True)
    assert "bondic verify certificate.json LOG --policy POLICY</pre>" in bare
    with pytest.raises(InvalidInput, match="another log"):
        report_page(result, ask(rows=400)[2], title="x")


# --- what is counted and drawn -----------------------------------------------------------------------------------------


def test_health_counts_what_is_there(world):
    log, _, problem, result = world
    certified, rows = problem.select(*result.rows), range(*result.rows)
    health = examine(certified, log)
    assert (health.rows, health.certified, health.dropped) == (len(log), len(rows), 0)
    assert health.episodes == len(set(log.episode_ids.tolist()))
    assert (health.terminations, health.truncations) == (log.terminations.sum(), log.truncations.sum())
    slow = [sum(a <= log.rewards[i] < b for i in rows) for a, b in itertools.pairwise(health.reward_bins.edges)]
    assert health.reward_counts.tolist() == slow
    assert sum(slow) == len(rows)
    for action, use in enumerate(health.actions):
        assert use.rows == sum(int(log.actions[i]) == action for i in rows)
    assert sum(use.target for use in health.actions) == pytest.approx(1.0)
    thin = examine(certified, log, no_rows=True)
    assert set(thin.reward_counts.tolist()) == {c if c >= 5 else 0 for c in slow}


# --- the logging policy -------------------------------------------------------------------------------------------------


def test_recorded_returns_are_those_of_the_episodes():
    mdp, log, policy, initial = tabular(600, termination=0.3)
    found = recorded_returns(bondic.make_problem(log, policy, initial, gamma=0.8, reward_range=mdp.reward_range))
    groups = [np.flatnonzero(log.episode_ids == episode) for episode in dict.fromkeys(log.episode_ids.tolist())]
    assert found.returns == pytest.approx([math.fsum(0.8 ** np.arange(len(g)) * log.rewards[g]) for g in groups])
    assert found.steps.tolist() == [len(g) for g in groups]
    assert found.ended.tolist() == [bool(log.terminations[g].any()) for g in groups]


def test_the_logging_policy_is_covered():
    """Single decisions: the mean reward is known; at alpha = 0.1 no more than 8 of 40 logs may miss it (p < 0.05)."""
    truth = float((BEHAVIOR * REWARD).sum(axis=1).mean())
    missed = 0
    for seed in range(40):
        found = logged_value(question(decisions(200, seed)), 0.1)
        missed += not found.low <= truth <= found.high
    assert missed <= 8
    assert logged_value(question(decisions(10)), 0.1) is None


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
