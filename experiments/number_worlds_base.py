"""A world of numbers with known q*: a log, a question, and every value of the policy.

`box_world` builds most of them. The next state is drawn from one of J boxes, uniformly inside the box:

    P(s' | s, a) = Σ_j φ_j(s, a) U(box_j),   1 − Σ_j φ_j(s, a): the process ends,
    q*(s, a) = r(s, a) + γ Σ_j φ_j(s, a) V_j,   V = (I − γ M)⁻¹ c,   M_jk = E_{U(box_j)π} φ_k,   c_j = E_{U(box_j)π} r,

for any r, φ, π. The integrals are Gauss–Legendre sums: exact up to rounding where r, φ, π are smooth inside each box, so boxes
end where these functions jump.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np
from experiments.defaults_cells import FloatArray, Recorder, one_step_log

import bondic

Values = Callable[[FloatArray, Any], FloatArray]
"""States (m, d) and actions (m,) or (m, k) to numbers (m,) or (m, J)."""
Step = Callable[[FloatArray, Any, np.random.Generator], tuple[Any, Any, Any]]
Choices = Callable[[FloatArray], tuple[Any, FloatArray]]
"""States (m, d) to the policy's actions (m, K) or (m, K, k) and their probabilities (m, K)."""
Behavior = Callable[[FloatArray, np.random.Generator], Any]


@dataclass(frozen=True, eq=False)
class NumberWorld:
    """`step` draws (rewards, next states, ends); `error` bounds the error of q* and v*, or is a standard error if `noisy`."""

    name: str
    gamma: float
    reward_range: tuple[float, float]
    value_range: tuple[float, float] | None  # stated, where it is narrower than the reward range implies
    terminates: bool
    make_log: Callable[[int, int], bondic.Transitions]  # rows, seed
    policy: Any
    initial: bondic.InitialStates
    q_star: Values
    v_star: Callable[[FloatArray], FloatArray]
    step: Step
    error: float = 1e-9
    noisy: bool = False
    statements: dict[str, Any] = field(default_factory=dict)  # groups and model of the user
    rows: int = 3000  # of a log

    @cached_property
    def truth(self) -> float:
        """J* = E_{d_0} v*."""
        return float(self.initial.weights @ self.v_star(self.initial.observations))

    def problem(self, rows: int, seed: int, **options: Any) -> Any:
        """What a user would ask of this log."""
        return bondic.make_problem(
            self.make_log(rows, seed),
            self.policy,
            self.initial,
            gamma=self.gamma,
            reward_range=self.reward_range,
            value_range=self.value_range,
            may_terminate=self.terminates,
            **options,
        )


def listed(probabilities: Callable[[FloatArray], FloatArray]) -> Choices:
    """A policy over finitely many actions."""

    def choices(states: FloatArray) -> tuple[Any, FloatArray]:
        probs = probabilities(states)
        return np.broadcast_to(np.arange(probs.shape[1]), probs.shape), probs

    return choices


def single(choose: Callable[[FloatArray], Any]) -> Choices:
    """One continuous action per state: states (m, d) to (m, k)."""
    return lambda states: (choose(states)[:, None], np.ones((len(states), 1)))


def over_policy(function: Values, choices: Choices, states: FloatArray) -> FloatArray:
    """Σ_a π(a|s) f(s, a): (m,) or (m, J)."""
    actions, probs = choices(states)
    values = [function(states, actions[:, k]) for k in range(probs.shape[1])]
    return np.asarray(sum((probs[:, k] * value.T).T for k, value in enumerate(values)))


def episodes(
    starts: Callable[[int, np.random.Generator], FloatArray], behave: Behavior, step: Step, longest: int = 50
) -> Callable[[int, int], bondic.Transitions]:
    """Streams side by side, about 100 rows each; an episode is cut after `longest` rows."""

    def make_log(rows: int, seed: int) -> bondic.Transitions:
        recorder, rng = Recorder(starts, longest), np.random.default_rng([seed, 26])
        return recorder.log(lambda s, _, r: behave(s, r), step, rows=rows, streams=max(1, rows // 100), rng=rng)

    return make_log


def decisions(
    contexts: Callable[[int, np.random.Generator], FloatArray], behave: Behavior, step: Step
) -> Callable[[int, int], bondic.Transitions]:
    """One-step logs: the reward, then nothing."""

    def make_log(rows: int, seed: int) -> bondic.Transitions:
        rng = np.random.default_rng([seed, 26])
        states = contexts(rows, rng)
        actions = behave(states, rng)
        return one_step_log(states, actions, step(states, actions, rng)[0])

    return make_log


def uniform_actions(count: int) -> Behavior:
    return lambda states, rng: rng.integers(count, size=len(states))


@dataclass(frozen=True, eq=False)
class Boxes:
    """J boxes in R^d; a side of length 0 is a fixed number. Uniform draws and Gauss–Legendre nodes."""

    low: FloatArray  # (J, d)
    high: FloatArray

    @staticmethod
    def grid(*edges: Any) -> Boxes:
        """All products of intervals between neighbors of the sorted edges, or of [v, v] for each v of a tuple ("at", v, ...)."""
        axes = [_intervals(axis) for axis in edges]
        sides = np.array(list(product(*axes)), dtype=np.float64)  # (J, d, 2)
        return Boxes(sides[:, :, 0], sides[:, :, 1])

    def __len__(self) -> int:
        return len(self.low)

    def draw(self, which: Any, rng: np.random.Generator) -> FloatArray:
        return np.asarray(rng.uniform(self.low[which], self.high[which]))

    def volumes(self) -> FloatArray:
        """Of the sides that have a length, normed to sum 1."""
        sizes = np.prod(np.where(self.high > self.low, self.high - self.low, 1.0), axis=1)
        return np.asarray(sizes / sizes.sum())

    def nodes(self, order: int) -> tuple[FloatArray, FloatArray]:
        """(J, N, d) points and (N,) weights of the mean over a box."""
        points, weights = np.polynomial.legendre.leggauss(order)
        flat = np.all(self.high == self.low, axis=0)
        axes = [(np.zeros(1), np.ones(1)) if same else (points, weights / 2.0) for same in flat]
        unit = np.array(list(product(*(axis[0] for axis in axes))))  # (N, d), in [-1, 1]
        masses = np.array([np.prod(part) for part in product(*(axis[1] for axis in axes))])
        middle, half = (self.high + self.low) / 2.0, (self.high - self.low) / 2.0
        return middle[:, None] + half[:, None] * unit, masses


def _intervals(axis: Any) -> list[tuple[float, float]]:
    if axis[0] == "at":
        return [(value, value) for value in axis[1:]]
    return list(pairwise(axis))


def box_values(
    boxes: Boxes, reward: Values, moves: Values, choices: Choices, gamma: float, order: int = 8
) -> FloatArray:
    """V of the module's opening: (J,)."""
    points, masses = boxes.nodes(order)
    flat = points.reshape(-1, points.shape[2])
    means = over_policy(reward, choices, flat).reshape(points.shape[:2]) @ masses
    chain = np.einsum("jnk,n->jk", over_policy(moves, choices, flat).reshape(*points.shape[:2], -1), masses)
    return np.asarray(np.linalg.solve(np.eye(len(boxes)) - gamma * chain, means))


def box_world(
    name: str,
    boxes: Boxes,
    chance: Values,
    choices: Choices,
    policy: Any,
    starts: FloatArray,
    *,
    gamma: float = 0.0,
    moves: Values | None = None,
    pay: Values | None = None,
    most: float = 1.0,
    behave: Behavior | None = None,
    begin: FloatArray | None = None,
    contexts: Callable[[int, np.random.Generator], FloatArray] | None = None,
    weights: FloatArray | None = None,
    terminates: bool = False,
    value_range: tuple[float, float] | None = None,
    order: int = 8,
) -> NumberWorld:
    """r is `pay` (1 unless given, at most `most`) with probability `chance`, else 0. No `moves`: single decisions.

    Episodes of the log begin in box j with probability `begin` (its volume), and actions are uniform over two unless given.
    """
    first = boxes.volumes() if begin is None else begin
    behavior = uniform_actions(2) if behave is None else behave
    size: Values = (lambda s, _: np.ones(len(s))) if pay is None else pay
    draw = contexts or (lambda n, rng: boxes.draw(rng.choice(len(boxes), n, p=first), rng))

    def reward(s: FloatArray, a: Any) -> FloatArray:
        return np.asarray(size(s, a) * chance(s, a))

    def step(s: FloatArray, a: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        rewards = size(s, a) * (rng.random(len(s)) < chance(s, a))
        if moves is None:
            return rewards, s, np.ones(len(s), dtype=bool)
        below = np.cumsum(moves(s, a), axis=1)
        below[:, -1] += 0.0 if terminates else 1.0  # rounding of the sum ends nothing
        following = np.sum(rng.random(len(s))[:, None] >= below, axis=1)
        ends = following == len(boxes)
        return rewards, boxes.draw(np.where(ends, 0, following), rng), ends

    values = None if moves is None else box_values(boxes, reward, moves, choices, gamma, order)

    def q_star(s: FloatArray, a: Any) -> FloatArray:
        later = 0.0 if moves is None else gamma * moves(s, a) @ values
        return np.asarray(reward(s, a) + later)

    return NumberWorld(
        name=name,
        gamma=gamma,
        reward_range=(0.0, most),
        value_range=value_range,
        terminates=terminates or moves is None,
        make_log=decisions(draw, behavior, step) if moves is None else episodes(draw, behavior, step),
        policy=policy,
        initial=bondic.InitialStates.exact(starts, weights),
        q_star=q_star,
        v_star=lambda s: over_policy(q_star, choices, s),
        step=step,
    )


def discrete_world(
    name: str, boxes: Boxes, chance: Values, probabilities: Any, starts: FloatArray, **options: Any
) -> NumberWorld:
    """A box world with finitely many actions."""
    policy = bondic.CallablePolicy(probabilities)
    return box_world(name, boxes, chance, listed(probabilities), policy, starts, **options)


def chosen_world(
    name: str, boxes: Boxes, chance: Values, choose: Any, starts: FloatArray, **options: Any
) -> NumberWorld:
    """A box world with one continuous action per state."""
    return box_world(name, boxes, chance, single(choose), bondic.DeterministicPolicy(choose), starts, **options)


def always(*probs: float) -> Callable[[FloatArray], FloatArray]:
    """The same probabilities everywhere."""
    return lambda states: np.tile(probs, (len(states), 1))


def column(*values: Any) -> FloatArray:
    """Numbers as states with one column."""
    return np.concatenate([np.atleast_1d(v) for v in values]).astype(np.float64)[:, None]
