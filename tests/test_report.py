"""The page for whoever decides: it says what bondic says, and loads nothing."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

import bondic
from bondic.core.bounded import Enclosure
from bondic.core.claims import Claim, Part
from bondic.core.errors import InvalidInput
from bondic.core.printed import ends_text, interval_text, last_digit
from bondic.decisions.difference import today_value
from bondic.rendering import three
from bondic.report import exports
from bondic.report.health import examine
from bondic.report.html import script_json
from bondic.report.page import report_page
from bondic.report.pens import result_table
from bondic.robustness import Robustness
from bondic.rows.episodes import recorded_returns
from bondic.summary import summarize
from bondic.tuning.defaults import Advanced
from bondic_lab.noise.plug_in import PlugIn
from builders import continuous, synthetic, tabular
from propensity_cases import BEHAVIOR, REWARD, decisions, question

FEW = Advanced(pairs=24)


def ask(kind="synthetic", rows=600, gamma=0.5, starts=None, terms=None, **options):
    """(log, policy, problem, result) of a small question."""
    if kind == "continuous":
        (log, policy, initial), limits = continuous(rows), (-1.0, 1.0)
    else:
        mdp, log, policy, initial = (synthetic if kind == "synthetic" else tabular)(rows, gamma=gamma)
        limits = mdp.reward_range
    if starts == "log":
        initial = bondic.InitialStates.from_log(log)
    elif starts == "sample":
        initial = bondic.InitialStates.sample(log.observations[:40])
    problem = bondic.make_problem(log, policy, initial, gamma=gamma, reward_range=limits, **(terms or {}))
    options.setdefault("advanced", FEW)
    if kind != "tabular" and "ball" not in options:
        options.setdefault("radius", "paper")
    return log, policy, problem, bondic.estimate_interval(problem, method=bondic.Dual(**options))


@pytest.fixture(scope="module")
def world():
    """(log, policy, problem, result) of a small question."""
    return ask(gauge=PlugIn(0.02))


@pytest.fixture(scope="module")
def stated():
    """The same with an informative answer."""
    return ask(rows=3000, gamma=0.2)


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
    assert ">bondic verify certificate.json LOG --policy POLICY</pre>" in report_page(result, problem, title="t")
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
        found = today_value(question(decisions(200, seed)), 0.1)
        missed += not found.low <= truth <= found.high
    assert missed <= 8
    assert today_value(question(decisions(3)), 0.1) is None


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


# --- every view ----------------------------------------------------------------------------------------------------


def printed(result, verbose=True):
    console = Console(width=200, record=True, file=open("/dev/null", "w"), force_terminal=True)  # noqa: SIM115
    console.print(result_table(result, verbose=verbose))
    text = console.export_text(styles=True)
    console.file.close()
    return text


def test_a_stated_class_is_proved_for_with_its_breakdown_radius(stated):
    _, _, problem, result = stated
    assert result.status is bondic.Status.INTERVAL
    page = report_page(result, problem, title="t")
    top = page[page.index('id="answer"') : page.index('id="terms"')]
    assert '<span class="badge good">proved for this finite log</span>' in top
    assert "no assumption about the value function" not in page
    assert f"says something up to {three(result.robustness.informative_up_to)} times" in top
    assert "stated by you: the radius rule of the paper" in page


def test_json_is_strict_and_says_how_far_a_radius_carries(stated):
    result = stated[3]
    endless = replace(result, robustness=Robustness(2.0, math.inf, math.inf))
    for found in (result, endless):
        data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert [item["state"] for item in data["assumptions"]] == [item.state for item in found.assumptions]
        assert (data["robustness"] is None) == (found.robustness is None)
    assert json.loads(endless.to_json())["robustness"]["breakdown_radius"] is None
    assert result.to_row()["breakdown_radius"] == pytest.approx(result.robustness.breakdown_radius)


@given(st.floats(-1e9, 1e9), st.floats(1e-9, 1e9))
@example(3.81923, 1.18077)
@example(10.000000000000002 - 10.0, 10.000000000000002)
@example(-0.00049, 0.001)
@example(123456.7, 0.01)
@example(0.0759123, 0.0755677)
def test_intervals_in_sentences_are_rounded_outward_and_not_by_much(low, length):
    high = low + length
    if not high > low:
        return
    a, b = (float(word) for word in interval_text(low, high)[1:-1].split(", "))
    hair = 2e-12 * max(abs(low), abs(high))
    room = 0.05 * (high - low) + hair + 1e-14 * max(abs(low), abs(high))
    assert low - room <= a <= low + hair
    assert high - hair <= b <= high + room
    for text, end in zip(ends_text(low, high), (low, high), strict=True):  # a digit that is printed is one of the end
        unit = last_digit(low, high)
        assert abs(float(text) - end) <= unit + hair + 1e-12 * (high - low)
        assert 10.0 ** Decimal(text).as_tuple().exponent >= 0.99 * unit or "." not in text


def test_every_view_draws_parts_that_it_has_never_heard_of(stated):
    """Names, number and order of the parts are the bound's own; the two ends need not have the same ones."""
    _, _, problem, result = stated
    middle = Part("an <odd> average", Enclosure(0.5 * (result.low + result.high)), "value")
    spreads = [Part(f"share {k}", Enclosure(0.01 * (k + 1)), "spread") for k in range(6)]
    extra, detail = Part("only above", Enclosure(0.125), "spread"), Part("how many", Enclosure(7.0), "detail")
    claims = (Claim("lower", (middle, *spreads)), Claim("upper", (middle, *spreads, extra, detail)))
    other = replace(result, claims=claims)
    data = json.loads(other.to_json())
    names = [middle.name, *(part.name for part in spreads), "only above", "rounding", "end point"]
    assert list(data["terms"]["upper"]) == names
    assert data["details"] == {"upper": {"how many": 7.0}}
    row = summarize(other).parts.rows[-2]
    assert (row[0], row[1], float(row[2])) == ("only above", "", pytest.approx(0.125))
    views = (printed(other), other.to_markdown(), other._repr_html_(), report_page(other, problem, title="t"))
    for part in (*spreads, extra):
        assert all(part.name in view for view in views)
    assert ["<odd>" in view for view in views] == [True, False, False, False]


# --- new and today ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["propensities", "table"])
def test_every_view_opens_with_both_values_and_the_result_stays_as_it_was(kind):
    if kind == "table":
        demo = bondic.load_demo()
        log, policy = demo.log, demo.policy
        asked = {"initial": demo.initial, "gamma": demo.gamma, "reward_range": demo.reward_range}
    else:
        problem = question(decisions(2000))
        log, policy, asked = problem.log, problem.policy, {"gamma": 0.0, "reward_range": problem.terms.reward_range}
    plain = bondic.estimate_interval(bondic.make_problem(log, policy, **asked))
    found = bondic.evaluate_policy(log, policy, **asked)
    same = bondic.evaluate_policy(log, policy, against="today", **asked)
    assert (found.low, found.high, found.hashes, found.sentence()) == (
        plain.low, plain.high, plain.hashes, plain.sentence(),
    )  # fmt: skip
    assert (found.today.low, found.today.high, found.today.alpha) == (same.low, same.high, found.alpha)
    assert found.headline() == same.headline() == same.sentence() == str(found)
    assert re.fullmatch(r"New \S+ to \S+, today \S+ to \S+; .+ \(each at 90% confidence\)\.", str(found))
    data = json.loads(found.to_json())
    assert (data["headline"], data["summary"]) == (str(found), plain.summary())
    values = data["comparison"]["values"]
    assert [(one["name"], one["low"]) for one in values] == [("new", found.low), ("today", same.parts[1].low)]
    page = report_page(found, title="t")
    assert "".join(parse(page.partition("</section>")[0]).words).count(str(found)) == 1
    for view in (printed(found, verbose=False), printed(found), found._repr_html_(), found.to_markdown("t")):
        text = re.sub(r"\x1b\[[0-9;]*m|<[^>]*>|\\|\*\*", "", view).replace("# t", "").strip()
        assert text.startswith(str(found))
    assert found.next_steps()[0].kind == "decision"
    words = " ".join("".join(parse(page).words).split())  # the comparison needs more than the value does
    assert all(item.text in words for item in found.today.assumptions if not item.name.startswith("rewards"))
    more = {item.text for item in found.today.assumptions} - {item.text for item in found.assumptions}
    assert any("Today's policy is the one that made the log" in text for text in more)


def test_there_is_no_comparison_where_the_log_does_not_tell_it_cheaply():
    demo = bondic.load_demo()
    asked = {"gamma": demo.gamma, "reward_range": demo.reward_range}
    several = bondic.InitialStates.exact([[0.0], [1.0]])
    log = bondic.Transitions(
        **{name: column[:3000] for name, column in demo.log.columns().items() if column is not None}
    )
    for more in (
        {"initial": several},
        {"method": bondic.Dual()},
        {"method": bondic.Sequential(radius=50.0), "initial": demo.initial, "categorical": False},
    ):
        found = bondic.evaluate_policy(log, demo.policy, **asked, **more)
        assert found.today is None
        assert found.headline() == found.sentence()
    with pytest.raises(InvalidInput, match=r"--against rules\.py:current"):
        bondic.evaluate_policy(demo.log, demo.policy, initial=several, against="today", **asked)


def test_policies_have_the_names_that_the_user_gave():
    problem = question(decisions(2000))
    limits = {"gamma": 0.0, "reward_range": problem.terms.reward_range}

    def cautious(states):
        return np.zeros(len(states), dtype=int)

    def bold(states):
        return np.ones(len(states), dtype=int)

    found = bondic.evaluate_policy(problem.log, bold, against=cautious, **limits)
    assert re.match(r"bold \S+ to \S+, cautious \S+ to \S+; bold is ", str(found))
    other = bondic.evaluate_policy(problem.log, bold, against=lambda states: cautious(states), **limits)
    assert re.match(r"New \S+ to \S+, the other policy \S+ to \S+; ", str(other))
    for view in (found.to_markdown(), report_page(found, title="t")):
        assert "policy 1" not in view
        assert "the other one" not in view
