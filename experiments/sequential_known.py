"""Logs of problems whose q* is known at every pair, for the sequential interval: tables and a continuous state.

`Known.q` gives q* at points and slots; everything else that q* decides (Y_i, Z_i, where q* lies in coordinates) follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from experiments.coverage_checks import FloatArray
from experiments.coverage_intervals import ContinuousMDP
from experiments.coverage_saturating import transitions_of

import bondic as b
from bondic.core.balls import Ball, constant_function
from bondic.core.claims import Side
from bondic.core.columns import Batch
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.sequential.proof import SequentialProof
from bondic.core.terms import range_of
from bondic.rows.rows import Rows
from bondic_lab.worlds.synthetic import SyntheticMDP
from bondic_lab.worlds.tabular import TabularMDP

IntArray = npt.NDArray[np.int64]
Generator = np.random.Generator

SYNTHETIC = SyntheticMDP.default(0.8, reward_noise=0.1, termination=0.1)
TABULAR = TabularMDP.random(np.random.default_rng(3), n_states=4, n_actions=2, gamma=0.8, reward_noise=0.1)
ENDING = TabularMDP.random(
    np.random.default_rng(5), n_states=4, n_actions=2, gamma=0.9, reward_noise=0.2, termination=0.2
)
EPISODIC = replace(ENDING, gamma=1.0)
FACTOR = 3.0
"""Radius of a ball over the norm of q*."""


@dataclass(frozen=True, eq=False)
class Known:
    """A question with its answer."""

    problem: Rows
    ball: Ball
    value: float  # J*
    q: Callable[[FloatArray, IntArray], FloatArray]  # points (N, D), slots (N,) -> (N,)

    def at_rows(self, batch: Batch) -> tuple[FloatArray, FloatArray]:
        """q*(x_i), and the mean of q* over the policy at x'_i, 0 where nothing follows."""
        cloud, slots = batch.next, batch.layout.slots
        everywhere = [self.q(cloud.points, np.full(len(cloud.points), slot)) for slot in range(slots)]
        return self.q(batch.logged, batch.slots), cloud.per_row(np.stack(everywhere, axis=1), len(batch))

    def at_starts(self, rows: Rows) -> float:
        """The mean of q* over the initial states and actions that were seen: J*, if the start is exact."""
        cloud, count = rows.initial, len(rows.initial_states)
        everywhere = [self.q(cloud.points, np.full(len(cloud.points), slot)) for slot in range(rows.layout.slots)]
        return float(rows.initial_states.weights @ cloud.per_row(np.stack(everywhere, axis=1), count))


def certify(known: Known, alpha: float, side: Side = "both", pilot: float | int = 0.05) -> tuple[SequentialProof, Rows]:
    """The proof that the sequential method finds in coordinates, and the rows that it is about."""
    method = b.Sequential(ball=known.ball, side=side, pilot=pilot)
    result = b.estimate_interval(known.problem, alpha=alpha, method=method)
    assert isinstance(result.proof, SequentialProof)
    return result.proof, known.problem.select(*result.rows)


def table(
    rng: Generator,
    mdp: TabularMDP,
    rows: int,
    *,
    behavior: str = "logging",
    ball: bool = False,
    horizon: int | None = None,
    starts: int | None = None,
) -> Known:
    """States are categories; Q is a ball around 0, or one around the middle that holds every function in the value range.

    `horizon` asks for the value of so many steps, `starts` draws so many initial states in place of all with their weights.
    """
    log = transitions_of(mdp.rollout(rows // 2, 40 if horizon is None else horizon + 1, rng, behavior=behavior), rows)
    states = np.arange(float(len(mdp.initial_probs)))[:, None]
    initial = b.InitialStates.exact(states, mdp.initial_probs)
    if starts is not None:
        initial = b.InitialStates.sample(states[rng.choice(len(states), starts, p=mdp.initial_probs)])
    problem = b.make_problem(
        log,
        b.TablePolicy(mdp.target),
        initial,
        gamma=mdp.gamma,
        reward_range=mdp.reward_range,
        may_terminate=bool(np.any(mdp.termination)),
        horizon=horizon,
    )
    kernel = Dirac(on="state") * Dirac(on="action")
    pairs = mdp.q_star.size * (horizon or 1)
    assumed = b.Ball(kernel, FACTOR * float(np.linalg.norm(mdp.q_star))) if ball else nothing_assumed(problem, pairs)
    if horizon is None:
        return Known(problem, assumed, mdp.value, lambda points, slots: mdp.q_star[points[:, 0].astype(int), slots])
    values = mdp.finite_horizon(horizon)
    value = float(mdp.initial_probs @ np.sum(mdp.target * values[0], axis=1))
    return Known(problem, assumed, value, lambda points, slots: values[*reversed(points[:, :2].astype(int).T), slots])


def nothing_assumed(problem: Rows, pairs: int) -> Ball:
    """Every function with values in the range on so many pairs: |q - middle|^2 <= pairs (B/2)^2."""
    limits = range_of(problem.terms)
    middle = constant_function(0.5 * (limits.low + limits.high), problem.layout)
    return Ball(Dirac(on="state") * Dirac(on="action"), 0.5 * limits.width * np.sqrt(pairs) * (1 + 1e-9), middle)


def with_jumps(mdp: TabularMDP, rows: int, *, expected: float = 3.0) -> TabularMDP:
    """The pair that the target needs most, with a rare jump to a new absorbing state of the lowest reward.

    About `expected` jumps come in a log of so many rows: often few enough for the log to look as if there were none.
    """
    states, actions = mdp.q_star.shape
    share = mdp.log_distribution(40)
    pair = np.unravel_index(np.argmax(mdp.visitation / share), share.shape)
    p = min(0.5, expected / (rows * share[pair]))
    moves = np.zeros((states + 1, actions, states + 1))
    moves[:states, :, :states], moves[states, :, states] = mdp.transitions, 1.0
    moves[pair] *= 1.0 - p
    moves[(*pair, states)] = p
    low = mdp.reward_range[0] + np.abs(mdp.noise_values).max()
    rewards = np.full((states + 1, actions, states + 1), low)
    rewards[:states, :, :states] = mdp.rewards
    alike = np.full((1, actions), 1.0 / actions)
    return replace(
        mdp,
        transitions=moves,
        rewards=rewards,
        initial_probs=np.append(mdp.initial_probs, 0.0),
        target=np.concatenate([mdp.target, alike]),
        behavior=np.concatenate([mdp.behavior, alike]),
        termination=np.concatenate([np.broadcast_to(mdp.termination, (states, actions)), np.zeros((1, actions))]),
    )


def continuous_states(rng: Generator, rows: int, *, behavior: str = "logging") -> Known:
    """One continuous state, two actions, noisy rewards, episodes that end: q* is a sum of bumps, its norm a formula."""
    mdp = SYNTHETIC
    log = transitions_of(mdp.rollout(rows, 8, rng, behavior=behavior), rows)
    problem = b.make_problem(
        log,
        b.CallablePolicy(mdp.target_probs),
        b.InitialStates.exact(mdp.initial_states, mdp.initial_probs),
        gamma=mdp.gamma,
        reward_range=mdp.reward_range,
    )
    kernel = b.Gaussian(mdp.bandwidth, on="observation") * Dirac() + Constant(mdp.offset)
    return Known(problem, b.Ball(kernel, FACTOR * mdp.q_norm), mdp.value, mdp.q_star)


def continuous_actions(rng: Generator, rows: int) -> Known:
    """Continuous states and actions, one adaptive stream, five draws at every next state."""
    mdp = ContinuousMDP()
    log, starts = mdp.log(rows, rng), np.array(mdp.starts)
    problem = b.make_problem(
        log,
        b.GaussianPolicy(lambda states: -states / 2, mdp.spread),
        b.InitialStates.exact(starts[:, None]),
        gamma=mdp.gamma,
        reward_range=mdp.reward_range,
        may_terminate=False,
        initial_draws=2000,
        seed=int(rng.integers(2**31)),
    )
    kernel = b.Gaussian(mdp.width, on="point") + Constant(1.0)
    return Known(
        problem, b.Ball(kernel, FACTOR * mdp.norm), float(mdp.v(starts).mean()), lambda points, _: mdp.q(*points.T)
    )
