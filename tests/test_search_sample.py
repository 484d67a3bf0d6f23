"""Searches that look at some rows of a long log: which rows, how many, and what that costs. Layers are made small here."""

import math

import numpy as np
import pytest

import bondic as b
from bondic.core.balls import Instruments
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.search import sample
from bondic_lab.worlds.synthetic import SyntheticMDP
from builders import as_log

MDP = SyntheticMDP.default(0.8, seed=2, dimension=1)
KERNEL = b.Gaussian(1.0, on="state") * Dirac() + Constant(1.0)


@pytest.fixture
def short(monkeypatch):
    """A log of eight thousand rows is long."""
    monkeypatch.setattr("bondic.rows.rows.LONGEST_BLOCK", 512)
    monkeypatch.setattr(sample, "FEWEST", 500)
    monkeypatch.setattr(sample, "MOST", 4000)
    monkeypatch.setattr(sample, "_READ", 6000)


class Counting:
    """The target policy, with the number of states at which it was asked."""

    def __init__(self):
        self.asked = 0

    def action_probs(self, observations):
        self.asked += len(observations)
        return MDP.target_probs(observations)


@pytest.fixture(scope="module")
def data():
    return as_log(MDP.rollout(80, 100, np.random.default_rng(0)))


def question(log, policy=None):
    start = b.InitialStates.exact(MDP.initial_states, MDP.initial_probs)
    policy = b.CallablePolicy(MDP.target_probs) if policy is None else policy
    return b.make_problem(log, policy, start, gamma=MDP.gamma, reward_range=MDP.reward_range)


def method(**more):
    return b.Dual(instruments=Instruments(KERNEL), ball=b.Ball(KERNEL, 3.0), rank=40, **more)


@pytest.mark.parametrize("gauge", ["half", "self-normalized"])
def test_a_long_log_costs_little_length(data, gauge, request):
    whole = b.estimate_interval(question(data), method=method(gauge=gauge))
    request.getfixturevalue("short")
    some = b.estimate_interval(question(data), method=method(gauge=gauge))
    assert "of 8000 rows (predicted loss" in some.choices["search upper"]
    assert some.rows == whole.rows  # certified on every row
    assert some.high - some.low <= 1.05 * (whole.high - whole.low)
    assert some.gap == (math.inf, math.inf)  # what no ω can beat on some rows says nothing about all of them
    checked = b.verify(some.certificate, data)
    assert (checked.low, checked.high) == (some.low, some.high)


@pytest.mark.usefixtures("short")
def test_the_rows_that_are_read_do_not_grow_with_the_log(monkeypatch):
    read = []
    monkeypatch.setattr(sample, "build_model", None)
    for episodes in (80, 320):
        log = as_log(MDP.rollout(episodes, 100, np.random.default_rng(0)))
        policy = Counting()
        asked = question(
            b.stream_log({k: v for k, v in log.columns().items() if v is not None}, batch_rows=2000), policy
        )
        policy.asked = 0
        layers = sample._Layers(asked)
        read.append(policy.asked)
        assert sum(len(batch) for batch in layers.up_to(layers.last)) <= sample.MOST * 1.1
    assert read[0] == read[1] <= 6000
