"""Worlds whose q* is a formula: there r_Q = factor · ‖q*‖ is a choice, not an estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from bondic.core.balls import Ball, Instruments
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac, Gaussian
from bondic.data.initial import InitialStates
from bondic.data.transitions import Transitions
from bondic.policies.standard import TablePolicy
from bondic.rows import Rows
from bondic.rows.problem import make_problem
from bondic_lab.reproduction.worlds import PAIRS, Setup, cut, join
from bondic_lab.worlds.continuous import ContinuousMDP, hermite_rule
from bondic_lab.worlds.occupancy import efficient_variance, log_distribution
from bondic_lab.worlds.rollout import Floats
from bondic_lab.worlds.tabular import TabularMDP

ALIGNED = 10.0
"""r_Q = 10 ‖q*‖ unless the radius is what is varied."""


LINE = "s, a in R"
"""Parameter of the cells of the synthetic world: stored trials of another world are told apart by it."""

LINE_PAIRS = 2 * PAIRS
"""cos/sin pairs of k on (s, a): as many features as PAIRS pairs on the state for each of two actions."""

DRAWS = 5
"""Actions a' ~ π(·|s') per row; their mean stands for the mean over π, and its noise is part of the residual."""

_START_NODES, _ACTION_NODES = 16, 10


@cache
def synthetic_world(gamma: float = 0.95) -> ContinuousMDP:
    """s, a ∈ R, q* a sum of 8 Gaussians and a constant; target temperature 0.1, behavior 1."""
    return ContinuousMDP.default(gamma)


def synthetic(
    rows: int,
    rng: np.random.Generator,
    *,
    gamma: float = 0.95,
    length: int = 50,
    mixtures: Sequence[float] = (0.0,),
) -> Setup:
    """A log of the behavior α π + (1 − α) β for each α, equally many rows each; ‖q*‖ and J* are exact."""
    mdp = synthetic_world(gamma)
    parts = []
    for index, (rate, share) in enumerate(zip(mixtures, _shares(rows, len(mixtures)), strict=True)):
        part = mdp.rollout(share // length + 1, length, rng, behavior=float(rate))
        parts.append(cut(replace(part, episode_ids=part.episode_ids + index * 10**6), share))
    problem = _question(mdp, cut(join(parts), rows))
    # k: bandwidth 1/2 on (s, a); k̃: the space in which ‖q*‖ is known
    weights = 0.5 * Constant(1.0) + 0.5 * _line_features()
    values = Gaussian(mdp.bandwidth, on="point") + mdp.offset * Constant(1.0)
    return Setup(problem, Instruments(weights), Ball(values, ALIGNED * mdp.q_norm), mdp.value, 1e-9)


def _line_features() -> RandomFeatures:
    return RandomFeatures.gaussian(LINE_PAIRS, 2, 0.5, seed=0, on="point")


def weight_features(points: Floats) -> Floats:
    """ψ(x) with k(x, y) = ψ(x) · ψ(y) for the k of `synthetic`: (n, 2) to (n, 2 LINE_PAIRS + 1)."""
    return np.asarray(np.sqrt(0.5) * np.hstack([np.ones((len(points), 1)), _line_features().features(points)]))


def start_rule(mdp: ContinuousMDP) -> tuple[Floats, Floats, Floats]:
    """States (n, 1), actions (n, 1) and weights (n,) that stand for d_0 and π: Gauss–Hermite in both.

    An interval for the value from this weighted list is exact about it: no part of δ is spent on d_0 or on drawn first
    actions. At q* the list is off by less than 1e-9 (tests: 1e-12), which is the slack of the setup.
    """
    (place, share), (draw, part) = hermite_rule(_START_NODES), hermite_rule(_ACTION_NODES)
    states = np.repeat(mdp.initial_mean + np.sqrt(mdp.initial_variance) * place, draw.size)
    actions = mdp.gain * states + np.sqrt(mdp.target_temperature) * np.tile(draw, place.size)
    return states[:, None], actions[:, None], np.repeat(share, draw.size) * np.tile(part, place.size)


def _question(mdp: ContinuousMDP, log: Transitions) -> Rows:
    """The value from `start_rule`; next actions are drawn, first actions are those of the rule."""
    states, actions, weights = start_rule(mdp)
    problem = make_problem(
        log,
        mdp.target,
        InitialStates.exact(states, weights),
        gamma=mdp.gamma,
        reward_range=mdp.reward_range,
        may_terminate=False,
        draws=DRAWS,
        initial_draws=1,
    )
    starts = replace(problem.initial, points=np.hstack([states, actions]))
    return replace(problem, initial=starts, answers=replace(problem.answers, initial=actions[:, None, :], exact=True))


@cache
def synthetic_variance(gamma: float = 0.95, length: int = 50, mixtures: tuple[float, ...] = (0.0,)) -> float:
    """V* of the log that `synthetic` makes, by quadrature: the length limit is 2 z sqrt(V*/n), section 10."""
    mdp = synthetic_world(gamma)
    return efficient_variance(mdp, log_distribution(mdp, length, mixtures))


@cache
def tabular_world(seed: int, gamma: float) -> TabularMDP:
    """4 states, 2 actions, rewards in [0, 1] with noise ±0.1."""
    return TabularMDP.random(np.random.default_rng(seed), n_states=4, n_actions=2, gamma=gamma, reward_noise=0.1)


def tabular(rows: int, rng: np.random.Generator, *, seed: int, gamma: float, length: int = 50) -> Setup:
    """k = k̃ = Dirac on (state, action), and a constant in k; ‖q*‖² is the sum of squares of the table."""
    mdp = tabular_world(seed, gamma)
    states = np.arange(mdp.initial_probs.size, dtype=float)[:, None]
    problem = make_problem(
        cut(mdp.rollout(rows // length + 1, length, rng), rows),
        TablePolicy(mdp.target),
        InitialStates.exact(states, mdp.initial_probs),
        gamma=gamma,
        reward_range=mdp.reward_range,
        may_terminate=False,
    )
    table = Dirac(on="state") * Dirac(on="action")
    weights = 0.5 * Constant(1.0) + 0.5 * table
    norm = float(np.linalg.norm(mdp.q_star))
    return Setup(problem, Instruments(weights), Ball(table, ALIGNED * norm), mdp.value, 1e-9)


def _shares(rows: int, parts: int) -> list[int]:
    """`rows` as a sum of nearly equal whole numbers."""
    return [rows // parts + (index < rows % parts) for index in range(parts)]
