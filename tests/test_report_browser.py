"""The page in a real browser: its numbers are bondic's, it asks nobody for anything, and it fits a phone."""

from __future__ import annotations

import json

import pytest

import bondic
from bondic.report.page import report_page
from builders import continuous, synthetic, tabular
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


LONG = "a_column_with_a_name_that_is_much_longer_than_any_phone_is_wide_" * 2


def make(name):
    """(problem, method): every kind of noise bound and of initial term that the page computes by itself."""
    choices = bondic.Choices(pairs=24)
    if name == "continuous":
        log, policy, initial = continuous(300)
        problem = bondic.make_problem(log, policy, initial, gamma=0.5, reward_range=(-1.0, 1.0))
        return problem, bondic.Dual(radius="paper", gauge=bondic.PlugIn(0.001), choices=choices)
    if name == "table":
        mdp, log, policy, initial = tabular(3000, gamma=0.2)
        return bondic.make_problem(log, policy, initial, gamma=0.2, reward_range=mdp.reward_range), bondic.Dual()
    mdp, log, policy, initial = synthetic(600, gamma=0.5)
    terms = {"gamma": 0.5, "reward_range": mdp.reward_range}
    if name == "starts of the log":
        initial = bondic.InitialStates.sample(log.observations, count_fixed=False)  # as from_log, but more of them
    if name == "horizon":
        terms["horizon"] = 3
    problem = bondic.make_problem(log, policy, initial, **terms)
    gauge = {"half": "half", "paper": "paper", "horizon": "half"}.get(name, bondic.PlugIn(0.003))
    rows = 600 if name == "stopping time" else None
    gauge = "half" if rows else gauge
    side = "lower" if name == "lower end" else "both"
    radius = 0.0 if name == "radius 0" else 3.0 if name in ("half", "stopping time", "horizon") else "paper"
    return problem, bondic.Dual(gauge=gauge, choices=choices, planned_rows=rows, side=side, radius=radius)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages by name, made once: (problem, frontier, file)."""
    known = {}

    def get(name):
        if name not in known:
            problem, method = make(name)
            result = bondic.estimate_interval(problem, method=method)
            frontier = bondic.result_frontier(result, problem)
            file = tmp_path_factory.mktemp("page") / "report.html"
            file.write_text(
                report_page(result, problem, title=f"<i>{name}</i>", sensitivity=frontier), encoding="utf-8"
            )
            known[name] = (result, frontier, file)
        return known[name]

    return get


def reading(browser):
    """Both ends, the radius and alpha as the page holds them."""
    return browser.run(
        "({low: Number(document.getElementById('what-low').dataset.value),"
        " high: Number(document.getElementById('what-high').dataset.value),"
        " radius: bondicReport.state.radius, alpha: bondicReport.state.alpha})"
    )


def agree(page, frontier, radius, alpha):
    low, high = frontier.interval(radius, alpha)
    assert page["low"] == pytest.approx(low, rel=1e-9, abs=1e-9)
    assert page["high"] == pytest.approx(high, rel=1e-9, abs=1e-9)
    assert page["low"] <= low
    assert page["high"] >= high
    return low, high


NAMES = [
    "half",
    "paper",
    "plug-in",
    "stopping time",
    "horizon",
    "starts of the log",
    "lower end",
    "continuous",
    "radius 0",
]


@pytest.mark.parametrize("name", NAMES)
def test_sliders_and_numbers_give_the_interval_of_bondic(browser, pages, name):
    result, frontier, file = pages(name)
    browser.window(1000, 800)
    browser.open(file)
    page = reading(browser)
    assert (page["radius"], page["alpha"]) == (frontier.radius, result.alpha)
    agree(page, frontier, frontier.radius, result.alpha)
    seen = set()
    for step_radius, step_alpha in [(500, 300), (350, 300), (620, 900), (0, 0), (1000, 1000), (430, 640)]:
        browser.type_into("radius-slider", step_radius)
        browser.type_into("alpha-slider", step_alpha)
        page = reading(browser)
        seen.add(agree(page, frontier, page["radius"], page["alpha"]))
    # with the paper's constant no weights help at this size: the value range stands whatever the sliders say
    assert (len(seen) > 1) == (name != "paper"), "the sliders do not move the interval"
    for radius, alpha in [(0.0, 0.05), (1.2345, 1e-7), (50.0, 0.99)]:
        browser.type_into("radius-number", radius)
        browser.type_into("alpha-number", alpha)
        page = reading(browser)
        assert (page["radius"], page["alpha"]) == (radius, alpha)
        agree(page, frontier, radius, alpha)
        beyond = browser.run(f"bondicReport.ends({radius}, {alpha}).map(String)")
        low, high = (float(end.replace("Infinity", "inf")) for end in beyond)
        assert (low, high) == pytest.approx(frontier.ends(radius, alpha), rel=1e-9, abs=1e-9)
        against = browser.run(f"bondicReport.contradicted({radius}, {alpha})")
        assert against == frontier.contradicted(radius, alpha)
    for radius, alpha in [("-1", "2"), ("", "0")]:  # what makes no sense changes nothing
        browser.type_into("radius-number", radius)
        browser.type_into("alpha-number", alpha)
        assert reading(browser) == page
    browser.run("document.getElementById('what-reset').click()")
    agree(reading(browser), frontier, frontier.radius, result.alpha)


@pytest.mark.parametrize("name", ["plug-in", "starts of the log", "lower end"])
@pytest.mark.parametrize("direction", ["above", "below"])
def test_the_breakdown_point_is_that_of_bondic(browser, pages, name, direction):
    result, frontier, file = pages(name)
    browser.open(file)
    browser.type_into("break-direction", direction, "change")
    limits = result.value_range
    for threshold in (
        0.5 * (result.low + limits.low),
        0.5 * (result.high + limits.high),
        limits.low - 1,
        limits.high + 1,
    ):
        browser.type_into("break-threshold", threshold)
        found = browser.run(
            "[document.getElementById('break-radius').dataset.value, document.getElementById('break-alpha').dataset.value]"
        )
        radius = frontier.breakdown_radius(**{direction: threshold})
        alpha = frontier.breakdown_alpha(**{direction: threshold})
        assert float(found[0].replace("Infinity", "inf")) == pytest.approx(radius, rel=1e-9, abs=1e-9)
        assert float(found[1]) == pytest.approx(alpha, rel=1e-6)


def test_the_curve_is_drawn_and_follows_the_sliders(browser, pages):
    _, _, file = pages("plug-in")
    browser.open(file)
    band = "document.querySelector('#curve polygon.band').getAttribute('points')"
    before = browser.run(band)
    assert len(before.split()) > 50
    browser.type_into("alpha-slider", 100)
    assert browser.run(band) != before
    marker = "document.querySelector('#curve .marker').getAttribute('x1')"
    where = browser.run(marker)
    browser.type_into("radius-slider", 700)
    assert float(browser.run(marker)) > float(where)


def test_where_nothing_is_assumed_only_alpha_moves(browser, pages):
    result, frontier, file = pages("table")
    assert result.chosen == ()
    browser.window(1000, 800)
    browser.open(file)
    assert browser.run("document.getElementById('radius-slider') === null && document.getElementById('curve') === null")
    agree(reading(browser), frontier, frontier.radius, result.alpha)
    assert browser.run("document.getElementById('what-verdict').textContent") == "This is the reported interval."
    browser.type_into("alpha-slider", 200)
    page = reading(browser)
    assert page["alpha"] != result.alpha
    agree(page, frontier, frontier.radius, page["alpha"])
    threshold = 0.5 * (result.value_range.low + result.low)
    browser.type_into("break-threshold", threshold)
    found = browser.run("Number(document.getElementById('break-alpha').dataset.value)")
    assert found == pytest.approx(frontier.breakdown_alpha(above=threshold), rel=1e-6)
    browser.run("document.getElementById('what-reset').click()")
    assert reading(browser)["alpha"] == result.alpha
    assert browser.errors == []


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_nothing_sticks_out_and_both_themes_work(browser, pages, width):
    _, _, file = pages("plug-in")
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


def test_paper_is_white_whatever_the_theme(browser, pages):
    _, _, file = pages("plug-in")
    browser.window(1000, 800, dark=True)
    browser.open(file)
    for theme in ("", "dark", "light"):
        browser.run(f"document.documentElement.dataset.theme = {theme!r}")
        browser.call("Emulation.setEmulatedMedia", media="print")
        assert (
            browser.run("getComputedStyle(document.querySelector('section')).backgroundColor") == "rgb(255, 255, 255)"
        )
        assert browser.run("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        browser.call("Emulation.setEmulatedMedia", media="")


def test_hostile_titles_do_nothing_and_no_request_leaves_the_page(browser, pages, tmp_path):
    result, frontier, _ = pages("plug-in")
    problem, _ = make("plug-in")
    evil = "</title></script><img src=x onerror='window.broken=1'><script>window.broken=1</script>"
    file = tmp_path / "evil.html"
    file.write_text(report_page(result, problem, title=evil, columns=[evil], sensitivity=frontier), encoding="utf-8")
    browser.open(file)
    browser.type_into("radius-slider", 400)
    assert browser.run("window.broken") is None
    assert browser.run("document.querySelector('h1').textContent") == evil
    # the page may not reach out even if something on it tried to
    blocked = browser.run("fetch('data:text/plain,x').then(() => 'sent', () => 'refused')")
    assert blocked == "refused"
    browser.errors[:] = [words for words in browser.errors if "data:text/plain" not in words]
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in browser.requests if url == file.as_uri()]) == 1
    assert browser.errors == []


def test_the_numbers_in_the_page_are_those_of_the_frontier(browser, pages):
    _, frontier, file = pages("plug-in")
    browser.open(file)
    stored = browser.run("document.getElementById('bondic-data').textContent")
    assert json.loads(stored) == json.loads(json.dumps(frontier.to_dict()))


def test_the_page_of_a_sequential_interval_has_no_sliders_and_no_errors(browser, tmp_path):
    """Its stacks are enlarged, and nothing is missed by the script."""
    mdp, log, policy, initial = synthetic(1200, gamma=0.5)
    problem = bondic.make_problem(log, policy, initial, gamma=0.5, reward_range=mdp.reward_range)
    result = bondic.estimate_interval(problem, method=bondic.Sequential(radius="paper"))
    assert result.method == "sequential"
    file = tmp_path / "report.html"
    file.write_text(report_page(result, problem, title="sequential"), encoding="utf-8")
    browser.errors.clear()
    for width, phone in ((1000, False), (390, True)):
        browser.window(width, 800, phone=phone)
        browser.open(file)
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.errors == []
    assert browser.run("document.getElementById('what-if')") is None
    wide = "Math.max(...[...document.querySelectorAll('#terms svg rect')].map(e => e.getBoundingClientRect().width))"
    assert browser.run(wide) > 20
    assert "enlarged" in browser.run("document.getElementById('terms').textContent")
    assert "could gain" not in browser.run("document.body.textContent")


def test_the_sliders_of_allowances_show_points_of_the_curve(browser, tmp_path):
    mdp, log, policy, initial = synthetic(1200, gamma=0.5)
    problem = bondic.make_problem(log, policy, initial, gamma=0.5, reward_range=mdp.reward_range)
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
        rows = browser.run("JSON.parse(document.getElementById('bondic-data').textContent).curve.rows.length")
        assert rows == len(found.curve.averages)
        for row, average in enumerate(found.curve.averages):
            browser.type_into("allow-averages", row)
            for column, single in enumerate((average, *found.curve.singles)):
                browser.type_into("allow-single", column)
                assert browser.run(shown) == list(found.at((average, max(average, single))).ends)
        line = [point for point in found.curve.line() if point.status is bondic.Status.INTERVAL]
        browser.type_into("allow-threshold", line[1].low - 1e-9)
        assert float(browser.run("document.getElementById('allow-break').dataset.value")) == line[1].averages
        assert browser.errors == []
