"""Initial states as they become known: ψ_0 for the weights, and bets on a sample of them (section 9)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.bounds.plan import FULL_BET, StartBets
from bondic.bounds.table_plan import OneStart
from bondic.claims import End
from bondic.data.initial import episode_starts
from bondic.noise.betting import loss
from bondic.rows import Cloud, Rows
from bondic.search.sequential.basis import Embedder
from bondic.terms import ValueRange

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_FEWEST = 5
"""Starts from which the usual one is told."""
_BETS = FULL_BET * np.geomspace(0.01, 1.0, 60)
"""Among which the bet on starts that are not the usual one is looked for, in units of 1 / B."""
_ONE_IN, _FEW = 10, 50
"""One in ten of a given sample is spent on a guess of the value, unless there are fewer than 50."""


@dataclass(frozen=True, eq=False)
class Starts:
    """Initial states with the row of the log that tells each, in ascending order; -1 if it was known beforehand."""

    cloud: Cloud
    weights: FloatArray  # (n_0,) relative to each other
    told_by: IntArray  # (n_0,)
    skipped: int = (
        0  # at the beginning of the list: bets on the others are made with them, and the evaluation leaves them out
    )

    def before(self, row: int) -> Cloud:
        """Those that are known before a row."""
        return self._some(self.told_by[self.cloud.rows] < row)

    def after(self, count: int) -> Cloud:
        """All but the first `count`, numbered from 0 on."""
        found = self._some(self.cloud.rows >= count)
        return replace(found, rows=found.rows - count)

    def _some(self, kept: npt.NDArray[np.bool_]) -> Cloud:
        cloud = self.cloud
        return Cloud(cloud.points[kept], cloud.weights[kept], cloud.rows[kept], cloud.draws)


def known_starts(problem: Rows, pilot: Rows) -> Starts:
    """The initial states with the rows that tell them.

    States that were given are known beforehand, unless their number is not: then those that stand in for them in the pilot
    are used, as their number may depend on the log.
    """
    states, cloud = problem.initial_states, problem.initial
    if states.from_rows:
        found = np.concatenate([rows.start + starts for rows, _, starts in episode_starts(problem.log)])[: len(states)]
        return Starts(cloud, np.ones(len(states)), found, int(np.searchsorted(found, pilot.rows.stop)))
    if not states.count_fixed:
        cloud, states = pilot.initial, pilot.initial_states
        mass = cloud.weights.sum(axis=1, keepdims=True) * cloud.draws
        return Starts(replace(cloud, weights=cloud.weights / mass), states.weights, np.full(len(states), -1))
    skipped = len(states) // _ONE_IN if states.kind == "sample" and len(states) >= _FEW else 0
    weights = np.where(np.arange(len(states)) < skipped, 0.0, states.weights)
    return Starts(cloud, weights, np.full(len(states), -1), skipped)


@dataclass(frozen=True, eq=False)
class StartPath:
    """ψ_0 as it becomes known."""

    embeddings: FloatArray  # (n_0, m)
    starts: Starts

    @staticmethod
    def of(starts: Starts, embedder: Embedder, before: StartPath | None = None) -> StartPath:
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
        last = max(int(np.searchsorted(self.starts.told_by, row)), 1) - 1
        means, weights = self._sums
        return np.asarray(means[last] / weights[last])


def propose_one_start(problem: Rows, pilot: Rows, times: float, width: float, log_term: float) -> OneStart | None:
    """The start that most of the skipped ones share, with the best bet for their share of others.

    None where that promises no less than Hoeffding's inequality for all starts, or no starts were skipped; and for a fixed number
    of the log's starts, which may all stand in the pilot. `times` is how many times as many rows follow as the pilot has,
    and as many times as many starts where they are the log's.
    """
    states, starts = problem.initial_states, known_starts(problem, pilot)
    skipped, cloud = starts.skipped, starts.cloud
    if skipped < _FEWEST or states.from_rows == states.count_fixed:
        return None
    count = max(times * skipped if states.from_rows else float(len(states) - skipped), 1.0)
    seen = np.hstack([cloud.points, cloud.weights])[cloud.rows < skipped] + 0.0
    kinds, tally = np.unique(seen, axis=0, return_counts=True)
    others = (skipped - int(tally.max()) + 1) / (skipped + 2)
    costs = (log_term + count * others * loss(-_BETS)) / (_BETS * count)
    if width <= 0 or tally.max() < _FEWEST or costs.min() >= math.sqrt(log_term / (2 * (count + skipped))):
        return None
    usual, dimension = kinds[int(tally.argmax())], cloud.points.shape[1]
    return OneStart(skipped, usual[:dimension], usual[dimension:], float(_BETS[costs.argmin()]) / width)


@dataclass(frozen=True, eq=False)
class BetCount:
    """Independent terms that are bet on: how many there will be, and the weights that they have relative to each other."""

    count: float
    shares: FloatArray  # 1 on average


def propose_bets(
    values: FloatArray,
    terms: BetCount,
    skipped: int,
    limits: ValueRange,
    ends: tuple[End, ...],
    log_term: float,
    off: float = 0.0,
) -> StartBets:
    """b = sqrt(2 log(1/delta) / (n_0 (variance + off^2))) around the mean of `values`, capped by the side that can lose.

    `values` are those of a fitted q at states that the bets are not used on; the value itself may be this far `off` their mean.
    """
    guess = float(np.clip(values.mean(), limits.low, limits.high))
    variance = max(float(values.var()) + off**2, (1e-3 * limits.width) ** 2, 1e-300)
    free = math.sqrt(2 * log_term / (max(terms.count, 1.0) * variance * float(np.mean(terms.shares**2))))
    most = FULL_BET / float(terms.shares.max())
    losing = {"upper": limits.high - guess, "lower": guess - limits.low}
    return StartBets(skipped, guess, {end: min(free, most / max(losing[end], 1e-300)) for end in ends})
