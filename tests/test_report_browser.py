"""The page in a real browser: its sliders show points of the curve, it asks nobody for anything, and it fits a phone."""

from __future__ import annotations

from dataclasses import replace

import pytest

import bondic
from bondic.report.page import report_page
from builders import synthetic
from chromium import Chromium, find_chromium

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on the PATH, and none could be installed with apt-get: the page was not opened")
    chromium = Chromium(path, tmp_path_factory.mktemp("browser") / "profile")
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def question():
    mdp, log, policy, initial = synthetic(1200, gamma=0.5)
    return bondic.make_problem(log, policy, initial, gamma=0.5, reward_range=mdp.reward_range)


@pytest.fixture(scope="module")
def file(question, tmp_path_factory):
    """The page of an interval with parts and an assumption."""
    result = bondic.estimate_interval(question, method=bondic.Sequential(radius="paper"))
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_page(result, question, title="<i>sequential</i>"), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_sticks_out_and_both_themes_work(browser, file, width):
    colors = set()
    for dark in (False, True):
        browser.window(width, 800, dark=dark, phone=width < 500)
        browser.open(file)
        assert browser.run("document.documentElement.scrollWidth") <= width
        smallest = browser.run(
            "Math.min(...[...document.querySelectorAll('p, td, li, text, dt, dd, label')]"
            ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
        )
        assert smallest >= 12
        colors.add(browser.run("getComputedStyle(document.body).backgroundColor"))
        browser.run("document.getElementById('theme').click()")
        colors.add(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert len(colors) == 2


def test_hostile_titles_do_nothing_and_no_request_leaves_the_page(browser, question, tmp_path):
    evil = "</title></script><img src=x onerror='window.broken=1'><script>window.broken=1</script>"
    file = tmp_path / "evil.html"
    result = bondic.estimate_interval(question, method=bondic.Sequential(radius="paper"))
    file.write_text(report_page(replace(result, notes=(evil,)), question, title=evil), encoding="utf-8")
    browser.errors.clear()
    browser.open(file)
    assert browser.run("window.broken") is None
    assert browser.run("document.querySelector('h1').textContent") == evil
    # the page may not reach out even if something on it tried to
    assert browser.run("fetch('data:text/plain,x').then(() => 'sent', () => 'refused')") == "refused"
    browser.errors[:] = [words for words in browser.errors if "data:text/plain" not in words]
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert browser.errors == []


def test_the_sliders_of_allowances_show_points_of_the_curve(browser, question, tmp_path):
    problem = question
    unstated = bondic.estimate_interval(problem, method=bondic.Groups())
    stated = unstated.with_allowance((unstated.curve.averages[2], unstated.curve.singles[0]))
    browser.errors.clear()
    for found in (unstated, stated):
        file = tmp_path / "report.html"
        file.write_text(report_page(found, problem, title="groups"), encoding="utf-8")
        browser.window(390, 800, phone=True)
        browser.open(file)
        assert browser.run("document.documentElement.scrollWidth") <= 390
        shown = "[document.getElementById('allow-low'), document.getElementById('allow-high')].map(e => Number(e.dataset.value))"
        assert browser.run(shown) == list(found.at(found.allowance or 0.0).ends)
        rows = browser.run("JSON.parse(document.getElementById('bondic-data').textContent).rows.length")
        assert rows == len(found.curve.averages)
        for row, average in enumerate(found.curve.averages):
            browser.type_into("allow-averages", row)
            for column, single in enumerate((average, *found.curve.singles)):
                browser.type_into("allow-single", column)
                assert browser.run(shown) == list(found.at((average, max(average, single))).ends)
        point = found.at(found.curve.averages[1])
        browser.type_into("allow-single", 0)
        browser.type_into("allow-threshold", point.low - 1e-9)
        assert float(browser.run("document.getElementById('allow-break').dataset.value")) == point.averages
        assert browser.errors == []
