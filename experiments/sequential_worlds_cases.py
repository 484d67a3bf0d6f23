"""Logs for `sequential_worlds.py`, each with its J*: shipped worlds, a long cart-pole, and cases that are hard for a pilot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from experiments.sequential_worlds_fresh import WORLDS, question

import bondic
from bondic_lab.worlds.rollout import discounted_returns
from bondic_lab.worlds.shipped import ENVIRONMENTS, shipped_policy

FloatArray = npt.NDArray[np.float64]

GAMMA, LONG_GAMMA, STICK_GAMMA = 0.95, 0.99, 0.9
STEP, BLUR = 0.15, 0.03
MOVES = STEP * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])


@dataclass(frozen=True)
class Case:
    """A question with its answer."""

    problem: Any
    truth: float


def _problem(log: Any, policy: Any, starts: FloatArray, **terms: Any) -> Any:
    return bondic.make_problem(log, policy, bondic.InitialStates.exact(starts), accept=None, **terms)


@cache
def _shipped_truth(name: str) -> float:
    """By 6400 simulated episodes."""
    world, policy = ENVIRONMENTS[name](), shipped_policy(name, "partly", 0.1)
    starts = np.repeat(world.starts(64, np.random.default_rng(123)), 100, axis=0)
    rng = np.random.default_rng(5)
    return float(discounted_returns(starts, 250, world.step, policy.action_probs, gamma=GAMMA, rng=rng).mean())


def shipped(name: str, rows: int, seed: int) -> Case:
    """A world of the library: the partly trained policy at temperature 0.1 from logs of the same at temperature 1."""
    world, policy = ENVIRONMENTS[name](), shipped_policy(name, "partly", 0.1)
    behavior = shipped_policy(name, "partly", 1.0)
    shortest = 8 if world.may_terminate else world.horizon
    made = world.rollout(behavior.action_probs, max(40, rows // shortest + 1), rng=np.random.default_rng([seed, 9]))
    starts = world.starts(64, np.random.default_rng(123))
    terms = {"gamma": GAMMA, "reward_range": world.reward_range, "may_terminate": world.may_terminate}
    return Case(_problem(_first(made, rows), policy, starts, **terms), _shipped_truth(name))


def _first(made: Any, rows: int) -> Any:
    columns = (made.observations, made.actions, made.rewards, made.next_observations, made.terminations)
    return bondic.Transitions(*(column[:rows] for column in columns))


def _feedback(random: float) -> Callable[[FloatArray], FloatArray]:
    """Linear feedback for a cart with a pole, with this share of random actions."""

    def probabilities(states: FloatArray) -> FloatArray:
        right = (states @ np.array([0.1, 0.3, 3.0, 0.9]) > 0).astype(int)
        return np.where(np.arange(2) == right[:, None], 1 - random / 2, random / 2)

    return probabilities


def long_cart_pole(rows: int, seed: int) -> Case:
    """The dynamics of Gymnasium's CartPole, gamma = 0.99; behavior: 60 % random actions."""
    world, policy = ENVIRONMENTS["cartpole"](), _feedback(0.02)
    made = world.rollout(_feedback(0.6), max(40, rows // 20), length=500, rng=np.random.default_rng([seed, 9]))
    starts = world.starts(64, np.random.default_rng(123))
    rng = np.random.default_rng(5)
    returns = discounted_returns(np.repeat(starts, 20, axis=0), 900, world.step, policy, gamma=LONG_GAMMA, rng=rng)
    terms = {"gamma": LONG_GAMMA, "reward_range": (1.0, 1.0), "value_range": (1.0, 100.0)}
    return Case(_problem(_first(made, rows), bondic.CallablePolicy(policy), starts, **terms), float(returns.mean()))


def to_the_corner(states: FloatArray) -> FloatArray:
    """Towards (1, 1), mostly."""
    best = np.where(states[:, 0] < states[:, 1], 0, 2)
    return np.where(np.arange(4) == best[:, None], 0.85, 0.05)


def _walk_step(sparse: bool, states: FloatArray, actions: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    after = np.clip(states + MOVES[actions] + BLUR * rng.normal(size=states.shape), 0, 1)
    if sparse:
        ended = after.min(axis=1) > 0.9
        return ended.astype(float), after, ended
    return (rng.random(len(states)) < after.mean(axis=1)).astype(float), after, np.zeros(len(states), dtype=bool)


def walk(sparse: bool, gamma: float, rows: int, seed: int) -> Case:
    """A walk on the unit square, episodes of 40; sparse: one reward, in a corner that the behavior hardly reaches."""
    rng, step = np.random.default_rng([seed, 4]), partial(_walk_step, sparse)
    chances = np.array([0.22, 0.28, 0.22, 0.28]) if sparse else np.full(4, 0.25)
    columns: list[list[Any]] = [[] for _ in range(5)]
    while sum(map(len, columns[2])) < rows:
        s, kept = rng.random((1, 2)) * 0.3, []
        for _ in range(40):
            a = rng.choice(4, 1, p=chances)
            r, after, ended = step(s, a, rng)
            kept.append((s[0], a[0], r[0], after[0], ended[0]))
            s = after
            if ended[0]:
                break
        for column, part in zip(columns, zip(*kept, strict=True), strict=True):
            column.append(np.array(part))
    log = bondic.Transitions(*(np.concatenate(column)[:rows] for column in columns))
    starts = np.random.default_rng(1).random((64, 2)) * 0.3
    length = int(np.log(1e-3) / np.log(gamma)) + 1
    many, rng = np.repeat(starts, 50, axis=0), np.random.default_rng(2)
    truth = float(discounted_returns(many, length, step, to_the_corner, gamma=gamma, rng=rng).mean())
    terms = {"gamma": gamma, "reward_range": (0.0, 1.0), "may_terminate": sparse}
    if sparse:
        terms["value_range"] = (0.0, 1.0)
    return Case(_problem(log, bondic.CallablePolicy(to_the_corner), starts, **terms), truth)


def _payoff(states: FloatArray, actions: Any) -> FloatArray:
    return np.asarray(0.5 + 0.4 * np.sin(2 * states[:, 0] + actions) * np.tanh(3 * states[:, 1]))


def _greedy(states: FloatArray) -> FloatArray:
    best = (states[:, 0] > 0).astype(int) + (states[:, 1] > 0)
    return np.where(np.arange(3) == best[:, None], 0.9, 0.05)


def one_step(rows: int, seed: int) -> Case:
    """Every row ends; rewards are 0 or 1."""
    rng = np.random.default_rng([seed, 5])
    s, a = rng.normal(size=(rows, 3)), rng.integers(0, 3, rows)
    r = (rng.random(rows) < _payoff(s, a)).astype(float)
    starts = np.random.default_rng(1).normal(size=(200, 3))
    truth = sum(float((_greedy(starts)[:, k] * _payoff(starts, k)).mean()) for k in range(3))
    terms = {"gamma": GAMMA, "reward_range": (0.0, 1.0), "value_range": (0.0, 1.0)}
    log = bondic.Transitions(s, a, r, s.copy(), np.ones(rows, dtype=bool))
    return Case(_problem(log, bondic.CallablePolicy(_greedy), starts, **terms), truth)


def _stay_up(states: FloatArray) -> FloatArray:
    left = 0.5 + 0.5 * np.tanh(4 * (states[:, 0] + states[:, 1]))
    return np.column_stack([left, 1 - left])


def _stick_step(states: FloatArray, actions: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """It ends at |s_0| > 1: a cliff, and the next state is told exactly."""
    del rng
    push = np.where(actions == 1, 0.25, -0.25)
    after = np.column_stack([states[:, 0] + 0.3 * states[:, 1], 0.95 * states[:, 1] + 0.3 * states[:, 0] + push])
    ended = np.abs(after[:, 0]) > 1
    return 1.0 - ended, after, ended


def falling_stick(rows: int, seed: int) -> Case:
    """A stick that falls over: reward 1 for every step, 0 for the one that ends."""
    rng, kept, s = np.random.default_rng(seed), [], np.zeros((1, 2))
    while len(kept) < rows:
        a = np.array([int(rng.random() < 0.5 - 0.2 * np.tanh(3 * s.sum()))])
        r, after, ended = _stick_step(s, a, rng)
        kept.append((s[0], a[0], r[0], after[0], ended[0]))
        s = rng.uniform(-0.2, 0.2, (1, 2)) if ended[0] else after
    log = bondic.Transitions(*(np.array(column) for column in zip(*kept, strict=True)))
    starts = np.random.default_rng(5).uniform(-0.2, 0.2, (16, 2))
    many, rng = np.repeat(starts, 200, axis=0), np.random.default_rng(3)
    truth = float(discounted_returns(many, 100, _stick_step, _stay_up, gamma=STICK_GAMMA, rng=rng).mean())
    terms = {"gamma": STICK_GAMMA, "reward_range": (0.0, 1.0)}
    return Case(_problem(log, bondic.CallablePolicy(_stay_up), starts, **terms), truth)


def fresh(name: str, rows: int, seed: int) -> Case:
    """A world that no rule was made with."""
    return Case(*question(WORLDS[name], rows, seed))


CASES: dict[str, Callable[[int, int], Case]] = {
    "pendulum": partial(shipped, "pendulum"),
    "cart-pole": partial(shipped, "cartpole"),
    "glucose": partial(shipped, "glucose"),
    "long cart-pole": long_cart_pole,
    "falling stick": falling_stick,
    "sparse": partial(walk, True, GAMMA),
    "one-step": one_step,
    "long walk": partial(walk, False, LONG_GAMMA),
    **{name: partial(fresh, name) for name in WORLDS},
}
