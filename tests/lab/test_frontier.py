"""The curve over radii and alpha: nested, true to the interval it came from, and where a decision breaks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import bondic
import bondic_lab
from bondic.methods.dual import Dual
from bondic.tuning.defaults import Advanced
from bondic_lab.noise.plug_in import PlugIn
from builders import world_problem
from test_report import ask


@pytest.fixture(scope="module")
def world():
    _, _, problem, result = ask(gauge=PlugIn(0.02))
    return problem, result, bondic_lab.result_frontier(result, problem)


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
    "misspecified": {"misspecification": 0.01, "gauge": PlugIn(0.02)},
    "continuous": {"kind": "continuous", "rows": 300, "gauge": PlugIn(0.01)},
    "radius 0": {"radius": 0.0},
}


@pytest.mark.parametrize("name", CASES)
def test_the_curve_holds_the_interval_that_it_came_from(name):
    _, _, problem, result = ask(**CASES[name])
    frontier = bondic_lab.result_frontier(result, problem)
    limits = frontier.value_range
    for radius, alpha in itertools.product((0.03, frontier.radius, 8.0), (0.001, 0.1, 0.6)):
        low, high = frontier.ends(radius, alpha)
        assert frontier.interval(radius, alpha) == (max(low, limits.low), min(high, limits.high))
    if result.status is bondic.Status.REJECTED:
        assert frontier.contradicted(frontier.radius)
        return
    low, high = frontier.interval(frontier.radius)
    assert (low, high) == pytest.approx((result.low, result.high), abs=1e-6 * (1 + result.length))
    assert low >= result.low - 1e-13 * (1 + abs(low))
    assert high <= result.high + 1e-13 * (1 + abs(high))


def test_the_interval_is_nested_in_the_radius_and_in_alpha(world):
    frontier = world[2]
    for radius in np.geomspace(0.1, 1000, 7) * frontier.radius / 10:
        ends = [frontier.interval(radius, alpha) for alpha in (1e-6, 1e-3, 0.05, 0.3, 0.9)]
        assert all(a[0] <= b[0] and a[1] >= b[1] for a, b in itertools.pairwise(ends))
        assert ends[0] != ends[-1] or radius > 10 * frontier.radius
    for alpha in (0.01, 0.4):
        ends = [frontier.interval(radius, alpha) for radius in np.geomspace(0.1, 1000, 9)]
        assert all(a[0] >= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(ends))


@pytest.mark.parametrize("side", ["above", "below"])
def test_the_breakdown_alpha_is_where_the_decision_breaks(world, side):
    frontier = world[2]
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


# --- The radius cannot be proved: the curve over all radii can, and so can the radius at which a decision breaks.


@pytest.fixture(scope="module")
def question():
    mdp, problem = world_problem(rows=600, gamma=0.5)
    method = Dual(radius="paper", gauge=PlugIn(0.02), advanced=Advanced(pairs=24))
    return mdp, problem, method, bondic_lab.radius_sensitivity(problem, method=method)


def test_at_the_chosen_radius_it_is_the_interval(question):
    _, problem, method, curve = question
    result = bondic.estimate_interval(problem, method=method)
    low, high = curve.interval(curve.radius)
    assert low == pytest.approx(result.low, abs=0.01 * result.length)
    assert high == pytest.approx(result.high, abs=0.01 * result.length)
    exact = bondic_lab.radius_sensitivity(problem, method=method, radii=[curve.radius]).interval(curve.radius)
    assert exact == pytest.approx((result.low, result.high), rel=1e-9)


def test_larger_radii_contain_smaller_ones(question):
    curve = question[3]
    ends = [curve.interval(radius) for radius in np.geomspace(0.1, 1000, 25)]
    assert all(a[0] >= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(ends))
    assert ends[0] != ends[-1]


@pytest.mark.parametrize("side", ["above", "below"])
def test_the_breakdown_radius_is_where_the_decision_breaks(question, side):
    curve = question[3]
    low, high = curve.interval(curve.radius)
    threshold = low - 0.05 if side == "above" else high + 0.05
    radius = curve.breakdown_radius(**{side: threshold})
    assert radius >= curve.radius
    index = 0 if side == "above" else 1
    inside, outside = curve.interval(radius * (1 - 1e-9))[index], curve.interval(radius * 1.001)[index]
    assert inside > threshold > outside if side == "above" else inside < threshold < outside
