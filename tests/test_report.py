"""The page for whoever decides: it says what bondic says, shows no row that is withheld, and loads nothing."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from dataclasses import dataclass, replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bondic
from bondic.bounds.part_sums import weights_at_rows
from bondic.errors import InvalidInput, VerificationError
from bondic.report import exports, plots
from bondic.report.bins import range_bins, round_bins
from bondic.report.document import script_json
from bondic.report.health import examine
from bondic.report.page import report_page
from bondic.report.support import column_names, find_support
from builders import continuous, synthetic, tabular

FEW = bondic.Choices(pairs=24)


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
    log, policy, problem, result = ask(gauge=bondic.PlugIn(0.02))
    return log, policy, problem, result, bondic.result_frontier(result, problem)


# --- the frontier ------------------------------------------------------------------------------------------------------


def by_hand(data, radius, alpha):
    """F-+(r, alpha) from the exported numbers: plain floats, one formula at a time."""
    log_term = math.log(2 / (alpha * data["shares"]["noise"]))
    law = data["noise"]
    if law["kind"] == "root":
        eps = math.sqrt(2 * law["variance"] * log_term * law["planned"]) / law["rows"]
    else:
        eps = (log_term + law["rate"] ** 2 * law["charge"] / 8) / (law["rate"] * law["rows"])
    start, law = 0.0, data["initial"]
    if law["kind"] == "mean":
        start = law["width"] * math.sqrt(
            math.log(law["sides"] / (alpha * data["shares"]["initial"])) * law["square"] / 2
        )
    elif law["kind"] == "any":
        found = []
        for j in range(1, 25):
            level = math.log(law["sides"] * j * (j + 1) / (alpha * data["shares"]["initial"]))
            rate = math.sqrt(8 * level / 4 ** (j - 1)) / law["width"]
            found.append(level / rate / law["count"] + rate * law["width"] ** 2 / 8)
        start = min(found)
    low, high = -math.inf, math.inf
    for down, up, size, norm, slack, beta in data["points"]:
        spread = radius * size + eps * norm + slack + start + beta
        low = low if data["side"] == "upper" else max(low, down - spread)
        high = high if data["side"] == "lower" else min(high, up + spread)
    return low, high


CASES = {
    "half": {},
    "range": {"gauge": "range"},
    "paper": {"gauge": "paper"},
    "plug-in": {"gauge": "plug-in"},
    "stopping time": {"planned_rows": 600},
    "horizon": {"terms": {"horizon": 6}},
    "starts sampled": {"starts": "sample"},
    "starts of the log": {"starts": "log"},
    "lower end": {"side": "lower", "starts": "sample"},
    "misspecified": {"misspecification": 0.01, "gauge": bondic.PlugIn(0.02)},
    "continuous": {"kind": "continuous", "rows": 300, "gauge": bondic.PlugIn(0.01)},
    "radius 0": {"radius": 0.0},
}


@pytest.mark.parametrize("name", CASES)
def test_the_exported_numbers_give_the_interval_of_every_gauge_and_start(name):
    _, _, problem, result = ask(**CASES[name])
    frontier = bondic.result_frontier(result, problem)
    data = json.loads(json.dumps(frontier.to_dict()))
    limits = frontier.value_range
    assert data["range"] == [limits.low, limits.high]
    for radius, alpha in itertools.product((0.03, frontier.radius, 8.0), (0.001, 0.1, 0.6)):
        low, high = frontier.ends(radius, alpha)
        assert by_hand(data, radius, alpha) == pytest.approx((low, high), rel=1e-11, abs=1e-11)
        assert frontier.interval(radius, alpha) == (max(low, limits.low), min(high, limits.high))
    if result.status is bondic.Status.REJECTED:
        assert frontier.contradicted(frontier.radius)
        return
    low, high = frontier.interval(frontier.radius)
    assert (low, high) == pytest.approx((result.low, result.high), abs=1e-6 * (1 + result.length))
    assert low >= result.low - 1e-13 * (1 + abs(low))
    assert high <= result.high + 1e-13 * (1 + abs(high))


def test_the_interval_is_nested_in_the_radius_and_in_alpha(world):
    frontier = world[4]
    for radius in np.geomspace(0.1, 1000, 7) * frontier.radius / 10:
        ends = [frontier.interval(radius, alpha) for alpha in (1e-6, 1e-3, 0.05, 0.3, 0.9)]
        assert all(a[0] <= b[0] and a[1] >= b[1] for a, b in itertools.pairwise(ends))
        assert ends[0] != ends[-1] or radius > 10 * frontier.radius
    for alpha in (0.01, 0.4):
        ends = [frontier.interval(radius, alpha) for radius in np.geomspace(0.1, 1000, 9)]
        assert all(a[0] >= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(ends))


def test_another_alpha_gives_the_interval_that_would_have_been_estimated(world):
    _, _, problem, _, frontier = world
    method = bondic.Dual(radius="paper", gauge=bondic.PlugIn(0.02), choices=FEW)
    other = bondic.estimate_interval(problem, alpha=0.01, method=method)
    low, high = frontier.interval(frontier.radius, 0.01)
    assert low == pytest.approx(other.low, abs=0.01 * other.length)
    assert high == pytest.approx(other.high, abs=0.01 * other.length)


@pytest.mark.parametrize("side", ["above", "below"])
def test_the_breakdown_alpha_is_where_the_decision_breaks(world, side):
    frontier = world[4]
    low, high = frontier.interval(frontier.radius, 0.02)
    alpha = frontier.breakdown_alpha(**{side: low if side == "above" else high})
    assert alpha == pytest.approx(0.02, rel=1e-6)
    index, sign = (0, 1) if side == "above" else (1, -1)
    threshold = low if side == "above" else high
    assert sign * (frontier.interval(frontier.radius, alpha)[index] - threshold) > 0
    assert sign * (frontier.interval(frontier.radius, alpha * 0.999)[index] - threshold) < 0
    assert frontier.breakdown_alpha(above=frontier.value_range.high) == 1.0
    assert frontier.breakdown_alpha(above=frontier.value_range.low - 1) < 1e-8
    smaller = frontier.breakdown_radius(**{side: threshold}, alpha=0.01)
    assert smaller < frontier.breakdown_radius(**{side: threshold}, alpha=0.05)


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_a_one_sided_bound_leaves_the_other_end_alone(side):
    _, _, problem, result = ask(gauge=bondic.PlugIn(0.02), side=side)
    frontier = bondic.result_frontier(result, problem)
    low, high = frontier.interval(frontier.radius)
    limits = frontier.value_range
    if side == "lower":
        assert (low > limits.low, high) == (True, limits.high)
        assert frontier.breakdown_radius(above=low - 0.1) > frontier.radius
        assert frontier.breakdown_radius(below=high - 0.1) == 0.0
    else:
        assert (low, high < limits.high) == (limits.low, True)
        assert frontier.breakdown_radius(below=high + 0.1) > frontier.radius
        assert frontier.breakdown_radius(above=low + 0.1) == 0.0


def test_the_search_of_the_result_is_used_again_and_leaves_with_the_rows(world):
    _, _, problem, result, frontier = world
    again = bondic.result_frontier(replace(result, search=None), problem)
    assert frontier.to_dict() == again.to_dict()
    assert result.without_rows(problem).search is None
    model = replace(result.search.model, balance=result.search.model.balance * 0.5)
    broken = replace(result.search, model=model)  # proposals are certified whatever they come from
    weaker = bondic.result_frontier(replace(result, search=broken), problem)
    low, high = weaker.ends(frontier.radius * 3)
    best_low, best_high = frontier.ends(frontier.radius * 3)
    assert low <= best_low + 1e-9
    assert high >= best_high - 1e-9


def test_a_result_of_another_log_is_refused(world):
    _, _, _, result, frontier = world
    _, _, other, _ = ask(rows=400)
    with pytest.raises(InvalidInput, match="another log"):
        bondic.result_frontier(result, other)
    with pytest.raises(InvalidInput, match="another log"):
        report_page(result, other, title="x", sensitivity=frontier)


@bondic.register("noise", "test-own")
@dataclass(frozen=True)
class OwnGauge(bondic.Uniform):
    """A noise bound whose formula pages do not know."""

    guarantee = "none"

    def epsilon(self, facts, probability):
        return bondic.Pinelis().epsilon(facts, probability) * 0.1

    def p_value(self, facts, epsilon):
        return bondic.Pinelis().p_value(facts, epsilon / 0.1)

    def describe(self):
        return "a tenth of Hoeffding's bound"


def test_a_noise_bound_without_a_known_formula_keeps_its_alpha():
    _, _, problem, result = ask(gauge=OwnGauge())
    frontier = bondic.result_frontier(result, problem)
    data = frontier.to_dict()
    assert data["noise"] == {"kind": "fixed", "epsilon": frontier.setting.epsilon().upper}
    assert "α cannot be changed" in report_page(result, problem, title="t", sensitivity=frontier)


def test_feature_functions_of_the_caller_are_handed_through():
    def waves(x):
        return np.column_stack([np.cos(k * x[:, 0] + p) for k in range(1, 6) for p in (0.0, 1.0)]) / 4

    kernel = bondic.ExplicitFeatures(waves, 1.0, "waves") * bondic.Dirac(on="action") + bondic.Constant(0.2)
    _, _, problem, result = ask(instruments=bondic.Instruments(kernel), gauge=bondic.PlugIn(0.002))
    page = report_page(result, problem, title="t")
    assert "How evenly the weight is spread" in page


def test_witnesses_speak_against_small_radii():
    _, _, problem, result = ask(rows=2000, radius=3.0, gauge=bondic.PlugIn(1e-3))
    frontier = bondic.result_frontier(result, problem)
    assert 0 < frontier.floor == result.rejection.minimal_radius < frontier.radius
    below, above = frontier.floor * 0.999, frontier.radius
    assert frontier.contradicted(below)
    assert frontier.contradicted(below, 0.5)
    assert not frontier.contradicted(above)
    low, high = frontier.interval(below, 0.001)
    assert frontier.contradicted(below, 0.001) == (low > high)


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
    log, _, problem, result, frontier = world
    return report_page(result, problem, title=EVIL, sensitivity=frontier, log=log, columns=[EVIL])


def test_texts_are_escaped_and_nothing_is_loaded(page):
    tags = parse(page)
    assert len(page.encode()) < 2_000_000
    assert [tag for tag, _ in tags.seen].count("script") == 2
    assert not {"img", "link", "iframe", "object", "embed", "video", "audio", "source", "base"} & {
        t for t, _ in tags.seen
    }
    for _, attributes in tags.seen:
        assert not {"src", "href", "srcset", "action", "background", "poster"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert "http" not in page.replace("http-equiv", "")
    assert "url(" not in page
    assert "@import" not in page
    assert EVIL in "".join(tags.words)
    assert any("alert(1)" in word for word in tags.words)


def test_it_is_made_for_phones_both_themes_and_paper(page):
    metas = [attributes for tag, attributes in parse(page).seen if tag == "meta"]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in metas
    assert any(m.get("http-equiv") == "Content-Security-Policy" and "default-src 'none'" in m["content"] for m in metas)
    for words in ("prefers-color-scheme: dark", "@media print", "max-width: 640px", '<html lang="en">'):
        assert words in page


def test_it_shows_the_interval_every_term_every_assumption_and_the_hashes(world, page):
    result = world[3]
    words = " ".join("".join(parse(page).words).split())
    assert " ".join(result.summary().split()) in words
    rows = {name: cells for name, *cells in result.view().parts.rows}
    # parts that are 0 at both ends are left out, and rounding that no digit shows
    assert set(rows) == {name for end in result.terms().values() for name, size in end.items() if size} - {"rounding"}
    for name, cells in rows.items():
        assert name in words
        assert all(cell in words for cell in cells)
    low, high = map(float, rows["end point"])
    assert low <= result.terms()["lower"]["end point"]
    assert high >= result.terms()["upper"]["end point"]
    for item in result.assumptions:
        assert " ".join(item.text.split()) in words
    for value in result.hashes.values():
        assert value in words
    assert "before looking" in words


def test_data_in_scripts_cannot_leave_them():
    text = script_json({"x": "</script><!--", "y": [1.5, "&"]})
    assert "<" not in text
    assert ">" not in text
    assert json.loads(text) == {"x": "</script><!--", "y": [1.5, "&"]}
    with pytest.raises(ValueError, match="Out of range"):
        script_json({"x": math.inf})


@pytest.mark.parametrize("case", ["tabular", "continuous", "trivial", "streamed"])
def test_other_questions_have_pages_too(case):
    if case == "streamed":
        log, policy, whole, _ = ask()
        stream = bondic.stream_log(log.columns(), batch_rows=100)
        terms = {"gamma": 0.5, "reward_range": whole.terms.reward_range}
        problem = bondic.make_problem(stream, policy, whole.initial_states, **terms)
        result = bondic.estimate_interval(
            problem, method=bondic.Dual(radius="paper", gauge=bondic.PlugIn(0.02), choices=FEW)
        )
    elif case == "trivial":
        log, _, problem, result = ask("tabular", rows=40)
        assert result.status is bondic.Status.TRIVIAL
    else:
        log, _, problem, result = ask(case, rows=300, gauge=bondic.PlugIn(0.01))
    page = report_page(result, problem, title="t", log=None if case == "streamed" else log)
    words = "".join(parse(page).words)
    assert "How to check this number" in words
    assert ("log, policy)" in words) == (case == "streamed")
    assert "episodes" in words


def test_a_contradiction_is_said_first():
    _, _, problem, result = ask(rows=2000, radius=1e-3, gauge=bondic.PlugIn(1e-4))
    assert result.status is bondic.Status.REJECTED
    page = report_page(result, problem, title="t")
    assert "assumptions contradicted" in page
    assert "Do not widen anything" in page


@pytest.mark.parametrize("gauge", ["half", "plug-in"])
def test_only_a_proved_bound_is_called_valid(gauge):
    _, _, problem, result = ask(rows=300, gauge=gauge)
    words = " ".join("".join(parse(report_page(result, problem, title="t")).words).split())
    proved = result.guarantee == "finite-sample"
    assert proved == (gauge == "half")
    assert ("the valid interval for every radius" in words) == proved
    assert ("is proved" in words) == proved
    assert ("holds for all radii at once" in words) == proved
    assert ("none of these intervals has a guarantee" in words) == (not proved)
    assert "Better weights in the searched space could shorten the interval by at most" in words


def test_without_a_command_line_the_check_names_blanks(world):
    _, _, problem, result, frontier = world
    page = report_page(result, problem, title="t", sensitivity=frontier)
    assert '<pre id="verify-command">bondic verify certificate.json LOG</pre>' in page
    bare = report_page(result.without_rows(problem), problem, title="t", sensitivity=frontier, no_rows=True)
    assert "bondic verify certificate.json LOG --policy POLICY</pre>" in bare


# --- what is counted ---------------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=40),
    st.integers(3, 30),
)
@settings(max_examples=150)
def test_bins_are_round_few_and_complete(values, most):
    sample = np.array(values)
    bins = round_bins(sample, most)
    assert 1 <= len(bins) <= most
    assert np.all(np.diff(bins.edges) > 0)
    where = bins.of(sample)
    assert where.min() >= 0
    assert where.max() < len(bins)
    covering = range_bins(float(sample.min()), float(sample.max()), most)
    slack = 1e-9 * (1 + np.abs(sample).max())
    assert covering.edges[0] <= sample.min() + slack
    assert covering.edges[-1] >= sample.max() - slack
    inside = (covering.edges[covering.of(sample)] <= sample + slack) & (
        sample <= covering.edges[covering.of(sample) + 1] + slack
    )
    assert inside.all()
    assert all(len(f"{abs(edge):.12g}".replace(".", "").strip("0").split("e")[0]) <= 9 for edge in covering.edges)


def test_health_counts_what_is_there(world):
    log, _, problem, result, _ = world
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


def test_the_map_shows_mean_weights_and_drops_thin_cells(world):
    _, _, problem, result, _ = world
    certified = problem.select(*result.rows)
    omega = bondic.KernelFunction(
        bondic.Gaussian(0.5), problem.layout, problem.whole().logged[:3], np.ones((3, problem.layout.slots))
    )
    found = find_support(certified, omega, names=column_names(problem.layout), no_rows=False)
    weights, _ = weights_at_rows(certified.whole(), omega)
    points = np.column_stack([certified.whole().logged, certified.whole().slots])
    (x, y), (x_bins, y_bins) = found.axes, found.bins
    slow_counts, slow_sums = np.zeros(found.counts.shape), np.zeros(found.counts.shape)
    for point, weight in zip(points, weights, strict=True):
        i, j = (
            min(max(sum(edge <= point[k] for edge in bins.edges) - 1, 0), len(bins) - 1)
            for k, bins in ((x, x_bins), (y, y_bins))
        )
        slow_counts[i, j] += 1
        slow_sums[i, j] += weight
    np.testing.assert_array_equal(found.counts, slow_counts)
    np.testing.assert_allclose(found.sums, slow_sums, rtol=1e-12, atol=1e-12)
    assert found.heavy[0].row == certified.whole().log_rows[np.argmax(np.abs(weights))]
    hidden = find_support(certified, omega, names=column_names(problem.layout), no_rows=True)
    assert hidden.heavy == ()
    assert hidden.suppressed == ((slow_counts > 0) & (slow_counts < 5)).sum() > 0
    assert not ((hidden.counts > 0) & (hidden.counts < 5)).any()


def test_the_columns_that_explain_omega_are_found(rng):
    states = rng.normal(size=(400, 4))
    log = bondic.Transitions(states, rng.integers(0, 2, 400), rng.random(400), states + 0.1, np.zeros(400, dtype=bool))
    problem = bondic.make_problem(
        log, bondic.UniformPolicy(2), bondic.InitialStates.exact(states[:3]), gamma=0.5, reward_range=(0.0, 1.0)
    )
    omega = bondic.FeatureFunction(bondic.Linear(1e3), problem.layout, np.array([0.0, 3.0, 0.0, 1.0]))
    found = find_support(problem, omega, names=column_names(problem.layout, ["a", "b", "c", "d"]), no_rows=True)
    assert [found.names[k] for k in found.axes] == ["b", "d"]
    assert found.explained[0] > 0.7 > 0.2 > found.explained[1]


# --- rows that are withheld --------------------------------------------------------------------------------------------


def numbers_in(text):
    return {float(word) for word in re.findall(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?", text)}


def test_no_single_row_is_on_a_page_without_rows(world):
    log, _, problem, result, frontier = world
    raw = {
        float(f"{v:.6g}") for column in (log.observations, log.rewards, log.next_observations) for v in column.ravel()
    }
    raw |= {float(v) for column in (log.observations, log.rewards, log.next_observations) for v in column.ravel()}
    weights, _ = weights_at_rows(problem.select(*result.rows).whole(), frontier_omega(result))
    raw |= {float(f"{v:.6g}") for v in weights}
    without = report_page(result.without_rows(problem), problem, title="t", sensitivity=frontier, log=log, no_rows=True)
    data = re.search(r'id="bondic-data">(.*?)</script>', without)[1]
    shown = " ".join(parse(without).words)  # titles of cells and bars included
    stated = {0.0} | {float(f"{v:.6g}") for v in problem.terms.reward_range}
    stated |= {v for end in result.terms().values() for v in numbers_in(" ".join(f"{x:.6g}" for x in end.values()))}
    assert not (numbers_in(shown) | numbers_in(data)) & (raw - stated)
    assert "Single rows are withheld" in without
    hidden = re.search(r"(\d+) cells with fewer than 5 rows are not shown", without)
    assert int(hidden[1]) > 0
    cells = re.findall(r"mean weight (\S+), (\S+)% of the rows", shown)
    assert min(float(share) for _, share in cells) >= 100 * 5 / len(problem) * 0.9
    with_rows = report_page(result, problem, title="t", sensitivity=frontier, log=log)
    assert len(numbers_in(" ".join(parse(with_rows).words)) & (raw - stated)) >= 10


@given(
    st.lists(st.integers(-30, 30), min_size=1, max_size=120),
    st.sampled_from([1.0, 0.37, 1e7]),
    st.integers(1, 4),
    st.floats(1.0, 1e9),
)
@settings(max_examples=300)
def test_a_few_extreme_rows_leave_no_mark_on_the_axes(values, unit, count, beyond):
    """Up to four rows that lie beyond all others may lie anywhere: the axes stay what they are."""
    inside = np.array(values) * unit
    near = np.concatenate([inside, inside.max() + unit * np.arange(1, count + 1)])
    far = np.concatenate([inside, inside.max() + beyond * np.arange(1, count + 1) * (1 + unit)])
    for one, other in ((near, far), (-near, -far)):
        a, b = round_bins(one, fewest=5), round_bins(other, fewest=5)
        np.testing.assert_array_equal(a.edges, b.edges)
        assert a.whole == b.whole
        assert a.of(one).max() < len(a)


def test_one_old_patient_is_not_on_the_axis():
    ages = np.concatenate([np.repeat(np.arange(20.0, 35.0), 6), [41.0]])
    assert round_bins(ages).edges[-1] == 41.5
    bins = round_bins(ages, fewest=5)
    assert (bins.label(0), bins.label(len(bins) - 1)) == ("20", "34")
    rng = np.random.default_rng(5)
    states = np.column_stack([rng.permutation(ages), np.zeros(ages.size)])
    log = bondic.Transitions(
        states, rng.integers(0, 2, ages.size), rng.random(ages.size), states[::-1], np.zeros(ages.size, dtype=bool)
    )
    start = bondic.InitialStates.exact(states[:1])
    problem = bondic.make_problem(log, bondic.UniformPolicy(2), start, gamma=0.5, reward_range=(0.0, 1.0))
    omega = bondic.FeatureFunction(bondic.Linear(1e4), problem.layout, np.array([1.0, 0.0]))
    shown = [find_support(problem, omega, names=("age", "x", "action"), no_rows=hide) for hide in (False, True)]
    labels = [{bins.label(k) for bins in found.bins for k in range(len(bins))} for found in shown]
    assert "41" in labels[0]
    assert not {str(age) for age in range(35, 42)} & labels[1]


@pytest.mark.parametrize("visits", [4, 5])
def test_a_state_counts_once_however_often_a_visit_names_it(visits):
    """State 9 is the next state of one row and the logged state of the row after it: `visits` rows share it, not twice."""
    path = np.array(([0.0, 1.0, 2.0] * 40 + [9.0]) * visits + [0.0])
    n = path.size - 1
    log = bondic.Transitions(
        path[:-1, None], np.zeros(n, dtype=int), np.linspace(0.0, 1.0, n), path[1:, None], np.zeros(n, dtype=bool)
    )
    start = bondic.InitialStates.exact(np.zeros((1, 1)))
    problem = bondic.make_problem(log, bondic.UniformPolicy(1), start, gamma=0.2, reward_range=(0.0, 1.0))
    instruments = bondic.Instruments(bondic.Dirac(on="state") + 0.2 * bondic.Constant(1.0))
    result = bondic.estimate_interval(problem, method=bondic.Dual(radius="paper", instruments=instruments, choices=FEW))
    assert any(9.0 in array for array in result.certificate.arrays.values() if array.ndim == 2)
    if visits < 5:
        with pytest.raises(InvalidInput, match="1 of them are states of fewer than 5 rows"):
            result.without_rows(problem)
    else:
        assert result.without_rows(problem).certificate is not None


def frontier_omega(result):
    return result.proof.omegas["lower"]


@pytest.mark.parametrize("case", ["exact starts", "starts of the log", "continuous", "streamed", "table"])
def test_a_certificate_without_rows_is_verified_with_the_policy(case, tmp_path):
    options = {"gauge": bondic.PlugIn(0.02)}
    if case == "continuous":
        log, policy, problem, result = ask("continuous", rows=200, **options)
    elif case == "table":
        log, policy, problem, result = ask("tabular", rows=2000, choices=bondic.Choices())
    else:
        log, policy, problem, result = ask(starts="log" if case == "starts of the log" else None, **options)
    if case == "streamed":
        stream = bondic.stream_log(log.columns(), batch_rows=150)
        terms = {"gamma": 0.5, "reward_range": problem.terms.reward_range}
        problem = bondic.make_problem(stream, policy, bondic.InitialStates.from_log(log), **terms)
        result = bondic.estimate_interval(problem, method=bondic.Dual(radius="paper", choices=FEW, **options))
    bare = result.without_rows(problem)
    assert bare.hashes["certificate"] != result.hashes["certificate"]
    bondic.save_certificate(bare.certificate, tmp_path / "c")
    certificate = bondic.load_certificate(tmp_path / "c")
    checked = bondic.verify(certificate, log, policy)
    assert (checked.low, checked.high) == pytest.approx((result.low, result.high), rel=1e-9)
    with pytest.raises(VerificationError, match="Pass the policy"):
        bondic.verify(certificate, log)
    raw = {row.tobytes() for row in log.observations} if case != "table" else set()
    for name, array in certificate.arrays.items():
        # an exact list of initial states is part of the question
        if array.ndim == 2 and array.shape[1] == log.observations.shape[1] and name != "asked.start.observations":
            assert not {row.tobytes() for row in array} & raw
    assert not any(name.startswith("asked.answers.next") for name in certificate.arrays)
    if case in ("starts of the log", "streamed"):
        assert not any(name.startswith(("asked.answers", "asked.start.observations")) for name in certificate.arrays)
        given_states = bondic.InitialStates.from_log(log)
        assert bondic.verify(certificate, log, policy, initial=given_states).low == checked.low
        wrong = bondic.InitialStates.sample(given_states.observations + 0.5)
        with pytest.raises(VerificationError):
            bondic.verify(certificate, log, policy, initial=wrong)


def test_another_policy_does_not_verify_without_rows(world):
    log, _, problem, result, _ = world
    certificate = result.without_rows(problem).certificate
    with pytest.raises(VerificationError):
        bondic.verify(certificate, log, bondic.UniformPolicy(problem.layout.slots))


def test_landmarks_that_are_rows_are_refused():
    instruments = bondic.Instruments(0.2 * bondic.Constant(1.0) + 0.8 * bondic.Gaussian(0.5) * bondic.Dirac())
    _, _, problem, result = ask(rows=200, instruments=instruments, gauge=bondic.PlugIn(0.02))
    with pytest.raises(InvalidInput, match=r"landmark points, and \d+ of them are states of fewer than 5 rows"):
        result.without_rows(problem)


def test_pilot_rows_are_rows_too():
    """A center of Q that was fitted on the pilot would show pilot rows, which no certified row shares."""
    log, _, problem, _ = ask(rows=600)
    values, counts = np.unique(log.observations[:, 0], return_counts=True)
    alone = [x for x in log.observations[:100] if counts[values == x[0]] == 1][:3]
    kernel = bondic.Gaussian(0.5, on="state") * bondic.Dirac(on="action")
    center = bondic.KernelFunction(kernel, problem.layout, np.array(alone), np.full((3, problem.layout.slots), 0.01))
    options = {"ball": bondic.Ball(kernel, 5.0, center=center), "pilot": 0.2, "choices": FEW}
    result = bondic.estimate_interval(problem, method=bondic.Dual(gauge=bondic.PlugIn(0.02), **options))
    assert result.rows[0] > 100
    with pytest.raises(InvalidInput, match="3 of them are states of fewer than 5 rows"):
        result.without_rows(problem)


# --- other formats -----------------------------------------------------------------------------------------------------


def test_json_csv_and_markdown_hold_the_result(world):
    result = world[3]
    data = json.loads(exports.result_json(result))
    assert data["format"] == "bondic result 1"
    assert (data["low"], data["high"], data["alpha"]) == (result.low, result.high, result.alpha)
    assert data["terms"] == result.terms()
    assert data["status"] == result.status.name
    assert {item["name"] for item in data["assumptions"]} == {item.name for item in result.assumptions}
    documented = set(re.findall(r"`(\w+)`", exports.__doc__)) | {"format"}
    assert set(data) <= documented
    (row,) = csv.DictReader(io.StringIO(exports.result_csv(result)))
    assert tuple(row) == exports.CSV_COLUMNS
    assert (float(row["low"]), float(row["high"])) == (result.low, result.high)
    assert exports.result_csv(result, header=False).count("\n") == 1
    text = exports.result_markdown(result, "a | b <i>")
    assert text.startswith("# a \\| b &lt;i&gt;\n")
    assert result.summary() in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 4


def test_one_sided_gaps_are_null_in_json():
    _, _, _, result = ask(rows=200, side="lower")
    assert json.loads(exports.result_json(result))["gap"]["upper"] is None


def test_plots_are_written(world, tmp_path):
    _, _, _, result, frontier = world
    png = plots.save_plot(plots.terms_figure(result), tmp_path / "terms.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert len(png) < 300_000
    svg = [plots.save_plot(plots.sensitivity_figure(frontier, alpha=0.05), tmp_path / f"{k}.svg") for k in "ab"]
    assert "<svg" in svg[0].read_text()
    assert "dc:date" not in svg[0].read_text()
    with pytest.raises(InvalidInput, match=r"\.png, \.svg or \.pdf"):
        plots.save_plot(plots.terms_figure(result), tmp_path / "terms.gif")
