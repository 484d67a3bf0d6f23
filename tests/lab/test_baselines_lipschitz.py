"""Lipschitz value iteration on a deterministic line whose q* is known."""

from __future__ import annotations

import numpy as np
import pytest

import bondic
from bondic_lab.baselines.lipschitz import Lipschitz, upper_end

GAMMA = 0.7


def step(s, a):
    """Toward 0 (action 0) or half way to 1 (action 1); the reward is the place."""
    return np.where(a == 0, 0.5 * s, 0.5 * s + 0.5)


def line(n, seed=0, **more):
    """The policy always takes action 1: v*(s) = sum gamma^t s_t with s_t = 1 - (1 - s) 2^-t."""
    rng = np.random.default_rng(seed)
    s, a = rng.random(n), rng.integers(2, size=n)
    log = bondic.Transitions(s[:, None], a, s, step(s, a)[:, None], np.zeros(n, dtype=bool))
    policy = bondic.CallablePolicy(lambda x: np.tile([0.0, 1.0], (len(x), 1)))
    initial = bondic.InitialStates.exact([[0.2], [0.9]], [0.25, 0.75])
    return bondic.make_problem(log, policy, initial, gamma=GAMMA, reward_range=(0.0, 1.0), **more)


def v_star(s):
    return 1 / (1 - GAMMA) - (1 - s) / (1 - GAMMA / 2)


TRUTH = 0.25 * v_star(0.2) + 0.75 * v_star(0.9)
SLOPE = 1 / (1 - GAMMA / 2)  # of q* in s, both actions: 1 + gamma SLOPE / 2 = SLOPE


def test_the_truth_lies_inside_and_the_interval_shrinks():
    lengths = []
    for n in (10, 100, 1000):
        result = bondic.estimate_interval(line(n), method=Lipschitz(SLOPE))
        assert result.low <= TRUTH <= result.high
        assert result.guarantee == "finite-sample"
        lengths.append(result.length)
    assert lengths[2] < 0.2 * lengths[1] < 0.2 * lengths[0]


def test_against_plain_loops():
    problem = line(12)
    n, top = len(problem), 1 / (1 - GAMMA)
    for sign in (1.0, -1.0):
        limit = top if sign > 0 else 0.0
        u = [limit] * n

        def bound(x, slot, u=u, limit=limit):
            values = [
                u[j] + SLOPE * abs(x - problem.whole().logged[j, 0])
                for j in range(n)
                if problem.whole().slots[j] == slot
            ]
            return min([limit, *values])

        for _ in range(200):
            new = [
                sign * problem.whole().rewards[i] + GAMMA * bound(problem.whole().next.points[i, 0], 1)
                for i in range(n)
            ]
            u[:] = [min(a, b) for a, b in zip(u, new, strict=True)]
        wanted = sign * (0.25 * bound(0.2, 1) + 0.75 * bound(0.9, 1))
        assert upper_end(problem, SLOPE, 400, sign=sign) == pytest.approx(wanted, abs=1e-6)
