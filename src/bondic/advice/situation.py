"""What advice is about: a finished result, the rows behind it, and what is counted in them.

One pass over the certified rows and the starts, over 50 000 of them where there are more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bondic.advice.lengths import LengthGuess, propensity_guess, table_guess
from bondic.core.claims import Status
from bondic.core.columns import Batch, RowRange
from bondic.core.errors import InvalidInput
from bondic.core.propensities.proof import PropensityProof
from bondic.core.terms import range_of
from bondic.methods.on_cells import CAREFUL
from bondic.methods.propensities import NAME as PROPENSITIES
from bondic.methods.propensities import Propensities
from bondic.methods.setting import NOTHING
from bondic.methods.table import NAME as TABLE
from bondic.policies.logged_target import LoggedBehavior, LoggedTarget
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.episodes import recorded_returns
from bondic.rows.make import from_some_starts, make_rows
from bondic.tuning.states import STATED

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

Verdict = Literal["rejected", "trivial", "wide", "sharp"]
WIDE = 0.25
"""Share of the value range above which an interval is called wide."""
_MAX_ROWS = 50_000
_MAX_STATES = 5000
"""Distinct states above which pairs are not counted."""
_MAX_GUESSED = 300
"""Distinct states up to which a length is predicted in about a second."""


@dataclass(frozen=True, eq=False)
class LogFacts:
    """Counts over the certified rows."""

    rows: int  # that were examined
    logged: IntArray  # (slots,) rows of every action; empty where actions are numbers
    target: FloatArray  # (slots,) share of the policy's probability; empty where it is not known
    unseen: float  # share of the policy's probability at pairs of state and action without a row; NaN: not counted
    states: int  # distinct states, 0 where there are too many to count
    not_left: float  # share of the initial distribution at states that no row leaves; NaN: not counted
    first_not_left: FloatArray  # (d,) the first of these states; empty where there is none
    rewards: tuple[float, float]  # the least and the largest
    ends: int  # rows without a next state
    longest: int  # rows of the longest episode
    cut: float  # of the mean return that is not known, as episodes were cut
    returns: tuple[float, float] | None  # discounted, from any row on, of complete episodes; None: there are none


def count_facts(certified: Rows) -> LogFacts:
    """Facts about the rows that an interval was made from."""
    stop = min(certified.rows.stop, certified.rows.start + _MAX_ROWS)
    part = certified.restricted(RowRange(certified.rows.start, stop))
    batches, slots = list(part.batches()), part.layout.slots
    rewards = np.concatenate([batch.rewards for batch in batches])
    earned = recorded_returns(part)
    known = part.layout.discrete and not isinstance(part.policy, LoggedTarget)
    used = np.sum([np.bincount(batch.slots, minlength=slots) for batch in batches], axis=0)
    return LogFacts(
        rows=len(rewards),
        logged=used if part.layout.discrete else np.zeros(0, dtype=np.int64),
        **(_places(batches, part) if known else _UNKNOWN),
        rewards=(float(rewards.min()), float(rewards.max())),
        ends=sum(int((~batch.continues).sum()) for batch in batches),
        longest=int(earned.steps.max(initial=0)),
        returns=earned.later,
        cut=float(np.mean(np.where(earned.ended, 0.0, part.gamma**earned.steps))) * range_of(part.terms).width,
    )


_UNKNOWN: dict[str, Any] = {
    "target": np.zeros(0), "unseen": math.nan, "states": 0, "not_left": math.nan, "first_not_left": np.zeros(0),
}  # fmt: skip


def _places(batches: list[Batch], part: Rows) -> dict[str, Any]:
    """What the policy does at the states that the log reaches (the initial ones where nothing follows), and what rows tell."""
    part = from_some_starts(part, _MAX_ROWS)
    slots, starts = np.concatenate([batch.slots for batch in batches]), part.initial
    begun = part.initial_states.weights[starts.rows]
    clouds = [batch.next for batch in batches if batch.next.rows.size]
    weights = np.concatenate([cloud.weights for cloud in clouds]) if clouds else starts.weights * begun[:, None]
    found = {**_UNKNOWN, "target": weights.sum(axis=0) / max(float(weights.sum()), 1e-300)}
    logged = np.concatenate([batch.logged for batch in batches])
    reached = np.concatenate([cloud.points for cloud in clouds]) if clouds else starts.points
    every = np.concatenate([logged, reached, starts.points])
    distinct, codes = np.unique(every, axis=0, return_inverse=True)
    if len(distinct) > min(_MAX_STATES, len(logged) // 2):
        return found
    here, there, at = np.split(codes.reshape(-1), [len(logged), len(logged) + len(reached)])
    seen = np.zeros((len(distinct), part.layout.slots), dtype=bool)
    seen[here, slots] = True
    missing = ~np.asarray(seen.any(axis=1))[at]
    lost = starts.points[missing][:1, : part.layout.observation_dim].reshape(-1)
    return {
        **found,
        "unseen": float(weights[~seen[there]].sum()) / max(float(weights.sum()), 1e-300),
        "states": len(np.unique(np.concatenate([here, there]))),
        "not_left": float(begun[missing].sum()) / max(float(begun.sum()), 1e-300),
        "first_not_left": lost,
    }


@dataclass(frozen=True, eq=False)
class Situation:
    """A result with its question; counts are made when they are first used."""

    result: Result
    problem: Rows  # with the rows that were set aside
    no_rows: bool = False  # whether nothing may be quoted that a single row decides

    @cached_property
    def certified(self) -> Rows:
        return self.problem.select(*self.result.rows)

    @cached_property
    def facts(self) -> LogFacts:
        return count_facts(self.certified)

    @property
    def share(self) -> float:
        """The length, or for one end its distance from the estimate, as a share of the value range; at most 1."""
        width = self.result.value_range.width
        if width == 0:
            return 0.0
        if self.result.status is Status.REJECTED:
            return 1.0
        if self.result.side == "both":
            return min(self.result.length / width, 1.0)
        end = self.result.low if self.result.side == "lower" else self.result.high
        gap = abs(self.result.estimate - end) / width
        return min(gap, 1.0) if math.isfinite(gap) else 1.0

    @property
    def verdict(self) -> Verdict:
        if self.result.status is Status.REJECTED:
            return "rejected"
        if self.result.status is Status.TRIVIAL:
            return "trivial" if self.result.value_range.width else "sharp"
        return "wide" if self.share > WIDE else "sharp"

    @property
    def length(self) -> float:
        """What `share` is a share of, in units of value."""
        return self.share * self.result.value_range.width

    @property
    def spreads(self) -> dict[str, float]:
        """The parts of the printed length, both ends together: an end that the value range cuts has its parts in proportion."""
        found: dict[str, float] = {}
        limits = self.result.value_range
        for claim in self.result.claims:
            parts = {part.name: part.shown for part in claim.of("spread")}
            printed = min(max(claim.bound, limits.low), limits.high)
            cut = min(abs(claim.value.mid - printed) / max(sum(parts.values()), 1e-300), 1.0)
            for name, size in parts.items():
                found[name] = found.get(name, 0.0) + cut * size
        return {name: size for name, size in found.items() if size > 0}

    @property
    def largest(self) -> str:
        """The largest part of the length, sampled starts included; "" where no part comes from rows."""
        return max(self.spreads, key=self.spreads.__getitem__, default="") if not self.nothing else ""

    def part(self, name: str) -> float:
        """A part as a share of the length, or of the value range where that is less."""
        whole = min(sum(self.spreads.values()), self.result.value_range.width)
        return min(self.spreads.get(name, 0.0) / whole, 1.0) if whole and not self.nothing else 0.0

    @property
    def uses_log(self) -> bool:
        """Whether the parts of the ends come from rows: ends that only repeat the class have none to speak of."""
        return any(claim.uses_log and claim.of("spread") for claim in self.result.claims)

    @property
    def nothing(self) -> str:
        """Why the answer is the value range, from no row; "" where it is not."""
        return self.result.choices.get(NOTHING, "")

    @property
    def names(self) -> bool | None:
        """Whether states were treated as names; None where the method did not ask."""
        if self.result.curve is not None:
            return False
        if "states" not in self.result.choices:
            return None
        return self.result.is_assumption_free and not self.nothing

    @property
    def stated_class(self) -> bool:
        """Whether a class of value functions was stated."""
        return any(item.name == "values" and item.state == "stated" for item in self.result.assumptions)

    def guess(self, gamma: float | None = None, rows: Rows | None = None) -> LengthGuess | None:
        """The length of a table's interval for more rows; None where states hardly come again, or a class was stated."""
        if not 0 < self.facts.states <= _MAX_GUESSED or self.stated_class:
            return None
        return table_guess(self.problem if rows is None else rows, self.result.alpha, self.result.side, gamma)

    def expected(self, **stated: Any) -> tuple[float, str] | None:
        """The shortest length that is predicted for these rows with another statement, and by which method; None: unknown."""
        problem, alpha = self.with_terms(**stated), self.result.alpha
        if problem is None or self.stated_class:
            return None
        width, found = range_of(problem.terms).width, list[tuple[float, str]]()
        by_ratios = propensity_guess(problem, alpha)
        if by_ratios is not None:
            found.append((by_ratios.share(by_ratios.seen) * width, PROPENSITIES))
        if self.result.method != PROPENSITIES and self.facts.states:
            steps = 1 if problem.terms.horizon is None else problem.terms.horizon
            table = table_guess(problem, alpha, self.result.side) if self.facts.states * steps <= _MAX_GUESSED else None
            found += [] if table is None else [(table.share(CAREFUL * len(problem.rows)) * width, TABLE)]
        return min(found, default=None)

    def with_terms(self, **stated: Any) -> Rows | None:
        """The same rows under another statement, for guesses; None where that would mean reading a long log again."""
        try:
            terms = replace(self.problem.terms, **stated)
            terms = replace(terms, time_varying=terms.time_varying or terms.horizon is not None)
            if terms.time_varying == self.problem.terms.time_varying:
                kept = (
                    None if self.problem.kept is None else tuple(replace(one, terms=terms) for one in self.problem.kept)
                )
                return replace(self.problem, terms=terms, kept=kept)
            if not self.problem.log.held or len(self.problem.rows) > _MAX_ROWS:
                return None
            asked = self.problem
            made = make_rows(
                asked.log, asked.policy, asked.initial_states, terms, draws=asked.answers.draws, seed=asked.seed
            )
            return made.restricted(asked.rows)
        except InvalidInput:  # steps without a time, returns outside of what would be stated
            return None

    @cached_property
    def least_propensity(self) -> float | None:
        """The least that the certified rows hold; None where it is not at hand."""
        if not self.problem.log.held:
            return None
        part = self.problem.log.read(RowRange(*self.result.rows))
        if part.behavior_action_probs is not None:
            return float(np.min(part.behavior_action_probs))
        return None if part.behavior_log_probs is None else float(np.exp(np.min(part.behavior_log_probs)))

    def expected_with(self, least: float) -> float | None:
        """The length if no propensity can be below `least`, from these rows; None: another policy is needed, or a long log."""
        result, proof = self.result, self.result.proof
        today = result.is_difference and result.names[1] == "today"
        if not isinstance(proof, PropensityProof) or (result.is_difference and not today):
            return None
        if result.side != "both" or len(self.problem.rows) > _MAX_ROWS:
            return None
        asked = self.problem
        method = Propensities(
            gamma_sensitivity=proof.stated.gamma_sensitivity,
            max_ratio=proof.stated.max_ratio,
            min_propensity=least,
        )
        try:
            other = (
                make_rows(asked.log, LoggedBehavior(), asked.initial_states, asked.terms, seed=asked.seed).restricted(
                    asked.rows
                )
                if today
                else None
            )
            found = method.run(asked, result.alpha, None, against=other)
        except InvalidInput:  # the rows contradict it, or there are too few
            return None
        return found.length if found.status is Status.INTERVAL else None

    @property
    def states_stated(self) -> bool:
        """Whether it was stated what states are: names, or numbers."""
        return STATED in self.result.choices.get("states", "")

    @property
    def steps(self) -> float:
        """How many steps count: 1/(1 - γ), or the horizon if that is less."""
        terms = self.problem.terms
        forever = math.inf if terms.gamma == 1 else 1 / (1 - terms.gamma)
        return min(forever, math.inf if terms.horizon is None else float(terms.horizon))
