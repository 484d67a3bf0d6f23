"""Features on logs of a world with known q*: J* is held at the true sup |ζ|, and missed at a part of it where that matters."""

import sys
from pathlib import Path

import numpy as np
import pytest

from bondic.plan import boosting

sys.path.append(str(Path(__file__).resolve().parents[2]))  # last: only `experiments` is wanted from there

from experiments.feature_plan import Plan, interval, make_bound
from experiments.features import columns_of, hour_held, true_allowance
from experiments.number_worlds_chains import smooth

import bondic


@pytest.fixture(scope="module", autouse=True)
def plain_models():
    """Models in NumPy alone: boosting is scikit-learn's, and takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "installed", lambda: False)
        yield


def test_one_group_holds_the_value_at_the_true_allowance_and_not_at_an_eighth():
    held = np.array([hour_held(seed, 2000) for seed in range(6)])
    assert held[:, 0].all()
    assert not held[:, 1].any()


def test_slopes_hold_the_value():
    world = smooth(0.5)
    for seed in range(3):
        problem, method = world.problem(4000, seed, accept=None), bondic.Groups(count=2)
        pilot = method.pilot_of(problem)
        fitted = method.fit(problem, pilot, 0.1, lambda _: None)
        data = columns_of(problem, fitted, pilot, True)
        beta = true_allowance(world, problem, fitted, data, len(pilot.whole()))
        bound = make_bound(data, Plan(len(pilot.whole())))
        low, high = interval(bound, beta)
        assert low <= world.truth <= high
        low, high = interval(bound, 0.0)
        assert high - low < 0.3 * (data.high - data.low)
