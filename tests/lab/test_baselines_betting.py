"""pdis-betting and dr-betting are `Propensities` under other names; ratios of baselines are those of the method."""

from __future__ import annotations

import numpy as np
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


@pytest.mark.parametrize("name", ["tis", "pdis", "hcope", "pdis-betting"])
def test_logged_targets_and_logarithms_give_the_same_ends(name):
    rng = np.random.default_rng(0)
    episodes, steps = 60, 3
    n = episodes * steps
    action, beta = rng.integers(0, 2, n), np.full(n, 0.5)
    time, ids = np.tile(np.arange(steps), episodes), np.repeat(np.arange(episodes), steps)
    columns = {
        "observations": time[:, None].astype(float),
        "actions": action,
        "rewards": rng.random(n),
        "next_observations": time[:, None] + 1.0,
        "terminations": time == steps - 1,
        "episode_ids": ids,
        "timesteps": time,
    }
    target = np.where(action == 1, 0.7, 0.3)
    policy = bondic.CallablePolicy(lambda states: np.tile([0.3, 0.7], (len(states), 1)))
    asked = ends(
        bondic.Transitions(**columns, behavior_action_probs=beta), bondic_lab.make_baseline(name), policy, gamma=0.9
    )
    told = bondic.Transitions(**columns, behavior_log_probs=np.log(beta), target_log_probs=np.log(target))
    assert ends(told, bondic_lab.make_baseline(name), bondic.LoggedTarget(), gamma=0.9) == pytest.approx(
        asked, rel=1e-9
    )
