"""Small worlds with propensities whose value is a sum: decisions in three situations, and short episodes."""

from __future__ import annotations

import itertools
import math

import numpy as np

import bondic

STATES = np.array([[-1.0], [0.0], [2.0]])
REWARD = np.array([[0.2, 0.9], [0.5, 0.4], [0.05, 0.7]])  # mean of a reward that is 0 or 1
TARGET = np.array([[0.1, 0.9], [0.5, 0.5], [0.3, 0.7]])
BEHAVIOR = np.array([[0.6, 0.4], [0.8, 0.2], [0.5, 0.5]])
VALUE = float((TARGET * REWARD).sum(axis=1).mean())  # situations are equally likely
LARGEST = float((TARGET / BEHAVIOR).max())


class ThreeStates:
    """The target policy."""

    def action_probs(self, observations):
        return TARGET[np.searchsorted(STATES[:, 0], observations[:, 0])]


def decisions(n, seed=0, *, behavior=BEHAVIOR, stated=None, low=0.0, high=1.0, **columns):
    """A log of single decisions; `stated` are propensities that are written down instead of the true ones."""
    rng = np.random.default_rng(seed)
    situation = rng.integers(0, 3, n)
    action = (rng.random(n) >= behavior[situation, 0]).astype(np.int64)
    reward = low + (high - low) * (rng.random(n) < REWARD[situation, action])
    written = (behavior if stated is None else stated)[situation, action]
    return one_step(STATES[situation], action, reward, behavior_action_probs=written, **columns)


def one_step(states, actions, rewards, **columns):
    count = len(rewards)
    return bondic.Transitions(states, actions, rewards, np.zeros_like(states), np.ones(count, dtype=bool), **columns)


def question(log, policy=None, *, reward_range=(0.0, 1.0), gamma=0.0, population=None, **statements):
    start = bondic.InitialStates.from_log(log, population=population)
    policy = ThreeStates() if policy is None else policy
    return bondic.make_problem(log, policy, start, gamma=gamma, reward_range=reward_range, accept=None, **statements)


def interval(log, method, *, alpha=0.1, **statements):
    return bondic.estimate_interval(question(log, **statements), alpha=alpha, method=method)


def slow_rates(values, planned, probability, start):
    """The rule with sums that begin anew for every value."""
    mean, variance, weight = start
    found, deviations = [], []
    for i in range(len(values)):
        center = (weight * mean + math.fsum(values[:i])) / (weight + i)
        spread = (weight * variance + math.fsum(deviations)) / (weight + i)
        found.append(math.sqrt(2 * math.log(1 / probability) / (planned * spread)))
        deviations.append((values[i] - center) ** 2)
    return np.array(found)


# --- episodes of at most three steps over two states, every path listed -------------------------------------------------

MOVE = np.array([[[0.5, 0.2, 0.3], [0.1, 0.6, 0.3]], [[0.3, 0.3, 0.4], [0.0, 0.5, 0.5]]])  # the last one is the end
GAIN = np.array([[1.0, -0.5], [0.25, 2.0]])
PI = np.array([[0.3, 0.7], [0.9, 0.1]])
B = np.array([[0.5, 0.5], [0.4, 0.6]])
GAMMA = 0.8
STEPS = 3


class TwoStates:
    """The target policy of the episodes."""

    def action_probs(self, observations):
        return PI[observations[:, 0].astype(np.int64)]


def walk_value(horizon=None):
    """From state 0, by the Bellman equation."""
    value = np.zeros(2)
    for _ in range(500 if horizon is None else horizon):
        value = (PI * (GAIN + GAMMA * MOVE[:, :, :2] @ value)).sum(axis=1)
    return float(value[0])


def all_walks(*, cut=None):
    """Every path of at most STEPS steps from state 0 with its probability: lists of (s, a, r, s', ended), truncated after."""
    found = []

    def go(state, path, probability):
        last = len(path) == STEPS or (cut is not None and path and cut(path))
        if last:
            found.append((path, probability))
            return
        for action, following in itertools.product(range(2), range(3)):
            chance = B[state, action] * MOVE[state, action, following]
            if chance == 0:
                continue
            step = (state, action, GAIN[state, action], following % 2, following == 2)
            if following == 2:
                found.append(([*path, step], probability * chance))
            else:
                go(following, [*path, step], probability * chance)

    go(0, [], 1.0)
    return found


def walk_log(paths, behavior=B):
    """Paths one after the other as episodes."""
    rows = [
        (*step, e, t, t == len(path) - 1 and not step[4]) for e, path in enumerate(paths) for t, step in enumerate(path)
    ]
    state, action, reward, following, ended, episode, time, cut = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    return bondic.Transitions(
        state[:, None].astype(float), action, reward, following[:, None].astype(float), ended, truncations=cut,
        episode_ids=episode, timesteps=time, behavior_action_probs=behavior[state, action],
    )  # fmt: skip


def drawn_walks(n, seed=0):
    paths, weights = zip(*all_walks(), strict=True)
    picked = np.random.default_rng(seed).choice(len(paths), size=n, p=np.array(weights) / sum(weights))
    return walk_log([paths[k] for k in picked])
