"""The radius cannot be proved: the curve over all radii can, and so can the radius at which a decision breaks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import bondic
import bondic_lab
from bondic.core.errors import InvalidInput
from bondic.methods.dual import Dual
from bondic.tuning.defaults import Advanced
from bondic_lab.noise.plug_in import PlugIn
from builders import tabular, world_problem


@pytest.fixture(scope="module")
def world():
    mdp, problem = world_problem(rows=600, gamma=0.5)
    method = Dual(radius="paper", gauge=PlugIn(0.02), advanced=Advanced(pairs=24))
    return mdp, problem, method, bondic_lab.radius_sensitivity(problem, method=method)


def test_at_the_chosen_radius_it_is_the_interval(world):
    _, problem, method, curve = world
    result = bondic.estimate_interval(problem, method=method)
    low, high = curve.interval(curve.radius)
    assert low == pytest.approx(result.low, abs=0.01 * result.length)
    assert high == pytest.approx(result.high, abs=0.01 * result.length)
    exact = bondic_lab.radius_sensitivity(problem, method=method, radii=[curve.radius]).interval(curve.radius)
    assert exact == pytest.approx((result.low, result.high), rel=1e-9)


def test_larger_radii_contain_smaller_ones(world):
    curve = world[3]
    ends = [curve.interval(radius) for radius in np.geomspace(0.1, 1000, 25)]
    assert all(a[0] >= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(ends))
    assert ends[0] != ends[-1]


def test_the_truth_is_inside_whenever_the_ball_holds_it(world):
    mdp, _, _, curve = world
    for radius in (mdp.q_norm * 3, mdp.q_norm * 10, 1e6):
        low, high = curve.interval(radius)
        assert low <= mdp.value <= high


@pytest.mark.parametrize("side", ["above", "below"])
def test_the_breakdown_radius_is_where_the_decision_breaks(world, side):
    curve = world[3]
    low, high = curve.interval(curve.radius)
    threshold = low - 0.05 if side == "above" else high + 0.05
    radius = curve.breakdown_radius(**{side: threshold})
    assert radius >= curve.radius
    index = 0 if side == "above" else 1
    inside, outside = curve.interval(radius * (1 - 1e-9))[index], curve.interval(radius * 1.001)[index]
    assert inside > threshold > outside if side == "above" else inside < threshold < outside


def test_hopeless_trivial_and_bad_thresholds(world):
    curve = world[3]
    assert curve.breakdown_radius(above=curve.value_range.high) == 0.0
    assert curve.breakdown_radius(above=curve.value_range.low - 1) == math.inf
    assert curve.breakdown_radius(below=curve.value_range.high + 1) == math.inf
    for both in ({}, {"above": 0.0, "below": 1.0}):
        with pytest.raises(InvalidInput, match="one threshold"):
            curve.breakdown_radius(**both)
    with pytest.raises(InvalidInput, match="radius is finite"):
        curve.interval(-1.0)


def test_long_logs_certify_fewer_omegas_and_stay_valid(monkeypatch):
    _, problem = world_problem(tabular, 800, gamma=0.5)
    method = Dual(radius="paper")  # a ball: the half-width of a box is never varied
    usual = bondic_lab.radius_sensitivity(problem, method=method)
    monkeypatch.setattr("bondic_lab.methods.sensitivity._LONG", 100)
    short = bondic_lab.radius_sensitivity(problem, method=method)
    assert len(short.points) < 0.6 * len(usual.points)
    for factor in (0.1, 0.3, 1.0, 3.0, 10.0):
        radius = factor * usual.radius
        (low, high), (best_low, best_high) = short.ends(radius), usual.ends(radius)
        # valid for every radius, and hardly wider between those that were searched
        assert low <= best_low + 1e-7
        assert high >= best_high - 1e-7
        assert high - low <= 1.2 * (best_high - best_low)
