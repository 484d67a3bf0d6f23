"""Both ends from propensities: which processes are bet on, and what comes out (section 13).

This log: (40), a mixture over estimators from the same rows, each with one rate. A stated population: the wealth (22). Stated
starts: (21a), from the units that start there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NoReturn

import numpy as np

from bondic.core.betting import tail_term
from bondic.core.bounded import Enclosure, FloatArray, U, certified_sum, next_down, portions, same_sum
from bondic.core.claims import Claim, Part
from bondic.core.columns import Columns
from bondic.core.dual.bound import NOISE
from bondic.core.errors import InvalidInput
from bondic.core.propensities.betting import (
    BettingProcess,
    LogProcess,
    MeansProcess,
    Strategy,
    means_end,
    moderate,
    plug_in_rates,
    running_means,
    this_log_end,
)
from bondic.core.propensities.contrast import Contrast
from bondic.core.propensities.decisions import Decisions, Estimator
from bondic.core.propensities.strata import BalancedRates, Strata
from bondic.core.propensities.wealth import lower_end

Units = Decisions | Contrast
"""The units of one policy, or of two."""
MEAN = "weighted mean"
"""The value part of a claim."""


@dataclass(frozen=True, eq=False)
class LowerEnd:
    """One end, as seen from below: the claims that bets on its estimators make."""

    columns: Units
    estimators: tuple[Estimator, ...]  # free ones first, one that is doubly robust last
    strategy: Strategy
    robust_later: bool  # whether there are doubly robust values, or would be if the log had not stopped before
    planned: int  # units
    probability: float

    def population(self, shares: Sequence[float]) -> Claim:
        """E_{d_0}[value] is at least where the mixture's wealth once reached 1/delta.

        Doubly robust values are bet on from the first block on: up to it the reserve is kept, and there all of the wealth is
        divided anew by `shares`, one for every estimator. Where the log stopped before, the reserve is kept as well: anything
        else would be a second chance.
        """
        last, strategy, limits = self.estimators[-1], self.strategy, self.columns.limits
        if last.robust and len(shares) != len(self.estimators):
            raise InvalidInput("The wealth is divided among other estimators than there are.")
        free = [one for one in self.estimators if not one.robust]
        first = last.first if last.robust else last.values.size
        reserve = strategy.reserve if self.robust_later else 0.0
        before = self._processes(free, [(1.0 - reserve) / len(free)] * len(free), slice(0, first))
        if reserve:
            idle = np.broadcast_to(0.0, first)
            before.append(BettingProcess(before[0].values, free[0].floor, idle, strategy.largest_risk, reserve))
        after = self._processes(self.estimators, shares, slice(first, None)) if last.robust else []
        return self._claim(lower_end([before, after], limits.low, limits.high, self.probability))

    def contexts(self, rates: Sequence[float]) -> Claim:
        """The mean of E[value | start of the unit] over these units, (40), with one rate for every estimator."""
        if any(one.first for one in self.estimators) or len(rates) != len(self.estimators):
            raise InvalidInput("The value over contexts needs all units, and one rate for every estimator.")
        processes, limits, share = list[LogProcess](), self.columns.limits, self._share(len(self.estimators))
        for estimator, rate in zip(self.estimators, rates, strict=True):
            own = [LogProcess(multiple * rate, risk, share) for multiple, risk in self.strategy.bets]
            means = running_means(estimator.values, estimator.prior[0])
            for some in portions(self.columns.units):
                centers, losses = self._centers(estimator, means(some), some)
                for process in own:
                    least, lost = _affordable(centers, losses, process)
                    process.bet(*self._counted(estimator.values[some], least), lost)
            processes += own
        end = this_log_end(processes, limits.width, self.probability)
        return self._claim(next_down((Enclosure(limits.low) + end).lower), None)

    def starts(self, strata: Strata) -> Claim:
        """The value over stated starts, (21a). Estimators that would have come later have their share from the start."""
        processes, later = [], int(self.robust_later and not self.estimators[-1].robust)
        for estimator in self.estimators:
            own, (mean, variance) = strata.since(estimator.first), estimator.prior
            centers, losses = self._centers(estimator, own.means(estimator.values, mean), slice(None))
            counted, share = self._counted(estimator.values, centers), self._share(len(self.estimators) + later)
            for multiple, risk in self.strategy.bets:
                rule = BalancedRates(
                    self.planned - estimator.first, self.probability, variance, self._weight(estimator), multiple, risk
                )
                rates = rule.of(own, moderate(estimator.values) - centers, losses)
                if rates.any():  # else no unit of this estimator starts at a stated state: its share is kept
                    processes.append((MeansProcess(*counted, losses, rates, risk, share), own.total(rates)))
        if not processes:
            raise InvalidInput(
                f"No {self.columns.unit} of the log starts at a state of the stated list (states are compared number by "
                "number), so propensities say nothing about it. Leave `initial` out (no --initial) for the value over the "
                "log's own starts, or use a method that carries over from other states: Table(), Dual()."
            )
        limits = self.columns.limits
        end = means_end(processes, limits.width, self.probability)
        return self._claim(next_down((Enclosure(limits.low) + end).lower), strata)

    def _share(self, estimators: int) -> float:
        """Of the wealth, for every bet on every estimator."""
        return 1.0 / (estimators * len(self.strategy.bets))

    def _weight(self, estimator: Estimator) -> float:
        return self.strategy.control_weight if estimator.robust else self.strategy.prior_weight

    def _processes(
        self, estimators: Sequence[Estimator], shares: Sequence[float], units: slice
    ) -> list[BettingProcess]:
        """The bets of all multiples on some units, with the plug-in rates of all units."""
        bets, found = self.strategy.bets, []
        for estimator, share in zip(estimators, shares, strict=True):
            prior, first = (*estimator.prior, self._weight(estimator)), estimator.first
            values, size = estimator.values, estimator.values.size
            rates = plug_in_rates(values, self.planned - first, self.probability, prior)
            part = slice(units.start - first, size if units.stop is None else units.stop - first)
            if part != slice(0, size):
                values, rates = values[part], rates[part]
            found += [
                BettingProcess(values, estimator.floor, rates, risk, share / len(bets), multiple)
                for multiple, risk in bets
            ]
        return found

    def _centers(self, estimator: Estimator, means: FloatArray, some: slice) -> tuple[FloatArray, FloatArray]:
        """Centers, and losses that hold what is rounded before the value is drawn."""
        centers, losses = estimator.centers(means, some)
        return centers, np.asarray(losses + 8 * U * (np.abs(centers) + abs(self.columns.limits.low)))

    def _counted(self, values: FloatArray, centers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values, rounded down, and centers: both from the least value."""
        low = self.columns.limits.low
        size = np.abs(centers) + abs(low) + np.abs(values)
        return np.asarray(values - low) - 8 * U * size, np.asarray(centers - low)

    def _claim(self, bound: float, strata: Strata | None = None) -> Claim:
        """The end as the weighted mean of the last estimator, less what chance may have added to it."""
        estimator, limits = self.estimators[-1], self.columns.limits
        bound = max(bound, limits.low)  # beyond the range where no value of it is left
        count = estimator.values.size
        shares = np.broadcast_to(1.0 / count, count) if strata is None else strata.since(estimator.first).shares()
        # bets may have been won before the mean fell; and it may exceed the range
        weighed = (same_sum(shares[some] * estimator.values[some]) for some in portions(count))
        value = max(min(certified_sum(chain.from_iterable(weighed)).mid, limits.high), bound)
        parts = (
            Part(MEAN, Enclosure(self.columns.sign * value), "value"),
            Part(NOISE, Enclosure(value) - bound, "spread"),
            Part("log(1/delta)", tail_term(self.probability), "detail"),
        )
        return Claim(self.columns.end, parts, uses_log=bound > limits.low)


def _affordable(centers: FloatArray, losses: FloatArray, process: LogProcess) -> tuple[FloatArray, FloatArray]:
    """Centers and losses with v loss <= risk: a center is lowered where its bet would risk more, as (40) has one rate.

    Any center that is known before the value will do, and one that is lower by d is lost by d less.
    """
    # lowered a little further than needed: the center's rounding is paid from what is left of the risk
    most = process.risk / process.rate * (1 - 64 * U)
    lowered = np.maximum(losses - most + 64 * U * (np.abs(centers) + losses), 0.0)
    if not lowered.any():  # of a row by itself: which others are lowered is known later
        return centers, losses
    return centers - lowered, np.where(lowered > 0, np.minimum(losses, most), losses)


def one_start(rows: Columns, columns: Decisions) -> bool:
    """Whether d_0 was stated as one state, and every unit starts there: then the log's own starts are the stated ones."""
    states = rows.initial_states
    if states.kind != "exact":
        return False
    likely = states.observations[states.weights > 0] + 0.0
    starts = columns.observations[columns.starts] + 0.0
    return bool(np.all(likely == likely[0]) and np.all(starts == likely[0]))


def refuse_other_starts(rows: Columns) -> NoReturn:
    """The log's units are no draws of the stated starts."""
    what = "an exact list" if rows.initial_states.kind == "exact" else "a sample that was not read off this log"
    raise InvalidInput(
        f"The stated initial states are {what}. Propensities weigh what the log's own decisions (episodes) earned: their mean is "
        "the value over the log's own starts, whatever others were stated. Leave `initial` out (no --initial) for that value; "
        "state the starts as a list with weights, InitialStates.exact(states, weights), which is answered from the rows that "
        "start there; or use a method that starts elsewhere: Table(), Dual()."
    )
