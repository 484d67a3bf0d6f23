"""Problems that use up what the inequalities allow, so that a bound cut to half is seen to fail.

An interval adds a bias bound to a noise bound and hardly ever misses. The *events* behind it are sharp: the noise
event L_W(q*) <= eps of theory (9), the start event |J* - J_emp| <= its Hoeffding radius. Every residual here is
+-B/2 with probability 1/2 each, the most that a range of B allows. Failures of a walk with such steps have exact
probabilities, which the observed counts must fit.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from experiments.coverage_checks import ALPHA, Check, FloatArray, two_sided_rate

import bondic as b
from bondic.core.balls import Instruments
from bondic.core.dual.bound import Setting
from bondic.core.dual.noise import FixedLambda, NoiseBound, Pinelis
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.features import ExplicitFeatures
from bondic.core.kernels.leaves import ActionEmbedding, Constant
from bondic.engines.sums import STANDARD
from bondic.policies.protocol import CallableSampler
from bondic.rows.rows import Rows
from bondic_lab.identity.loss import residual_loss
from bondic_lab.worlds.rollout import Rollout
from bondic_lab.worlds.tabular import TabularMDP

ROWS = 200
PINELIS = {name: Pinelis(name) for name in ("half", "range", "paper")}
ONE_DIRECTION = Constant(1.0)

Generator = np.random.Generator


def two_armed() -> TabularMDP:
    """`TabularMDP.saturating` with two actions that do the same: behavior can choose, outcomes do not care."""
    one = TabularMDP.saturating()
    half = np.full((3, 2), 0.5)
    arms = np.repeat(one.transitions, 2, axis=1)
    rewards = np.repeat(one.rewards, 2, axis=1)
    return TabularMDP(arms, rewards, one.initial_probs, half, half, one.gamma, one.reward_range)


def ending(gamma: float = 0.9) -> TabularMDP:
    """Reward 1 per step; state 0 ends with probability 1/2 or leads to state 1, which never ends.

    The range of values is [1, 1/(1-gamma)] only because one reward is certain before the end.
    """
    transitions = np.zeros((2, 1, 2))
    transitions[:, 0, 1] = 1.0
    one = np.ones((2, 1))
    ends = np.array([[0.5], [0.0]])
    return TabularMDP(transitions, np.ones((2, 1)), np.array([1.0, 0.0]), one, one, gamma, (1.0, 1.0), ends)


def waiting() -> TabularMDP:
    """Action 0 jumps to the best or worst state, action 1 waits: the jump comes at any time of a finite horizon."""
    one = TabularMDP.saturating()
    transitions = np.repeat(one.transitions, 2, axis=1)
    transitions[0, 1] = [1.0, 0.0, 0.0]
    rewards = np.repeat(one.rewards, 2, axis=1)
    half = np.full((3, 2), 0.5)
    return TabularMDP(transitions, rewards, one.initial_probs, half, half, 1.0, one.reward_range)


JUMP, ARMS, ENDING, WAITING = TabularMDP.saturating(), two_armed(), ending(), waiting()
STARTS = replace(JUMP, initial_probs=np.array([0.0, 0.5, 0.5]))
HORIZON, EPISODES = 4, 60


def transitions_of(log: Rollout, rows: int | None = None) -> b.Transitions:
    """The first `rows` rows of a rollout: a number fixed beforehand, even where episodes end at random."""
    columns = (
        log.observations, log.actions, log.rewards, log.next_observations, log.terminations, log.truncations,
        log.episode_ids, log.timesteps, log.behavior_action_probs,
    )  # fmt: skip
    if rows is not None and len(log.rewards) < rows:
        raise ValueError(f"the rollout has {len(log.rewards)} rows, {rows} are wanted: simulate more episodes.")
    return b.Transitions(*(column[:rows] for column in columns))


def tabular_problem(
    mdp: TabularMDP, log: b.Transitions, initial: b.InitialStates | None = None, *, horizon: int | None = None
) -> Rows:
    states = np.arange(float(len(mdp.initial_probs)))[:, None]
    return b.make_problem(
        log,
        b.TablePolicy(mdp.target),
        b.InitialStates.exact(states, mdp.initial_probs) if initial is None else initial,
        gamma=mdp.gamma,
        reward_range=mdp.reward_range,
        may_terminate=bool(np.any(mdp.termination)),
        horizon=horizon,
    )


def tabular_residuals(mdp: TabularMDP, log: b.Transitions, problem: Rows) -> FloatArray:
    """R^q* of the rows of the problem, from the tables of the model alone."""
    rows = problem.whole().log_rows
    state, following = (x[rows, 0].astype(np.int64) for x in (log.observations, log.next_observations))
    over = log.terminations[rows]
    action, rewards = log.actions[rows], log.rewards[rows]
    if problem.terms.horizon is None:
        current, after = mdp.q_star[state, action], mdp.v_star[following]
    else:
        table = mdp.finite_horizon(problem.terms.horizon)
        assert log.timesteps is not None
        time = log.timesteps[rows]
        current = table[time, state, action]
        after = np.sum(mdp.target[following] * table[time + 1, following], axis=1)
    return np.asarray(current - mdp.gamma * np.where(over, 0.0, after) - rewards)


def setting(problem: Rows, kernel: Kernel, gauge: NoiseBound) -> Setting:
    """The bound's own view of its noise and start terms, all of alpha given to the one that is asked."""
    return Setting(problem, b.Ball(kernel, 1.0), Instruments(kernel), gauge, ALPHA, ALPHA, 2, STANDARD)


def noise_checks(
    problem: Rows,
    kernel: Kernel,
    residuals: FloatArray,
    gauges: dict[str, NoiseBound],
    *,
    sharp: str,
    factor: float | None = None,
) -> list[Check]:
    """L_W(q*) <= eps for each gauge, and the control eps/2 for the sharp one; residuals of +-factor B/2 have exact rates."""
    loss = residual_loss(problem.whole(), kernel, residuals).lower
    out = []
    for name, gauge in gauges.items():
        eps = setting(problem, kernel, gauge).epsilon().upper
        if name != sharp:
            out.append(Check(f"noise event, {name}", loss > eps))
            continue
        rates = [None if factor is None else hoeffding_rate(len(problem), f) for f in (factor, 2.0 * (factor or 1.0))]
        out.append(Check(f"noise event, {name}", loss > eps, rate=rates[0]))
        out.append(Check(f"noise event, {name}, eps/2", loss > eps / 2.0, role="control", rate=rates[1]))
    return out


def hoeffding_rate(count: int, factor: float = 1.0) -> float:
    """Exact failure rate of (9), and of the start bound, for `count` terms of +-B/2 scaled by `factor`."""
    return two_sided_rate(count, math.sqrt(2.0 * count * math.log(2.0 / ALPHA)) / factor)


def jump_trial(rng: Generator) -> list[Check]:
    """Each row jumps to the best or the worst state; one direction."""
    log = transitions_of(JUMP.rollout(ROWS, 1, rng))
    problem = tabular_problem(JUMP, log)
    residuals = tabular_residuals(JUMP, log, problem)
    return noise_checks(problem, ONE_DIRECTION, residuals, PINELIS, sharp="half", factor=1.0)


def adaptive_trial(rng: Generator) -> list[Check]:
    """Adaptive behavior picks the arm, and with it the sign of the direction, from all earlier rewards."""
    log = transitions_of(ARMS.rollout(ROWS, 1, rng, behavior="adaptive"))
    problem = tabular_problem(ARMS, log)
    residuals = tabular_residuals(ARMS, log, problem)
    signs = ActionEmbedding([[1.0], [-1.0]])
    return noise_checks(problem, signs, residuals, PINELIS, sharp="half", factor=1.0)


def ending_trial(rng: Generator) -> list[Check]:
    """Constant rewards: all noise comes from when the episode ends."""
    log = transitions_of(ENDING.rollout(ROWS, 1, rng))
    problem = tabular_problem(ENDING, log)
    residuals = tabular_residuals(ENDING, log, problem)
    return noise_checks(problem, ONE_DIRECTION, residuals, PINELIS, sharp="half", factor=1.0)


def is_start(points: FloatArray) -> FloatArray:
    return np.asarray(points[:, :1] == 0.0, dtype=np.float64)


def horizon_trial(rng: Generator) -> list[Check]:
    """gamma = 1, horizon 4, episodes of 6 steps (two are dropped), adaptive: widths B_t differ from row to row."""
    log = transitions_of(WAITING.rollout(EPISODES, HORIZON + 2, rng, behavior="adaptive"))
    problem = tabular_problem(WAITING, log, horizon=HORIZON)
    residuals = tabular_residuals(WAITING, log, problem)
    jumps = ExplicitFeatures(is_start, 1.0, "start state") * ActionEmbedding([[1.0], [0.0]])
    # about half of the episodes that still wait jump at each time: 60 jumps, mean square width 16/2 + 9/4 + 4/8 + 1/16
    planned = FixedLambda.planned(EPISODES, probability=ALPHA, sup_diag=1.0, mean_square_width=10.8)
    gauges: dict[str, NoiseBound] = {"fixed lambda": planned, **PINELIS}
    return noise_checks(problem, jumps, residuals, gauges, sharp="fixed lambda")


def start_checks(problem: Rows, values: FloatArray, truth: float, count: int) -> list[Check]:
    """|J* - J_emp| <= the start term; `values` are the means of q* at the initial states, over `count` draws in all."""
    error = abs(float(problem.initial_states.weights @ values) - truth)
    term = setting(problem, ONE_DIRECTION, PINELIS["half"]).initial_term().upper
    return [
        Check("start event", error > term, rate=hoeffding_rate(count)),
        Check("start event, radius/2", error > term / 2.0, role="control", rate=hoeffding_rate(count, 2.0)),
    ]


def start_trial(rng: Generator) -> list[Check]:
    """A sample of 200 starts, each with the best or the worst value."""
    states = rng.integers(1, 3, ROWS)
    initial = b.InitialStates.sample(states[:, None].astype(np.float64))
    problem = tabular_problem(STARTS, transitions_of(STARTS.rollout(5, 1, rng)), initial)
    return start_checks(problem, STARTS.v_star[states], STARTS.value, ROWS)


def random_sign(observations: FloatArray, rng: Generator) -> FloatArray:
    return 2.0 * rng.integers(2, size=(len(observations), 1)) - 1.0


def shared_sign(observations: FloatArray, rng: Generator) -> FloatArray:
    """One draw for all rows: what reused random numbers amount to."""
    return np.full((len(observations), 1), 2.0 * rng.integers(2) - 1.0)


def sign_log(state: float, following: float, rows: int) -> b.Transitions:
    """Continuous actions, reward 0, one row per episode."""
    column, nothing, ids = np.full((rows, 1), state), np.zeros(rows), np.arange(rows)
    over = np.zeros(rows, dtype=bool)
    return b.Transitions(
        column, nothing[:, None], nothing, np.full((rows, 1), following), over, ~over, ids, np.zeros(rows, dtype=int)
    )


def initial_draws_trial(rng: Generator) -> list[Check]:
    """Four exact initial states, 50 draws of the action +-1 at each, gamma = 0, reward = action."""
    problem = b.make_problem(
        sign_log(0.0, 0.0, 5),
        CallableSampler(random_sign),
        b.InitialStates.exact(np.zeros((4, 1))),
        gamma=0.0,
        reward_range=(-1.0, 1.0),
        initial_draws=50,
        seed=int(rng.integers(2**31)),
        accept=None,
    )
    values = problem.initial.per_row(problem.initial.points[:, 1:], 4)
    return start_checks(problem, values, 0.0, 200)


def next_draws_trial(rng: Generator) -> list[Check]:
    """State 5 leads to state 0, where the policy's action +-1 decides between best and worst for ever.

    One action is drawn at each next state and nothing else is random: R^q* = -+gamma B/2. With one draw shared by
    all rows the noise does not average out, and the event fails.
    """
    gamma, out = 0.97, []
    for label, sampler in (("", random_sign), (", shared draws", shared_sign)):
        problem = b.make_problem(
            sign_log(5.0, 0.0, ROWS),
            CallableSampler(sampler),
            b.InitialStates.exact([[5.0]]),
            gamma=gamma,
            reward_range=(-1.0, 1.0),
            draws=1,
            initial_draws=1,
            seed=int(rng.integers(2**31)),
            accept=None,
        )
        following = problem.whole().next.per_row(problem.whole().next.points[:, 1:], ROWS) / (1.0 - gamma)
        gauges = {"half": PINELIS["half"]} if label else PINELIS
        checks = noise_checks(problem, ONE_DIRECTION, -gamma * following, gauges, sharp="half", factor=gamma)
        if label:
            checks = [replace(checks[0], statement="noise event, half" + label, role="control", rate=None)]
        out += checks
    return out


EVENTS = {
    "jump": jump_trial,
    "adaptive signs": adaptive_trial,
    "random end": ending_trial,
    "horizon 4, gamma 1": horizon_trial,
    "sampled start": start_trial,
    "draws of initial actions": initial_draws_trial,
    "draws of next actions": next_draws_trial,
}
