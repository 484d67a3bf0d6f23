"""From the ends of a baseline to a `Result`: intersected with the value range, labelled, no certificate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from bondic._version import __version__
from bondic.bounds.dual import problem_range
from bondic.errors import InvalidInput, NumericalError
from bondic.noise.bound import Guarantee
from bondic.noise.budget import ErrorBudget
from bondic.noise.start import initial_error
from bondic.proofs.assumptions import Assumption, range_assumption
from bondic.proofs.conclude import Status
from bondic.result import Result
from bondic.rows import Rows

Progress = Callable[[str, float], None]
Side = Literal["both", "lower", "upper"]

INITIAL_SHARE = 0.2
"""Share of alpha for a sampled initial distribution where it is paid for apart; fixed before any data are seen."""


@dataclass(frozen=True)
class Outcome:
    """What a baseline found, before the value range is taken into account."""

    low: float
    high: float
    estimate: float
    guarantee: Guarantee
    budget: ErrorBudget
    assumptions: tuple[Assumption, ...]
    effective_sample_size: float = float("nan")
    choices: dict[str, str] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)


def split_ends(alpha: float, side: Side, **others: float) -> ErrorBudget:
    """alpha over the ends that are asked for, in equal parts, after `others` (events with their shares of alpha)."""
    if side not in ("both", "lower", "upper"):
        raise InvalidInput(f"side={side!r}; choose 'both', 'lower' or 'upper'.")
    ends = ("lower", "upper") if side == "both" else (side,)
    left = 1.0 - sum(others.values())
    return ErrorBudget.split(alpha, {**{end: left / len(ends) for end in ends}, **others})


def initial_events(problem: Rows) -> dict[str, float]:
    """The share of alpha for the initial distribution: none when d_0 and the means over its actions are exact."""
    exact = problem.initial_states.kind == "exact" and problem.answers.exact
    return {} if exact else {"initial": INITIAL_SHARE}


def initial_allowance(problem: Rows, budget: ErrorBudget, side: Side) -> float:
    """Hoeffding's bound of |J* - J_emp| for initial states (or initial actions) that are a sample, else 0."""
    probability = budget.get("initial")
    if probability is None:
        return 0.0
    states = problem.initial_states
    draws = max(problem.initial_draws, 1) if states.kind == "exact" else 1
    sides = 2 if side == "both" else 1
    width = problem_range(problem).width
    return initial_error(
        width, probability, states.weights, draws=draws, count_fixed=states.count_fixed, sides=sides
    ).upper


class Stopwatch:
    """One stage, reported to the progress callback."""

    def __init__(self, name: str, progress: Progress | None) -> None:
        self.name, self.progress, self.start = name, progress, time.perf_counter()
        self(0.0)

    def __call__(self, share: float) -> None:
        if self.progress is not None:
            self.progress(self.name, share)

    def seconds(self) -> dict[str, float]:
        self(1.0)
        return {self.name: time.perf_counter() - self.start}


def conclude_baseline(
    problem: Rows, outcome: Outcome, *, name: str, alpha: float, side: Side, watch: Stopwatch
) -> Result:
    """Intersect with [v_lo, v_hi]; ends that miss that range altogether contradict the assumptions.

    The estimate is reported as it is. One outside the interval has no guarantee, and every view says so.
    """
    limits = problem_range(problem)
    if np.isnan([outcome.low, outcome.high, outcome.estimate]).any():
        raise NumericalError(f"{name} produced a number that is not defined; its weights or its fit overflow.")
    low = max(limits.low, outcome.low) if side != "upper" else limits.low
    high = min(limits.high, outcome.high) if side != "lower" else limits.high
    slack = 1e-9 * limits.width  # ends that are the value range up to rounding add nothing
    moved = low > limits.low + slack or high < limits.high - slack
    status = Status.INTERVAL if moved else Status.TRIVIAL
    if low > high:
        low, high, status = limits.low, limits.high, Status.REJECTED
    return Result(
        low=float(low),
        high=float(high),
        estimate=float(outcome.estimate),
        alpha=alpha,
        side=side,
        method=name,
        guarantee=outcome.guarantee,
        status=status,
        value_range=limits,
        lower=None,
        upper=None,
        rejection=None,
        gap=(float("nan"), float("nan")),
        rows=(problem.rows.start, problem.rows.stop),
        budget=outcome.budget,
        assumptions=(*outcome.assumptions, reward_assumption(problem), *range_assumption(problem.terms)),
        choices=dict(outcome.choices),
        seeds={"policy draws": problem.seed, **outcome.seeds},
        versions={"bondic": __version__, "numpy": np.__version__},
        hashes={"log": problem.log_hash},
        effective_sample_size=outcome.effective_sample_size,
        seconds=watch.seconds(),
    )


def reward_assumption(problem: Rows) -> Assumption:
    low, high = problem.terms.reward_range
    return Assumption("rewards", f"Every possible reward lies in [{low:g}, {high:g}] (all logged ones do).", "stated")


def start_assumption(problem: Rows) -> Assumption:
    """What a method that averages over the initial states of the problem takes them for."""
    given, draws = problem.initial_states, problem.initial_draws
    if given.kind == "sample":
        size = "fixed beforehand" if given.count_fixed else "not fixed beforehand"
        text = f"The {len(given)} initial states are independent draws of the initial distribution; their number was {size}."
    else:
        text = f"The initial distribution is exactly the given list of {len(given)} weighted states."
    if draws:
        text += f" {draws} actions were drawn at each from seed {problem.seed}, chosen without the log."
    return states("start", text)


def states(name: str, text: str) -> Assumption:
    """An assumption that is the user's statement: nothing in the log can prove it."""
    return Assumption(name, text, "stated")


def stated_if(given: bool, item: Assumption) -> Assumption:
    """The assumption as the user's, if what it speaks of was given; else as a choice of the library."""
    return item if given else replace(item, state="chosen")


ASYMPTOTIC = states(
    "large sample", "The log is large enough for the limit law: the error probability is alpha in the limit only."
)
REALIZABLE = states(
    "values", "q* is a combination of the features (or is approached by them as their number grows with the log)."
)
COVERED = states("overlap", "The behaviour visits every state-action pair that the policy visits.")
EPISODES = states(
    "episodes",
    "Episodes are independent, start from the initial distribution, and were recorded with one fixed behaviour; their "
    "number was fixed beforehand.",
)
EXACT_BEHAVIOR = states("behaviour", "`behavior_action_probs` are the true probabilities of the logged actions.")
ESTIMATED_BEHAVIOR = states("behaviour", "Behaviour probabilities were estimated from the log: nothing is guaranteed.")
