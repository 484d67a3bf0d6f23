"""pdis-betting and dr-betting are `Propensities` under other names; ratios of baselines are those of the method."""

from __future__ import annotations

import pytest

import bondic
import bondic_lab
from propensity_cases import LARGEST, decisions, question


def ends(log, method, policy=None, **statements):
    result = bondic.estimate_interval(question(log, policy, **statements), method=method)
    return result.low, result.high


@pytest.mark.parametrize(
    ("name", "options", "own"),
    [
        ("pdis-betting", {"gamma_sensitivity": 1.1}, {"model": None, "gamma_sensitivity": 1.1}),
        ("pdis-betting", {"planned": 3000, "side": "lower"}, {"model": None, "planned": 3000, "side": "lower"}),
        ("dr-betting", {"max_ratio": LARGEST}, {"max_ratio": LARGEST}),
        ("dr-betting", {"min_propensity": 0.2, "pilot": 300}, {"min_propensity": 0.2, "pilot": 300}),
    ],
)
def test_they_are_the_method_itself(name, options, own):
    log = decisions(1500)
    found = bondic.estimate_interval(question(log), method=bondic_lab.make_baseline(name, **options))
    wanted = bondic.estimate_interval(question(log), method=bondic.Propensities(**own))
    assert (found.low, found.high, found.estimate) == (wanted.low, wanted.high, wanted.estimate)
    assert (found.method, found.guarantee) == (name, "finite-sample")
    assert {item.name for item in found.assumptions} == {item.name for item in wanted.assumptions}
    assert bondic.verify(found.certificate, log).low == found.low


def test_dr_betting_is_not_given_a_name_that_it_does_not_earn():
    log = decisions(600)
    with pytest.raises(bondic.InvalidInput, match="max_ratio="):
        ends(log, bondic_lab.make_baseline("dr-betting"))
    with pytest.raises(bondic.InvalidInput, match="Nothing was weighed doubly robustly"):
        ends(log, bondic_lab.make_baseline("dr-betting", max_ratio=LARGEST, pilot=600))
