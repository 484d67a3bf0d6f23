"""The end of a mixture of bets (22): the largest J at which its wealth is certain to have reached 1/delta.

A pass over the values takes a few candidates J at once, and keeps the logarithm of the wealth at some thousand checks. Ordinary
floats find the candidate; the sum of its log factors, rounded down and exactly added, decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

import numpy as np

from bondic.core.betting import tail_term
from bondic.core.bounded import FloatArray, IntArray, U, certified_sum, next_down, portions, same_sum
from bondic.core.errors import NumericalError
from bondic.core.propensities.betting import BettingProcess, check_shares, log_mixture
from bondic.core.propensities.crossing import BEYOND, Place, certain_end, crossing

_NODES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
"""Candidates of a pass, around the middle."""
_MOST_PASSES = 60
_CHECKS = 4096
"""Checking the wealth less often is conservative, and faster for long logs."""


def lower_end(stages: Sequence[Sequence[BettingProcess]], least: float, most: float, probability: float) -> float:
    """The largest J in [least, most] that is known to be rejected, with everything below it; `least` if there is none.

    Beyond `most` where that is rejected as well: no value is left then, and what was assumed is contradicted. What a stage ends
    with is divided by the shares of the next one, which goes on with it.
    """
    found = tuple(Stage(stage) for stage in stages if stage and stage[0].values.size)
    for stage in found:
        stage.check()
    wealth, span = _Wealth(found, tail_term(probability).upper), most - least
    guesses = [guess for stage in found if (guess := stage.guess(wealth.needed))]
    if not (span > 0 and guesses):
        return least
    place, stops = _search(wealth, least + 1e-9 * span, most, min(guesses, key=lambda guess: guess[1]))
    if stops is None:
        return least
    if place == most and wealth.reaches(most, stops):
        return most + BEYOND * span + 64 * U * abs(most)
    return certain_end(lambda candidate: wealth.reaches(candidate, stops), place, least, span)


def _search(wealth: _Wealth, first: float, most: float, guess: tuple[float, float]) -> tuple[float, list[int] | None]:
    """Where the wealth's lead over its level changes its sign in [first, most], and the checks of the largest wealth there.

    A pass over the values takes a few candidates at once. Between them sums are polynomials, nearly: where those of two
    degrees change their signs at one place, it is taken. No checks: nothing in the range is rejected.
    """
    width, low, high = 1e-13 * (most - first + abs(first)), first, most
    place, half = guess[0], 3.0 * max(guess[1], 1e-9 * (most - first))
    for _ in range(_MOST_PASSES):
        place = min(max(place, low), high)
        curve = wealth.at(np.unique(np.clip(place + half * _NODES, low, high)))
        leads = [curve.at_node(k) for k in range(curve.nodes.size)]
        over = next((k for k, lead in enumerate(leads) if lead < 0.0), len(leads))
        if over == 0 and curve.nodes[0] == first:
            return first, None
        if over == len(leads) and curve.nodes[-1] == most:
            return most, wealth.best([one[-1] for one in curve.sums])
        low = low if over == 0 else float(curve.nodes[over - 1])
        high = high if over == len(leads) else float(curve.nodes[over])
        if not 0 < over < len(leads):  # farther away on that side
            place, half = (low + 8.0 * half if over else high - 8.0 * half), 8.0 * half
            continue
        ends = (low, leads[over - 1]), (high, leads[over])
        place, other = (
            curve.root(*ends, width, without) for without in (None, 0 if over > 2 else curve.nodes.size - 1)
        )
        off = abs(other - place)
        if off <= width or high - low <= width:
            return place, wealth.best(curve.between(place, None))
        half = min(max(1e3 * off, 4.0 * width), 0.1 * half)
    return low, wealth.best([one[0] for one in wealth.at(np.array([low])).sums])


class Stage(tuple[BettingProcess, ...]):
    """Processes on the same rows, which share the wealth by fixed shares."""

    @property
    def size(self) -> int:
        return self[0].values.size

    def check(self) -> None:
        """Refuse what no bet is; processes share their columns."""
        check_shares([one.share for one in self])
        for column in {id(column): column for one in self for column in (one.values, one.rates)}.values():
            if not all(np.isfinite(column[some]).all() for some in portions(self.size)):
                raise NumericalError("A value or a rate of a bet is not finite.")
        for rates in {id(one.rates): one.rates for one in self}.values():
            if not all((rates[some] >= 0).all() for some in portions(self.size)):
                raise NumericalError("A bet is not positive, or can lose all wealth.")

    def guess(self, needed: float) -> tuple[float, float] | None:
        """About where the wealth reaches its level, and how far that may be off; only the search begins there.

        Rates sqrt(2 log(1/delta) / (n s^2)) that add up to V leave an end about 2 log(1/delta) / V below the mean.
        """
        totals = [one.multiple * float(np.sum(one.rates)) for one in self]
        best = int(np.argmax(totals))
        if not 0.0 < totals[best] < math.inf:
            return None
        return float(np.mean(self[best].values) - 2.0 * needed / totals[best]), float(needed / totals[best])

    def log_sums(self, candidates: FloatArray) -> FloatArray:
        """(candidates, processes, checks): logs of the products of the factors up to every check but the first.

        In ordinary floats; some checks are held at a time.
        """
        starts = _checks(self.size)
        ends = [0, *(int(np.searchsorted(starts, some.stop, side="right")) - 1 for some in portions(self.size))]
        groups = [(first, last) for first, last in pairwise(ends) if last > first]
        found = np.empty((len(candidates), len(self), starts.size - 1))
        for first, last in groups:
            some, places = slice(*starts[[first, last]]), starts[first:last] - starts[first]
            for j, one in enumerate(self):
                for k, candidate in enumerate(candidates.tolist()):
                    found[k, j, first:last] = np.add.reduceat(
                        np.log1p(np.maximum(one.bets(candidate, some), -one.risk)), places
                    )
        return np.asarray(np.cumsum(found, axis=2))

    def certain(self, candidate: float, stop: int) -> float:
        """log of the wealth after so many values, rounded down."""
        found = []
        for one in self:
            parts = (same_sum(one.log_factors(candidate, some)) for some in portions(stop))
            found.append((one.share, certified_sum(chain.from_iterable(parts))))
        return log_mixture(found)


@dataclass(frozen=True, eq=False)
class _Wealth:
    """Of stages one after the other: what one ends with is divided by the shares of the next."""

    stages: tuple[Stage, ...]
    needed: float

    def logs(self, sums: Sequence[FloatArray]) -> list[FloatArray]:
        """(checks,) log of the wealth, stage by stage, from sums (processes, checks)."""
        found, begun = [], 0.0
        for stage, own in zip(self.stages, sums, strict=True):
            shares = np.array([[math.log(one.share)] for one in stage])
            found.append(begun + np.asarray(np.logaddexp.reduce(own + shares, axis=0)))
            begun = float(found[-1][-1])
        return found

    def lead(self, sums: Sequence[FloatArray]) -> float:
        return max(float(np.max(logs)) for logs in self.logs(sums)) - self.needed

    def best(self, sums: Sequence[FloatArray]) -> list[int]:
        """How many values of every stage stand before the check at which the wealth is largest."""
        logs = self.logs(sums)
        last = int(np.argmax([np.max(one) for one in logs]))
        stops = [stage.size for stage in self.stages[:last]]
        return [*stops, int(_checks(self.stages[last].size)[int(np.argmax(logs[last])) + 1])]

    def reaches(self, candidate: float, stops: Sequence[int]) -> bool:
        """Whether the wealth after so many values is certain to be exp(needed)."""
        total = 0.0
        for stage, stop in zip(self.stages, stops, strict=False):
            total = next_down(total + stage.certain(candidate, stop))
        return total >= self.needed

    def at(self, candidates: FloatArray) -> _Curve:
        return _Curve(self, candidates, [stage.log_sums(candidates) for stage in self.stages])


@dataclass(frozen=True, eq=False)
class _Curve:
    """Sums of all checks at some candidates, and the polynomial through them in between."""

    wealth: _Wealth
    nodes: FloatArray  # ascending
    sums: list[FloatArray]  # of every stage, (nodes, processes, checks)

    def at_node(self, k: int) -> float:
        return self.wealth.lead([one[k] for one in self.sums])

    def root(self, below: Place, over: Place, width: float, without: int | None) -> float:
        return crossing(lambda x: self.wealth.lead(self.between(x, without)), below, over, width)

    def between(self, candidate: float, without: int | None) -> list[FloatArray]:
        """Interpolated sums (processes, checks), through all nodes or without one."""
        kept = [k for k in range(self.nodes.size) if k != without]
        apart = self.nodes[kept, None] - self.nodes[None, kept] + np.eye(len(kept))
        far = candidate - self.nodes[kept][None, :] + np.zeros_like(apart)
        np.fill_diagonal(far, 1.0)
        weights = np.prod(far / apart, axis=1)
        return [np.tensordot(weights, one[kept], 1) for one in self.sums]


@lru_cache(maxsize=8)
def _checks(count: int) -> IntArray:
    """Numbers of values after which the wealth is checked: all, or about _CHECKS of them, evenly spread."""
    return np.unique(np.linspace(0, count, min(count, _CHECKS) + 1).astype(np.int64))
