"""Who vouches for what, in every view; the digits of a sentence."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

import bondic
from bondic.core.bounded import Enclosure
from bondic.core.claims import Claim, Part
from bondic.core.printed import interval_text
from bondic.rendering import three
from bondic.report.page import report_page
from bondic.report.pens import result_table
from bondic.robustness import Robustness
from bondic.summary import summarize
from bondic.tuning.defaults import Choices
from builders import synthetic, tabular

FEW = Choices(pairs=24)
PROVED, ROUGHER = "proved for this finite log", "Valid if the value function is no rougher than you state"
FREE = "no assumption about the value function"


def ask(kind):
    """(problem, result) of a small question with an informative answer."""
    mdp, log, policy, initial = (synthetic if kind == "numbers" else tabular)(3000, gamma=0.2)
    problem = bondic.make_problem(log, policy, initial, gamma=0.2, reward_range=mdp.reward_range)
    options = {"radius": "paper"} if kind == "numbers" else {}
    return problem, bondic.estimate_interval(problem, method=bondic.Dual(choices=FEW, **options))


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


def test_json_is_strict_and_says_how_far_a_radius_carries(stated, table):
    _, result = stated
    endless = replace(result, robustness=Robustness(2.0, math.inf, math.inf))
    for found in (result, table[1], endless):
        data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert [item["state"] for item in data["assumptions"]] == [item.state for item in found.assumptions]
        assert (data["robustness"] is None) == (found.robustness is None)
    assert json.loads(endless.to_json())["robustness"]["breakdown_radius"] is None
    assert result.to_row()["breakdown_radius"] == pytest.approx(result.robustness.breakdown_radius)


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


# --- names or numbers --------------------------------------------------------------------------------------------------


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
    names = [middle.name, *(part.name for part in spreads), "only above", "rounding", "end point"]
    assert list(data["terms"]["upper"]) == names
    assert data["details"] == {"upper": {"how many": 7.0}}
    row = summarize(other).parts.rows[-2]
    assert (row[0], row[1], float(row[2])) == ("only above", "", pytest.approx(0.125))
    views = (printed(other), other.to_markdown(), other._repr_html_(), report_page(other, problem, title="t"))
    for part in (*spreads, extra):
        assert all(part.name in view for view in views)
    assert ["<odd>" in view for view in views] == [True, False, False, False]
