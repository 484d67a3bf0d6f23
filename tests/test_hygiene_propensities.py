"""Propensities that were counted in the log itself are told from those that its actions were drawn with."""

import numpy as np
import pytest

import bondic
from bondic.core.errors import ValidityWarning
from propensity_cases import STATES, ThreeStates, decisions, one_step


def kinds(log):
    return [finding.kind for finding in bondic.inspect_log(log)]


def with_propensities(log, probs, *, logarithms=False):
    columns = {"behavior_log_probs": np.log(probs)} if logarithms else {"behavior_action_probs": probs}
    return one_step(log.observations, log.actions, log.rewards, **columns)


def frequencies(log, *, by_state):
    state = np.searchsorted(STATES[:, 0], log.observations[:, 0]) if by_state else np.zeros(len(log), dtype=np.int64)
    counts = np.zeros((3, 2))
    np.add.at(counts, (state, log.actions), 1)
    return counts[state, log.actions] / counts.sum(axis=1)[state]


@pytest.mark.parametrize(
    ("by_state", "logarithms", "digits"),
    [(True, True, np.float64), (False, True, np.float32), (True, False, np.float32)],
)
def test_counted_propensities_are_doubted(by_state, logarithms, digits):
    log = decisions(997, seed=3)
    counted = frequencies(log, by_state=by_state).astype(digits).astype(float)
    estimated = with_propensities(log, counted, logarithms=logarithms)
    assert kinds(estimated) == ["estimated-propensities"]
    with pytest.warns(ValidityWarning, match=r"gamma_sensitivity=\.\.\."):
        result = bondic.evaluate_policy(estimated, ThreeStates(), gamma=0.0, reward_range=(0, 1))
    assert any("estimated from this log" in one for one in result.warnings)
    accepted = bondic.evaluate_policy(
        estimated, ThreeStates(), gamma=0.0, reward_range=(0, 1), accept=["estimated-propensities"]
    )
    assert not accepted.warnings


def test_true_propensities_are_not_doubted():
    assert not any("estimated-propensities" in kinds(decisions(n, seed=n)) for n in (1, 2, 10, 400, 3000))
    rng = np.random.default_rng(0)
    for n in (10, 500, 4000):  # one coin that happens to be, or was made, even
        even = one_step(rng.normal(size=(n, 2)), np.arange(n) % 2, rng.random(n), behavior_action_probs=np.full(n, 0.5))
        assert kinds(even) == []
    states = rng.normal(size=(300, 2))  # contexts that never repeat, drawn with a rule
    probs = 1 / (1 + np.exp(-states[:, 0]))
    action = (rng.random(300) < probs).astype(np.int64)
    drawn = one_step(states, action, rng.random(300), behavior_action_probs=np.where(action, probs, 1 - probs))
    assert kinds(drawn) == []


def test_exact_halves_are_doubted_where_chance_does_not_explain_them():
    """Three states by halves may be chance; sixty are not: it is asked about, and can be accepted."""
    for count, expected in ((3, []), (60, ["estimated-propensities"])):
        states = np.arange(float(count)).repeat(200)[:, None]
        halves = np.full(len(states), 0.5)
        log = one_step(states, np.arange(len(states)) % 2, np.zeros(len(states)), behavior_action_probs=halves)
        assert [kind for kind in kinds(log) if "propensities" in kind] == expected
