"""The logs of the paper's experiments, with W, Q and the true value: everything the paper leaves open is chosen here.

W: k = ½ · constant + ½ · g_h(s, s̄) · ½ (1 + 1[a = ā]), g_h by cos/sin features, so K_max ≤ 1; the constant holds the
mean weight 1/(1 − γ) cheaply, and the kernel of actions is a Gaussian on one-hot codes with bandwidth 1.2.
Q: k̃ = g_h̃(s, s̄) · ½ (1 + 1[a = ā]) + 1. Bandwidths are multiples of the median distance;
that distance, the scales and r_Q = 10 ‖q̂‖ come from a separate log of `PILOT_ROWS` rows with a seed of its own: W and Q
never see a row that is certified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from bondic.core.balls import Ball, Instruments
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac, Gaussian
from bondic.data.initial import InitialStates
from bondic.data.transitions import Transitions
from bondic.errors import did_you_mean
from bondic.rows import Rows
from bondic.rows.problem import make_problem
from bondic.tuning.radius import held_out_norm
from bondic_lab.worlds.rollout import Floats, Rollout, discounted_returns, simulate_steps
from bondic_lab.worlds.shipped import ENVIRONMENTS, shipped_policy

PILOT_ROWS = 5000
STARTS = 50
"""d_0 of a simulated world is the uniform distribution on this many fixed states, drawn once: so d_0 is known exactly."""

PAIRS = 24
TARGET_TEMPERATURE = 0.1
RADIUS_FACTOR = 10.0
_PILOT_SEED, _START_SEED, _VALUE_SEED = 1, 2, 3


@dataclass(frozen=True, eq=False)
class Setup:
    """One question with its answer; a miss by less than `slack` does not count."""

    problem: Rows
    instruments: Instruments
    ball: Ball  # with the radius the paper would take
    truth: float
    slack: float = 0.0
    episodes: Rows | None = None  # the same question about a fixed number of whole episodes, where it was asked for


@dataclass(frozen=True)
class SimulatedWorld:
    """Which shipped policy, how the log is made, which bandwidths; the value is simulated, see `simulate_value`."""

    stage: str
    temperature: float  # of the behavior; the target's is 0.1
    length: int
    value: float
    standard_error: float
    weight_bandwidth: float = 1.0
    value_bandwidth: float = 3.0


SIMULATED = {
    # values: simulate_value(name, 400), for glucose simulate_value("glucose", 40)
    "pendulum": SimulatedWorld("partly", 0.3, 50, 19.8544, 0.0010),
    "cartpole": SimulatedWorld("partly", 0.3, 100, 19.8420, 0.0009),
    "glucose": SimulatedWorld("good", 1.0, 50, -0.3739, 0.0015),
}


def simulated_world(name: str, **changes: Any) -> SimulatedWorld:
    """How a world is simulated, with changes."""
    if name not in SIMULATED:
        near = did_you_mean(name, SIMULATED)
        raise InvalidInput(f"There is no recipe for {name!r}.{near} There are {', '.join(SIMULATED)}.")
    return replace(SIMULATED[name], **changes)


@cache
def start_states(name: str) -> Floats:
    """The states that make up d_0."""
    return ENVIRONMENTS[name]().starts(STARTS, np.random.default_rng(_START_SEED))


def simulate_value(name: str, repeats: int, length: int = 250) -> tuple[float, float]:
    """J* and its standard error from `repeats` episodes per start; what lies beyond `length` is worth 5.4e-5 at most."""
    world, policy = ENVIRONMENTS[name](), shipped_policy(name, SIMULATED[name].stage, TARGET_TEMPERATURE)
    starts, rng = np.repeat(start_states(name), repeats, axis=0), np.random.default_rng(_VALUE_SEED)
    sums = discounted_returns(starts, length, world.step, policy.action_probs, gamma=world.gamma, rng=rng)
    per_start = sums.reshape(STARTS, repeats)
    return float(per_start.mean()), float(np.sqrt(np.mean(per_start.var(axis=1, ddof=1)) / sums.size))


def simulated(name: str, rows: int, rng: np.random.Generator, *, whole: bool = False, **changes: Any) -> Setup:
    """`rows` rows of a simulated world, with W and Q from the pilot log.

    A log that ends after `rows` rows interrupts an episode, and how many episodes it holds is left to chance. Methods
    that count episodes are not made for that: `whole` adds a log of whole episodes from the same simulation. Their
    number is fixed by the pilot log, so that they have `rows` rows on average.
    """
    chosen = simulated_world(name, **changes)
    instruments, ball, mean_length = _classes(name, chosen)
    count = max(2, round(rows / mean_length)) if whole else 0
    rollout = _rollout(name, chosen, rows, count, rng)
    return Setup(
        _problem(name, cut(rollout, rows)),
        instruments,
        ball,
        chosen.value,
        4.0 * chosen.standard_error + 1e-4,
        _problem(name, first_episodes(rollout, count)) if whole else None,
    )


def kernels(
    dimension: int, scale: Any, center: Any, weight_bandwidth: float, value_bandwidth: float
) -> tuple[Kernel, Kernel]:
    """k and k̃ of the module's opening."""
    alike = 0.5 * Constant(1.0) + 0.5 * Dirac(on="action")
    features = RandomFeatures.gaussian(PAIRS, dimension, weight_bandwidth * scale, seed=0, center=center, on="state")
    weights = 0.5 * Constant(1.0) + 0.5 * (features * alike)
    return weights, Gaussian(value_bandwidth * scale, on="state") * alike + Constant(1.0)


def cut(rollout: Rollout, rows: int) -> Transitions:
    """The first `rows` rows; an episode that the cut interrupts is marked as truncated."""
    columns: dict[str, Any] = {key: np.array(column[:rows]) for key, column in vars(rollout).items()}
    columns["truncations"][-1] = not columns["terminations"][-1]
    return Transitions(**columns)


def first_episodes(rollout: Rollout, count: int) -> Transitions:
    """The episodes 0 … count − 1, each as long as it was."""
    columns: dict[str, Any] = {
        key: np.array(column[rollout.episode_ids < count]) for key, column in vars(rollout).items()
    }
    return Transitions(**columns)


def join(parts: Sequence[Any]) -> Rollout:
    """Logs, or rollouts, one after the other."""
    return Rollout(**{field.name: np.concatenate([getattr(p, field.name) for p in parts]) for field in fields(Rollout)})


def _rollout(name: str, chosen: SimulatedWorld, rows: int, count: int, rng: np.random.Generator) -> Rollout:
    """Episodes from d_0, a few more than needed at a time, until there are `rows` rows and `count` episodes."""
    world, policy = ENVIRONMENTS[name](), shipped_policy(name, chosen.stage, chosen.temperature)
    starts, parts, have, episodes = start_states(name), [], 0, 0
    while have < rows or episodes < count:
        batch = max(4, (rows - have) // chosen.length + 1)
        first = starts[rng.integers(len(starts), size=batch)]
        part = simulate_steps(first, chosen.length, world.step, policy.action_probs, rng=rng)
        parts.append(replace(part, episode_ids=part.episode_ids + episodes))
        have, episodes = have + len(part.rewards), episodes + batch
    return join(parts)


def _problem(name: str, log: Transitions) -> Rows:
    world, target = ENVIRONMENTS[name](), shipped_policy(name, SIMULATED[name].stage, TARGET_TEMPERATURE)
    return make_problem(
        log,
        target,
        InitialStates.exact(start_states(name)),
        gamma=world.gamma,
        reward_range=world.reward_range,
        may_terminate=world.may_terminate,
    )


@cache
def _classes(name: str, chosen: SimulatedWorld) -> tuple[Instruments, Ball, float]:
    """W, Q and the mean length of an episode, fixed by a log that is used for nothing else."""
    simulation = _rollout(name, chosen, PILOT_ROWS, 0, np.random.default_rng(_PILOT_SEED))
    mean_length = len(simulation.rewards) / np.unique(simulation.episode_ids).size
    pilot = _problem(name, cut(simulation, PILOT_ROWS))
    states = pilot.whole().logged[:, : pilot.layout.dimension]
    spread = states.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)  # glucose: a component that never moves has no scale
    scale = spread * float(np.median(pdist(states[::5] / spread)))
    weights, values = kernels(
        states.shape[1], scale, states.mean(axis=0), chosen.weight_bandwidth, chosen.value_bandwidth
    )
    radius = RADIUS_FACTOR * held_out_norm(pilot, values, weights)
    return Instruments(weights), Ball(values, radius), mean_length
