"""Initial states as they become known: ψ_0 for the weights, and bets on a sample of them (section 9)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.core.betting import bet_cost
from bondic.core.columns import Cloud
from bondic.core.starts import StartBets
from bondic.core.terms import ValueRange, range_of
from bondic.data.episodes import episode_starts
from bondic.rows import Rows
from bondic.search.sequential.basis import Embedder

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FULL_BET = 0.99
"""Largest bet, as a share of what would lose everything."""
_ONE_IN, _FEW = 10, 50
"""One in ten of a given sample is spent on a guess of the value, unless there are fewer than 50."""


@dataclass(frozen=True, eq=False)
class KnownStarts:
    """Initial states with the row of the log that shows each, in ascending order; -1 if it was known beforehand."""

    cloud: Cloud
    weights: FloatArray  # (n_0,) relative to each other
    known_from: IntArray  # (n_0,)
    skipped: int = (
        0  # at the beginning of the list: bets on the others are made with them, and the evaluation leaves them out
    )

    def before(self, row: int) -> Cloud:
        """Those that are known before a row."""
        return self._some(self.known_from[self.cloud.rows] < row)

    def after(self, count: int) -> Cloud:
        """All but the first `count`, numbered from 0 on."""
        found = self._some(self.cloud.rows >= count)
        return replace(found, rows=found.rows - count)

    def _some(self, kept: npt.NDArray[np.bool_]) -> Cloud:
        cloud = self.cloud
        return Cloud(cloud.points[kept], cloud.weights[kept], cloud.rows[kept], cloud.draws)


def known_starts(problem: Rows, pilot: Rows) -> KnownStarts:
    """The initial states with the rows that tell them.

    States that were given are known beforehand, unless their number is not: then those that stand in for them in the pilot
    are used, as their number may depend on the log.
    """
    states, cloud = problem.initial_states, problem.initial
    if states.from_rows:
        found = np.concatenate([rows.start + starts for rows, _, starts in episode_starts(problem.log)])[: len(states)]
        skipped = int(np.searchsorted(found, pilot.rows.stop)) if states.kind == "sample" else 0
        return KnownStarts(cloud, np.ones(len(states)), found, skipped)
    if not states.count_fixed:
        cloud, states = pilot.initial, pilot.initial_states
        policies = cloud.weights.shape[1] / problem.layout.slots
        mass = cloud.weights.sum(axis=1, keepdims=True) * cloud.draws / policies
        return KnownStarts(replace(cloud, weights=cloud.weights / mass), states.weights, np.full(len(states), -1))
    skipped = len(states) // _ONE_IN if states.kind == "sample" and len(states) >= _FEW else 0
    weights = np.where(np.arange(len(states)) < skipped, 0.0, states.weights)
    return KnownStarts(cloud, weights, np.full(len(states), -1), skipped)


@dataclass(frozen=True, eq=False)
class StartPath:
    """ψ_0 as it becomes known."""

    embeddings: FloatArray  # (n_0, m)
    starts: KnownStarts

    @staticmethod
    def of(starts: KnownStarts, embedder: Embedder, before: StartPath | None = None) -> StartPath:
        """Embeddings of all starts; a list that is longer than `before` begins like it, and only the new ones are embedded."""
        known = 0 if before is None else before.embeddings.shape[0]
        fresh = embedder.cloud(starts.after(known), starts.weights.size - known)[0]
        return StartPath(fresh if before is None else np.concatenate([before.embeddings, fresh]), starts)

    @cached_property
    def _sums(self) -> tuple[FloatArray, FloatArray]:
        weights = self.starts.weights
        return np.cumsum(weights[:, None] * self.embeddings, axis=0), np.cumsum(weights)

    def before(self, row: int) -> FloatArray:
        """The mean of the states that are known before a row; the first of the log is known once there is a row."""
        last = max(int(np.searchsorted(self.starts.known_from, row)), 1) - 1
        means, weights = self._sums
        return np.asarray(means[last] / weights[last])


def propose_bets(
    problem: Rows,
    pilot: Rows,
    planned: int,
    probability: float,
    guess: float | None = None,
    spread: float = math.inf,
    limits: ValueRange | None = None,
) -> StartBets | None:
    """Hoeffding's rate for the n_0 starts that are still to come, and rates above it that double: 1/B is the largest bet
    that the whole range allows, sqrt(n_0)/B is for values within B/sqrt(n_0) of an end, which is as near as n_0 starts can tell.

    Half of the probability is for the process with the smallest predicted cost. `probability` is that of one end, `planned`
    the row of the log that is planned to be the last, `spread` that of fitted values over starts, `guess` the center where no
    start is left out.
    None: there is nothing to bet on, as d_0 is exact, as the number of given starts is open, or as no start follows the pilot.
    """
    states, starts = problem.initial_states, known_starts(problem, pilot)
    if states.kind == "log" or (states.kind == "exact" and problem.answers.exact):
        return None
    skipped, limits = starts.skipped, range_of(problem.terms) if limits is None else limits
    width = limits.width
    if not (states.count_fixed or states.from_rows) or skipped >= len(states) or width <= 0:
        return None
    count, weights = float(len(states) - skipped), np.ones(1)
    if states.kind == "exact":
        count, weights = float(len(states) * problem.initial_draws), states.weights * len(states)
    elif not states.count_fixed:  # as many as the pilot lets expect
        count = max(skipped * (planned - pilot.rows.stop) / max(pilot.rows.stop - problem.rows.start, 1), 1.0)
    price = math.log(1 / probability)
    slow = math.sqrt(8 * price / (count * float(np.mean(weights**2)))) / width
    whole = FULL_BET / (width * float(weights.max()))
    first, last = math.ceil(math.log2(2 * slow / whole)), math.ceil(0.5 * math.log2(max(count, 1.0)))
    rates = whole * 2.0 ** np.arange(min(first, 0), last + 1)
    # deviations of the whole range at starts unlike the compared ones, or of the fitted values' spread at all of them
    each = np.minimum(
        _others(starts) * bet_cost(-FULL_BET * np.minimum(rates / whole, 1.0)), 0.5 * (rates * spread) ** 2
    )
    costs = np.append(2 * price / slow, np.where(rates > whole, np.inf, (price + count * each) / rates))
    shares = np.full(costs.size, 0.25 / rates.size)
    shares[0], shares[costs.argmin()] = 0.25, 0.5
    middle = 0.5 * (limits.low + limits.high) if guess is None else guess
    return StartBets(
        skipped, None if skipped else middle, slow, tuple(rates.tolist()), tuple(shares.tolist()), FULL_BET
    )


def _others(starts: KnownStarts) -> float:
    """The share of the skipped starts that are unlike most of them; 1 where none was skipped."""
    cloud, skipped = starts.cloud, starts.skipped
    seen = np.hstack([cloud.points, cloud.weights])[cloud.rows < skipped] + 0.0
    most = np.unique(seen, axis=0, return_counts=True)[1].max(initial=0)
    return 1.0 - min(int(most), skipped) / max(skipped, 1)
