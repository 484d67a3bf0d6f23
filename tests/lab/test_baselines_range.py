"""A stated value range in every baseline."""

import numpy as np
import pytest

import bondic
from bondic_lab.baselines.registry import BASELINES
from bondic_lab.baselines.trajectories import trajectories
from builders import lake, lake_problem

NEEDS = {
    "tis-hoeffding": {"max_ratio": 1.4},
    "pdis-hoeffding": {"max_ratio": 1.4},
    "lipschitz": {"constant": 1.0},
    "dm": {"replicates": 50},
    "model": {"replicates": 50},
}


PLAIN = {name for name, entry in BASELINES.items() if entry.method.extra is None} - {"dr-betting"}
"""Need no further library. Doubly robust bets refuse 60 rows; they take the path of pdis-betting."""


@pytest.mark.parametrize(("name", "limit"), [(name, (3, 200)[k % 2]) for k, name in enumerate(sorted(PLAIN))])
def test_every_baseline_is_cut_to_the_range_and_says_so(name, limit):
    """Episodes cut after 3 steps, or whole ones; Lipschitz value iteration needs a lake without slips."""
    more = {"steps": 200} if limit == 200 and name.endswith("hoeffding") else {}
    method = BASELINES[name].make(**NEEDS.get(name, {}) | more)
    problem = lake_problem(lake(60, limit=limit, slip=0.0 if name == "lipschitz" else 0.2), value_range=(0, 1))
    found = bondic.estimate_interval(problem, method=method)
    assert 0 <= found.low <= found.high <= 1
    assert not found.estimated or found.low <= found.estimate <= found.high
    assert (found.value_range.low, found.value_range.high) == (0.0, 1.0)
    assert any(item.name == "value range" for item in found.assumptions)


def test_what_was_not_recorded_lies_in_the_stated_range():
    """T = 3: the tail is gamma^3 [0, 1] (or 0), and the recorded part a return less that tail."""
    problem = lake_problem(lake(60, limit=3), value_range=(0, 1))
    paths = trajectories(problem)
    assert paths.steps == 3
    assert not paths.complete
    assert (paths.tail.low, paths.tail.high) == (0.0, pytest.approx(0.95**3))
    assert (paths.returns.low, paths.returns.high) == (0.0, pytest.approx(1.0))
    late = paths.range_of(np.array([False, True, True]))
    assert (late.low, late.high) == (0.0, pytest.approx(0.95))
    some = paths.range_of(np.array([True, False, True]))  # no return: the rewards of these steps
    assert (some.low, some.high) == (0.0, pytest.approx(1 + 0.95**2))
    shifted = trajectories(lake_problem(lake(60, limit=3), reward_range=(-9, 9), value_range=(-1, 2)))
    assert shifted.tail.low == pytest.approx(-(0.95**3))
    assert shifted.tail.high == pytest.approx(2 * 0.95**3)
    assert shifted.returns.low == pytest.approx(-1 - 2 * 0.95**3)
    assert shifted.returns.high == pytest.approx(2 + 0.95**3)
