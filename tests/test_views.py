"""Who vouches for what, in every view; the digits of a sentence."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

import bondic
import bondic_lab
from bondic.core.bounded import Enclosure
from bondic.core.claims import Claim, Part
from bondic.core.printed import bound_text, interval_text
from bondic.rendering import three
from bondic.report.page import report_page
from bondic.report.pens import result_table
from bondic.robustness import Robustness
from bondic.summary import summarize
from bondic.tuning.defaults import Advanced, Choices
from builders import synthetic, tabular

FEW = Advanced(pairs=24)
PROVED, ROUGHER = "proved for this finite log", "Valid if the value function is no rougher than you state"
FREE = "no assumption about the value function"


def ask(kind):
    """(problem, result) of a small question with an informative answer."""
    mdp, log, policy, initial = (synthetic if kind == "numbers" else tabular)(3000, gamma=0.2)
    problem = bondic.make_problem(log, policy, initial, gamma=0.2, reward_range=mdp.reward_range)
    options = {"radius": "paper"} if kind == "numbers" else {}
    return problem, bondic.estimate_interval(problem, method=bondic.Dual(advanced=FEW, **options))


@pytest.fixture(scope="module")
def stated():
    return ask("numbers")


@pytest.fixture(scope="module")
def table():
    return ask("names")


def page_of(world, result=None):
    problem, found = world
    return report_page(found if result is None else result, problem, title="t")


def shown(page):
    """(badges of the answer with their colors, texts of its page)."""
    top = page[page.index('id="answer"') : page.index('id="next"' if 'id="next"' in page else 'id="terms"')]
    return dict(reversed(pair) for pair in re.findall(r'<span class="badge ([a-z]*)">(.*?)</span>', top))


def printed(result):
    console = Console(width=200, record=True, file=open("/dev/null", "w"), force_terminal=True)  # noqa: SIM115
    console.print(result_table(result))
    text = console.export_text(styles=True)
    console.file.close()
    return text


def test_a_stated_class_is_proved_for_with_its_breakdown_radius(stated):
    _, result = stated
    assert result.status is bondic.Status.INTERVAL
    page = page_of(stated)
    assert shown(page)[PROVED] == "good"
    assert FREE not in page
    top = page[page.index('id="answer"') : page.index('id="terms"')]
    assert ROUGHER in top
    assert f"says something up to {three(result.robustness.informative_up_to)} times" in top
    assert "stated by you: the radius rule of the paper" in page


def test_a_table_assumes_nothing(table):
    _, result = table
    assert result.robustness is None
    page = page_of(table)
    badges = shown(page)
    assert (badges[PROVED], badges[FREE]) == ("good", "good")
    assert ROUGHER not in page


def test_what_a_baseline_chooses_is_called_so(stated):
    problem, _ = stated
    found = bondic.estimate_interval(problem, method=bondic_lab.make_baseline("lstd"))
    assert [item.state for item in found.chosen] == ["chosen"]
    for text in (printed(found), found._repr_html_(), page_of(stated, found), found.to_markdown()):
        assert "chosen by the baseline" in text
    assert found.unmet(above=found.low)


def test_json_is_strict_and_says_how_far_a_radius_carries(stated, table):
    _, result = stated
    endless = replace(result, robustness=Robustness(2.0, math.inf, math.inf))
    for found in (result, table[1], endless):
        data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert [item["state"] for item in data["assumptions"]] == [item.state for item in found.assumptions]
        assert (data["robustness"] is None) == (found.robustness is None)
    assert json.loads(endless.to_json())["robustness"]["breakdown_radius"] is None
    assert result.to_row()["breakdown_radius"] == pytest.approx(result.robustness.breakdown_radius)


@pytest.mark.parametrize("place", ["above", "beyond"])
def test_an_estimate_outside_is_shown_and_named(stated, place):
    problem, result = stated
    far = 0.5 * (result.high + result.value_range.high) if place == "above" else result.value_range.high + 1.0
    outside = replace(result, estimate=far)
    page = page_of((problem, outside))
    assert ("beyond the range" in page[: page.index('id="terms"')]) == (place == "beyond")
    for text in (page, printed(outside), outside._repr_html_(), outside.to_markdown()):
        assert "the interval: it has no guarantee" in text
    assert "it has no guarantee" not in printed(result)
    assert [found.to_dict()["estimate_in_interval"] for found in (result, outside)] == [True, False]
    labels = [text.get_text() for text in outside.plot().axes[0].get_legend().get_texts()]
    assert "estimate (outside the interval)" in labels


# --- digits ------------------------------------------------------------------------------------------------------------


@given(st.floats(-1e9, 1e9), st.floats(1e-9, 1e9))
@example(3.81923, 1.18077)
@example(10.000000000000002 - 10.0, 10.000000000000002)
@example(-0.00049, 0.001)
@example(123456.7, 0.01)
def test_intervals_in_sentences_are_rounded_outward_and_not_by_much(low, length):
    high = low + length
    if not high > low:
        return
    a, b = (float(word) for word in interval_text(low, high)[1:-1].split(", "))
    hair = 2e-12 * max(abs(low), abs(high))
    room = 0.05 * (high - low) + hair + 1e-14 * max(abs(low), abs(high))
    assert low - room <= a <= low + hair
    assert high - hair <= b <= high + room


@given(*[st.floats(allow_nan=False, allow_infinity=False)] * 2)
@example(0.0, 1.5e-323)
@example(-5e-324, 5e-324)
@example(2.2250738585072014e-308, 2.2250738585072024e-308)
@example(-1.7976931348623157e308, 1.7976931348623157e308)
@example(1.0, 1.0)
def test_every_finite_interval_can_be_written(one, other):
    low, high = sorted((one, other))
    a, b = (float(word) for word in interval_text(low, high)[1:-1].split(", "))
    assert a <= low + 2e-12 * abs(low)
    assert b >= high - 2e-12 * abs(high)


def test_ends_have_three_digits_and_ends_of_the_range_stay_round():
    assert interval_text(3.819228, 5.000000000000001) == "[3.81, 5]"
    assert interval_text(10.0012, 10.0034) == "[10.0012, 10.0034]"
    assert interval_text(4.32235, 4.60268) == "[4.32, 4.61]"
    assert interval_text(-0.79951, 2.358921) == "[-0.80, 2.36]"
    assert interval_text(4.3501, 4.5268) == "[4.350, 4.527]"
    assert interval_text(0.0, 33.334) == "[0, 33.4]"
    assert interval_text(1e-9, 3e-9) == "[1e-09, 3e-09]"
    assert bound_text(0.0, 1) == "0"
    assert bound_text(1234567.0, 1) == "1240000"
    assert (three(1260.4), three(96.39), three(0.012345)) == ("1260", "96.4", "0.0123")


# --- names or numbers --------------------------------------------------------------------------------------------------


def test_evaluate_policy_takes_a_statement_on_the_states():
    mdp, log, policy, initial = tabular(600, gamma=0.2)
    asked = {"gamma": 0.2, "reward_range": mdp.reward_range, "initial": initial}
    table = bondic.evaluate_policy(log, policy, categorical=True, **asked)
    numbers = bondic.evaluate_policy(
        log, policy, categorical=False, method=bondic.Dual(radius="paper", advanced=FEW), **asked
    )
    column = bondic.evaluate_policy(log, policy, categorical=np.array([0]), **asked)
    assert "as you stated" in table.choices["states"]
    assert table.low == column.low
    assert table.chosen == ()
    assert numbers.choices["states"] == "states are numbers, as you stated"
    assert numbers.chosen == ()
    with pytest.raises(bondic.InvalidInput, match="Lstd takes states"):
        bondic.evaluate_policy(log, policy, categorical=True, method=bondic_lab.make_baseline("lstd"), **asked)
    stated = bondic.Dual(choices=Choices(categorical=False), advanced=FEW)
    with pytest.raises(bondic.InvalidInput, match="Keep one of them"):
        bondic.evaluate_policy(log, policy, categorical=True, method=stated, **asked)


# --- a bound of another kind -------------------------------------------------------------------------------------------


def test_every_view_draws_parts_that_it_has_never_heard_of(stated):
    """Names, number and order of the parts are the bound's own; the two ends need not have the same ones."""
    problem, result = stated
    middle = Part("an <odd> average", Enclosure(0.5 * (result.low + result.high)), "value")
    spreads = [Part(f"share {k}", Enclosure(0.01 * (k + 1)), "spread") for k in range(6)]
    extra, detail = Part("only above", Enclosure(0.125), "spread"), Part("how many", Enclosure(7.0), "detail")
    claims = (Claim("lower", (middle, *spreads)), Claim("upper", (middle, *spreads, extra, detail)))
    other = replace(result, claims=claims)
    data = json.loads(other.to_json())
    assert list(data["terms"]["upper"]) == [
        middle.name,
        *(p.name for p in spreads),
        "only above",
        "rounding",
        "end point",
    ]
    assert data["details"] == {"upper": {"how many": 7.0}}
    text, markdown, fragment = printed(other), other.to_markdown(), other._repr_html_()
    page = report_page(other, problem, title="t")
    row = summarize(other).parts.rows[-2]
    assert (row[0], row[1], float(row[2])) == ("only above", "", pytest.approx(0.125))
    assert summarize(other).parts.rows[-1][0] == "end point"
    coarse = replace(middle, size=Enclosure(middle.size.mid, 0.01))
    rounded = replace(result, claims=tuple(Claim(end, (coarse, *spreads)) for end in ("lower", "upper")))
    assert [line[0] for line in summarize(rounded).parts.rows[-2:]] == ["rounding", "end point"]
    for part in (*spreads, extra):
        assert all(part.name in view for view in (text, markdown, fragment, page))
    assert "an <odd> average" in text
    assert "<odd>" not in markdown + fragment + page
    assert "an &lt;odd&gt; average, the start of each stack" in page
    labels = [text.get_text() for text in other.plot().axes[0].get_legend().get_texts()]
    assert {part.name for part in (*spreads, extra)} <= set(labels)


def test_an_end_that_does_not_split_has_no_table(stated):
    _, result = stated
    whole = replace(result, claims=(Claim("lower", (Part("end point as found", Enclosure(0.1), "value"),)),))
    assert summarize(whole).parts is None
    assert whole.terms() == {}
    for view in (printed(whole), whole.to_markdown(), whole._repr_html_()):
        assert "end point" not in view
        assert "searched space" not in view
