"""Logs with hundreds of actions: groups that share coordinates, capped searches, tables in pieces."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic
from bondic.core.balls import Ball
from bondic.core.errors import InvalidInput
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac, Gaussian
from bondic.errors import PolicyError
from bondic.methods.effort import effort_words, outlook_words
from bondic.policies import answers
from bondic.search.search import evaluate_all, kernel_search
from bondic.tuning.defaults import Choices
from builders import setting_of


class Softmax:
    """pi(a | s) ~ exp(s . w_a)."""

    def __init__(self, actions, dimension):
        self.weights = np.random.default_rng(1).normal(size=(dimension, actions)) / np.sqrt(dimension)

    def scores(self, states):
        return states @ self.weights

    def action_probs(self, states):
        raised = np.exp(self.scores(states))
        return raised / raised.sum(axis=1, keepdims=True)


def clicks(rows, actions, dimension=3, seed=0):
    """One-step decisions by a uniform policy, reward 1 with a probability that depends on state and action."""
    rng, policy = np.random.default_rng(seed), Softmax(actions, dimension)
    states = rng.normal(size=(rows, dimension))
    taken = rng.integers(0, actions, size=rows)
    rate = 1 / (1 + np.exp(2 - policy.scores(states)))
    log = bondic.Transitions(
        observations=states,
        actions=taken,
        rewards=(rng.uniform(size=rows) < rate[np.arange(rows), taken]).astype(float),
        next_observations=states,
        terminations=np.ones(rows, bool),
        truncations=np.zeros(rows, bool),
        episode_ids=np.arange(rows),
        timesteps=np.zeros(rows, int),
    )
    truth = float((policy.action_probs(states) * rate).sum(axis=1).mean())
    return log, policy, truth


def question(rows, actions, dimension=3):
    log, policy, _ = clicks(rows, actions, dimension)
    return bondic.make_problem(
        log, policy, bondic.InitialStates.from_log(log), gamma=0.0, reward_range=(0.0, 1.0), accept=("unseen-actions",)
    )


@pytest.mark.parametrize("actions", [5, 60])
def test_what_a_capped_search_proposes_is_certified_and_its_primal_feasible(actions):
    problem = question(600, actions)
    features = RandomFeatures.gaussian(4, 3, np.full(3, 2.0), seed=0, center=np.zeros(3), on="state")
    weights = 0.5 * Constant(1.0) + 0.5 * (features * Dirac(on="action"))
    ball = Ball(Gaussian(2.0, on="state") * Dirac(on="action") + Constant(1.0), 1.0)
    setting = setting_of(problem, ball, weights, start=0.05)
    search = kernel_search(setting, 600)
    assert search.model.balance.shape[0] <= 2400 + 1
    assert search.model.balance.shape[1] <= 2400 + 1
    found = search.propose(sign=1.0, radius=1.0, kappa=setting.epsilon().upper)
    assert found.omega is not None
    ((_, (nothing,), _), (_, (claim,), _)), _ = evaluate_all(setting, ("upper",), [found.omega])
    assert claim.bound - search.offset >= found.primal - 1e-9
    assert claim.bound < nothing.bound


def test_initial_states_are_asked_about_in_pieces(monkeypatch):
    policy, states = Softmax(6, 2), np.random.default_rng(0).normal(size=(250, 2))
    asked = []

    class Counting:
        def action_probs(self, observations):
            asked.append(len(observations))
            return policy.action_probs(observations)

    def ask(policy):
        rng = np.random.default_rng(0)
        return answers.query_start(
            policy, states, None, action_dim=0, log_rows=1, draws=1, initial_draws=None, rng=rng
        ).initial

    whole = ask(policy)
    monkeypatch.setattr(answers, "PIECE", 100)
    assert np.allclose(ask(Counting()), whole, rtol=1e-14)
    assert asked == [100, 100, 50]

    class Wrong:
        def action_probs(self, observations):
            out = policy.action_probs(observations)
            out[np.all(observations == states[217], axis=1)] *= 2
            return out

    with pytest.raises(PolicyError, match=r"initial state number 217 \(counted from 0\) sum to 2"):
        ask(Wrong())
    monkeypatch.setattr(answers, "MAX_ANSWERS", 1000)
    with pytest.raises(InvalidInput, match=r"250 initial states with 6 actions.*InitialStates.sample"):
        ask(policy)


def test_a_thousand_actions_are_a_matter_of_seconds():
    log, policy, truth = clicks(1200, 1000)
    result = bondic.evaluate_policy(log, policy, gamma=0.0, reward_range=(0.0, 1.0), accept=("unseen-actions",))
    assert result.low <= truth <= result.high
    assert sum(result.seconds.values()) < 120  # a decomposition with coordinates for every action takes many minutes


def test_the_time_of_an_answer_is_said_where_it_is_long(monkeypatch):
    """30 columns: no sum over them is linear in the rows."""
    monkeypatch.setattr("bondic.methods.effort.cores", lambda: 1)
    problem = question(300, 34, 30)
    assert effort_words(problem, Choices(), 1.0) == ""
    assert "minutes" in effort_words(problem, Choices(), 1.0, planned=400_000)


def never(states):
    return np.eye(3)[np.full(len(states), 2)]


def at_times(states):
    return np.eye(3)[np.where(states[:, 0] > 0.9, 0, 2)]


@pytest.mark.parametrize(
    ("policy", "rows", "says"),
    [
        (lambda states: np.full((len(states), 3), [0.5, 0.5, 0.0]), 6000, "length of about 0.0"),
        (never, 6000, "a share of 0 .*100 % of the value range stay open"),
        (at_times, 6000, "a share of 0[.]1.* % of the value range stay open"),
        (
            lambda states: np.full((len(states), 3), [0.0, 1.0, 0.0]),
            40,
            "whole value range; about [0-9]+ times as many rows",
        ),
        (never, 5000, ""),  # short
    ],
)
def test_what_a_long_log_will_say_is_said_before_it_is_worked_on(policy, rows, says, tmp_path, monkeypatch):
    """From its first block alone: a policy whose actions are not there is told at once, and what is missing."""
    rng, behavior = np.random.default_rng(0), np.array([0.8, 0.2])
    actions = rng.choice(2, p=behavior, size=rows)
    columns = {"obs_0": rng.random(rows), "action": actions, "reward": (rng.random(rows) < 0.4) * 1.0}
    pq.write_table(pa.table(columns | {"behavior_action_probs": behavior[actions]}), tmp_path / "log.parquet")
    log = bondic.stream_log(tmp_path / "log.parquet", one_step=True)
    problem = bondic.make_problem(log, policy, gamma=0.0, reward_range=(0, 1), accept=None)
    monkeypatch.setattr("bondic.methods.effort.LONG", rows if says else rows + 1)
    words = outlook_words(problem, 0.1)
    assert re.search(says, words) if says else not words, words
    result = bondic.estimate_interval(problem)
    if "stay open" in words:
        assert result.length >= float(words.split(" % of")[0].split()[-1]) / 100 - 0.03
    elif "length" in words:
        assert 0.5 < result.length / float(words.rstrip(".").split()[-1]) < 2
    elif words:
        assert result.length > 0.5
    assert (
        outlook_words(bondic.make_problem(log.read(), policy, gamma=0.0, reward_range=(0, 1), accept=None), 0.1) == ""
    )
