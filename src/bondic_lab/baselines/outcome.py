"""From the ends of a baseline to a `Result`: intersected with the value range, labeled, no certificate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from bondic._version import __version__
from bondic.core.assumptions import range_assumption
from bondic.core.bounded import Enclosure
from bondic.core.claims import Assumption, Claim, ErrorBudget, Guarantee, Part, Side, conclude, ends_of
from bondic.core.errors import NumericalError
from bondic.core.starts import INITIAL_SHARE, sampled_start
from bondic.core.terms import ValueRange, in_full, range_of
from bondic.result import Result
from bondic.rows import Rows

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Outcome:
    """What a baseline found, before the value range is taken into account."""

    low: float
    high: float
    estimate: float
    assumptions: tuple[Assumption, ...] = ()
    guarantee: Guarantee | None = None  # None: that of the method
    effective_sample_size: float = float("nan")
    choices: dict[str, str] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)


def split_ends(alpha: float, side: Side, **others: float) -> ErrorBudget:
    """alpha over the ends to compute, in equal parts, after `others` (events with their shares of alpha)."""
    ends = ends_of(side)
    left = 1.0 - sum(others.values())
    return ErrorBudget.split(alpha, {**{end: left / len(ends) for end in ends}, **others})


def initial_events(problem: Rows) -> dict[str, float]:
    """The share of alpha for the initial distribution: none when d_0 and the means over its actions are exact."""
    return {} if sampled_start(problem, 1) is None else {"initial": INITIAL_SHARE}


def initial_allowance(problem: Rows, budget: ErrorBudget, side: Side) -> float:
    """Hoeffding's bound of |J* - J_emp| for initial states (or initial actions) that are a sample, else 0."""
    start, probability = sampled_start(problem, len(ends_of(side))), budget.get("initial")
    return 0.0 if start is None or probability is None else start.error(probability).upper


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
    problem: Rows,
    outcome: Outcome,
    *,
    guarantee: Guarantee,
    budget: ErrorBudget,
    name: str,
    alpha: float,
    side: Side,
    watch: Stopwatch,
) -> Result:
    """Intersect with [v_lo, v_hi]; ends that miss that range altogether contradict the assumptions.

    The estimate is reported as it is. One outside the interval has no guarantee, and every view says so.
    """
    limits = range_of(problem.terms)
    if np.isnan([outcome.low, outcome.high, outcome.estimate]).any():
        raise NumericalError(f"{name} produced a number that is not defined; its weights or its fit overflow.")
    claims = _claims(outcome, limits, side)
    found = conclude(limits, claims, rejected=False, side=side)
    assumptions = (*outcome.assumptions, reward_assumption(problem), *range_assumption(problem.terms))
    return Result(
        low=found.low,
        high=found.high,
        estimate=float(outcome.estimate),
        alpha=alpha,
        side=side,
        method=name,
        guarantee=guarantee,
        status=found.status,
        value_range=limits,
        claims=claims,
        rejection=None,
        gap=(float("nan"), float("nan")),
        rows=(problem.rows.start, problem.rows.stop),
        budget=budget,
        assumptions=assumptions,
        choices=dict(outcome.choices),
        seeds={"policy draws": problem.seed, **outcome.seeds},
        versions={"bondic": __version__, "numpy": np.__version__},
        hashes={"log": problem.log_hash},
        effective_sample_size=outcome.effective_sample_size,
        seconds=watch.seconds(),
    )


def _claims(outcome: Outcome, limits: ValueRange, side: Side) -> tuple[Claim, ...]:
    """The ends as claims of one part each; an end that is the value range up to rounding says nothing of the log."""
    slack = 1e-9 * limits.width
    ends = {"lower": outcome.low, "upper": outcome.high}
    claims = (
        Claim(end, (Part("end point as found", Enclosure(ends[end]), "value"),))
        for end in ends_of(side)
        if np.isfinite(ends[end])
    )
    return tuple(replace(claim, uses_log=claim.gain(limits) > slack) for claim in claims)


def reward_assumption(problem: Rows) -> Assumption:
    low, high = problem.terms.reward_range
    return Assumption(
        "rewards", f"Every possible reward lies in [{in_full(low)}, {in_full(high)}] (all logged ones do).", "stated"
    )


def stated(name: str, text: str) -> Assumption:
    """An assumption that is the user's statement: nothing in the log can prove it."""
    return Assumption(name, text, "stated")


def stated_if(given: bool, item: Assumption) -> Assumption:
    """The assumption as the user's, if what it speaks of was given; else as a choice of the baseline."""
    return item if given else replace(item, state="chosen")


ASYMPTOTIC = stated(
    "large sample", "The log is large enough for the limit law: the error probability is alpha in the limit only."
)
REALIZABLE = stated(
    "values", "q* is a combination of the features (or is approached by them as their number grows with the log)."
)
COVERED = stated("overlap", "The behavior visits every state-action pair that the policy visits.")
EPISODES = stated(
    "episodes",
    "Episodes are independent, start from the initial distribution, and were recorded with one fixed behavior; their "
    "number was fixed beforehand.",
)
OWN_STARTS = stated(
    "own starts",
    "The first states of the log's episodes are draws of the stated initial distribution: weighted returns are averaged over "
    "them, and the stated states and weights are not used for that.",
)
EXACT_BEHAVIOR = stated("behavior", "`behavior_action_probs` are the true probabilities of the logged actions.")
ESTIMATED_BEHAVIOR = stated("behavior", "Behavior probabilities were estimated from the log: nothing is guaranteed.")
