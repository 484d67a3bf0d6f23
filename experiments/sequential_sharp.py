"""A whole sequential interval whose probability of missing is computed: survival in two states, nothing assumed about Q.

States 0 and 1 follow each other, every step pays 1, and a step from state 0 ends everything with probability p. Then
q*(0) = (1 + γ(1 − p)) / (1 − γ²(1 − p)), values lie in [1, 1/(1 − γ)], and a log is a list of the rows that ended. A log
without an end says q*(0) = 1/(1 − γ); its lower end ℓ is one number. Choose p so that q*(0) lies a hair below ℓ: this is
the unseen event of theory (20), and P( miss ) ≥ (1 − p)^m, m the rows in state 0. Logs with one end are enumerated too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from experiments.coverage_checks import ALPHA
from experiments.sequential_known import Known, certify, nothing_assumed
from experiments.sequential_tails import Finding

import bondic as b
from bondic.core.claims import ErrorBudget
from bondic.core.question import Question
from bondic.engines.sums import STANDARD

GAMMA, ROWS, PILOT = 0.5, 400, 20
_HAIR = 1e-6


def survival_value(p: float) -> float:
    """J* = q*(0)."""
    return (1.0 + GAMMA * (1.0 - p)) / (1.0 - GAMMA**2 * (1.0 - p))


def ending_probability(value: float) -> float:
    """The p at which q*(0) is this value."""
    return 1.0 - (value - 1.0) / (GAMMA + GAMMA**2 * value)


def survival(ends: tuple[int, ...], p: float = 0.0, rows: int = ROWS) -> Known:
    """The log whose steps `ends` (even numbers: in state 0) ended; recording went on in state 1."""
    states, over = (np.arange(rows) % 2).astype(float)[:, None], np.zeros(rows, dtype=bool)
    over[list(ends)] = True
    episodes = np.concatenate([[0], np.cumsum(over)[:-1]])
    times = np.arange(rows) - np.searchsorted(episodes, episodes)
    cut = np.arange(rows) == rows - 1
    log = b.Transitions(
        states, np.zeros(rows, dtype=int), np.ones(rows), 1.0 - states, over, cut & ~over, episodes, times
    )
    problem = b.make_problem(
        log,
        b.TablePolicy(np.ones((2, 1))),
        b.InitialStates.exact(np.zeros((1, 1))),
        gamma=GAMMA,
        reward_range=(1.0, 1.0),
        may_terminate=True,
    )
    first = survival_value(p)
    values = np.array([first, 1.0 + GAMMA * first])
    return Known(problem, nothing_assumed(problem, 2), first, lambda points, _: values[points[:, 0].astype(int)])


def lower_end(ends: tuple[int, ...], *, log_share: float = 1.0) -> float:
    """The lower end at level ALPHA, all of it for this side; `log_share` < 1 is the control with a part of the log term."""
    proof, rows = certify(survival(ends), ALPHA, "lower", PILOT)
    if log_share != 1.0:
        tail = proof.budget["lower"] ** log_share
        proof = replace(proof, budget=ErrorBudget(0.99, {**proof.budget.parts, "lower": tail}))
    (claim,) = proof.claims(Question.value(rows), STANDARD).ends
    return claim.bound


@dataclass(frozen=True)
class Sharp:
    """Probability of missing, by the number of steps that ended."""

    p: float
    none: float  # P( no step ended ): the interval misses
    one: float  # P( one step ended, and the interval misses )
    more: float  # P( more steps ended ): whatever the interval does there


def design(log_share: float = 1.0) -> tuple[float, float]:
    """p and J* for which the log without an end misses by a hair."""
    low = lower_end((), log_share=log_share)
    p = ending_probability(low) * (1.0 + _HAIR)
    assert survival_value(p) < low
    return p, survival_value(p)


def miss_probability() -> Sharp:
    """Exact: every log with at most one end is evaluated."""
    p, truth = design()
    chances = ROWS // 2
    none, each = (1.0 - p) ** chances, p * (1.0 - p) ** (chances - 1)
    missed = sum(lower_end((row,)) > truth for row in range(0, ROWS, 2))
    return Sharp(p, none, missed * each, 1.0 - none - chances * each)


def survival_logs(rng: np.random.Generator, logs: int) -> Iterator[Finding]:
    """Two states that follow each other; a step ends everything with a probability that 400 rows without an end just exclude."""
    for share, role, label in ((1.0, "claim", "lower end"), (0.5, "control", "lower end, half of the log term")):
        p, truth = design(share)
        seen: dict[tuple[int, ...], bool] = {}
        failed, clean = np.zeros(logs, dtype=bool), np.zeros(logs, dtype=bool)
        for log in range(logs):
            ends = tuple((2 * np.flatnonzero(rng.random(ROWS // 2) < p)).tolist())
            if ends not in seen:
                seen[ends] = lower_end(ends, log_share=share) > truth
            failed[log], clean[log] = seen[ends], not ends
        yield Finding(label, failed, role, level=ALPHA)  # type: ignore[arg-type]
        if role == "claim":
            yield Finding(f"{label}, no step ended", failed & clean, rate=(1.0 - p) ** (ROWS // 2), level=ALPHA)
