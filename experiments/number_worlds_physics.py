"""Simulated bodies: a pendulum with three torques, carts with a pole, glucose.

The first two are deterministic and so are their policies: q* is one simulated return, cut where γ^t max|r| / (1 − γ) < 1e-7.
Glucose is random: q* is the mean of a few returns, with a standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from experiments.defaults_cells import FloatArray
from experiments.defaults_problems_gym import RULES
from experiments.number_worlds_base import NumberWorld, Step, episodes

import bondic
from bondic_lab.worlds.rollout import discounted_returns
from bondic_lab.worlds.shipped import ENVIRONMENTS, shipped_policy

CUT = 1e-7
TORQUES = 2.0 * np.array([-1.0, 0.0, 1.0])
WORST = np.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2
FALLING = (0.0, 0.0, 1.0, 0.0)
"""Push where the pole leans: it swings ever wider and falls after some 40 steps."""
FEW_VALUES = 1024
RETURN_SD = 0.17  # of glucose, from one start: root mean square over the 64 starts, 8 returns each
Choose = Callable[[FloatArray], Any]


def simulated_return(step: Step, choose: Choose, gamma: float, s: FloatArray, a: Any) -> FloatArray:
    """Σ γ^t r_t from (s, a), then the policy; rewards are at most 1 in size."""
    rng, total, rows = np.random.default_rng(0), np.zeros(len(s)), np.arange(len(s))
    for t in range(int(np.ceil(np.log(CUT * (1 - gamma)) / np.log(gamma)))):
        rewards, after, ends = step(s, a, rng)
        total[rows] += gamma**t * rewards
        s, rows = after[~ends], rows[~ends]
        if not len(rows):
            break
        a = choose(s)
    return total


def determined_world(
    name: str,
    step: Step,
    choose: Choose,
    actions: int,
    draw: Callable[[int, np.random.Generator], FloatArray],
    *,
    gamma: float,
    random: float,
    longest: int,
    starts: FloatArray,
    **terms: Any,
) -> NumberWorld:
    """Behavior: the policy, but a share of random actions."""

    def behave(s: FloatArray, rng: np.random.Generator) -> Any:
        return np.where(rng.random(len(s)) < random, rng.integers(actions, size=len(s)), choose(s))

    return NumberWorld(
        name=f"{name}, γ {gamma:g}",
        gamma=gamma,
        make_log=episodes(draw, behave, step, longest),
        policy=bondic.DeterministicPolicy(choose, n_actions=actions),
        initial=bondic.InitialStates.exact(starts),
        q_star=lambda s, a: simulated_return(step, choose, gamma, s, np.broadcast_to(a, len(s))),
        v_star=lambda s: simulated_return(step, choose, gamma, s, choose(s)),
        step=step,
        error=CUT,
        **terms,
    )


def swing(states: FloatArray, actions: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Gymnasium's Pendulum-v1: states (cos θ, sin θ, speed), reward 1 − cost / largest cost."""
    del rng
    angle, force = np.arctan2(states[:, 1], states[:, 0]), TORQUES[actions]
    cost = angle**2 + 0.1 * states[:, 2] ** 2 + 0.001 * force**2
    speed = np.clip(states[:, 2] + (15.0 * states[:, 1] + 3.0 * force) * 0.05, -8.0, 8.0)
    angle = angle + 0.05 * speed
    return 1.0 - cost / WORST, np.column_stack([np.cos(angle), np.sin(angle), speed]), np.zeros(len(states), dtype=bool)


def swing_up(states: FloatArray) -> Any:
    """Near the top against the lean, elsewhere with the motion until the energy suffices."""
    cosine, sine, speed = states.T
    lean = 8.0 * sine + 2.0 * speed
    energy = speed**2 / 6.0 + 5.0 * (cosine - 1.0)
    pump = np.where(energy < 0, np.sign(speed), 0.0)
    return 1 + np.where(cosine > 0.9, -np.sign(lean) * (np.abs(lean) > 0.2), pump).astype(np.int64)


def swing_starts(count: int, rng: np.random.Generator) -> FloatArray:
    angle, speed = rng.uniform(-np.pi, np.pi, count), rng.uniform(-1.0, 1.0, count)
    return np.column_stack([np.cos(angle), np.sin(angle), speed])


def pendulum(gamma: float = 0.95) -> NumberWorld:
    starts = swing_starts(30, np.random.default_rng(2))
    terms = {"reward_range": (0.0, 1.0), "value_range": None, "terminates": False, "starts": starts}
    return determined_world(
        "pendulum with three torques", swing, swing_up, 3, swing_starts, gamma=gamma, random=0.5, longest=200, **terms
    )


def pole(name: str, rule: tuple[float, ...], random: float, spread: float, gamma: float) -> NumberWorld:
    """CartPole-v1's dynamics and limits, cut after 500 rows; push right where `rule` times the state is positive."""
    world, weights = ENVIRONMENTS["cartpole"](), np.array(rule)

    def draw(count: int, rng: np.random.Generator) -> FloatArray:
        return rng.uniform(-spread, spread, (count, 4))

    return determined_world(
        name,
        world.step,
        lambda s: (s @ weights > 0).astype(np.int64),
        2,
        draw,
        gamma=gamma,
        random=random,
        longest=500,
        starts=draw(20, np.random.default_rng(0)),
        reward_range=world.reward_range,
        value_range=(1.0, 1.0 / (1.0 - gamma)),
        terminates=True,
    )


def glucose(returns: int = 1, length: int = 200) -> NumberWorld:
    """The library's glucose: partly trained policy at temperature .1, logs of the same at temperature 1; 64 listed starts.

    A value is the mean of `returns` returns of `length` steps (what follows is below 8e-4 in size), of more where few values
    are requested: 1024 returns in all, so that J* has a standard error of .005. A return takes 10 ms: 100 s for 10⁴ rows.
    """
    world, policy = ENVIRONMENTS["glucose"](), shipped_policy("glucose", "partly", 0.1)
    behavior = shipped_policy("glucose", "partly", 1.0)

    def behave(s: FloatArray, rng: np.random.Generator) -> Any:
        below = np.cumsum(behavior.action_probs(s), axis=1)[:, :-1]
        return np.sum(rng.random(len(s))[:, None] >= below, axis=1)

    def mean_returns(s: FloatArray, a: Any = None) -> FloatArray:
        """From (s, a), or from s with the policy's action."""
        repeats, rng = max(returns, -(-FEW_VALUES // len(s))), np.random.default_rng(5)
        states, now, discount = np.repeat(s, repeats, axis=0), 0.0, 1.0
        if a is not None:
            now, states, _ = world.step(states, np.repeat(a, repeats), rng)
            discount = world.gamma
        later = discounted_returns(states, length, world.step, policy.action_probs, gamma=world.gamma, rng=rng)
        return np.asarray((now + discount * later).reshape(-1, repeats).mean(axis=1))

    return NumberWorld(
        name=f"glucose, γ {world.gamma:g}",
        gamma=world.gamma,
        reward_range=world.reward_range,
        value_range=None,
        terminates=False,
        make_log=episodes(world.starts, behave, world.step, world.horizon),
        policy=policy,
        initial=bondic.InitialStates.exact(world.starts(64, np.random.default_rng(123))),
        q_star=mean_returns,
        v_star=mean_returns,
        step=world.step,
        error=RETURN_SD / np.sqrt(returns),
        noisy=True,
    )


def physics_worlds() -> list[NumberWorld]:
    return [
        pendulum(),
        pole("cart-pole that falls", FALLING, 0.5, 0.15, 0.9),
        glucose(),
        *(pole("CartPole-v1", RULES["standing"], 0.5, 0.05, gamma) for gamma in (0.9, 0.95, 0.99)),
    ]
