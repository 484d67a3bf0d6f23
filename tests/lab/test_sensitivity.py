"""The radius cannot be proved: the curve over all radii can, and so can the radius at which a decision breaks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import bondic
import bondic_lab
from bondic.methods.dual import Dual
from bondic.tuning.defaults import Choices
from bondic_lab.noise.plug_in import PlugIn
from builders import world_problem


@pytest.fixture(scope="module")
def world():
    mdp, problem = world_problem(rows=600, gamma=0.5)
    method = Dual(radius="paper", gauge=PlugIn(0.02), choices=Choices(pairs=24))
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
