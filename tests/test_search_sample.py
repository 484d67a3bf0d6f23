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
