"""Searches that look at some rows of a long log: which rows, how many, and what that costs. Numbers are made small here."""

import math

import numpy as np
import pytest

import bondic as b
from bondic.core.balls import Instruments
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.search import search
from bondic.tuning.defaults import Advanced
from bondic_lab.worlds.synthetic import SyntheticMDP
from builders import as_log

MDP = SyntheticMDP.default(0.8, seed=2, dimension=1)
KERNEL = b.Gaussian(1.0, on="state") * Dirac() + Constant(1.0)


@pytest.fixture
def short(monkeypatch):
    """A log of eight thousand rows is long."""
    monkeypatch.setattr("bondic.rows.rows.LONGEST_BLOCK", 512)
    monkeypatch.setattr(search, "MOST_ROWS", 2000)
    monkeypatch.setattr(search, "_READ", 6000)


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
    return b.Dual(instruments=Instruments(KERNEL), ball=b.Ball(KERNEL, 3.0), advanced=Advanced(rank=40), **more)


def test_a_short_log_is_searched_as_a_whole(data):
    result = b.estimate_interval(question(data), method=method())
    assert "looked at" not in result.choices["search upper"]
    assert all(map(math.isfinite, result.gap))


@pytest.mark.parametrize("gauge", ["half", "self-normalized"])
def test_a_long_log_costs_little_length(data, gauge, request):
    whole = b.estimate_interval(question(data), method=method(gauge=gauge))
    request.getfixturevalue("short")
    some = b.estimate_interval(question(data), method=method(gauge=gauge))
    assert "of 8000 rows" in some.choices["search upper"]
    assert some.rows == whole.rows  # certified on every row
    assert some.high - some.low <= 1.05 * (whole.high - whole.low)
    assert some.gap == (math.inf, math.inf)  # what no ω can beat on some rows says nothing about all of them
    checked = b.verify(some.certificate, data)
    assert (checked.low, checked.high) == (some.low, some.high)


@pytest.mark.usefixtures("short")
def test_the_same_rows_are_taken_however_the_log_is_read(data):
    streamed = b.stream_log({name: col for name, col in data.columns().items() if col is not None}, batch_rows=333)
    one, other = (b.estimate_interval(question(log), method=method()) for log in (data, streamed))
    assert (one.low, one.high) == (other.low, other.high)


@pytest.mark.usefixtures("short")
def test_the_rows_that_are_read_do_not_grow_with_the_log():
    read = []
    for episodes in (80, 320):
        log = as_log(MDP.rollout(episodes, 100, np.random.default_rng(0)))
        policy = Counting()
        asked = question(
            b.stream_log({k: v for k, v in log.columns().items() if v is not None}, batch_rows=2000), policy
        )
        policy.asked = 0
        taken = search.sampled_rows(asked)
        read.append(policy.asked)
        assert 0.4 * search.MOST_ROWS <= sum(len(batch) for batch in taken) <= search.MOST_ROWS
    assert read[0] == read[1] <= 6000


@pytest.mark.usefixtures("short")
def test_rows_that_seem_to_contradict_q_are_not_believed(data, monkeypatch):
    """A sample is noisier than the log: then all rows are asked."""
    monkeypatch.setattr(search.KernelSearch, "floor", lambda *_: math.inf)
    result = b.estimate_interval(question(data), method=method())
    assert "looked at" not in result.choices["search upper"]
