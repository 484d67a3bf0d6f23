"""Whole intervals on problems with known q* and J*, and the events behind each of them.

Q holds q* by construction: its radius is a multiple >= 1 of the norm of q*, which is known exactly. A failure is an
interval without J*, or a rejection (of assumptions that are true).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from experiments.coverage_checks import ALPHA, Check, FloatArray, missed
from experiments.coverage_saturating import (
    Generator,
    hoeffding_rate,
    tabular_problem,
    tabular_residuals,
    transitions_of,
)

import bondic as b
from bondic.core.balls import Instruments
from bondic.core.bounded import Enclosure
from bondic.core.claims import Guarantee
from bondic.core.dual.noise import NoiseBound, NoiseFacts, Pinelis
from bondic.core.functions import KernelFunction
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.registry import register
from bondic.rows.rows import Rows
from bondic_lab.identity.loss import residual_loss
from bondic_lab.worlds.synthetic import SyntheticMDP
from bondic_lab.worlds.tabular import TabularMDP

GAUGES = ("half", "range", "paper", "plug-in")
ROWS, TABULAR_ROWS = 300, 500
SYNTHETIC_FACTOR, TABULAR_FACTOR = 1.5, 2.0
"""Radius over norm of q*. With 1 the weight 0 often is best on a small table, and no noise enters the interval."""

TABLE = Dirac(on="state") * Dirac(on="action")  # norm of a function: the Euclidean norm of its table
SYNTHETIC = SyntheticMDP.default(0.4, reward_noise=0.5, termination=0.1)
TABULAR = TabularMDP.random(np.random.default_rng(3), n_states=4, n_actions=2, gamma=0.3, reward_noise=0.2)
ENDING = TabularMDP.random(
    np.random.default_rng(5), n_states=4, n_actions=2, gamma=0.3, reward_noise=0.2, termination=0.5
)
EPISODIC = replace(ENDING, gamma=1.0)
HORIZON = 2


@dataclass(frozen=True, eq=False)
class Question:
    """A problem with its answer; `start` is the exact value of the initial states that were seen."""

    problem: Rows
    residuals: FloatArray  # R^q* of the rows of the problem
    ball: b.Ball
    value: float  # J*
    start: float  # J_emp
    instruments: Instruments | None = None  # None: tuned on pilot rows


def interval_checks(question: Question, gauges: tuple[str, ...]) -> list[Check]:
    """The interval, its noise event and (where a part of alpha is spent on it) its start event, for every gauge."""
    out = []
    for gauge in gauges:
        method = b.Dual(instruments=question.instruments, ball=question.ball, gauge=gauge)
        result = b.estimate_interval(question.problem, alpha=ALPHA, method=method)
        role = "no guarantee" if gauge == "plug-in" else "claim"
        length = (result.high - result.low) / result.value_range.width
        failed = missed(result, question.value)
        out.append(Check(f"interval, {gauge}", failed, role=role, length=length))
        level = result.budget["noise"]
        out.append(Check(f"noise event, {gauge}", _noise_event_fails(question, result), role=role, level=level))
        if "initial" in result.budget.parts and gauge == gauges[0]:
            assert result.upper is not None
            error = abs(question.start - question.value)
            out.append(
                Check("start event", error > result.upper["initial distribution"].upper, level=result.budget["initial"])
            )
    return out


def _noise_event_fails(question: Question, result: b.Result) -> bool:
    """L_W(q*) > eps with the W and the rows that the certificate names."""
    certified = question.problem.select(*result.rows)
    kernel = result.proof.instruments.kernel  # type: ignore[union-attr]
    residuals = question.residuals[np.isin(question.problem.whole().log_rows, certified.whole().log_rows)]
    return residual_loss(certified.whole(), kernel, residuals).lower > result.rejection.epsilon


def synthetic_question(rng: Generator, *, behavior: str, tuned: bool = False) -> Question:
    """Gaussian x Dirac + offset: ||q*|| is a formula."""
    mdp = SYNTHETIC
    log = transitions_of(mdp.rollout(ROWS // 2, 8, rng, behavior=behavior), ROWS)  # type: ignore[arg-type]
    problem = b.make_problem(
        log,
        b.CallablePolicy(mdp.target_probs),
        b.InitialStates.exact(mdp.initial_states, mdp.initial_probs),
        gamma=mdp.gamma,
        reward_range=mdp.reward_range,
    )
    following = np.where(log.terminations, 0.0, mdp.state_values(log.next_observations))
    residuals = mdp.q_star(log.observations, log.actions) - mdp.gamma * following - log.rewards
    kernel = b.Gaussian(mdp.bandwidth, on="observation") * Dirac() + Constant(mdp.offset)
    instruments = None if tuned else Instruments(0.5 * Constant(1.0) + 0.5 * (b.Gaussian(1.0) * Dirac()))
    return Question(
        problem, residuals, b.Ball(kernel, SYNTHETIC_FACTOR * mdp.q_norm), mdp.value, mdp.value, instruments
    )


def tabular_question(
    rng: Generator,
    mdp: TabularMDP,
    *,
    behavior: str = "logging",
    start: str = "exact",
    horizon: int | None = None,
    fitted: bool = False,
) -> Question:
    """Dirac x Dirac: the radius is the Euclidean norm of the table of q*."""
    length = 8 if horizon is None else horizon + 1
    log = transitions_of(mdp.rollout(TABULAR_ROWS, length, rng, behavior=behavior), TABULAR_ROWS)  # type: ignore[arg-type]
    initial = _initial(rng, mdp, log, start)
    problem = tabular_problem(mdp, log, initial, horizon=horizon)
    table = mdp.q_star[None] if horizon is None else mdp.finite_horizon(horizon)[:horizon]
    values = np.sum(mdp.target * table[0], axis=1)
    truth = float(mdp.initial_probs @ values)
    seen = truth if initial is None else float(np.mean(values[initial.observations[:, 0].astype(int)]))
    truth = seen if start == "this log" else truth
    ball = b.Ball(TABLE, TABULAR_FACTOR * float(np.linalg.norm(table)))
    if fitted:
        ball = _fitted_ball(mdp, log, problem)
    residuals = tabular_residuals(mdp, log, problem)
    return Question(problem, residuals, ball, truth, seen, Instruments(0.3 * Constant(1.0) + 0.7 * TABLE))


def _initial(rng: Generator, mdp: TabularMDP, log: b.Transitions, start: str) -> b.InitialStates | None:
    if start in ("this log", "from log"):
        return b.InitialStates.from_log(log, population=None if start == "this log" else "iid")
    if start == "sample":
        states = rng.choice(len(mdp.initial_probs), 400, p=mdp.initial_probs)
        return b.InitialStates.sample(states[:, None].astype(np.float64))
    return None


def _fitted_ball(mdp: TabularMDP, log: b.Transitions, problem: Rows) -> b.Ball:
    """Center: the mean of r + gamma v*(s') per pair, on the very rows that are certified; radius: 1 more than its true distance.

    Q may look at the log in any way. This one fits the noise of the log as closely as a table can.
    """
    state, following = (x[:, 0].astype(np.int64) for x in (log.observations, log.next_observations))
    targets = log.rewards + mdp.gamma * np.where(log.terminations, 0.0, mdp.v_star[following])
    cells = (state, log.actions)
    counts, sums = np.zeros_like(mdp.q_star), np.zeros_like(mdp.q_star)
    np.add.at(counts, cells, 1.0)
    np.add.at(sums, cells, targets)
    center = np.where(counts > 0, sums / np.maximum(counts, 1.0), 0.0)
    states = np.arange(float(len(center)))[:, None]
    radius = 1.0 + float(np.linalg.norm(mdp.q_star - center))
    return b.Ball(TABLE, radius, KernelFunction(TABLE, problem.layout, states, center))


@dataclass(frozen=True)
class ContinuousMDP:
    """q*(s, a) = c + sum_j t_j exp(-((s - z_j)^2 + (a - u_j)^2) / (2 h^2)), target a ~ N(-s/2, sigma^2).

    s' = 0.6 s + 0.4 tanh(a) + 0.3 (+-1 or 0, a third each). v* is a Gaussian integral in closed form; the reward
    r = q* - gamma E v*(s') follows from theory (2) and is a finite sum.
    """

    gamma: float = 0.4
    constant: float = 0.5
    width: float = 1.0  # h
    spread: float = 0.5  # sigma
    weights: tuple[float, ...] = (1.0, -0.8, 0.6, -0.7)
    states: tuple[float, ...] = (-1.0, -0.3, 0.4, 1.0)  # z_j
    actions: tuple[float, ...] = (0.5, -0.5, 0.0, 1.0)  # u_j
    starts: tuple[float, ...] = (-0.8, 0.1, 0.9)

    def q(self, state: FloatArray, action: FloatArray) -> FloatArray:
        squares = np.subtract.outer(state, self.states) ** 2 + np.subtract.outer(action, self.actions) ** 2
        return np.asarray(self.constant + np.exp(-squares / (2 * self.width**2)) @ np.array(self.weights))

    def v(self, state: FloatArray) -> FloatArray:
        total = self.width**2 + self.spread**2
        near = np.exp(-(np.subtract.outer(state, self.states) ** 2) / (2 * self.width**2))
        mean = np.exp(-(np.subtract.outer(-state / 2, self.actions) ** 2) / (2 * total))
        return np.asarray(self.constant + self.width / np.sqrt(total) * (near * mean) @ np.array(self.weights))

    @property
    def norm(self) -> float:
        points = np.stack([self.states, self.actions], axis=1)
        squares = np.sum((points[:, None] - points) ** 2, axis=2)
        gram, weights = np.exp(-squares / (2 * self.width**2)), np.array(self.weights)
        return float(np.sqrt(weights @ gram @ weights + self.constant**2))

    @property
    def reward_range(self) -> tuple[float, float]:
        """From c - sum of t^- <= q*, v* <= c + sum of t^+: a proof, not a sample."""
        rises, falls = (sum(max(sign * t, 0.0) for t in self.weights) for sign in (1.0, -1.0))
        low, high = self.constant - falls, self.constant + rises
        return low - self.gamma * high - 1e-9, high - self.gamma * low + 1e-9

    def log(self, rows: int, rng: Generator) -> b.Transitions:
        """One stream; the next action is bold after a reward below the mean so far, timid after others."""
        states, actions, rewards, following = (np.zeros(rows) for _ in range(4))
        state, total, last = rng.choice(self.starts), 0.0, 0.0
        for row in range(rows):
            bold = 1.5 if last < total / max(row, 1) else 0.3
            action = bold * rng.standard_normal()
            options = 0.6 * state + 0.4 * np.tanh(action) + 0.3 * np.array([-1.0, 0.0, 1.0])
            mean = self.q(np.array([state]), np.array([action]))[0]
            last = float(mean - self.gamma * self.v(options).mean())
            total += last
            states[row], actions[row], rewards[row], following[row] = state, action, last, rng.choice(options)
            state = following[row]
        ended = np.zeros(rows, dtype=bool)
        keys = {"episode_ids": np.zeros(rows, dtype=int), "timesteps": np.arange(rows)}
        return b.Transitions(states[:, None], actions[:, None], rewards, following[:, None], ended, **keys)


def continuous_question(rng: Generator) -> Question:
    """Five draws at every next state, and 100 at each initial state that pay for themselves."""
    mdp = ContinuousMDP()
    log = mdp.log(ROWS, rng)
    starts = np.array(mdp.starts)
    problem = b.make_problem(
        log,
        b.GaussianPolicy(lambda states: -states / 2, mdp.spread),
        b.InitialStates.exact(starts[:, None]),
        gamma=mdp.gamma,
        reward_range=mdp.reward_range,
        may_terminate=False,
        initial_draws=100,
        seed=int(rng.integers(2**31)),
    )
    nexts, firsts = problem.whole().next, problem.initial
    after = nexts.per_row(mdp.q(*nexts.points.T)[:, None], ROWS)
    first = firsts.per_row(mdp.q(*firsts.points.T)[:, None], len(starts))
    residuals = mdp.q(log.observations[:, 0], log.actions[:, 0]) - mdp.gamma * after - log.rewards
    kernel = b.Gaussian(mdp.width, on="point") + Constant(1.0)
    weights = Instruments(0.5 * Constant(1.0) + 0.5 * b.Gaussian(1.0, on="point"))
    return Question(
        problem,
        residuals,
        b.Ball(kernel, SYNTHETIC_FACTOR * mdp.norm),
        float(mdp.v(starts).mean()),
        float(first.mean()),
        weights,
    )


@register("noise", "half-radius")
@dataclass(frozen=True)
class HalfRadius(NoiseBound):
    """The control: "half" with eps cut to its half. Not a bound, though it says so."""

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        return Pinelis().epsilon(facts, probability) * 0.5

    def p_value(self, facts: NoiseFacts, epsilon: float) -> float:
        return Pinelis().p_value(facts, 2.0 * epsilon)

    def describe(self) -> str:
        return "half of the Hilbert-space Hoeffding bound"


COIN = TabularMDP.saturating(gamma=0.0)
RARE = replace(COIN, transitions=np.array([[[0.0, 0.02, 0.98]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]]))
COINS, FEW = 200, 40


def constant_question(rng: Generator, mdp: TabularMDP, rows: int) -> Question:
    """gamma = 0, rewards 0 or 1, constant kernels: the interval is mean(r) +- eps, with no bias to hide behind."""
    log = transitions_of(mdp.rollout(rows, 1, rng))
    problem = tabular_problem(mdp, log)
    kernel = Constant(1.0)
    ball = b.Ball(kernel, 10.0)
    return Question(problem, tabular_residuals(mdp, log, problem), ball, mdp.value, mdp.value, Instruments(kernel))


def coin_trial(rng: Generator, gauges: tuple[str, ...] = GAUGES) -> list[Check]:
    """Saturated intervals with their exact failure rates, and the control."""
    question = constant_question(rng, COIN, COINS)
    out = interval_checks(question, tuple(gauge for gauge in gauges if gauge != "plug-in"))
    out = [replace(c, rate=hoeffding_rate(COINS)) if c.statement.endswith(", half") else c for c in out]
    method = b.Dual(instruments=question.instruments, ball=question.ball, gauge=HalfRadius())
    result = b.estimate_interval(question.problem, alpha=ALPHA, method=method)
    failed = not result.low <= question.value <= result.high
    return [*out, Check("interval, half, eps/2", failed, role="control", rate=hoeffding_rate(COINS, 2.0))]


def _trial(make: Callable[[Generator], Question]) -> Callable[..., list[Check]]:
    def run(rng: Generator, gauges: tuple[str, ...] = GAUGES) -> list[Check]:
        return interval_checks(make(rng), gauges)

    return run


INTERVALS = {
    "synthetic, logging": _trial(lambda rng: synthetic_question(rng, behavior="logging")),
    "synthetic, adaptive": _trial(lambda rng: synthetic_question(rng, behavior="adaptive")),
    "synthetic, adaptive, W from pilot rows": _trial(
        lambda rng: synthetic_question(rng, behavior="adaptive", tuned=True)
    ),
    "tabular, logging": _trial(lambda rng: tabular_question(rng, TABULAR)),
    "tabular, adaptive, terminating": _trial(lambda rng: tabular_question(rng, ENDING, behavior="adaptive")),
    "tabular, adaptive, horizon 2, gamma 1": _trial(
        lambda rng: tabular_question(rng, EPISODIC, behavior="adaptive", horizon=HORIZON)
    ),
    "tabular, starts sampled": _trial(lambda rng: tabular_question(rng, ENDING, start="sample")),
    "tabular, starts of this log": _trial(lambda rng: tabular_question(rng, ENDING, start="this log")),
    "tabular, starts from the log, a population": _trial(lambda rng: tabular_question(rng, ENDING, start="from log")),
    "tabular, center fitted on the log": _trial(lambda rng: tabular_question(rng, TABULAR, fitted=True)),
    "continuous actions, adaptive": _trial(continuous_question),
    "coin": coin_trial,
    "rare jumps": _trial(lambda rng: constant_question(rng, RARE, FEW)),
}
